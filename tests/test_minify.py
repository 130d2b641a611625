"""`npc.minify`: a call that goes wrong when compiled becomes a short script that shows it."""

import contextlib
import io
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import npcompile as npc
from npcompile.backends.cpu import primitives
from npcompile.minifying import copied
from npcompile.scripts import lines_of
from npcompile.shrinking import simpler_bodies, simpler_functions, smallest

SCALE = 2.0
X, Y = np.linspace(0.0, 1.0, 120).reshape(8, 15), np.linspace(3.0, 5.0, 15)


def helper(a, b):
    c = a * b
    return np.cbrt(c) - np.mean(c)


@npc.compile
def program(x, y, n, mode="a"):
    z = np.sin(x) + y
    if mode == "a":
        z = z * SCALE
    for i in range(n):
        z = z + i
    root = np.cbrt(z)
    return root, z


def calling(x, *, factor):
    return helper(x, factor) + x


def writing(x):
    np.cbrt(x, out=x)


@pytest.fixture
def wrong_cbrt(monkeypatch):
    """Generated C whose cube root is 7."""
    monkeypatch.setitem(primitives.PRIMITIVES, "cbrt", {**primitives.PRIMITIVES["cbrt"], "f": "7.0"})


@pytest.fixture
def refused_cbrt(monkeypatch):
    """Generated C that its compiler refuses."""
    monkeypatch.setitem(primitives.PRIMITIVES, "cbrt", {**primitives.PRIMITIVES["cbrt"], "f": "not_c({0}"})


def run(script: str) -> list[str]:
    """What a script prints."""
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(compile(script, "script.py", "exec"), {"__name__": "__main__"})
    return printed.getvalue().splitlines()


def test_a_wrong_result(wrong_cbrt):
    before = X.copy(), Y.copy()
    script = npc.minify(program, X, Y, 4)
    assert len(script.splitlines()) <= 10, script
    assert "np.cbrt" in script and "np.sin" not in script and "for i" not in script
    plain, compiled = run(script)
    assert plain != compiled and "7." in compiled, script
    assert np.array_equal(X, before[0]) and np.array_equal(Y, before[1])


def test_helpers_and_keywords_are_written(wrong_cbrt):
    script = npc.minify(calling, X, factor=Y)
    assert script.index("def helper(") < script.index("def calling(")
    plain, compiled = run(script)
    assert plain != compiled


def test_a_wrong_change_of_an_argument(wrong_cbrt):
    script = npc.minify(writing, X.copy())
    plain, compiled = run(script)
    assert "7." in compiled and plain != compiled, script


def test_a_lambda_and_its_options(wrong_cbrt):
    compiled = npc.compile(lambda x, y: np.cbrt(x).sum() + y, dynamic=True)
    script = npc.minify(compiled, X[::2, ::-3], 1.5)
    assert ", dynamic=True)" in script
    plain, ours = run(script)
    assert plain != ours


def test_what_raises(refused_cbrt):
    script = npc.minify(lambda x: np.cbrt(x * 2) + 1, X)
    assert 'npc.config.internal_errors = "raise"' in script and len(script.splitlines()) <= 10
    with pytest.raises(Exception, match="not_c"):
        run(script)
    assert npc.compile(lambda x: x * 0.6789)(X)[0, 1] == X[0, 1] * 0.6789  # the compiler is not given up
    assert npc.config.internal_errors == "raise"  # as the tests have it


def test_the_script_needs_no_other_file(wrong_cbrt, tmp_path: Path):
    """Without the mistake it prints the same twice."""
    script = npc.minify(calling, X, factor=Y)
    (tmp_path / "script.py").write_text(script)
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    done = subprocess.run([sys.executable, "script.py"], cwd=tmp_path, env=environment, capture_output=True, text=True)
    plain, compiled = done.stdout.splitlines()
    assert plain == compiled and not done.stderr


@pytest.mark.parametrize("compiled", [True, False])
def test_what_does_the_same(compiled):
    function = program if compiled else program.__wrapped__
    with pytest.raises(ValueError, match="program does the same compiled as in plain Python"):
        npc.minify(function, X, Y, 4)


def test_plain_python_that_differs_from_itself():
    calls = []

    def f(x):
        calls.append(0)
        return x + len(calls)

    with pytest.raises(ValueError, match="does the same"):
        npc.minify(f, X)


def test_what_a_script_cannot_hold(wrong_cbrt):
    with pytest.raises(ValueError, match="x: a script has no text for a object"):
        npc.minify(lambda x, y: np.cbrt(y), object(), X)
    with pytest.raises(ValueError, match="several lambdas"):
        npc.minify((lambda x: np.cbrt(x), lambda x: x)[0], X)
    with pytest.raises(TypeError, match="takes a Python function, not ufunc"):
        npc.minify(np.cbrt, X)


VALUES = [
    *(1, True, None, -0.0, float("inf"), 2 - 1j, "a'b", b"c", (), (1,), [1, [2.5]], {"a": (1, 2)}, {3}, slice(1, None), range(3)),
    *(np.float32(1.5), np.int8(-3), np.bool_(True), np.float64("nan"), np.float32, np.dtype("int16")),
    *(
        np.zeros((0, 3)),
        np.ones(4, np.int8),
        np.full(3, np.nan),
        np.array(2.5),
        np.array([1, 2], np.uint16),
        np.eye(2, dtype=bool),
    ),
    *(np.asfortranarray(X[:2, :3]), X[::3, ::-4], X[1:3, 2:4].T, np.broadcast_to(np.arange(2.0), (3, 2)), -np.zeros(3)),
    *(np.arange(6, dtype=np.complex64).reshape(2, 3)[:, ::-1], np.array([1.5], np.float16)),
]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: repr(value)[:30])
def test_values_as_text(value):
    scope = {"np": np}
    exec("\n".join(lines_of("made", value)), scope)
    made = scope["made"]
    assert type(made) is type(value)
    for other in (made, copied(value)):
        if isinstance(value, np.ndarray):
            assert (other.dtype, other.shape, other.tobytes()) == (value.dtype, value.shape, value.tobytes())
            assert other.strides == value.strides or value.flags.forc
            assert other.flags.writeable == value.flags.writeable
        else:
            assert repr(other) == repr(value)


def test_the_smallest_of_several():
    asked = []

    def fails(text: str) -> bool:
        asked.append(text)
        return "b" in text and "d" in text

    assert smallest("abcde", lambda t: (t[:k] + t[k + 1 :] for k in range(len(t))), fails, 10.0) == "bd"
    assert len(asked) == len(set(asked))
    assert smallest("abcde", lambda t: [t[1:]], lambda t: True, 0.0) == "abcde"


def test_simpler_functions():
    text = "def f(x):\n    y = np.exp(x) + 1\n    while y:\n        y -= 1\n    return (y, x)"
    found = [*simpler_functions(text)]
    assert found[0] == "def f(x):\n    pass" and text not in found
    assert text.replace("    while y:\n        y -= 1\n", "") in found
    assert text.replace("np.exp(x) + 1", "np.exp(x)") in found
    assert text.replace("np.exp(x)", "x") in found
    assert "def f(x):\n    return x + 1" in [*simpler_functions("def f(x):\n    y = x + 1\n    return y")]
    assert ("pass",) in [*simpler_bodies(("if x:", "    y = 1"))]
    with pytest.raises(SyntaxError):
        [*simpler_functions("def f(:")]
