"""`NPCOMPILE_CHECK` and `config.check`: compiled calls are compared with plain Python in a copy of the process."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import npcompile as npc
from npcompile.backends.eager import compile_eager
from npcompile.checking import Checked
from npcompile.compiler import compiled_function

X = np.linspace(0.1, 2, 40)
SEEN: list[int] = []


@pytest.fixture(autouse=True)
def every_call() -> Iterator[None]:
    with npc.config.patch(check=1):
        yield


def checks(function: Callable[..., Any]) -> int:
    made = compiled_function(function)
    assert made is not None
    return made.current.enter.checks if isinstance(made.current.enter, Checked) else 0


# --- what is right passes, and is compared


def fused(x, y):
    return np.sum(np.sin(x) * y), x / y


def loop(x, alpha):
    out, s = np.empty_like(x), x[0]
    for i in range(x.size):
        s = alpha * x[i] + (1 - alpha) * s
        out[i] = s
    return out


def changes(x, *more, scale=2.0, **named):
    x *= scale
    more[0][:3] = 7
    named["items"].append(x.sum())
    return {"x": x, "n": len(more)}


def raises(x):
    return np.linalg.inv(np.outer(x, 0 * x))


@pytest.mark.parametrize(("function", "make"), [(fused, lambda: (X, X + 1)), (loop, lambda: (X, 0.25)), (raises, lambda: (X,))])
def test_right_answers_are_compared(function, make):
    compiled = npc.compile(function)
    for _ in range(2):
        if function is raises:
            with pytest.raises(np.linalg.LinAlgError, match="Singular matrix"):
                compiled(*make())
        else:
            compiled(*make())
    assert checks(compiled) == 2


def test_arguments_are_changed_once():
    compiled = npc.compile(changes)
    x, other, items = X.copy(), X.copy(), []
    compiled(x, other, scale=3.0, items=items)
    assert checks(compiled) == 1
    np.testing.assert_array_equal(x, X * 3)
    assert other[:4].tolist() == [7, 7, 7, X[3]] and len(items) == 1


def test_random_streams_go_on_as_before():
    def draw(x):
        return x + np.random.normal(size=x.size)

    np.random.seed(5)
    expected = [draw(X), draw(X)]
    compiled = npc.compile(draw)
    np.random.seed(5)
    np.testing.assert_array_equal([compiled(X), compiled(X)], expected)
    assert checks(compiled) == 2


def test_what_python_does_between_graphs_is_done_once(tmp_path):
    path = tmp_path / "log"

    def writes(x):
        y = x * 2
        with open(path, "a") as file:
            file.write("once\n")
        SEEN.append(1)
        return y + 1

    compiled = npc.compile(writes)
    SEEN.clear()
    compiled(X)
    assert path.read_text() == "once\n" and SEEN == [1] and checks(compiled) == 0


# --- what is wrong raises


def wrong(change: Callable[[list[np.ndarray], tuple[Any, ...]], Any]) -> Callable[..., Any]:
    """A backend that changes the outputs or the inputs of its graphs."""

    def compile_wrongly(graph, example_inputs):
        right = compile_eager(graph, example_inputs)

        def call(*args):
            outputs = list(right.call(*args))
            change(outputs, args)
            return tuple(outputs)

        return call

    return compile_wrongly


def one_element(outputs, args):
    outputs[0] = outputs[0].copy()
    outputs[0][3] += 1e-6


def another_dtype(outputs, args):
    outputs[0] = outputs[0].astype(np.float32)


def fewer(outputs, args):
    outputs[0] = outputs[0][:-1]


def error(outputs, args):
    raise OverflowError("no")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (one_element, r"the result differs in 1 of 40 elements of float64, first at \(3,\): "),
        (another_dtype, r"the result is float32 of shape \(40,\), in plain Python float64"),
        (fewer, r"the result is float64 of shape \(39,\), in plain Python float64 of shape \(40,\)"),
        (error, "It raises OverflowError: no, plain Python raises nothing"),
    ],
)
def test_wrong_results_raise(change, message):
    def doubled(x):
        return x * 2 + 1

    compiled = npc.compile(doubled, backend=wrong(change))
    with pytest.raises(npc.CheckFailed, match=rf"doubled \(.*test_checking.py:\d+\) does something else compiled.*{message}"):
        compiled(X)
    with npc.config.patch(check=0):
        if change is not error:
            compiled(X)  # nobody looks


def test_wrong_changes_raise():
    def scaled(x, y):
        y[...] = x * 2

    def wrong_write(outputs, args):
        args[1][...] += 1

    compiled = npc.compile(scaled, backend=wrong(wrong_write))
    with pytest.raises(npc.CheckFailed, match=r"the argument y afterwards differs in 40 of 40 elements"):
        compiled(X, X.copy())


# --- sampling and settings


def test_a_share_of_calls():
    compiled = npc.compile(fused)
    with npc.config.patch(check=0.25):
        for _ in range(12):
            compiled(X, X + 1)
        assert checks(compiled) == 3


@pytest.mark.parametrize("value", [-0.1, 2, "all"])
def test_wrong_shares(value):
    with pytest.raises(ValueError, match="check is a share of the calls, from 0 to 1"):
        npc.config.check = value


def run(program: str, setting: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"NPCOMPILE_CHECK": setting, "PYTHONPATH": os.getcwd()}
    return subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False)


PROGRAM = """
import numpy as np, npcompile as npc
f = npc.compile(lambda x: np.exp(x) * 2)
f(np.ones(5))
print(npc.config.check, type(f.__npcompile__.enter).__name__)
"""
PRINTED = {"1": "1.0 Checked", "0.5": "0.5 Checked", "0": "0.0 Trial", "": "0.0 Trial"}


@pytest.mark.parametrize(("text", "printed"), PRINTED.items())
def test_from_the_environment(text, printed):
    done = run(PROGRAM, text)
    assert done.stdout.strip() == printed, done.stderr


def test_nonsense_in_the_environment():
    done = run("import npcompile", "yes")
    assert done.stderr.splitlines()[-1].startswith("ValueError: NPCOMPILE_CHECK is 'yes': set it to the share of calls")
