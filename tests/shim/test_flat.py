"""ndarray.flat: its elements are read, written, counted and iterated over as NumPy does, in any memory order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import npcompile as npc
from tests.tracer.harness import check

MAKERS: dict[str, Callable[[], np.ndarray]] = {
    "C": lambda: np.arange(12.0).reshape(3, 4),
    "F": lambda: np.asfortranarray(np.arange(12.0).reshape(3, 4)),
    "strided": lambda: np.arange(24.0).reshape(3, 8)[:, ::2],
    "reversed": lambda: np.arange(12.0).reshape(3, 4)[::-1],
    "one axis": lambda: np.arange(12.0),
    "integers": lambda: np.arange(12).reshape(2, 6),
    "complex": lambda: np.arange(12).reshape(2, 6) * (1 + 2j),
}

KEYS = np.array([3, 1, 1, -2])


def set_slice(x: Any) -> Any:
    x.flat[2:9:3] = x.sum()
    x.flat[-1] = 5
    return x


def set_repeating(x: Any) -> Any:
    x.flat[:7] = [1, 2, 3]
    x.flat[[8, 9]] = np.array([[7], [8]])
    return x


def set_all(x: Any) -> Any:
    y = np.zeros((4, 3), x.dtype)
    y.flat = x
    x.flat = [1, 2]
    return y


def set_where(x: Any) -> Any:
    x.flat[x.ravel() == 3] = 0
    return x


def updated(x: Any) -> Any:
    x.flat[1:4] += 1
    x.flat[0] *= 3
    return x


def kept(x: Any) -> Any:
    f = x.flat
    f[2] = 9
    return f[2], len(f), f.base is x, isinstance(f, np.flatiter), x.sum()


def last_of_all(x: Any) -> Any:
    total = x.dtype.type(0)
    for v in x.flat:
        total = total * 2 + v
    return total


PROGRAMS: dict[str, Callable[[Any], Any]] = {
    "one": lambda x: x.flat[3],
    "one from the end": lambda x: x.flat[-1] * 2,
    "slice": lambda x: x.flat[1:9:2],
    "all": lambda x: (x.flat[...], x.flat[:]),
    "places": lambda x: x.flat[[1, 5, 1]],
    "places that are data": lambda x: x.flat[KEYS],
    "mask": lambda x: x.flat[x.ravel().real > 4],
    "a copy": lambda x: np.shares_memory(x.flat[:], x),
    "computed": lambda x: (np.sum(x.flat), np.mean(x.flat), np.any(x.flat)),
    **{f.__name__: f for f in (set_slice, set_repeating, set_all, set_where, updated, kept)},
}


@pytest.mark.parametrize("maker", MAKERS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_flat(name: str, maker: str) -> None:
    check(lambda round: MAKERS[maker](), graphs=None if name in ("a copy", "set_all") else 1)(PROGRAMS[name])(
        "cpu" if maker == "C" else "eager"
    )


def test_iteration() -> None:
    check(lambda round: MAKERS["C"](), graphs=1)(last_of_all)("cpu")
    check(lambda round: MAKERS["C"](), graphs=1)(lambda x: list(x.flat))("cpu")
    check(lambda round: MAKERS["C"](), graphs=1)(lambda x: (max(x.flat), sum(x.flat)))("cpu")
    check(lambda round: MAKERS["F"](), graphs=None)(last_of_all)("cpu")


def as_array(x: Any) -> Any:
    return np.array(x.flat), np.asarray(x.flat), np.sort(x.flat)


def goes_on(x: Any) -> Any:
    f = x.flat
    first = next(iter(f))
    return first, f.index, [*f]


def handed_out(x: Any) -> Any:
    f = x.flat
    total = sum(f)
    return total, f, x


def while_it_is_written(x: Any) -> Any:
    y = x[:3, :3] if x.ndim > 1 and x.shape[1] > 3 else x
    y.flat = y.T
    return y


def out_of_bounds(x: Any) -> Any:
    return x.flat[40]


def too_many(x: Any) -> Any:
    x.flat[2] = [1, 2]
    return x


@pytest.mark.parametrize("maker", MAKERS)
@pytest.mark.parametrize("f", [as_array, goes_on, while_it_is_written, out_of_bounds, too_many])
def test_as_numpy_where_it_breaks(f: Callable[[Any], Any], maker: str) -> None:
    check(lambda round: MAKERS[maker](), graphs=None)(f)("eager")


def test_an_iterator_that_has_begun_is_numpys() -> None:
    for maker in MAKERS.values():
        total, f, x = npc.compile(handed_out)(maker())
        assert total == x.sum() and type(f) is np.flatiter and f.index == x.size and [*f] == []


def test_gradients() -> None:
    x = np.arange(6.0).reshape(2, 3)
    np.testing.assert_array_equal(npc.grad(lambda x: (x.flat[1::2] ** 2).sum())(x), [[0, 2, 0], [6, 0, 10]])
    np.testing.assert_array_equal(npc.grad(lambda x: x.flat[4] * x.flat[0])(x), [[4, 0, 0], [0, 0, 0]])
