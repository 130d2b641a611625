"""Compiled functions in a real IPython kernel, whose autoreload puts new code into the functions that it finds."""

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from jupyter_client import BlockingKernelClient, KernelManager

ROOT = Path(__file__).parents[1]

FIRST = """
import numpy as np
import npcompile as npc

def helper(x):
    return x + 1

@npc.compile
def f(x, k=2):
    return helper(np.sin(x)) * k

@npc.compile(backend="eager")
def loses(x):
    return helper(x) * 3

def gains(x):
    return helper(x) * 5

@npc.compile
def recursive(x, n):
    return x if n == 0 else recursive(x * 2, n - 1)

class Model:
    w = 2.0

    @npc.compile
    def predict(self, x):
        return helper(x) * self.w

slope = npc.grad(f)
loss = npc.compile(lambda x: np.sum(f(x)))
"""

SECOND = """
import numpy as np
import npcompile as npc

def helper(x):
    return x + 10

def offset():
    return 100.0

@npc.compile(dynamic=True)
def f(x, k=3):
    return helper(np.cos(x)) * k + offset()

def loses(x):
    print("as Python")
    return helper(x) * 4

@npc.compile(backend="eager")
def gains(x):
    return helper(x) * 6

@npc.compile
def recursive(x, n):
    return x if n == 0 else recursive(x * 3, n - 1)

class Model:
    w = 5.0

    @npc.compile
    def predict(self, x):
        return helper(x) * self.w - 1

slope = npc.grad(f)
loss = npc.compile(lambda x: np.sum(f(x)) * 2)
"""

# Names that hold the functions in other ways than the module does, and functions that call them.
HOLDERS = """
import numpy as np, npcompile as npc
import edited
from edited import f, loses, gains, recursive, slope, Model
mine, batched = npc.grad(f), npc.compile(lambda x: npc.vmap(f)(x))
model, held, bound, x = Model(), {"f": f}, Model().predict, np.linspace(0.5, 1.5, 3)

@npc.compile
def caller(x):
    return f(x) - held["f"](x) / 2

def values():
    return [v.tolist() for v in (
        f(x), held["f"](x, 1), edited.f(x), loses(x), gains(x), recursive(x, 3), model.predict(x), bound(x), caller(x),
        edited.slope(1.0), edited.loss(x), slope(1.0), mine(1.0), batched(x))]
"""


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BlockingKernelClient]:
    manager = KernelManager(kernel_name="python3")
    place = tmp_path_factory.mktemp("notebook")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(place)]), "IPYTHONDIR": str(place)}
    manager.start_kernel(cwd=str(place), env=environment)
    client = manager.blocking_client()
    client.start_channels()
    client.place = place  # type: ignore[attr-defined]
    try:
        client.wait_for_ready(timeout=120)
        yield client
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


def run(kernel: BlockingKernelClient, cell: str) -> str:
    """What a cell prints; AssertionError with its traceback where it raises."""
    said: list[str] = []

    def note(message: dict) -> None:
        content = message["content"]
        if message["msg_type"] == "stream":
            said.append(content["text"])
        if message["msg_type"] == "error":
            raise AssertionError("\n".join(content["traceback"]))

    kernel.execute_interactive(cell, timeout=120, output_hook=note)
    return "".join(said)


def save(kernel: BlockingKernelClient, text: str) -> None:
    """As an editor does: later than before, by more than what a file system tells apart."""
    path = kernel.place / "edited.py"  # type: ignore[attr-defined]
    path.write_text(text)
    save.clock += 10  # type: ignore[attr-defined]
    os.utime(path, (save.clock, save.clock))  # type: ignore[attr-defined]


save.clock = time.time() - 10_000  # type: ignore[attr-defined]


def test_autoreload(kernel: BlockingKernelClient) -> None:
    run(kernel, f"TEXTS = {FIRST!r}, {SECOND!r}")
    save(kernel, FIRST)
    run(kernel, "%load_ext autoreload\n%autoreload 2")
    run(kernel, HOLDERS)
    compare = """
def check(number):
    import contextlib, io, types
    made = types.ModuleType("made_anew")
    exec(TEXTS[number], vars(made))
    with contextlib.redirect_stdout(io.StringIO()):
        ours = values()
        with npc.disabled():
            model = made.Model()
            theirs = [v.tolist() for v in (
                made.f(x), made.f(x, 1), made.f(x), made.loses(x), made.gains(x), made.recursive(x, 3), model.predict(x),
                model.predict(x), made.f(x) / 2, made.slope(1.0), made.loss(x), made.slope(1.0), made.slope(1.0), made.f(x))]
    np.testing.assert_allclose(np.hstack(ours), np.hstack(theirs), rtol=1e-14)
"""
    run(kernel, compare)
    for number, text in ((0, FIRST), (1, SECOND), (0, FIRST), (1, SECOND)):
        save(kernel, text)
        for _ in range(3):
            assert run(kernel, f"check({number})") == ""  # nothing that autoreload complains of
    assert run(kernel, "loses(x)") == "as Python\n"
    assert run(
        kernel, "from npcompile.compiler import compiled_function as c; print(c(f).options.dynamic, c(f) is c(edited.f))"
    ) == ("True True\n")
