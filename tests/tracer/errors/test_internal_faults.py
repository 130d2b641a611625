"""A mistake of npcompile at any stage ends in Python's answer and one warning, which is never an exception of the program's."""

from __future__ import annotations

import signal
import types
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import npcompile as npc
from npcompile.backends.registry import CompiledGraph
from npcompile.compiler import compiled_function
from npcompile.tensor_core import user_warnings
from npcompile.tracer import function, graph_variants, point, resume
from npcompile.tracer.bytecode.parameters import Parameters
from npcompile.tracer.capture import Capture
from npcompile.tracer.frame import Frame
from npcompile.tracer.function import CompiledFunction
from npcompile.tracer.host_fallback import Touched
from npcompile.tracer.native.loops import NativeLoop
from npcompile.tracer.point import Point
from npcompile.tracer.resume import Ending
from npcompile.tracer.variant_source import Emitter
from tests.backends import HOST_BACKENDS

X = np.linspace(0.5, 2.0, 7)

# What fails, by the stage that it belongs to.
STAGES: dict[str, tuple[Any, str]] = {
    "decode": (function, "decode"),
    "analyse": (function, "analyse"),
    "parameters": (Parameters, "of"),
    "execute": (CompiledFunction, "execute"),
    "begin capture": (Capture, "__init__"),
    "run instructions": (Frame, "run"),
    "wrap arguments": (Capture, "wrap"),
    "live values": (Ending, "live_values"),
    "graph": (Emitter, "graph_of"),
    "simplify": (graph_variants, "simplify"),
    "compile": (graph_variants, "compile_here"),
    "call of the graph": (Emitter, "call_graph"),
    "text": (Emitter, "text"),
    "effects": (Emitter, "do_effects"),
    "ending": (Ending, "emit"),
    "conditions": (graph_variants, "conditions"),
    "segment": (function, "make_segment"),
    "exits": (CompiledFunction, "exits_from"),
    "touched": (Touched, "by"),
    "natively": (function, "natively"),
    "callee": (Ending, "compiled_callee"),
    "render": (Point, "render"),
    "loops left to Python": (point, "rest_of_loop"),
    "signature": (resume, "is_user_function"),
}


def straight(x, log):
    y = np.sin(x) * 2
    log.append(len(log))
    return y.sum() + y


def breaks(x, log):
    y = x * 2
    log.append(1)
    text = str(y.shape)
    print(end="")
    y += 1
    log.append(text)
    return y, log


def loops(x, log):
    total = 0.0
    for k in range(len(x)):
        total = total * 0.5 + x[k]
        if k % 3 == 2:
            log.append(total)
    for name in ("a", "b", "c"):
        x = x + len(name) * np.cos(x)
        print(end="")
    return total, x


def writes(x, log):
    x[1:] += x[:-1]
    log.append(x[0])
    x *= 2
    return x


def handles(x, log):
    for k in range(3):
        try:
            y = x * k
            log.append(k)
            if k == 1:
                raise LookupError(k)
        except LookupError as error:
            log.append(error.args)
        finally:
            log.append("finally")
    return y


def helper(x, log):
    log.append("helper")
    print(end="")
    return x + 1


def calls(x, log):
    return helper(x, log) + helper(x * 2, log)


def closes(x, log):
    def inner(k):
        nonlocal x
        x = x + k
        log.append(k)
        return x

    return [inner(k) for k in range(3)]


def yields(x, log):
    for value in helper(x, log):
        log.append(float(value))
        yield value


def goes_on(x, log):
    for k in range(80):
        x = x + k
        log.append(str(k)[-1:])
        print(end="")
    return x


def raises(x, log):
    y = x + 1
    log.append(2)
    print(end="")
    raise LookupError(y.sum())


PROGRAMS = (straight, breaks, loops, writes, handles, calls, closes, yields, goes_on, raises)


def outcome(call: Callable[..., Any], x: np.ndarray) -> tuple[Any, ...]:
    """What a call returns or raises, and what it did to its arguments."""
    x, log = x.copy(), []
    try:
        result = call(x, log)
        result = [*result] if call.__name__ == "yields" else result
    except LookupError as error:
        result = error.args
        assert error.__context__ is error.__cause__ is None
    return repr(result), repr(x), repr(log)


def failing(*args: Any, **kwargs: Any) -> Any:
    raise AssertionError("planted")


class Fault:
    """Makes the k-th call of something raise."""

    def __init__(self, number: int, patch: pytest.MonkeyPatch, owner: Any, name: str):
        self.calls, self.number = 0, number
        before = getattr(owner, name)
        plain = before if isinstance(owner, type) and not hasattr(before, "__self__") else None

        def planted(*args: Any, **kwargs: Any) -> Any:
            self.calls += 1
            if self.calls == number:
                raise AssertionError("planted")
            return before(*args, **kwargs)

        patch.setattr(owner, name, planted if plain or not isinstance(owner, type) else staticmethod(planted))

    @property
    def has_happened(self) -> bool:
        return self.calls >= self.number


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_fault_at_each_stage(program):
    """At the first, second, a later, ... call of the stage, until there is no such call; at others for each program."""
    inputs = (X, X.astype(np.float32))
    expected = [outcome(program, x) for x in inputs]
    for stage, (owner, name) in STAGES.items():
        number = 1
        while True:
            user_warnings._warned.clear()
            with pytest.MonkeyPatch.context() as patch, npc.config.patch(internal_errors="warn"):
                fault = Fault(number, patch, owner, name)
                with warnings.catch_warnings(record=True) as said:
                    warnings.simplefilter("always")
                    compiled = npc.compile(program, backend="eager")
                    compiled.__name__ = program.__name__
                    found = [outcome(compiled, x) for x in (*inputs, *inputs)]
            assert found == [*expected, *expected], (stage, number)
            ours = [str(w.message) for w in said]
            assert all("Internal error of npcompile" in text and w.filename == __file__ for text, w in zip(ours, said)), ours
            assert len(ours) == fault.has_happened, (stage, number, ours)
            if not fault.has_happened:
                break
            number += number + PROGRAMS.index(program) % 2


def test_each_stage_is_one():
    """Of the programs above, that is."""
    with pytest.MonkeyPatch.context() as patch:
        faults = {stage: Fault(1 << 60, patch, owner, name) for stage, (owner, name) in STAGES.items()}
        for program in PROGRAMS:
            for x in (X, X.astype(np.float32)):
                outcome(npc.compile(program, backend="eager"), x)
    assert not [stage for stage, fault in faults.items() if not fault.calls]


@pytest.mark.parametrize("backend", HOST_BACKENDS)
def test_fault_of_a_compiled_graph(backend, monkeypatch):
    """Before it has written anything: the user's own code runs, in this call and in those to come."""
    compile_here = graph_variants.compile_here
    broken = []

    def planted(*args: Any) -> CompiledGraph:
        made = graph_variants.compiled_graph(compile_here(*args))

        def call(*inputs: Any) -> Any:
            if broken:
                raise TypeError("planted")
            return made.call(*inputs)

        return replace(made, call=call, item=None)

    monkeypatch.setattr(graph_variants, "compile_here", planted)
    for program in (straight, breaks, writes, handles, calls, raises):
        broken.clear()
        compiled = npc.compile(program, backend=backend)
        assert outcome(compiled, X) == outcome(program, X)
        broken.append(True)
        with npc.config.patch(internal_errors="warn"), warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            for _ in range(3):
                assert outcome(compiled, X) == outcome(program, X)
        assert said
        assert all("error of npcompile while running" in str(w.message) and "TypeError: planted" in str(w.message) for w in said)
        assert len({str(w.message) for w in said}) == len(said)


def test_fault_of_a_native_loop(monkeypatch):
    def planted(*args: Any) -> None:
        raise TypeError("planted")

    monkeypatch.setattr(NativeLoop, "write", planted)
    compiled = npc.compile(loops)
    with npc.config.patch(internal_errors="warn"), pytest.warns(RuntimeWarning, match="TypeError: planted"):
        assert outcome(compiled, X) == outcome(loops, X)


class Interrupted(Exception):
    pass


@pytest.mark.parametrize("kind", [Interrupted, ValueError, RuntimeError])
def test_what_a_handler_of_signals_raises_is_no_fault(kind, monkeypatch):
    def handler(number: int, frame: Any) -> None:
        raise kind("the user's")

    compile_here = graph_variants.compile_here

    def planted(*args: Any) -> CompiledGraph:
        made = graph_variants.compiled_graph(compile_here(*args))

        def call(*inputs: Any) -> Any:
            signal.raise_signal(signal.SIGUSR1)
            return made.call(*inputs)

        return replace(made, call=call, item=None)

    monkeypatch.setattr(graph_variants, "compile_here", planted)
    compiled = npc.compile(straight, backend="eager")
    before = signal.signal(signal.SIGUSR1, handler)
    try:
        with npc.config.patch(internal_errors="warn"), warnings.catch_warnings():
            warnings.simplefilter("error")
            with pytest.raises(kind, match="the user's"):
                compiled(X, [])
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_code_replaced_after_compile():
    """The compiled function has the code that it was given, in everything that it does."""

    def replaced(first, second, *rest, flag=True):
        return [first, second, rest, flag]

    for program in PROGRAMS:
        own = types.FunctionType(program.__code__, program.__globals__, program.__name__, None, program.__closure__)
        compiled = npc.compile(own, backend="eager")
        own.__code__, own.__kwdefaults__ = replaced.__code__, replaced.__kwdefaults__
        compiled.__name__ = program.__name__
        for x in (X, X.astype(np.float32), X):
            assert outcome(compiled, x) == outcome(program, x)
        npc.reset()
        assert outcome(compiled, X) == outcome(program, X)
        if program is not yields:
            npc.run_only(compiled)
        with npc.config.patch(recompile_limit=0), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert outcome(compiled, X[:5]) == outcome(program, X[:5])


def test_code_replaced_after_compile_and_a_fault(monkeypatch):
    def planted(*args: Any) -> None:
        raise TypeError("planted")

    def own(x, *args, scale=2.0):
        return np.sin(x) * scale + len(args)

    expected = own(X, 1, 2)
    compiled = npc.compile(own)
    own.__code__ = (lambda: None).__code__
    monkeypatch.setattr(Frame, "run", planted)
    with npc.config.patch(internal_errors="warn"), pytest.warns(RuntimeWarning, match="TypeError: planted"):
        np.testing.assert_array_equal(compiled(X, 1, 2), expected)


def test_fault_of_a_guard(monkeypatch):
    """It does not hold then. What a handler of signals raises while guards are asked is the user's."""
    raised: list[type[Exception]] = []

    def handler(number: int, frame: Any) -> None:
        raise raised[0]("the user's")

    def conditions(*args: Any) -> list[str]:
        return ["planted_1()", *asked(*args)]

    def planted() -> bool:
        if raised:
            if by_handler:
                signal.raise_signal(signal.SIGUSR1)
            raise raised[0]("planted")
        return True

    asked, by_handler = graph_variants.conditions, False
    monkeypatch.setattr(graph_variants, "conditions", conditions)
    compiled = npc.compile(straight, backend="eager")
    function_of = compiled_function(compiled)
    function_of.namespace["planted_1"] = planted
    assert outcome(compiled, X) == outcome(straight, X)

    class Gone(AttributeError):
        pass

    for kind in (KeyError, AssertionError, SystemError, Gone):
        raised[:] = [kind]
        with npc.config.patch(recompile_limit=1), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert outcome(compiled, X) == outcome(straight, X)
    raised[:], by_handler = [ValueError], True
    before = signal.signal(signal.SIGUSR1, handler)
    try:
        with pytest.raises(ValueError, match="the user's"):
            compiled(X, [])
    finally:
        signal.signal(signal.SIGUSR1, before)


@pytest.mark.parametrize("stage", ["exits", "touched"])
def test_fault_where_execution_has_arrived(stage):
    """The native segment of a place is made when a call is there already: it runs to the function's end."""
    for program in (breaks, loops, handles, calls, goes_on, raises):
        compiled = npc.compile(program, backend="eager")
        assert outcome(compiled, X) == outcome(program, X)
        with pytest.MonkeyPatch.context() as patch, npc.config.patch(internal_errors="warn"):
            patch.setattr(*STAGES[stage], failing)
            for place in compiled_function(compiled).points.values():
                place.is_native = True
                place.render()
            with warnings.catch_warnings(record=True) as said:
                warnings.simplefilter("always")
                for _ in range(2):
                    assert outcome(compiled, X) == outcome(program, X)
                with npc.config.patch(recompile_limit=0):
                    other = npc.compile(program, backend="eager")
                    assert outcome(other, X) == outcome(program, X)
        assert all("planted" in str(w.message) or "was compiled 0 times" in str(w.message) for w in said)


def test_fault_when_programs_are_chosen_by_kind(monkeypatch):
    """Of many programs those that may fit a kind of call are tried: where that cannot be told, all are."""
    compiled = npc.compile(lambda x: x + 1, backend="eager")
    arrays = [np.ones((2,) * ndim, dtype) for dtype in "fdilhb" for ndim in (1, 2)]
    monkeypatch.setattr(point, "may_fit", failing)
    with npc.config.patch(internal_errors="warn"), warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for x in arrays * 2:
            result = compiled(x)
            assert result.dtype == (x + 1).dtype and np.array_equal(result, x + 1)
    assert said and all("planted" in str(w.message) and "tries all of them" in str(w.message) for w in said)


def cubes(x):
    return np.sum(x**3)


@pytest.mark.parametrize("stage", ["run instructions", "graph", "compile", "conditions", "render"])
def test_fault_in_a_transform(stage):
    """Eager Tensors, which need no graph, take its place."""
    with npc.config.patch(internal_errors="warn"):
        for number in (1, 2):
            for make, expected in (
                (lambda: npc.grad(cubes), 3 * X**2),
                (lambda: npc.jacobian(np.sin), np.diag(np.cos(X))),
                (lambda: npc.vmap(np.sin), np.sin(X)),
                (lambda: npc.compile(npc.grad(cubes)), 3 * X**2),
            ):
                with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings(record=True) as said:
                    warnings.simplefilter("always")
                    fault = Fault(number, patch, *STAGES[stage])
                    transformed = make()
                    for _ in range(3):
                        np.testing.assert_allclose(transformed(X), expected, atol=1e-15)
                assert len(said) == fault.has_happened
