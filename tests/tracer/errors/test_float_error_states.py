"""Every elementwise function x each floating-point error that NumPy reports in it x what np.errstate does about that error."""

import traceback
import warnings

import numpy as np
import pytest

import npcompile as npc
from npcompile.compiler import compiled_function
from npcompile.tensor_core import OPS
from npcompile.tracer.point import MOST_SIGNALS
from tests.accuracy.special_values import ERRORS, errors_of_numpy, harmless, special_operands
from tests.covering import pairs
from tests.ops.test_elementwise import has_loop

STATES = ("ignore", "warn", "raise", "call", "print", "log")
MESSAGES = {error: message for message, error in ERRORS.items()}
FILE = "<every function>"


def calls(dtype):
    """Ufuncs with the dtypes of their operands."""
    found = []
    for name, op in OPS.items():
        if isinstance(op.numpy, np.ufunc):
            dtypes = (np.dtype(dtype), *[np.dtype("i" if name == "ldexp" else dtype)] * (op.numpy.nin - 1))
            if has_loop(op.numpy, dtypes):
                found.append((name, dtypes))
    return found


def program(functions):
    """One function that calls each, on its own arguments, on its own line."""
    names = [[f"x{k}_{n}" for n in range(len(dtypes))] for k, (_, dtypes) in enumerate(functions)]
    parameters = ", ".join(x for xs in names for x in xs)
    lines = [f"def every({parameters}):", "    results = []"]
    lines += [f"    results.append(np.{name}({', '.join(xs)}))" for (name, _), xs in zip(functions, names)]
    made = {"np": np}
    exec(compile("\n".join([*lines, "    return results"]), FILE, "exec"), made)
    return made["every"]


def reporting(name, dtypes):
    """Operands for which NumPy reports an error: for each error the first that is found, and those for which it reports two."""
    base, found = harmless(name, dtypes), {}
    for values in zip(*special_operands(dtypes, np.random.default_rng(0), 300)):
        operands = tuple(x.copy() for x in base)
        for x, value in zip(operands, values):
            x[3] = value
        errors = frozenset(errors_of_numpy(name, operands))
        if errors:
            found.setdefault(errors, operands)
    return found


class Log:
    def __init__(self):
        self.lines = []

    def write(self, text):
        self.lines.append(text)


def outcome(function, arguments, states, capfd):
    """What was warned, raised, called, logged, printed, on which line, and what came out."""
    noted, log = [], Log()
    called = (lambda kind, flag: noted.append((kind, flag))) if "call" in states.values() else log
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            with np.errstate(call=called, **states):
                results, error = function(*arguments), None
        except FloatingPointError as raised:
            lines = [f.lineno for f in traceback.extract_tb(raised.__traceback__) if f.filename == FILE]
            results, error = [], (str(raised), lines)
    said = [(w.category, str(w.message), w.filename, w.lineno) for w in caught]
    return (said, error, noted, log.lines, capfd.readouterr()), results


@pytest.mark.parametrize("dtype", ["f4", "f8", "c16"])
def test_every_function_every_error_every_state(dtype, capfd):
    functions = calls(dtype)
    given = [harmless(name, dtypes) for name, dtypes in functions]
    every = program(functions)
    compiled = npc.compile(every, fullgraph=True)
    compiled(*sum(given, ()))
    seen = set()
    for k, (name, dtypes) in enumerate(functions):
        for errors, operands in reporting(name, dtypes).items():
            arguments = sum([*given[:k], operands, *given[k + 1 :]], ())
            seen |= errors
            # All errors in one state; then one error, while the others are ignored.
            every_state = [dict.fromkeys(MESSAGES, state) for state in STATES]
            states = every_state + [dict.fromkeys(MESSAGES, "ignore") | {error: "raise"} for error in errors]
            for state in states:
                (ours, results), (theirs, expected) = (outcome(f, arguments, state, capfd) for f in (compiled, every))
                assert ours == theirs, (name, errors, state)
                for got, wanted in zip(results, expected, strict=True):
                    np.testing.assert_array_equal(np.isnan(got), np.isnan(wanted))
    assert seen == set(MESSAGES)


@pytest.mark.parametrize(
    ("name", "dtype", "values"),
    [
        *[("sin", "f4", [1e-30]), ("cos", "f4", [1e-30]), ("exp", "f4", [1e-45]), ("exp2", "f4", [-149])],
        *[("arctanh", "f2", [3.2782554626464844e-06]), ("logaddexp", "f2", [-0.1917724609375, -1.74609375])],
        *[("logaddexp2", "f2", [-2.0, -0.4150390625]), ("power", "f8", [0, -np.inf]), ("power", "f4", [1e38, np.inf])],
    ],
)
@pytest.mark.parametrize("error", MESSAGES)
def test_errors_that_only_numpy_notes(name, dtype, values, error, capfd):
    """Its loops note them on the way to a result that the kernels compute in another way."""
    function = (name, (np.dtype(dtype),) * len(values))
    operands = harmless(*function)
    every = program([function])
    compiled = npc.compile(every)
    compiled(*operands)
    for x, value in zip(operands, values):
        x[3] = value
    states = dict.fromkeys(MESSAGES, "ignore") | {error: "raise"}
    assert outcome(compiled, operands, states, capfd)[0] == outcome(every, operands, states, capfd)[0]


def divisions(x, y):
    quotient = x // y
    x %= y
    return quotient, np.fmod(x + 1, y), np.divmod(y, y)


def reciprocals(x, y):
    return np.reciprocal(y), x // 2 + x % 3


def in_place(x, y):
    x += 1
    x //= y
    y[...] = x


INTEGERS = {"plain": [5, 6, -7], "zero": [0, 2, 3], "least by -1": [-1, 1, 2]}


@pytest.mark.parametrize(
    ("dtype", "function", "backend"), pairs(["i1", "i4", "i8", "u2", "u8"], [divisions, reciprocals, in_place], ["eager", "cpu"])
)
def test_divisions_of_integers(function, dtype, backend):
    """NumPy reports a division by zero, and the overflow of the least number by -1, as those of floats."""
    compiled = npc.compile(function, backend=backend)
    compiled(np.arange(3, dtype=dtype), np.arange(1, 4, dtype=dtype))
    for divisors in INTEGERS.values():
        for state in ("ignore", "warn", "raise"):
            outcomes = []
            for f in (compiled, function):
                x, y = np.array([np.iinfo(dtype).min, 9, 5]).astype(dtype), np.array(divisors).astype(dtype)
                with warnings.catch_warnings(record=True) as caught, np.errstate(all=state):
                    warnings.simplefilter("always")
                    try:
                        results, error = f(x, y), None
                    except FloatingPointError as raised:
                        results, error = None, str(raised)
                said = [(str(w.message), w.lineno) for w in caught]
                outcomes.append((said, error, str(results), x.tolist(), y.tolist()))
            assert outcomes[0] == outcomes[1], (divisors, state)


def roots_or_zero(x):
    with np.errstate(divide="ignore", invalid="ignore"):
        y = np.sqrt(x)
    y[~np.isfinite(y)] = 0.0
    return y.max(), y * x


def test_errors_that_are_ignored_are_noted_apart() -> None:
    """NumPy runs in few calls only, in which errors of both sides of the block's end are not told from each other."""
    compiled = npc.compile(roots_or_zero)
    x = np.linspace(-1, 1, 50)
    with warnings.catch_warnings(record=True) as met:
        warnings.simplefilter("always")
        for _ in range(6):
            for ours, theirs in zip(compiled(x), roots_or_zero(x)):
                np.testing.assert_array_equal(ours, theirs)
        assert not met
        point = compiled_function(compiled).points[0, (), None]
        before = point.signals
        compiled(x)
        assert point.signals == before == MOST_SIGNALS
        x[-1] = np.inf
        compiled(x), compiled(-x)
    assert {str(w.message) for w in met} == {"invalid value encountered in multiply"}
