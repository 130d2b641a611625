"""Chains of slow operations, whose stages work on different elements: to the bit what one loop makes of them."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FunctionType
from typing import Any

import numpy as np
import pytest

import npcompile as npc
from npcompile.backends.cpu import c_pipelines, compile_cpu, software_pipelining, statement_forms
from npcompile.backends.cpu.kernel_plan import KernelPlan
from npcompile.backends.kernels.index import axis_variable
from npcompile.backends.kernels.kernel import Let, Load, Loop, Store, Value
from tests.cpu.plans import noted_plans

F8 = np.dtype(np.float64)
COEFFICIENTS = np.linspace(0, 3, 31).tolist()


def compiled(function: Callable) -> tuple[Callable, list[KernelPlan]]:
    """The function, and the plans of its kernels once it was called."""
    plans: list[KernelPlan] = []

    def backend(graph, example_inputs):
        with noted_plans() as noted:
            made = compile_cpu(graph, example_inputs)
        plans.extend(noted)
        return made

    return npc.compile(function, backend=backend), plans


@contextmanager
def without_pipelines() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(statement_forms, "pipeline_of", lambda loop: None)
        yield


def assert_same(function: Callable, *args: np.ndarray) -> tuple:
    """In stages and in one loop the results, and the arguments afterwards, are the same. Returns the results."""
    staged, plans = compiled(function)
    mine = [x.copy() for x in args]
    results = as_tuple(staged(*mine))
    assert has_stages(plans) or args[0].size < software_pipelining.FEWEST
    plain, plans = compiled(FunctionType(function.__code__, function.__globals__))
    others = [x.copy() for x in args]
    with without_pipelines():
        expected = as_tuple(plain(*others))
    assert plans and not has_stages(plans)
    for x, y in zip([*results, *mine], [*expected, *others], strict=True):
        assert x.dtype == y.dtype and x.shape == y.shape
        np.testing.assert_array_equal(x, y)
        assert np.all((np.signbit(x) == np.signbit(y)) | np.isnan(x))
    return results


def has_stages(plans: list[KernelPlan]) -> bool:
    return any(form.pipeline for plan in plans for form in plan.loops.values())


def as_tuple(x: Any) -> tuple:
    return x if isinstance(x, tuple) else (x,)


def price(spot, strike, years):
    d = (np.log(spot / strike) + 0.065 * years) / (0.3 * np.sqrt(years))
    return spot / (1 + np.exp(-d)) - strike * np.exp(-0.02 * years)


def two_results(x, y, z):
    a = np.exp(np.sin(x * y))
    return np.log(a + z), np.where(a > 1, x, np.sqrt(y)) / a


def with_numbers(x, y, z):
    """Booleans and integers between the stages."""
    count = np.floor(np.exp(np.sin(x)) * 10).astype(np.int64)
    is_even = count & 1 == 0
    return np.where(is_even, np.cos(count * 0.1), np.tanh(y)) + count


def polynomial(x, y, z):
    for c in COEFFICIENTS:
        z = z * x + c
    return z


def written_to(x, y, z):
    y[:] = np.log1p(np.exp(np.sin(x)) / z)
    return np.exp(-np.sqrt(np.log1p(x)))


PROGRAMS = (price, two_results, with_numbers, polynomial, written_to)


def operands(shape: tuple[int, ...], dtype: str = "f8") -> np.ndarray:
    return np.random.default_rng(0).uniform(0.5, 1.5, (3, *shape)).astype(dtype)


@pytest.mark.parametrize("dtype", ["f8", "f4"])
@pytest.mark.parametrize("function", PROGRAMS)
def test_stages_change_no_result(function, dtype) -> None:
    fewest = software_pipelining.FEWEST
    for n in (fewest, 5000) if dtype == "f4" else (1, fewest - 1, fewest + 39, 2 * c_pipelines.ROW + 71, 200_003):
        args = operands((n,), dtype)
        results = assert_same(function, *args)
        for x, y in zip(results, as_tuple(function(*args)), strict=True):
            np.testing.assert_allclose(x, y, *((1e-4, 1e-5) if dtype == "f4" else (1e-12, 1e-13)))


def test_rows_and_strides() -> None:
    assert_same(price, *operands((7, 333)).transpose(0, 2, 1))
    assert_same(price, *operands((3000,))[:, ::-3])
    x, y, z = operands((6, 700))
    assert_same(price, x, y[0], z[:, :1])
    assert_same(price, x[:, ::2], y[0, 1::2], z[:1, :350])


def test_one_loop_for_all_sizes() -> None:
    staged, _ = compiled(price)
    for n in (10, 256, 1000, 77, 4096, 300):
        args = operands((n,))
        np.testing.assert_allclose(staged(*args), price(*args), rtol=1e-12)


def test_errors_are_those_of_the_elements() -> None:
    """Elements that are computed twice, or ahead, note nothing else."""
    staged, _ = compiled(price)
    args = operands((3000,))
    with np.errstate(all="raise"):
        staged(*args)
        for at in (0, 31, 32, 40, 1500, 2960, 2999):
            bad = args.copy()
            bad[1, at] = 0
            with pytest.raises(FloatingPointError, match="divide by zero"):
                staged(*bad)


def random_chain(seed: int) -> Callable:
    """A function of a dozen or more lines, each of which uses some of those before."""
    pick = random.Random(seed)
    names = ["x", "y", "z"]
    lines = ["def chain(x, y, z):"]
    forms = ["np.sin({0})", "np.exp(-np.abs({0}))", "np.sqrt(np.abs({0}) + {1})", "np.log1p(np.abs({0} * {1}))", "np.tanh({0})"]
    forms += ["{0} / (np.abs({1}) + 1)", "{0} * {1} + {2}", "{0} - {1}", "np.where({0} > {1}, {1}, {2})", "np.maximum({0}, {1})"]
    forms += ["np.floor({0}).astype(np.int32) + {1}", "({0} < {1}) * {2}", "{0}.astype(np.float32) * {1}", "{0} + 0.5"]
    for k in range(pick.randint(12, 40)):
        chosen = [pick.choice(names[-pick.choice((3, 6, 40)) :]) for _ in range(3)]
        lines.append(f"    t{k} = {pick.choice(forms).format(*chosen)}")
        names.append(f"t{k}")
    lines.append(f"    return {names[-1]}, {pick.choice(names[3:])}, {names[-2]} + {names[-1]}")
    namespace: dict[str, Any] = {"np": np}
    exec("\n".join(lines), namespace)
    return namespace["chain"]


@pytest.mark.parametrize("seed", range(10))
def test_random_chains(seed, monkeypatch) -> None:
    """Of stages in all shapes: many for few operations, and few for many."""
    pick = random.Random(seed)
    monkeypatch.setattr(software_pipelining, "LONG", 3)
    monkeypatch.setattr(software_pipelining, "QUICK", pick.choice((1, 3, 10)))
    monkeypatch.setattr(software_pipelining, "MOST_STAGES", pick.choice((2, 5, 9)))
    monkeypatch.setattr(software_pipelining, "FEWEST", 150)
    with np.errstate(all="ignore"):
        assert_same(random_chain(seed), *(operands((1000,), pick.choice(("f8", "f4"))) * 4 - 4))


def values(*names: str) -> list[Value]:
    return [Value(name, F8) for name in names]


def loop_of(*body: Any) -> Loop:
    return Loop("v0", axis_variable("n"), list(body), is_parallel=True)


def test_stages_end_with_slow_operations() -> None:
    """What waits for less comes late, and what is loaded is loaded again."""
    at = 8 * axis_variable("v0")
    x, y, a, b, c, d, late = values("t1", "t2", "t3", "t4", "t5", "t6", "t7")
    body = [Load(x, "x0", at), Load(y, "x1", at), Let(a, "exp", (x,)), Let(b, "add", (a, x)), Let(c, "log", (b,))]
    body += [Let(late, "sin", (y,)), Let(d, "multiply", (c, late)), Store("out0", at, d)]
    found = software_pipelining.pipeline_of(loop_of(*body))
    assert found is not None
    first, second = found.stages
    assert [s.target for s in first.statements] == [x, a] and first.left == [a]
    assert second.taken == [a] and second.statements[-1] == body[-1]
    assert [s.target for s in second.statements[:-1]] == [x, y, b, c, late, d]


def test_no_stages_where_something_is_read_that_is_written() -> None:
    at = 8 * axis_variable("v0")
    x, a, b = values("t1", "t2", "t3")
    chain = [Load(x, "x0", at), Let(a, "exp", (x,)), Let(b, "log", (a,))]
    assert software_pipelining.pipeline_of(loop_of(*chain, Store("out0", at, b))) is not None
    assert software_pipelining.pipeline_of(loop_of(*chain, Store("x0", at, b))) is None


def test_no_stages_of_few_or_quick_operations() -> None:
    at = 8 * axis_variable("v0")
    x, a, b = values("t1", "t2", "t3")
    quick = [Load(x, "x0", at), Let(a, "exp", (x,)), Let(b, "divide", (x, a)), Store("out0", at, b)]
    assert software_pipelining.pipeline_of(loop_of(*quick)) is None
    long = [Load(x, "x0", at), Let(a, "exp", (x,)), Let(b, "log", (a,)), Store("out0", at, b)]
    assert software_pipelining.pipeline_of(Loop("v0", software_pipelining.FEWEST - 1, long, is_parallel=True)) is None
