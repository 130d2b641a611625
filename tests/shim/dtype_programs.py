"""Small programs about dtypes: arithmetic of arrays, NumPy scalars and Python numbers, casts, views, and what they warn of.

`python -m tests.shim.dtype_programs 5000` draws many, and runs each as NumPy and compiled.
"""

from __future__ import annotations

import sys
import warnings
from typing import Any

import numpy as np

import npcompile as npc
from tests.ops.table import numbers
from tests.random_programs import run_many
from tests.shim.index_programs import Program, settle_powers
from tests.shim.keywords.draws import Drawing
from tests.tracer.harness import clone, compare_any, run

CHARS = [*"?bBhHiIlLefdFDgG", ">f8", ">i4", ">c16", "q"]
TARGETS = ("'f4'", "float", "np.int8", "'u2'", "int", "bool", "complex", "'e'", "'g'", "'>f8'", "np.uint64", "'F'", "'S3'")
PYTHON = (0, 1, -1, 2, 300, -129, 2**15, 2**63, 2**70, True, 0.0, -0.0, 0.5, 1e40, float("inf"), float("nan"), 1j, 2 - 0.5j)
OPERATORS = ("+", "-", "*", "/", "//", "%", "**", "&", "|", "^", "<<", ">>", "<", "<=", "==", "!=")
UNARY = (
    "-{a}",
    "abs({a})",
    "~{a}",
    "np.sqrt({a})",
    "np.exp({a})",
    "np.log({a})",
    "np.sign({a})",
    "np.square({a})",
    "np.rint({a})",
)
BINARY = (
    "np.maximum",
    "np.hypot",
    "np.arctan2",
    "np.copysign",
    "np.power",
    "np.float_power",
    "np.logaddexp",
    "np.gcd",
    "np.ldexp",
)
FORMS = (
    *["return {a} {operator} {b}"] * 6,
    "return {unary}",
    "return {unary}",
    "return {function}({a}, {b})",
    "x {operator}= {b}; return x",
    "x {operator}= {b}; return x",
    "x[...] = {b}; return x",
    "x[0] = {b}; return x",
    "return x.astype({target})",
    "return x.astype({target}, casting='{casting}')",
    "return x.astype({target}, order='F', copy=False) {operator} {b}",
    "return x.view({target})",
    "y = x.view({plain}); y[...] = 1; return x",
    "return np.result_type(x, {b}), np.can_cast(x.dtype, {target}), np.promote_types(x.dtype, {target})",
    "return np.array([{b}, {b}], dtype={target})",
    "return np.full(2, {b}, dtype={target}), np.asarray(x, {target})",
    "return np.where(x > 0, x, {b})",
    "return np.clip(x, 0, {b})",
    "return x.sum(), x.prod(), x.max(), x.mean(), x.std()",
    "return np.sum(x, dtype={target}), np.cumsum(x, dtype={target})",
    "return np.add(x, {b}, dtype={target}, casting='{casting}')",
    "return ({a} {operator} {b}).dtype, np.finfo(np.result_type(x, np.float32)).eps",
)


def array(c: Drawing) -> np.ndarray:
    dtype = np.dtype(c.choice(CHARS))
    native = dtype.newbyteorder("=")
    shape = c.choice([(3,), (4,), (2, 3), (), (1,), (0,)])
    x = np.asarray(numbers(native, c.rng(), shape, ordinary=c.chance(60))).astype(dtype)
    if c.chance(10) and x.ndim:  # one byte past what the dtype wants
        memory = np.zeros(x.nbytes + 1, "u1")
        unaligned = memory[1:].view(dtype).reshape(x.shape)
        unaligned[...] = x
        return unaligned
    return c.laid_out(x)


def draw_program(integer: Any) -> Program:
    c = Drawing(integer)
    arguments: dict[str, Any] = {"x": array(c)}

    def operand() -> str:
        kind = c.integer(0, 5)
        if kind == 0:
            return "x"
        if kind == 1:
            return repr(c.choice(PYTHON)).replace("inf", "np.inf").replace("nan", "np.nan")
        value = c.choice(PYTHON) if kind == 2 else array(c)
        if kind == 3:
            value = value.reshape(-1)[0] if value.size else value.dtype.type(1)
        name = f"a{len(arguments)}"
        arguments[name] = value
        return name

    form = c.choice(FORMS)
    a, b = (operand() if f"{{{name}}}" in form or name == "a" and "{unary}" in form else "" for name in "ab")
    text = form.format(
        a=a,
        b=b,
        operator=c.choice(OPERATORS[:12] if "=" in form.split("return")[0] else OPERATORS),
        unary=c.choice(UNARY).format(a=a),
        function=c.choice(BINARY),
        target=c.choice(TARGETS),
        plain=c.choice(["'f4'", "'u2'", "int", "'e'", "'F'", "bool"]),  # long doubles have bytes that mean nothing
        casting=c.choice(["safe", "same_kind", "unsafe", "no"]),
    )
    return Program(text, arguments)


def check_program(program: Program, backend: str) -> None:
    check_function(program.function(), program.arguments, backend, program.body)


def check_function(function: Any, given: dict[str, Any], backend: str, text: str = "") -> None:
    compiled = npc.compile(function, backend=backend)
    for _ in range(2):
        arguments = list(given.values())
        theirs, their_warnings = observed(function, function, clone(arguments))
        ours, our_warnings = observed(compiled, function, clone(arguments))
        if theirs.error is not None:
            assert type(ours.error) is type(theirs.error) and str(ours.error) == str(theirs.error), (ours.error, theirs.error)
            continue  # a ufunc that fails may have written some of its buffers
        elif ours.error is not None:
            raise ours.error
        settle_powers(text, ours, theirs)
        compare_any(ours.value, theirs.value, 4)
        compare_any(ours.arguments, theirs.arguments, 4)
        assert our_warnings == their_warnings, f"warnings: {our_warnings} instead of {their_warnings}"


def observed(function: Any, user: Any, arguments: list[Any]) -> tuple[Any, set[tuple[str, str]]]:
    """What it does with NumPy's own settings of floating-point errors, and what it warns of."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        outcome = run_reporting(function, user, arguments)
    return outcome, {(w.category.__name__, str(w.message)) for w in caught}


def run_reporting(function: Any, user: Any, arguments: list[Any]) -> Any:
    def call(*args: Any) -> Any:
        with np.errstate(divide="warn", over="warn", invalid="warn", under="ignore"):
            return function(*args)

    return run(call, user, arguments)


if __name__ == "__main__":
    sys.exit(run_many("tests.shim.dtype_programs", __doc__, draw_program, check_program))
