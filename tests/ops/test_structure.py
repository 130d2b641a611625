"""Leaves, movement, updates, gathers and contractions of the table against NumPy expressions that say the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from npcompile.tensor_core import OPS
from npcompile.tensor_core.ops.reduction import REDUCERS
from tests.backends import BACKENDS
from tests.ops.table import BFLOAT16, DTYPES, LAYOUTS, apply_all, check_meta, numbers
from tests.shim.harness import same_values

Case = tuple[str, list[np.ndarray], dict[str, Any], np.ndarray]
FLOAT64 = np.dtype(float)
REDUCED_KINDS = {"logical_and": "b", "logical_or": "b", "logical_xor": "b", "add": "iufc", "multiply": "iufc"} | dict.fromkeys(
    ("bitwise_and", "bitwise_or", "bitwise_xor"), "biu"
)
INT64 = np.dtype(np.int64)


def leaves(dtype: np.dtype) -> list[Case]:
    value = numbers(dtype, np.random.default_rng(1))
    return [
        ("constant", [], {"value": value[0, 0, 0], "dtype": dtype}, value[0, 0, 0].reshape(())),
        ("literal", [], {"data": value.tobytes(), "dtype": dtype, "shape": value.shape}, value),
        ("size", [], {"value": 7}, np.array(7)),
        *(("index", [], {"shape": (3, 0, 2), "axis": a}, np.indices((3, 0, 2))[a]) for a in range(3)),
        *(("index", [], {"shape": (3, 4, 2), "axis": a}, np.indices((3, 4, 2))[a]) for a in range(3)),
    ]


def movement(x: np.ndarray) -> list[Case]:
    other = x + x if x.dtype.kind != "b" else ~x
    return [
        *(("permute", [x], {"axes": axes}, x.transpose(axes)) for axes in ((0, 1, 2), (2, 1, 0), (1, 2, 0), (0, 2, 1))),
        *(
            ("reshape", [x], {"shape": shape}, x.reshape(shape))
            for shape in ((x.size,), (*x.shape, 1), (x.shape[0], x.size // 2), x.shape)
        ),
        ("broadcast_to", [x], {"shape": (3, *x.shape)}, np.broadcast_to(x, (3, *x.shape))),
        ("broadcast_to", [x[:, :, :1]], {"shape": (*x.shape[:2], 6)}, np.broadcast_to(x[:, :, :1], (*x.shape[:2], 6))),
        ("slice", [x], {"start": (0, 0, 1), "step": (1, 1, 2), "shape": (2, x.shape[1], 2)}, x[:, :, 1::2]),
        ("slice", [x], {"start": (1, 0, 3), "step": (-1, 1, -2), "shape": (2, x.shape[1], 2)}, x[::-1, :, ::-2]),
        ("slice", [x], {"start": (1, 0, 2), "step": (1, 1, 1), "shape": (1, x.shape[1], 0)}, x[1:2, :, 2:2]),
        ("concatenate", [x, other], {"axis": 0}, np.concatenate([x, other])),
        ("concatenate", [x, other[:, :, :1], x[:, :, :0]], {"axis": 2}, np.concatenate([x, other[:, :, :1]], axis=2)),
        ("concatenate", [x], {"axis": 1}, x),
        ("alias", [x], {"name": "x"}, x),
        updated(x, other[:, :, :2], (0, 0, 3), (1, 1, -2), np.s_[:, :, 3::-2]),
        updated(x, other, (0, 0, 0), (1, 1, 1), np.s_[:]),
        updated(x, other[:1], (1, 0, 0), (1, 1, 1), np.s_[1:]),
        updated(x, other[:0], (0, 0, 0), (1, 1, 1), np.s_[:0]),
    ]


def updated(x: np.ndarray, value: np.ndarray, start: tuple[int, ...], step: tuple[int, ...], index: Any) -> Case:
    expected = x.copy()
    expected[index] = value
    return "slice_update", [x, value], {"start": start, "step": step}, expected


def indexing(x: np.ndarray) -> list[Case]:
    rng = np.random.default_rng(3)
    rows, columns = rng.integers(-2, 2, (2, 5)), rng.integers(-3, 3, (2, 5))
    value = numbers(x.dtype, rng, (2, 5, 3, 4))
    scattered = x.copy()
    scattered[rows] = value
    cases: list[Case] = [
        ("gather", [x, rows], {}, x[rows]),
        ("gather", [x, rows, columns], {}, x[rows, columns]),
        ("gather", [x, rows[0], columns[0], rows[1]], {}, x[rows[0], columns[0], rows[1]]),
        ("gather", [x, rows[:, :0]], {}, x[rows[:, :0]]),
        ("scatter", [x, value, rows], {"mode": "set"}, scattered),
    ]
    for mode, ufunc in REDUCERS.items():
        if x.dtype.kind in REDUCED_KINDS.get(mode, "biufc") and (mode != "multiply" or x.dtype.kind != "c"):
            combined = x.copy()
            with np.errstate(all="ignore"):
                ufunc.at(combined, (rows, columns), value[:, :, 0])
            cases.append(("scatter", [x, value[:, :, 0], rows, columns], {"mode": mode}, combined))
    return cases


def dtypes_for(backend: str, layout: str) -> list[tuple[np.dtype, slice]]:
    """And which cases. Moving numbers looks at their size only: where each case is compiled it has two dtypes in each layout."""
    if backend == "eager":
        return [(dtype, slice(None)) for dtype in DTYPES]
    first = [*LAYOUTS].index(layout)
    return [(dtype, slice((first + k) % 3, None, 3)) for k, dtype in enumerate([*(np.dtype(c) for c in "?hfdD"), BFLOAT16])]


def check_cases(backend: str, cases: list[Case], ulp: int = 0) -> None:
    nodes, results = apply_all(backend, [(op, arrays, params) for op, arrays, params, _ in cases])
    for (op, _, _, expected), node, result in zip(cases, nodes, results):
        check_meta(node, expected)
        assert result.dtype == expected.dtype and result.shape == expected.shape, op
        same_values(result, expected, ulp)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("backend", BACKENDS)
def test_leaves(backend: str, dtype: np.dtype) -> None:
    check_cases(backend, leaves(dtype))


@pytest.mark.parametrize("layout", [name for name in LAYOUTS if name != "0-D"])
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_movement(backend: str, layout: str) -> None:
    rng = np.random.default_rng(2)
    for dtype, some in dtypes_for(backend, layout):
        check_cases(backend, movement(LAYOUTS[layout](numbers(dtype, rng)))[some])


@pytest.mark.parametrize("layout", [name for name in LAYOUTS if name not in ("0-D", "empty")])
@pytest.mark.parametrize("backend", BACKENDS)
def test_gather_and_scatter(backend: str, layout: str) -> None:
    rng = np.random.default_rng(4)
    for dtype, some in dtypes_for(backend, layout):
        check_cases(backend, indexing(LAYOUTS[layout](numbers(dtype, rng)))[some])


@pytest.mark.parametrize("op", ["gather", "scatter"])
@pytest.mark.parametrize("bad", [3, -4])
@pytest.mark.parametrize("backend", BACKENDS)
def test_indices_out_of_bounds_raise(backend: str, bad: int, op: str) -> None:
    x, places = np.arange(3.0), np.array([0, bad, 1])
    operands = [x, places] if op == "gather" else [x, np.ones(3), places]
    with pytest.raises(IndexError):
        apply_all(backend, [(op, operands, {} if op == "gather" else {"mode": "set"})])
    np.testing.assert_array_equal(x, np.arange(3.0))


@pytest.mark.parametrize("dtype", ["d", "f", "D", "l", "?"])
@pytest.mark.parametrize("backend", BACKENDS)
def test_einsum(backend: str, dtype: str) -> None:
    rng = np.random.default_rng(8)
    a, b, c = (numbers(np.dtype(dtype), rng, shape, ordinary=True) for shape in ((3, 4), (4, 5), (2, 3, 4)))
    texts = {"ij,jk->ik": (a, b), "ij->": (a,), "ij,ij->i": (a, a), "bij,jk->bik": (c, b), "ij->ji": (a,), "bij,bij->bj": (c, c)}
    cases = []
    for text, operands in texts.items():
        inputs, output = text.split("->")
        axes = tuple(tuple(map(ord, part)) for part in inputs.split(","))
        low = min(map(min, axes))
        params = {"inputs": tuple(tuple(k - low for k in part) for part in axes), "output": tuple(ord(k) - low for k in output)}
        cases.append(("einsum", list(operands), params, np.asarray(np.einsum(text, *operands))))
    nodes, results = apply_all(backend, [case[:3] for case in cases])
    for (*_, expected), node, result in zip(cases, nodes, results):
        check_meta(node, expected)
        np.testing.assert_allclose(result, expected, rtol=1e-5 if dtype == "f" else 1e-13, atol=1e-3 if dtype == "f" else 1e-11)


def test_every_row_is_tested() -> None:
    here = {"input", "einsum", "custom_gradient"} | {
        case[0] for case in [*leaves(FLOAT64), *movement(np.ones((2, 3, 4))), *indexing(np.ones((2, 3, 4)))]
    }
    # Libraries, with the items of their results, and control flow have tests of their own.
    elsewhere = {name for name, op in OPS.items() if op.kind in ("elementwise", "reduction", "scan", "extern", "control")}
    assert set(OPS) == here | elsewhere
