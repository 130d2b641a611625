"""Functions that run as they are: switched off, or while a debugger, coverage or a line profiler traces. Real tools."""

import asyncio
import ctypes
import io
import os
import pdb  # noqa: T100
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import coverage
import line_profiler
import numpy as np
import pytest

import npcompile as npc
from npcompile.backends.cpu.loader import loader
from npcompile.backends.entering import ENTERING, UNUSED, names_of_tools
from npcompile.compiler import compiled_function
from npcompile.settings import Config
from npcompile.switch import SWITCH, TOOLS
from npcompile.tracer.entry import native_question

X = np.arange(1.0, 5.0)


def stepped(x, scale=2.0, *more, shift=1, **rest):
    y = x * scale
    z = y + shift + len(more) + len(rest)
    return np.sqrt(z)


LINES = range(stepped.__code__.co_firstlineno + 1, stepped.__code__.co_firstlineno + 4)


def lines_run(call: Callable[[], Any]) -> set[int]:
    """Lines of `stepped` that Python itself ran, as a trace function of this test sees them."""
    seen = set()

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        if frame.f_code.co_filename == __file__ and frame.f_code.co_name == "stepped" and event == "line":
            seen.add(frame.f_lineno)
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(before)
    return seen


def runs_as_python(compiled: Any, *args: Any) -> bool:
    """Does a call leave what is compiled alone?"""
    compiled_function(compiled).renew()
    np.testing.assert_array_equal(compiled(*args), stepped(*args))
    return not compiled_function(compiled).graphs


# --- the switch


@pytest.fixture(params=["asked natively", "asked in Python"])
def compiled(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    loader().start_runtime()
    is_native = request.param == "asked natively"
    if not is_native:
        monkeypatch.setattr(ENTERING, "npc_entered", None)
    made = npc.compile(stepped, backend="eager")
    assert (native_question() is not None) is is_native
    assert not is_native or native_question() in made.__code__.co_consts
    yield made
    assert npc.config.enabled and not npc.config.compile_while_traced


def test_entries_ask_natively_once_they_can(monkeypatch: pytest.MonkeyPatch) -> None:
    """Functions that were given an entry's code before that go on, too."""
    loader().start_runtime()
    with monkeypatch.context() as patch:
        patch.setattr(ENTERING, "npc_entered", None)
        compiled = npc.compile(stepped, backend="eager")
        compiled(X)
        before = compiled.__code__

        def other(x: Any, scale: float = 2.0, *more: Any, shift: int = 1, **rest: Any) -> Any:
            return None

        other.__code__ = before
    assert ENTERING.npc_entered not in before.co_consts
    compiled(X[:3])
    assert compiled.__code__ is not before and native_question() in compiled.__code__.co_consts
    for function in (compiled, other):
        np.testing.assert_array_equal(function(X), stepped(X))
        with npc.disabled():
            assert lines_run(lambda: function(X)) == set(LINES)
        assert lines_run(lambda: function(X)) == set(LINES)


def test_disabled(compiled: Any) -> None:
    assert not runs_as_python(compiled, X)
    with npc.disabled():
        assert runs_as_python(compiled, X)
        with npc.disabled():
            assert runs_as_python(compiled, X)
        assert runs_as_python(compiled, X, 3.0, 4, 5)
        np.testing.assert_array_equal(compiled(X, shift=2, other=3), stepped(X, shift=2, other=3))
    assert not runs_as_python(compiled, X)


def test_enabled(compiled: Any) -> None:
    with npc.config.patch(enabled=False):
        assert runs_as_python(compiled, X)
    assert not runs_as_python(compiled, X)
    with pytest.raises(ValueError, match="enabled is True or False, not 1"):
        npc.config.enabled = 1  # type: ignore[assignment]


def test_what_is_compiled_stays(compiled: Any) -> None:
    compiled(X)
    known = compiled_function(compiled)
    graphs = list(known.graphs)
    with npc.disabled():
        compiled(X)
    compiled(X)
    assert known.graphs == graphs


def test_disabled_is_for_one_thread_and_one_task(compiled: Any) -> None:
    inside, ready, outcomes = threading.Event(), threading.Event(), []

    def other() -> None:
        inside.wait(30)
        outcomes.append(runs_as_python(compiled, X))
        ready.set()

    thread = threading.Thread(target=other)
    thread.start()
    with npc.disabled():
        inside.set()
        assert ready.wait(30)
        assert runs_as_python(compiled, X)
    thread.join()
    assert outcomes == [False]

    async def off(entered: asyncio.Event, leave: asyncio.Event) -> bool:
        with npc.disabled():
            entered.set()
            await leave.wait()
            return runs_as_python(compiled, X)

    async def both() -> list[bool]:
        entered, leave = asyncio.Event(), asyncio.Event()
        task = asyncio.create_task(off(entered, leave))
        await entered.wait()
        found = runs_as_python(compiled, X)
        leave.set()
        return [found, await task]

    assert asyncio.run(both()) == [False, True]


def test_blocks_of_two_threads_that_overlap(compiled: Any) -> None:
    """The first to enter leaves first: the second is still disabled, and nothing is afterwards."""
    entered, left, outcomes = threading.Event(), threading.Event(), []

    def second() -> None:
        with npc.disabled():
            entered.set()
            left.wait(30)
            outcomes.append(runs_as_python(compiled, X))

    thread = threading.Thread(target=second)
    with npc.disabled():
        thread.start()
        assert entered.wait(30)
    left.set()
    thread.join()
    assert outcomes == [True] and not runs_as_python(compiled, X)


def test_transforms_work_while_disabled() -> None:
    slope, x = npc.grad(lambda x: np.sum(x * x)), npc.tensor(X, requires_grad=True)
    with npc.disabled():
        np.testing.assert_array_equal(slope(X), 2 * X)
        np.testing.assert_array_equal(npc.vmap(lambda row: row @ row)(np.outer(X, X)), np.sum(np.outer(X, X) ** 2, 1))
        npc.compile(npc.wrap_numpy(lambda x: np.sum(np.pad(x * x, 1))))(x).backward()
    np.testing.assert_array_equal(x.grad.numpy(), 2 * X)


def test_explain_while_disabled() -> None:
    with npc.disabled():
        assert len(npc.explain(stepped)(X).graphs) == 1


def test_methods_and_generators_while_disabled() -> None:
    class Box:
        scale = 3.0

        @npc.compile(backend="eager")
        def run(self, x):
            return stepped(x, self.scale)

        @npc.compile(backend="eager")
        def parts(self, x):
            yield self.run(x)

    box = Box()
    with npc.disabled():
        np.testing.assert_array_equal(box.run(X), stepped(X, 3.0))
        np.testing.assert_array_equal(next(box.parts(X)), stepped(X, 3.0))
    assert not compiled_function(Box.run).graphs


def test_switching_inside_of_a_compiled_function() -> None:
    def block(x):
        y = x + 1
        with npc.disabled():
            y = stepped(y)
        return y * 2

    def setting(x):
        npc.config.enabled = False
        try:
            return stepped(x) * 2
        finally:
            npc.config.enabled = True

    def raising(x):
        with npc.disabled(), npc.config.patch(enabled=False):
            raise ValueError(float(x[0]))

    for function in (block, setting):
        compiled = npc.compile(function, backend="eager")
        for _ in range(3):
            np.testing.assert_array_equal(compiled(X), function(X))
    compiled = npc.compile(raising, backend="eager")
    for _ in range(3):
        with pytest.raises(ValueError, match=r"^1\.0$"):
            compiled(X)
    assert npc.config.enabled and not SWITCH.is_asked


def test_errors_while_disabled_have_the_users_frames_alone() -> None:
    compiled = npc.compile(lambda x: x[10], backend="eager")
    with npc.disabled(), pytest.raises(IndexError) as error:
        compiled(X)
    assert [entry.path.name for entry in error.traceback] == ["test_switch.py"] * 2


# --- the environment


def in_environment(value: str, program: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "NPCOMPILE_DISABLE": value}
    root = Path(__file__).parents[1]
    return subprocess.run([sys.executable, "-c", program], env=environment, cwd=root, capture_output=True, text=True)


PROGRAM = """
import numpy as np
import npcompile as npc
from npcompile.compiler import compiled_function

f = npc.compile(lambda x: np.sin(x) + 1, backend="eager")
print(npc.config.enabled, f(np.zeros(2)), len(compiled_function(f).graphs))
npc.config.enabled = True
f(np.zeros(2))
print(len(compiled_function(f).graphs))
"""


@pytest.mark.parametrize(
    ("value", "expected"), [("1", "False [1. 1.] 0\n1\n"), ("0", "True [1. 1.] 1\n1\n"), ("", "True [1. 1.] 1\n1\n")]
)
def test_the_environment(value: str, expected: str) -> None:
    done = in_environment(value, PROGRAM)
    assert done.stdout == expected, done.stderr


def test_the_environment_says_what_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NPCOMPILE_DISABLE", "yes")
    with pytest.raises(ValueError, match="NPCOMPILE_DISABLE is 'yes': set it to 1"):
        Config()


# --- tools


def test_trace_functions(compiled: Any) -> None:
    compiled(X)
    assert lines_run(lambda: compiled(X)) == set(LINES)
    with npc.config.patch(compile_while_traced=True):
        assert lines_run(lambda: compiled(X)) == set()
    assert not runs_as_python(compiled, X)


def test_profilers_of_calls_see_compiled_functions(compiled: Any) -> None:
    import cProfile

    compiled(X)
    with cProfile.Profile():
        assert not runs_as_python(compiled, X)


if TOOLS:  # sys.monitoring is of Python 3.12

    @pytest.mark.parametrize("tool", TOOLS)
    def test_monitoring(compiled: Any, tool: int) -> None:
        monitoring: Any = sys.monitoring  # type: ignore[attr-defined]
        seen, before = set(), monitoring.get_tool(tool)
        assert before is None

        def line(code: CodeType, number: int) -> None:
            if code is stepped.__code__:
                seen.add(number)

        compiled(X)
        monitoring.use_tool_id(tool, "a test")
        try:
            monitoring.register_callback(tool, monitoring.events.LINE, line)
            monitoring.set_events(tool, monitoring.events.LINE)
            compiled(X)
        finally:
            monitoring.set_events(tool, 0)
            monitoring.register_callback(tool, monitoring.events.LINE, None)
            monitoring.free_tool_id(tool)
        assert seen == set(LINES)
        assert not runs_as_python(compiled, X)

    @pytest.mark.skipif(sys.platform != "linux", reason="/proc/self/mem is of Linux")
    def test_names_of_tools_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
        monitoring: Any = sys.monitoring  # type: ignore[attr-defined]
        names = (ctypes.c_size_t * len(TOOLS)).from_address(names_of_tools())
        for tool in TOOLS:
            name = f"a test's {tool}"
            monitoring.use_tool_id(tool, name)
            try:
                assert [*names] == [id(name) if each == tool else 0 for each in TOOLS]
            finally:
                monitoring.free_tool_id(tool)
        assert [*names] == [0 for _ in TOOLS]
        assert not any(map(monitoring.get_tool, UNUSED))
        monkeypatch.setattr("npcompile.backends.entering.FURTHEST", 0)
        assert names_of_tools() == 0

    def test_names_of_tools_are_not_looked_for_where_others_have_the_unused_numbers() -> None:
        monitoring: Any = sys.monitoring  # type: ignore[attr-defined]
        for tool in UNUSED:
            monitoring.use_tool_id(tool, "a test")
        try:
            assert names_of_tools() == 0
        finally:
            for tool in UNUSED:
                monitoring.free_tool_id(tool)

    def test_tools_are_asked_for_where_their_names_are_not_found() -> None:
        """In a process of its own: what calls ask is settled once."""
        program = "import sys, pytest, npcompile.backends.entering as e; e.FURTHEST = 0; sys.exit(pytest.main(sys.argv[1:]))"
        chosen = [f"{__file__}::test_monitoring", "-q", "-p", "no:cacheprovider"]
        run = subprocess.run([sys.executable, "-c", program, *chosen], capture_output=True, text=True, check=False)
        assert run.returncode == 0 and " passed" in run.stdout, run.stdout + run.stderr


def test_pdb_stops_at_breakpoints_by_line(compiled: Any) -> None:
    compiled(X)
    said = io.StringIO()
    commands = f"tbreak {__file__}:{LINES[1]}\ncontinue\np y.tolist()\ncontinue\n"
    debugger = pdb.Pdb(stdin=io.StringIO(commands), stdout=said, nosigint=True, readrc=False)
    before = sys.gettrace()
    try:
        result = debugger.runcall(lambda: compiled(X))
    finally:
        sys.settrace(before)
    np.testing.assert_array_equal(result, stepped(X))
    assert f"> {__file__}({LINES[1]})stepped()" in said.getvalue() and str((X * 2.0).tolist()) in said.getvalue()


@pytest.mark.parametrize("core", ["ctrace", "pytrace", "sysmon"])
def test_coverage_counts_lines(core: str, tmp_path: Path) -> None:
    """In a process of its own: another tool may measure this one."""
    module = tmp_path / "covered.py"
    module.write_text(
        "import numpy as np, npcompile as npc\n"
        "@npc.compile\n"
        "def f(x, flag):\n"
        "    if flag:\n"
        "        return np.sin(x)\n"
        "    return np.cos(x)\n"
        "for _ in range(3):\n"
        "    f(np.ones(3), True)\n"
    )
    environment = {**os.environ, "COVERAGE_CORE": core if core != "sysmon" or hasattr(sys, "monitoring") else "ctrace"}
    environment["PYTHONPATH"] = str(Path(__file__).parents[1])
    data = tmp_path / "data"
    run = [sys.executable, "-m", "coverage", "run", f"--data-file={data}", "--branch", str(module)]
    subprocess.run(run, check=True, cwd=tmp_path, env=environment, capture_output=True)
    found = coverage.Coverage(data_file=data)
    found.load()
    *_, missing, _ = found.analysis2(str(module))
    assert missing == [6]


def counts(profiler: line_profiler.LineProfiler) -> dict[int, int]:
    """Line -> how often it ran."""
    (timings,) = (v for (_, _, name), v in profiler.get_stats().timings.items() if name.endswith("profiled"))
    return {line: hits for line, hits, _ in timings}


def test_line_profiler() -> None:
    def profiled(x):
        y = x * 2
        return y + 1

    profiler = line_profiler.LineProfiler()
    compiled = npc.compile(profiled, backend="eager")
    first = profiled.__code__.co_firstlineno
    compiled(X)
    profiler.add_callable(compiled.__wrapped__)
    for _ in range(3):
        np.testing.assert_array_equal(profiler.runcall(compiled, X), X * 2 + 1)
    assert counts(profiler) == {first + 1: 3, first + 2: 3}
    assert not sys.gettrace() and compiled(X) is not None
    assert len(compiled_function(compiled).graphs) == 1


def test_line_profiler_that_begins_later() -> None:
    """A function that it was told of does not step aside: it counts other code than the entry would run."""

    def profiled(x):
        return x * 2

    profiler = line_profiler.LineProfiler()
    compiled = npc.compile(profiled, backend="eager")
    known = compiled_function(compiled)
    profiler.add_callable(compiled.__wrapped__)
    known.current.step_aside(known, 1000)
    assert compiled(1.5) == profiler.runcall(compiled, 1.5) == 3.0
    assert [*counts(profiler).values()] == [1]


def test_line_profiler_that_knew_the_function_before() -> None:
    """The NOP that it puts after the last instruction is at no place of the source."""

    def profiled(x):
        return x * 2

    profiler = line_profiler.LineProfiler()
    profiler.add_callable(profiled)
    compiled = npc.compile(profiled, backend="eager")
    np.testing.assert_array_equal(compiled(X), X * 2)
    known = compiled_function(compiled)
    assert len(known.graphs) == 1
    known.current.step_aside(known, 1000)
    assert profiler.runcall(compiled, 1.5) == 3.0
    assert [*counts(profiler).values()] == [1]


def test_line_profiler_as_a_decorator_below() -> None:
    profiler = line_profiler.LineProfiler()

    @npc.compile(backend="eager")
    @profiler
    def profiled(x):
        y = x * 2
        return y + 1

    for _ in range(3):
        np.testing.assert_array_equal(profiled(X), X * 2 + 1)
    assert set(counts(profiler).values()) == {3}


def test_tracing_that_begins_inside_of_a_compiled_function() -> None:
    """What follows the call that starts it runs as it is, to the end of the function and in its loops."""
    seen = set()

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        if frame.f_code is stepped.__code__:
            seen.add(frame.f_lineno)
        return trace

    def started(x):
        y = x + 1
        sys.settrace(trace)
        for k in range(2):
            y = stepped(y, k + 1.0)
        sys.settrace(None)
        return y

    compiled, before = npc.compile(started, backend="eager"), sys.gettrace()
    try:
        for _ in range(3):
            seen.clear()
            np.testing.assert_array_equal(compiled(X), stepped(stepped(X + 1, 1.0), 2.0))
            assert set(LINES) <= seen
    finally:
        sys.settrace(before)
