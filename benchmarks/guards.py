"""What the guards of a warm call cost, over the compiled graph called directly: `python -m benchmarks.guards`.

The rows are functions of five arguments of mixed kinds; the arrays have ten elements. "bare" calls the graph with what it
takes of them: it reads no attribute or item, checks nothing, and makes no views. One row is called with arrays of other kinds
before: these calls may not make it slower. Seconds are those of the thread.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

import npcompile as npc
from benchmarks.measure import Timing, interleave
from npcompile.compiler import compiled_function

TARGET = 1e-6  # seconds


class Layer:
    """An object with an array, a number and a method."""

    def __init__(self, weights: np.ndarray):
        self.weights, self.rate = weights, 0.5

    def scaled(self, x: np.ndarray) -> Any:
        return x * self.weights + self.rate


def mixed(x: np.ndarray, y: np.ndarray, h: float, n: int, layer: Layer) -> Any:
    return x * layer.weights + y * h + n


def with_a_dict(x: np.ndarray, y: np.ndarray, h: float, n: int, table: dict[str, Any]) -> Any:
    return x * table["weights"] + y * h + n * table["rate"]


def with_a_method(x: np.ndarray, y: np.ndarray, h: float, n: int, layer: Layer) -> Any:
    return np.maximum(layer.scaled(x), y) * h + n


def five_arrays(a: np.ndarray, b: np.ndarray, c: np.ndarray, d: np.ndarray, e: np.ndarray) -> Any:
    return a + b * c + d * e


@dataclass(frozen=True)
class Row:
    title: str
    function: Callable[..., Any]
    arguments: Callable[[int], tuple[Any, ...]]  # for a number of elements
    before: Callable[[int], list[tuple[Any, ...]]] = lambda n: []  # those of earlier calls


class Marked(np.ndarray):
    """A subclass that changes nothing."""


def of_other_kinds(n: int) -> list[tuple[Any, ...]]:
    """Arguments of `five_arrays` of which the first is not a plain array of numbers."""
    a, *others = arrays(5, n)
    return [(odd, *others) for odd in (a.view(Marked), np.ma.array(a), a.astype(object))]


def arrays(count: int, n: int) -> list[np.ndarray]:
    return [np.linspace(k + 1, 2, n) for k in range(count)]


ROWS = (
    Row("two arrays, float, int, object", mixed, lambda n: (*arrays(2, n), 0.5, 3, Layer(np.ones(n)))),
    Row("the same, sizes variable", mixed, lambda n: (*arrays(2, n), 0.5, 3, Layer(np.ones(n)))),
    Row("two arrays, float, int, dict", with_a_dict, lambda n: (*arrays(2, n), 0.5, 3, {"weights": np.ones(n), "rate": 0.1})),
    Row("two arrays, float, int, object with a method", with_a_method, lambda n: (*arrays(2, n), 0.5, 3, Layer(np.ones(n)))),
    Row("five arrays", five_arrays, lambda n: tuple(arrays(5, n))),
    Row("five arrays, after arrays of other kinds", five_arrays, lambda n: tuple(arrays(5, n)), of_other_kinds),
)


def bare_call(compiled: Callable[..., Any], arguments: tuple[Any, ...]) -> Callable[[], Any]:
    """The graph that a call runs, with the arguments that it gets there."""
    known = compiled_function(compiled)
    assert known is not None
    found: list[Callable[[], Any]] = []

    def noting(graph: Callable[..., Any], *given: Any) -> Any:
        found.append(partial(graph, *given))
        return graph(*given)

    graphs = {name: value for name, value in known.namespace.items() if name.startswith("graph_")}
    known.namespace |= {name: partial(noting, graph) for name, graph in graphs.items()}
    known.dispatch(*arguments)  # in Python: the entry's fast path reads no names
    known.namespace |= graphs
    (call,) = found
    return call


def timings(row: Row, repetitions: int = 21) -> dict[str, Timing]:
    compiled = npc.compile(row.function, dynamic=True if "variable" in row.title else None)
    for earlier in row.before(10):
        compiled(*earlier)
    arguments = row.arguments(10)
    np.testing.assert_allclose(compiled(*arguments), row.function(*arguments))
    graph = bare_call(compiled, arguments)
    calls = {"call": lambda: compiled(*arguments), "bare": lambda: graph(), "NumPy": lambda: row.function(*arguments)}
    return interleave(calls, repetitions, clock=time.thread_time, rests=False)


def main() -> int:
    print("| arguments | call | bare | guards | NumPy |\n|---|---|---|---|---|")
    worst = 0.0
    for row in ROWS:
        found = timings(row)
        guards = found["call"].median - found["bare"].median
        worst = max(worst, guards)
        seconds = (found["call"].median, found["bare"].median, guards, found["NumPy"].median)
        print(f"| {row.title} | {' | '.join(f'{1e6 * s:.2f} us' for s in seconds)} |", flush=True)
    print(f"\nat most {1e6 * TARGET:g} us: {'yes' if worst <= TARGET else 'NO'}")
    return int(worst > TARGET)


if __name__ == "__main__":
    npc.config.tiers = "always"  # what is compiled is measured
    raise SystemExit(main())
