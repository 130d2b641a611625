"""A row is the whole of an op: captured, fused, vectorised, differentiated, batched, used in loops, printed for a device."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import npcompile as npc
from npcompile.backends.cpu.loop_ir.program import compile_program
from npcompile.backends.cuda.loop_ir.nvrtc import compile_cubin
from npcompile.backends.cuda.loop_ir.program import cuda_program
from npcompile.backends.registry import find_backend
from npcompile.tensor_core import Builder, TensorMeta
from npcompile.tensor_core.loop_ir.forms import walk
from npcompile.tensor_core.loop_ir.interpreter import interpret
from npcompile.tensor_core.loop_ir.ops import Let, Policy
from npcompile.tensor_core.loop_ir.outcome import Returned
from npcompile.tensor_core.loop_ir.pipeline import run_passes
from npcompile.tensor_core.loop_ir.verifier import verify
from npcompile.tensor_core.op import OPS, Reads
from npcompile.tensor_core.transforms.reverse import reads_of
from npcompile.tracer.loop_ir.front_end import trace
from tests.backends import need_nvrtc, need_triton
from tests.ops.rows import added, log1mexp, logsumexp, softplus_between, sum_of_squares

RNG = np.random.default_rng(0)
X, Y = RNG.uniform(0.1, 3, (40, 50)), RNG.uniform(0.1, 3, (40, 50))
FUNCTIONS: dict[str, Callable[..., Any]] = {
    "elementwise": lambda x, y: log1mexp(x) * y + 1,
    "of two": lambda x, y: softplus_between(x, y) - softplus_between(x, 0.5),
    "of rows": lambda x, y: sum_of_squares(x, axis=1) + logsumexp(y, axis=1),
    "of columns": lambda x, y: logsumexp(x, axis=0, keepdims=True) * y,
    "of all": lambda x, y: logsumexp(x * y) + sum_of_squares(log1mexp(x)),
}


@pytest.fixture(scope="module", autouse=True)
def rows() -> Iterator[None]:
    with added():
        yield


def captured(function: Callable[..., Any], *arguments: Any) -> str:
    """The text of its only graph."""
    found = npc.explain(function)(*arguments)
    assert not found.breaks and len(found.graphs) == 1, str(found)
    return str(found)


@pytest.mark.parametrize("dtype", ["f8", "f4", "f2", "i4"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_it_is_captured(name: str, dtype: str) -> None:
    function = FUNCTIONS[name]
    x, y = (X + 1).astype(dtype), (Y + 1).astype(dtype)
    got, wanted = npc.compile(function, fullgraph=True)(x, y), function(x, y)
    assert got.dtype == wanted.dtype
    np.testing.assert_allclose(got, wanted, rtol={"f2": 1e-2, "f4": 1e-5}.get(dtype, 1e-12), atol=1e-2 if dtype == "f2" else 1e-6)
    assert any(f"{op}(" in captured(function, x, y) for op in ("log1mexp", "softplus_between", "sum_of_squares", "logsumexp"))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_numpys_bits(name: str) -> None:
    function = FUNCTIONS[name]
    got = npc.compile(function, fullgraph=True, accuracy="bitwise")(X, Y)
    np.testing.assert_array_equal(got, function(X, Y))


def test_it_is_fused_and_in_vectors() -> None:
    text = captured(FUNCTIONS["elementwise"], X, Y)
    assert "negative_expm1_log_multiply" in text
    assert "in vectors of 64 bytes" in text
    assert "may differ from NumPy in the last bits: log1mexp f8" in text


@pytest.mark.parametrize("name", FUNCTIONS)
def test_its_derivative_is_that_of_the_decomposition(name: str) -> None:
    function = lambda x: FUNCTIONS[name](x, Y).sum()  # noqa: E731
    direction, step = RNG.standard_normal(X.shape), 1e-6
    slope = (function(X + step * direction) - function(X - step * direction)) / (2 * step)
    np.testing.assert_allclose((npc.grad(function)(X) * direction).sum(), slope, rtol=1e-6)
    along = npc.compile(lambda x: (npc.grad(function)(x) * direction).sum(), fullgraph=True)
    bend = (along(X + step * direction) - along(X - step * direction)) / (2 * step)
    np.testing.assert_allclose((npc.grad(along)(X) * direction).sum(), bend, rtol=1e-5)


@pytest.mark.parametrize(
    ("op", "read"),
    [
        ("add", Reads.NOTHING),
        ("multiply", Reads.OPERANDS),
        ("exp", Reads.RESULT),
        ("absolute", Reads.BOTH),  # of complex numbers, its result
        ("power", Reads.BOTH),
        ("log1mexp", Reads.OPERANDS),
        ("logsumexp", Reads.BOTH),  # nothing is said
    ],
)
def test_what_its_derivative_reads_is_seen(op: str, read: Reads) -> None:
    assert reads_of(op, {}) == read


def test_batches() -> None:
    function = lambda row: logsumexp(log1mexp(row)) + sum_of_squares(row)  # noqa: E731
    np.testing.assert_allclose(npc.vmap(function)(X), [function(row) for row in X], rtol=1e-13)


def test_an_error_is_numpys() -> None:
    with np.errstate(all="raise"), pytest.raises(FloatingPointError, match="divide by zero encountered in log"):
        npc.compile(log1mexp)(np.zeros(3))


@pytest.mark.parametrize("op", ["log1mexp", "softplus_between"])
def test_backends_agree(op: str) -> None:
    builder = Builder()
    inputs = [builder.input(TensorMeta(X.shape, X.dtype)) for _ in range(OPS[op].loops.nin)]
    graph = builder.finish([builder.apply(op, *inputs)])
    made = [find_backend(name)(graph, ())(*(X, Y)[: len(inputs)])[0] for name in ("eager", "cpu")]
    np.testing.assert_allclose(*made, rtol=1e-14)


def recurrence(x: Any, out: Any) -> Any:
    s = 1.0
    for i in range(x.size):
        s = 0.5 * s + log1mexp(x[i]) + softplus_between(x[i], 0.5) + np.log10(np.hypot(x[i], s))
        out[i] = s
    return s


def sums_of_rows(x: Any) -> Any:
    out = np.empty(len(x))
    for i in range(len(x)):
        out[i] = sum_of_squares(log1mexp(x[i]))
    return out


def test_it_is_in_native_loops() -> None:
    got, wanted = np.empty(30), np.empty(30)
    assert "compiled loop" in str(npc.explain(recurrence)(X[0, :30], got))
    np.testing.assert_allclose(npc.compile(recurrence)(X[0, :30], got), recurrence(X[0, :30], wanted), rtol=1e-13)
    np.testing.assert_allclose(got, wanted, rtol=1e-13)
    assert "compiled loop" in str(npc.explain(sums_of_rows)(X))
    np.testing.assert_allclose(npc.compile(sums_of_rows)(X), sums_of_rows(X), rtol=1e-13)


def test_it_is_made_of_primitives_in_the_loop_ir() -> None:
    x, out, wanted = X[0].copy(), np.empty(50), np.empty(50)
    program = trace(recurrence, (x, out)).program
    run_passes(program)
    verify(program)
    ops = {op.op for op in walk(program.body) if isinstance(op, Let)}
    assert {"log", "expm1", "log1p", "maximum", "hypot", "log10"} <= ops
    assert not ops & {"log1mexp", "softplus_between"}
    found, _ = interpret(program, [x, out])
    assert found == Returned(recurrence(x, wanted))
    np.testing.assert_array_equal(out, wanted)
    made = np.empty(50)
    assert isinstance(compile_program(program)([x, made]).outcome, Returned)
    np.testing.assert_allclose(made, wanted, rtol=1e-13)


def test_it_is_in_loops_of_a_device() -> None:
    source = cuda_program(trace(recurrence, (X[0].copy(), np.empty(50)), Policy.ABORT).program).source
    assert "expm1(" in source and "npc_maximum(" in source
    need_nvrtc()
    assert compile_cubin(source, 90)[:4] == b"\x7fELF"


@pytest.mark.parametrize("name", FUNCTIONS)
def test_it_is_printed_for_a_device(name: str) -> None:
    need_triton()
    from npcompile.backends.cuda.backend import compile_for
    from tests.cuda.interpreted import make_device

    calls: list[tuple[Any, Any]] = []

    def keep(graph: Any, example_inputs: Any) -> Any:
        made = find_backend("eager")(graph, example_inputs)
        return lambda *inputs: calls.append((graph, inputs)) or made(*inputs)  # type: ignore[func-returns-value]

    wanted = npc.compile(FUNCTIONS[name], backend=keep, fullgraph=True)(X, Y)
    ((graph, inputs),) = calls
    device = make_device()
    made = compile_for(graph, device)
    np.testing.assert_allclose(made(*inputs)[0], wanted, rtol=1e-12)
    assert device.requests, "no kernel ran"
