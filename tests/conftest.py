"""Mistakes of npcompile itself fail tests: users get a warning and a native run. Tests without their machine are left out."""

import builtins
import dis
import functools
import gc
import importlib.util
import os
import re
import types
import zlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import npcompile as npc
from npcompile.backends.cpu import compiler
from npcompile.backends.cpu.loader import loader
from npcompile.backends.errors import NoCompiler
from npcompile.tracer.function import OURS, CompiledFunction
from tests.backends import NO_DEVICE

npc.config.internal_errors = "raise"
npc.config.tiers = "always"  # what is compiled is tested, not what this machine found to pay
# Newer compilers refuse calls of functions that are not declared: in tests all of them do.
UNDECLARED = "-Werror=implicit-function-declaration"
compiler.BASE_FLAGS = (*(flag for flag in compiler.BASE_FLAGS if flag != "-w"), UNDECLARED)

# Tests of what programs mean, not of how C is optimized: their thousands of units compile in less than half the time at -O0.
# With NPCOMPILE_TEST_LEVEL all tests of a run have that level, so that `NPCOMPILE_TEST_LEVEL=-O3` optimizes these too.
UNOPTIMIZED = {"tracer", "transforms", "gradients", "scipy_functions"}  # folders
OF_NATIVE_LOOPS = """
    arms array_functions attributes bounds called_loops closures complex complex_arrays comprehensions constants exits
    functions_that_write lists many_axes number_lists numbers ranges read_only rooms same_objects selected_and_joined spread
"""
UNOPTIMIZED |= {f"test_{name}.py" for name in OF_NATIVE_LOOPS.split()}
# Rules of derivatives:
UNOPTIMIZED |= {"test_gradients.py", "test_linalg_gradients.py", "test_random_gradients.py"}
# Nor is every second test of these, each set of parameters being one. NPCOMPILE_TEST_HALF=1 takes the others: so CI runs clang.
HALVED = {"cpu", "native_loops", "ops", "loop_ir"}
HALF = int(os.environ.get("NPCOMPILE_TEST_HALF", 0))
OPTIMIZED = {"test_large.py", "test_native_loops.py"}  # whole programs, as users compile them
OF_OPTIMIZERS = "contraction dropped_values known_numbers noted_errors pins reported_errors vectorized"  # may do
OPTIMIZED |= {f"test_{name}.py" for name in OF_OPTIMIZERS.split()}
LEVEL = os.environ.get("NPCOMPILE_TEST_LEVEL")


@pytest.fixture(autouse=True)
def level_of_optimization(request: pytest.FixtureRequest) -> Iterator[None]:
    folder, name = request.path.relative_to(Path(__file__).parent).parts[0], request.path.name
    is_other_half = folder in HALVED and zlib.crc32(request.node.nodeid.encode()) % 2 == HALF
    is_unoptimized = ({folder, name} & UNOPTIMIZED or is_other_half) and name not in OPTIMIZED
    level = LEVEL or ("-O0" if is_unoptimized else "-O3")
    try:
        known = loader()
    except NoCompiler:  # tests run without a compiler too
        yield
        return
    before = known.compiler
    chosen = [level, *["-fno-sanitize=undefined"] * (level == "-O0")]  # zig's -O0 asks for it: that is slow, and aborts
    known.compiler = replace(before, flags=tuple(x for flag in before.flags for x in (chosen if flag == "-O3" else [flag])))
    yield
    known.compiler = before


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Tens of thousands of tests are objects that stay: the garbage collector need not look at them, now or later."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


@pytest.fixture(autouse=True, scope="module")
def what_stays_is_not_looked_through_again() -> Iterator[None]:
    """What the tests of a file leave to the process: else each collection goes over what all files before have left."""
    yield
    gc.collect()
    gc.freeze()


# Marker -> why its tests cannot run here. They are left out, with a line each: thousands of skips would hide the others.
LEFT_OUT = {
    "gpu": NO_DEVICE,
    "torch": "" if importlib.util.find_spec("torch") else "PyTorch is not installed",
}


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    missing = {marker for marker, why in LEFT_OUT.items() if why}
    left_out = [item for item in items if any(marker.name in missing for marker in item.iter_markers())]
    if left_out:
        gone = set(left_out)
        items[:] = [item for item in items if item not in gone]
        config.hook.pytest_deselected(items=left_out)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for marker, why in LEFT_OUT.items():
        if why:
            terminalreporter.write_line(f"left out: tests marked {marker} ({why})")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    """Where CI is set, a package that is missing fails the test that needs it: a skip would hide that it never runs."""
    return refused(call, (yield))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Iterator[None]:
    """The same for a whole file."""
    report = yield
    return refused(report.call, report) if hasattr(report, "call") else report


def refused(call: pytest.CallInfo[Any], report: Any) -> Any:
    skipped = call.excinfo if report.skipped and os.environ.get("CI") else None
    if skipped and skipped.traceback[-1].name == "importorskip":
        report.outcome = "failed"
        report.longrepr = f"{skipped.value}: CI has to install it (extra `test` in pyproject.toml)"
    return report


@pytest.fixture(autouse=True, scope="session")
def own_names_are_known() -> Iterator[None]:
    """Generated programs name nothing in another way than OURS says: a parameter of the user's could have such a name."""
    execute = CompiledFunction.execute

    def checked(self: CompiledFunction, source: str, name: str) -> types.FunctionType:
        made = execute(self, source, name)
        code = made.__code__
        given = code.co_argcount + code.co_kwonlyargcount + bool(code.co_flags & 4) + bool(code.co_flags & 8)
        own = {*code.co_varnames[given:], *global_names(code, source)}
        unknown = {n for n in own if is_unknown(n)}
        assert not unknown, f"generated programs name {unknown}: OURS in tracer/function.py does not know them"
        return made

    CompiledFunction.execute = checked  # type: ignore[method-assign]
    yield
    CompiledFunction.execute = execute  # type: ignore[method-assign]


NOT_ATTRIBUTE = re.compile(r"(?<![.\w])[^\W\d]\w*")


def global_names(code: types.CodeType, source: str) -> set[str]:
    """Those that it reads. Instructions, which take five times as long, are asked only where the text may have an unknown one."""
    if not any(map(is_unknown, {*code.co_names} & {*NOT_ATTRIBUTE.findall(source)})):
        return set()
    return {i.argval for i in dis.get_instructions(code) if i.opname == "LOAD_GLOBAL"}


@functools.cache
def is_unknown(name: str) -> bool:
    return not OURS.match(name) and not hasattr(builtins, name)
