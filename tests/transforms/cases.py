"""Applications of every op of the table, with operands that are valid whatever the random numbers, and running graphs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import numpy as np
from scipy.special import sici, xlogy

from npcompile.backends.registry import find_backend
from npcompile.tensor_core import OPS, Builder, TensorMeta
from npcompile.tensor_core.graph import Graph, Node, run
from npcompile.tensor_core.meta import TupleMeta
from npcompile.tensor_core.ops.reduction import REDUCERS
from npcompile.tensor_core.ops.scalar import REPORTING
from tests.ops.table import BFLOAT16
from tests.ops.test_elementwise import UFUNC_ROWS, loops

DOUBLE = np.dtype(np.float64)
Maker = Callable[[np.random.Generator], np.ndarray]


@dataclass(frozen=True)
class Case:
    op: str
    operands: tuple[Maker, ...]
    params: dict[str, Any] = field(default_factory=dict)

    def make(self, rng: np.random.Generator) -> list[np.ndarray]:
        return [operand(rng) for operand in self.operands]

    def subsets(self) -> Iterator[tuple[int, ...]]:
        """Every choice of one or more operands."""
        numbers = range(len(self.operands))
        for count in range(1, len(numbers) + 1):
            yield from combinations(numbers, count)


def bits(*shape: int) -> Maker:
    return lambda rng: rng.integers(0, 2**64, shape, np.uint64)


def floats(*shape: int, dtype: str = "d") -> Maker:
    """Multiples of 1/8, whose sums and products are exact."""
    return lambda rng: np.asarray(rng.integers(-24, 25, shape) / 8).astype(dtype)


def positive(*shape: int) -> Maker:
    return lambda rng: np.asarray(rng.integers(1, 25, shape) / 8)


def integers(low: int, high: int, *shape: int) -> Maker:
    """int64 from `low` up to and including `high`."""
    return lambda rng: np.asarray(rng.integers(low, high, shape, endpoint=True))


def booleans(*shape: int) -> Maker:
    return lambda rng: np.asarray(rng.integers(0, 2, shape, dtype=bool))


def complexes(*shape: int) -> Maker:
    return lambda rng: floats(*shape)(rng) + 1j * floats(*shape)(rng)


def of_kind(kind: str, *shape: int) -> Maker:
    return {"b": booleans, "c": complexes, "f": floats, "i": lambda *s: integers(-9, 9, *s)}[kind](*shape)


# --- elementwise


def ufunc_cases(name: str) -> Iterator[Case]:
    """One loop of every kind, on operands from the domain of the row."""
    seen = set()
    for dtypes in sorted(loops(OPS[name].numpy), key=lambda found: -found[0].itemsize):
        kinds = "".join(dtype.kind for dtype in dtypes)
        if kinds not in seen:
            seen.add(kinds)
            for shape in ((2, 3), ()):
                yield Case(name, tuple(sampled(name, k, dtype, shape) for k, dtype in enumerate(dtypes)))


def sampled(name: str, k: int, dtype: np.dtype, shape: tuple[int, ...]) -> Maker:
    return lambda rng: np.resize(rng.permutation(OPS[name].samples(dtype, rng)[0][k]), shape).astype(dtype)


OTHER_ELEMENTWISE = [
    Case("cast", (floats(2, 3),), {"dtype": np.dtype("i2")}),
    Case("cast", (integers(-9, 9),), {"dtype": np.dtype("D")}),
    Case("laid_out", (floats(2, 3),), {"strides": (8, 16)}),
    Case("where", (booleans(2, 3), floats(2, 3), floats(2, 3))),
    Case("where", (booleans(), integers(0, 9), integers(0, 9))),
    Case("where", (booleans(0, 3), floats(0, 3), floats(0, 3))),
    Case("real", (complexes(2, 3),)),
    Case("imag", (complexes(2, 3),)),
    Case("complex", (floats(2, 3), floats(2, 3))),
    Case("bitcast", (floats(3),), {"dtype": np.dtype(np.int64)}),
    *(Case(name, (bits(3), bits(3), bits(3))) for name in ("philox_low", "philox_high")),
    Case("add", (floats(2, 0), floats(2, 0))),
    *(Case(name, (floats(2, 3), floats(2, 3))) for name in ("zero_or_multiply", "zero_or_divide")),
    *(Case(name, (integers(-9, 9, 2, 3),) * ufunc.nin) for ufunc, name in REPORTING.items() if ufunc is not np.power),
    Case("scalar_power", tuple(sampled("power", k, np.dtype(float), (2, 3)) for k in range(2))),
]

# --- movement and updates


def sliced(shape: tuple[int, ...], start: tuple[int, ...], step: tuple[int, ...], result: tuple[int, ...]) -> list[Case]:
    """Reading a region, and writing it."""
    return [
        Case("slice", (floats(*shape),), {"start": start, "step": step, "shape": result}),
        Case("slice_update", (floats(*shape), floats(*result)), {"start": start, "step": step}),
    ]


MOVEMENT = [
    Case("alias", (floats(2, 3),), {"name": "x"}),
    Case("alias", (floats(),), {"name": "x"}),
    *(Case("permute", (floats(2, 3, 4),), {"axes": axes}) for axes in ((0, 1, 2), (2, 1, 0), (1, 2, 0))),
    Case("permute", (floats(),), {"axes": ()}),
    Case("reshape", (floats(2, 3, 4),), {"shape": (6, 4)}),
    Case("reshape", (floats(2, 3, 4),), {"shape": (24,)}),
    Case("reshape", (floats(1, 1),), {"shape": ()}),
    Case("reshape", (floats(),), {"shape": (1, 1)}),
    Case("reshape", (floats(0, 3),), {"shape": (3, 0, 7)}),
    Case("broadcast_to", (floats(),), {"shape": (2, 3)}),
    Case("broadcast_to", (floats(3),), {"shape": (2, 3)}),
    Case("broadcast_to", (floats(2, 1),), {"shape": (4, 2, 3)}),
    Case("broadcast_to", (floats(1, 3),), {"shape": (0, 3)}),
    Case("broadcast_to", (floats(),), {"shape": ()}),
    *sliced((4, 5), (1, 0), (2, 1), (2, 5)),
    *sliced((4, 5), (3, 4), (-1, -2), (4, 3)),
    *sliced((4, 5), (0, 2), (1, 1), (4, 0)),
    *sliced((4, 0), (1, 0), (1, 1), (2, 0)),
    *sliced((), (), (), ()),
    Case("custom_gradient", (floats(2, 3), floats(3)), {"rule": lambda g: [g.sum([0])]}),
    Case("custom_gradient", (floats(), floats(3), floats()), {"rule": lambda g: [None, g * 2]}),
    Case("concatenate", (floats(2, 3), floats(1, 3)), {"axis": 0}),
    Case("concatenate", (floats(2, 3), floats(2, 0), floats(2, 4)), {"axis": 1}),
    Case("concatenate", (floats(2, 3),), {"axis": 1}),
]

# --- reductions


def kind_for(reducer: str) -> str:
    return "b" if reducer.startswith("logical") else "i" if reducer.startswith("bitwise") else "f"


REDUCTION = [
    *(
        Case("reduce", (of_kind(kind_for(reducer), 2, 3, 4),), {"reducer": reducer, "axes": axes})
        for reducer in REDUCERS
        for axes in ((0,), (0, 2), (0, 1, 2))
    ),
    Case("reduce", (floats(2, 3),), {"reducer": "add", "axes": ()}),
    Case("reduce", (floats(2, 0),), {"reducer": "add", "axes": (1,)}),
    Case("reduce", (floats(2, 0),), {"reducer": "maximum", "axes": (0,)}),
    *(
        Case("arg_reduce", (integers(-2, 2, 4, 5),), {"which": which, "axis": axis})
        for which in ("max", "min")
        for axis in (0, 1)
    ),
    *(
        Case("scan", (of_kind(kind_for(reducer), 3, 4),), {"reducer": reducer, "axis": axis})
        for reducer in REDUCERS
        for axis in (0, 1)
    ),
    Case("scan", (floats(2, 0),), {"reducer": "add", "axis": 1}),
]

# --- places that are data


def scatters(mode: str) -> list[Case]:
    kind = kind_for(mode)
    rows, columns = integers(-3, 2, 2, 5), integers(-4, 3, 2, 5)
    return [
        Case("scatter", (of_kind(kind, 3, 4), of_kind(kind, 2, 5, 4), rows), {"mode": mode}),
        Case("scatter", (of_kind(kind, 3, 4), of_kind(kind, 2, 5), rows, columns), {"mode": mode}),
    ]


INDEXING = [
    Case("gather", (floats(3, 4), integers(-3, 2, 2, 5))),
    Case("gather", (floats(3, 4), integers(-3, 2, 5), integers(-4, 3, 5))),
    Case("gather", (floats(3, 4, 2), integers(-3, 2), integers(-4, 3))),
    Case("gather", (floats(3, 4), integers(-3, 2, 0))),
    Case("gather", (floats(3, 0), integers(-3, 2, 2))),
    *(case for mode in ("set", "subtract", *REDUCERS) for case in scatters(mode)),
    Case("scatter", (floats(3), floats(), integers(-3, 2)), {"mode": "set"}),
    Case("scatter", (floats(3, 4), floats(0, 4), integers(-3, 2, 0)), {"mode": "add"}),
]

# --- contractions


def contraction(text: str, *operands: Maker) -> Case:
    inputs, output = text.split("->")
    axes = tuple(tuple(ord(letter) - ord("a") for letter in part) for part in inputs.split(","))
    return Case("einsum", operands, {"inputs": axes, "output": tuple(ord(letter) - ord("a") for letter in output)})


CONTRACTION = [
    contraction("ab,bc->ac", floats(2, 3), floats(3, 4)),
    contraction("ab,b->a", floats(2, 3), floats(3)),
    contraction("a,a->", floats(3), floats(3)),
    contraction("a,b->ab", floats(2), floats(3)),
    contraction("ab->ba", floats(2, 3)),
    contraction("ab->", floats(2, 3)),
    contraction("dab,bc->dac", floats(2, 2, 3), floats(3, 4)),
    contraction("bc,cd,de->be", floats(2, 3), floats(3, 4), floats(4, 2)),
    contraction("ab,bc->ac", floats(2, 0), floats(0, 4)),
    contraction(",a->a", floats(), floats(3)),
    Case("einsum", (floats(2, 9), floats(9, 3)), {"inputs": ((0, 1), (1, 2)), "output": (0, 2), "block": 4}),
]

# --- what libraries run as a whole


def positive_definite(*shape: int, kind: str = "f") -> Maker:
    def make(rng: np.random.Generator) -> np.ndarray:
        x = of_kind(kind, *shape)(rng)
        return x @ np.conj(np.swapaxes(x, -1, -2)) + np.eye(shape[-1])

    return make


def in_order(*shape: int) -> Maker:
    return lambda rng: np.sort(floats(*shape)(rng))


def square(op: str, **params: Any) -> list[Case]:
    """Of one matrix, a stack of them, and a complex one."""
    return [Case(op, (make,), params) for make in (floats(3, 3), floats(2, 3, 3), complexes(3, 3))]


EXTERN = [
    *square("inv"),
    *square("det"),
    *square("cofactor"),
    *square("slogdet"),
    *square("eigh", uplo="L"),
    *square("eigh", uplo="U"),
    *square("eigvalsh", uplo="L"),
    Case("eig", (complexes(3, 3),)),
    Case("eigvals", (complexes(2, 3, 3),)),
    Case("solve", (floats(3, 3), floats(3, 2))),
    Case("solve", (complexes(2, 3, 3), complexes(2, 3, 1))),
    *(Case("lstsq", (floats(*shape), floats(shape[0], 2)), {"rcond": None}) for shape in ((5, 3), (3, 3), (2, 4))),
    *(Case("cholesky", (positive_definite(3, 3),), {"upper": upper}) for upper in (False, True)),
    Case("cholesky", (positive_definite(2, 3, 3, kind="c"),), {"upper": False}),
    *(Case("qr", (floats(*shape),), {"mode": mode}) for shape in ((4, 2), (2, 4)) for mode in ("reduced", "complete", "r")),
    *(Case("svd", (floats(2, 4, 3),), {"full_matrices": full}) for full in (False, True)),
    Case("svdvals", (complexes(2, 3),)),
    *(
        Case(op, (complexes(5, 2),), {"n": n, "axis": axis, "norm": norm})
        for op in ("fft", "ifft", "irfft")
        for n, axis, norm in ((5, 0, "backward"), (4, 1, "ortho"), (3, 0, "forward"))
    ),
    Case("rfft", (floats(5, 2),), {"n": 6, "axis": 0, "norm": "backward"}),
    *(
        Case(op, (integers(-3, 3, 4, 5),), {"axis": axis, "kind": kind})
        for op in ("sort", "argsort")
        for axis, kind in ((0, "stable"), (1, "quicksort"))
    ),
    Case("sort", (floats(4, 5),), {"axis": 1, "kind": "stable"}),
    *(Case(op, (floats(4, 5),), {"kth": (1, 3), "axis": axis}) for op in ("partition", "argpartition") for axis in (0, 1)),
    Case("lexsort", (integers(0, 2, 6), floats(6)), {"axis": 0}),
    Case("lexsort", (integers(0, 2, 3, 4), integers(0, 1, 3, 4)), {"axis": 1}),
    Case("require_none", (lambda rng: np.zeros((2, 3), bool),)),
    Case("ufunc", (floats(3), positive(2, 1)), {"function": xlogy, "loop": (DOUBLE,) * 3, "is_asked_for": False}),
    Case("ufunc", (positive(2, 3),), {"function": sici, "loop": (DOUBLE,) * 3, "is_asked_for": True}),
    Case("searchsorted", (in_order(6), floats(2, 3)), {"side": "left"}),
    Case(
        "searchsorted",
        (lambda rng: in_order(4)(rng)[::-1].copy(), floats(), lambda rng: np.arange(4)[::-1].copy()),
        {"side": "right"},
    ),
    Case("searchsorted", (in_order(2, 6), floats(2, 3)), {"side": "right", "stack": 1}),
    Case("interp", (in_order(6), floats(2, 3), floats(6)), {}),
    Case("interp", (in_order(2, 6), floats(2, 3), floats(2, 6)), {"stack": 1}),
]

TABLES = (OTHER_ELEMENTWISE, MOVEMENT, REDUCTION, INDEXING, CONTRACTION, EXTERN)
CASES: dict[str, list[Case]] = {name: list(ufunc_cases(name)) for name in UFUNC_ROWS}
for table in TABLES:
    for each in table:
        CASES.setdefault(each.op, []).append(each)


def has_derivative(case: Case) -> bool:
    """docs/gradients.md: not what matrices leave open, nor products of elements in one place."""
    match case.op:
        case "scatter":
            return case.params["mode"] in ("set", "add", "maximum", "minimum", "fmax", "fmin")
        case "qr":
            return case.params["mode"] != "complete" or case.make(np.random.default_rng(0))[0].shape == (2, 4)
        case "svd":
            return not case.params["full_matrices"]
    return True


# --- what results are unique in

Results = Sequence[np.ndarray]
# Of other results a device's library may give others: vectors by a factor of absolute value 1, elements that have no order.
UNIQUE: dict[str, Callable[..., list[np.ndarray]]] = {
    "eigh": lambda w, v: [w, np.abs(v)],
    "svd": lambda u, s, vh: [np.abs(u), s, np.abs(vh)],
    "eig": lambda w, v: [np.sort(w), np.take_along_axis(np.abs(v), np.argsort(w)[..., None, :], -1)],
    "eigvals": lambda w: [np.sort(w)],
    "partition": lambda x: [np.sort(x.reshape(len(x), -1))],
    "argpartition": lambda places: [np.sort(places.reshape(len(places), -1))],
}


def unique(op: str, results: Results) -> Results:
    """What of an op's results, for several examples, is the same for every library."""
    return UNIQUE[op](*results) if op in UNIQUE else results


# --- running


def meta_of(x: np.ndarray) -> TensorMeta:
    return TensorMeta(x.shape, x.dtype, x.strides, writeable=False)


def results_of(builder: Builder, node: Node) -> list[Node]:
    """The results of an op that has several, or the node."""
    if not isinstance(node.meta, TupleMeta):
        return [node]
    return [builder.apply("item", node, index=k) for k in range(len(node.meta.items))]


def execute(backend: str, graph: Graph, values: Sequence[Any]) -> list[np.ndarray]:
    """The outputs, for the values of the inputs and then of the symbols."""
    with np.errstate(all="ignore"):
        if backend == "eager":
            found = run(graph, values, lambda op, *xs, **params: op.eager(*xs, **params))[0]
        else:
            found = find_backend(backend)(graph, [])(*values)
    return [np.asarray(x) for x in found]


def stacked(examples: Sequence[np.ndarray], meta: TensorMeta) -> np.ndarray:
    """Along a new axis 0, also where there are no examples."""
    return np.array(examples, meta.dtype).reshape(len(examples), *meta.shape)


def apply_numpy(case: Case, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    with np.errstate(all="ignore"):
        result = OPS[case.op].eager(*arrays, **case.params)
    return [np.asarray(x) for x in (result if isinstance(result, tuple) else [result])]


def close(result: np.ndarray, expected: np.ndarray, roundings: float = 64) -> None:
    """Equal but for so many roundings of floating-point numbers."""
    assert result.dtype == expected.dtype and result.shape == expected.shape, (result.dtype, result.shape, expected.shape)
    if expected.dtype == BFLOAT16:
        tolerance = min(roundings, 8) * 2.0**-7
        np.testing.assert_allclose(result.astype(float), expected.astype(float), rtol=tolerance, atol=tolerance)
    elif expected.dtype.kind in "fc":
        tolerance = roundings * np.finfo(expected.dtype).eps
        np.testing.assert_allclose(result, expected, rtol=tolerance, atol=tolerance)
    else:
        np.testing.assert_array_equal(result, expected)
