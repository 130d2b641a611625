"""Mistakes of npcompile itself fail tests: users get a warning and a native run."""

import builtins
import dis
import gc
import types
from collections.abc import Iterator

import pytest

import npcompile as npc
from npcompile.tracer.function import OURS, CompiledFunction

npc.config.internal_errors = "raise"


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Tens of thousands of tests are objects that stay: the garbage collector need not look at them, now or later."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


@pytest.fixture(autouse=True, scope="session")
def own_names_are_known() -> Iterator[None]:
    """Generated programs name nothing in another way than OURS says: a parameter of the user's could have such a name."""
    execute = CompiledFunction.execute

    def checked(self: CompiledFunction, source: str, name: str) -> types.FunctionType:
        made = execute(self, source, name)
        code = made.__code__
        given = code.co_argcount + code.co_kwonlyargcount + bool(code.co_flags & 4) + bool(code.co_flags & 8)
        own = {*code.co_varnames[given:], *(i.argval for i in dis.get_instructions(code) if i.opname == "LOAD_GLOBAL")}
        unknown = {n for n in own if not OURS.match(n) and not hasattr(builtins, n)}
        assert not unknown, f"generated programs name {unknown}: OURS in tracer/function.py does not know them"
        return made

    CompiledFunction.execute = checked  # type: ignore[method-assign]
    yield
    CompiledFunction.execute = execute  # type: ignore[method-assign]
