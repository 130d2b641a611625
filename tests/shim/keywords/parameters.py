"""What each parameter may be: by its name, or by its function's name where that decides.

Most draws are what NumPy accepts, some are what it refuses: a captured form has to decline those.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tests.shim.keywords.draws import DTYPES, NUMBERS, Drawing

Strategy = Callable[[Drawing], Any]

LAST = object()  # a parameter that is drawn when the others are known: `out`, `mean`


def one_of(*values: Any) -> Strategy:
    return lambda c: c.choice(values)


def last(c: Drawing) -> Any:
    return LAST


# --- what depends on the first array


def main_shape(c: Drawing) -> tuple[int, ...]:
    return np.shape(c.main) if c.main is not None else (2, 3)


def axis(c: Drawing) -> Any:
    ndim = len(main_shape(c))
    kind = c.integer(0, 19)
    if kind >= 18:
        return c.choice([ndim, -ndim - 1, True, 1.0, "0", np.array([0]), [0]])
    if kind == 17:
        return np.int64(0)
    if kind == 16:
        return None
    return c.integer(-ndim, ndim - 1) if ndim else c.choice([0, -1, None])


def axes(c: Drawing) -> Any:
    """One axis, None, or a tuple of axes."""
    ndim = len(main_shape(c))
    if ndim and c.chance(30):
        count = c.integer(0, ndim)
        return tuple((i - (ndim if c.chance(30) else 0)) for i in c.rng().permutation(ndim)[:count].tolist())
    return None if c.chance(20) else c.choice([(0, 0), (7,), [0], (0, -1)]) if c.chance(5) else axis(c)


def new_axis(c: Drawing) -> Any:
    ndim = len(main_shape(c)) + 1
    return c.integer(-ndim, ndim - 1) if c.chance(90) else c.choice([(0, 1), ndim, None, True])


def mask(c: Drawing) -> Any:
    shape = main_shape(c)
    if c.chance(15):
        return c.choice([True, False, np.True_, 1, None, [True, False, True], np.array(1)])
    return c.array("?", [shape, shape, shape[-1:], (), (1,) * len(shape), (2, *shape)])


def reshaped(c: Drawing) -> Any:
    size = math.prod(main_shape(c))
    shapes = [
        size,
        (size,),
        -1,
        (-1,),
        (size, 1),
        (1, -1),
        main_shape(c)[::-1],
        [size, 1],
        (2, -1),
        (-1, 2),
        (-1, -1),
        (size + 1,),
        (),
    ]
    return c.choice([*shapes, np.int64(size), np.array([size, 1])])


def broadcasted(c: Drawing) -> Any:
    shape = main_shape(c)
    return c.choice(
        [shape, (2, *shape), (*shape[:-1], 3), (2, *shape[:-1], 3), 3, (), (-1, *shape), list(shape), np.array([2, 3])]
    )


def sections(c: Drawing) -> Any:
    return c.choice([1, 2, 3, [1], (1, 2), [0, 5], [], [-1], np.array([1, 2]), 0, -1, 2.0])


def positions(c: Drawing) -> Any:
    """Indices into the first array: along its axis, or flat."""
    n = max(1, min(main_shape(c), default=1))
    rows = c.choice([(), (2,), (3,), (2, 2), (0,)])
    values = c.rng().integers(-n, n, rows)
    kind = c.integer(0, 9)
    if kind == 9:
        return c.choice([[5, -7], np.array([100]), 2**20, 1.0, [0.5], True, [True, False], None, np.array([[1.0]])])
    if kind == 8:
        return values.astype(c.choice("bBiHL")) if not (values < 0).any() else values
    return int(values.flat[0]) if kind == 7 and values.size else values.tolist() if kind == 6 else values


def weights(c: Drawing) -> Any:
    return c.array("?lBd", [main_shape(c), main_shape(c)[-1:]])


def sorted_vector(c: Drawing) -> Any:
    x = np.sort(c.contents(c.choice([(5,), (3,), (1,), (0,)]), np.dtype(c.choice(DTYPES))))
    c.main = x if c.main is None else c.main
    return c.laid_out(x)


def sorter(c: Drawing) -> Any:
    order = np.argsort(c.main, kind="stable") if np.ndim(c.main) == 1 else np.arange(3)
    return c.choice([order, order, order.tolist(), order.astype("i1"), order[:-1], order.astype(float), None])


def kth(c: Drawing) -> Any:
    n = (main_shape(c) or (1,))[-1]
    return c.choice([0, n - 1, -1, (0, n - 1), [0], np.array([0]), np.int8(0), n, True, 1.0, (), [[0]]])


def pair(c: Drawing) -> Any:
    ndim = max(2, len(main_shape(c)))
    return c.choice([(0, 1), (1, 0), (-1, -2), (0, 0), (0,), [0, 1], (0, ndim), (ndim - 1, 0)])


def permutation(c: Drawing) -> Any:
    ndim = len(main_shape(c))
    order = tuple(c.rng().permutation(ndim).tolist())
    return c.choice([None, order, order, list(order), tuple(i - ndim for i in order), np.array(order, int), order[:-1], (0, 0)])


def arrays(c: Drawing) -> Any:
    """A sequence of arrays to be joined."""
    first = c.array()
    rest = [c.array([*DTYPES, *[first.dtype] * 8], [first.shape] * 9 + [(2, 3), ()]) for _ in range(c.integer(0, 2))]
    values = c.choice([[first, *rest]] * 5 + [(first, *rest)] * 5 + [first, [first.tolist(), *rest], [first, 1], []])
    return values


def matrix(c: Drawing) -> Any:
    """Square matrices that have an inverse, mostly."""
    dtype = np.dtype(c.choice("dddfFDDlib?g"))
    if c.chance(10):
        return c.array([dtype])
    n = c.choice([1, 2, 3, 3, 4, 0])
    x = c.contents((*c.choice([(), (), (2,), (2, 1), (0,)]), n, n), np.dtype(dtype if dtype.kind in "fc" else "d"))
    x = np.nan_to_num(x, posinf=2, neginf=-2)
    if not c.chance(10):
        x = x + 9 * np.eye(n)
    if c.chance(60):
        x = (x + np.conj(np.swapaxes(x, -1, -2))) / 2
    x = c.laid_out(x.astype(dtype))
    c.main = x if c.main is None else c.main
    return x


def right_hand_side(c: Drawing) -> Any:
    shape = main_shape(c)
    n = shape[-1] if shape else 1
    return c.array("dfDl", [(n,), (n, 2), (*shape[:-1], 2), (*shape[:-2], n, 1), shape, (n + 1,)])


def factor(c: Drawing) -> Any:
    """The other factor of a product: lengths that go together, mostly."""
    shape = main_shape(c)
    n = shape[-1] if shape else 1
    shapes = [(n,), (n, 2), (2, n, 3), shape, shape[::-1], (), (n + 1,)]
    return c.operand(lambda: c.array([*DTYPES, *[c.main.dtype] * 9] if c.main is not None else DTYPES, shapes))


def float_operand(c: Drawing) -> Any:
    return c.array("dddfDFlg", [(3,), (2, 3), (3, 2), (4,), (1,), (2, 3, 2), ()])  # of nothing it makes what was in memory


def spacing(c: Drawing) -> Any:
    return c.choice([c.operand, lambda: c.choice(NUMBERS)])()


def number(c: Drawing) -> Any:
    return c.choice(NUMBERS) if c.chance(70) else c.scalar() if c.chance(70) else c.array(DTYPES, [()])


def value(c: Drawing) -> Any:
    """Something to assign to elements of the first array."""
    return c.operand(c.other)


def window(c: Drawing) -> Any:
    shape = main_shape(c)
    return c.choice([2, (2,), 1, shape, (1,) * len(shape), [2], (2,) * len(shape), (), 0, -1, 9, np.int64(2)])


def row(c: Drawing) -> Any:
    """Memory that as_strided may see 12 elements of."""
    x = c.contents((24,), np.dtype(c.choice("dfliDB")))
    c.main = c.choice([x, x[2:], x[12:], x.reshape(4, 6)])
    return c.main


def strided_shape(c: Drawing) -> Any:
    return c.choice([None, (2, 3), (3,), 4, (2, 2, 2), (0,), ()])


def strided_steps(c: Drawing) -> Any:
    if not isinstance(c.main, np.ndarray):
        return None
    shape = c.arguments.get("shape", main_shape(c))
    shape = main_shape(c) if shape is None else (shape,) if isinstance(shape, int) else shape
    steps = tuple(c.integer(0, max(1, 11 // max(1, sum(shape)))) * c.main.itemsize for _ in shape)
    return c.choice([None, steps, steps, steps, list(steps)]) if c.main.ndim == 1 else None


DTYPE = one_of(
    None, "f4", float, np.float32, np.dtype("i4"), int, "D", complex, bool, "u1", "e", np.int16, "d", "d", "g", "q", ">f8",
    object, "M8[s]", "U3", "G", "V", "nonsense", 5, np.dtypes.Float64DType,
)  # fmt: skip
CASTING = one_of("no", "equiv", "safe", "same_kind", "unsafe", "unsafe", "nonsense", None, 3)
ORDER = one_of("C", "F", "A", "K", "k", "c", None, "nonsense", 1)
FLAG = one_of(True, False, True, False, np.True_, 1, 0, None, "yes")
NEW_SHAPE = one_of(
    (2, 3), 3, (), (3,), [2, 2], (0, 2), (1, 2, 3), np.int64(2), np.array([2, 3]), (2, np.int8(3)), -1, (2, -1), 2.0, True, None
)
SMALL = one_of(0, 1, 2, 3, -1, -2, 5, np.int8(2), True, 1.0, None)
KIND = one_of(None, "quicksort", "stable", "mergesort", "heapsort", "q", "nonsense", "sort", "table", 1)


def operand(c: Drawing) -> Any:
    return c.operand()


def receiver(c: Drawing) -> Any:
    """What has ndarray's methods: an array, or a NumPy scalar."""
    if c.chance(85):
        return c.array()
    c.main = c.scalar()
    return c.main


def other(c: Drawing) -> Any:
    return c.operand(c.other)


BY_NAME: dict[str, Strategy] = {
    **dict.fromkeys(["a", "m", "x", "y", "A", "array", "prototype", "object", "element", "val", "ary", "arr", "ar"], operand),
    "self": receiver,
    **dict.fromkeys(["xi", "args", "arys", "x1", "x2", "x3", "arrays_and_dtypes"], other),
    "arrays": arrays, "tup": arrays, "keys": arrays,
    "b": factor, "v": value, "other": factor,
    "axis": axis, "axis1": axis, "axis2": axis, "source": axis, "destination": axis, "start": axis,
    "axes": permutation,
    "dtype": DTYPE, "out": last, "casting": CASTING, "order": ORDER, "subok": FLAG, "keepdims": FLAG,
    "where": mask, "mask": mask, "condition": mask,
    "initial": number, "fill_value": number, "value": number, "real": number, "imag": number,
    "shape": NEW_SHAPE, "device": one_of(None, "cpu", "cuda"), "like": one_of(None, None, np.ones(2), 1),
    "copy": one_of(True, False, None, np.True_), "ndmin": one_of(0, 1, 2, 3, -1), "ndmax": one_of(0, 1, 2, 3),
    **dict.fromkeys(["k", "offset", "n", "N", "M"], SMALL), "shift": one_of(1, -2, 0, 7, (1, 2), [1], np.array([1]), 1.5),
    "sparse": FLAG, "indexing": one_of("xy", "ij", "nonsense"),
    "repeats": one_of(2, 0, 1, [2], (1, 0), np.array([1, 2]), -1, 2.5),
    "reps": one_of(2, 0, (2, 1), [1, 2, 3], (), np.array([2]), -1),
    "indices": positions, "ind": positions, "indices_or_sections": sections, "wrap": FLAG,
    "test_elements": other, "assume_unique": FLAG, "invert": FLAG, "kind": KIND, "stable": one_of(None, True, False, 1),
    "descending": FLAG, "rcond": one_of(None, -1, 1e-3, 0.5, "nonsense"),
    "stream": one_of(None, None, 1),
    "p": one_of(None, 2, -2, 1, -1, "fro", "nuc", np.inf, -np.inf, "nonsense"), "check_bounds": FLAG,
    "upper": FLAG, "UPLO": one_of("L", "U", "l", "u", "nonsense", 1),
    "full_matrices": FLAG, "compute_uv": FLAG, "hermitian": FLAG,
    "ddof": one_of(0, 1, 2, 0.5, -1, 100, np.float32(1), None), "correction": one_of(0, 1, 0.5, 2), "mean": last,
    "values": value, "vals": value, "src": value, "dst": operand, "decimals": one_of(0, 1, 2, -1, 3, 400, np.int8(1), 1.0, None),
    "kth": kth, "side": one_of("left", "right", "l", "nonsense"), "sorter": sorter,
    "return_index": FLAG, "return_inverse": FLAG, "return_counts": FLAG, "equal_nan": FLAG, "sorted": FLAG,
    "a_min": other, "a_max": other, "min": other, "max": other,
    "window_shape": window, "writeable": FLAG, "mode": one_of("raise", "wrap", "clip", "nonsense", 1),
    "overwrite_input": one_of(False, False, True),
    "signature": one_of("d->d", "dd->d", "ff->f", "ll->l", ("d", "d", "d"), (None, None, "d"), "dd->?", ("f", None), 3),
}  # fmt: skip

# Parameters of one function, where its name says more than theirs.
BY_FUNCTION: dict[str, dict[str, Strategy]] = {
    "reshape": {"shape": reshaped},
    "ndarray.reshape": {"shape": reshaped},
    "ndarray.transpose": {"axes": permutation},
    "broadcast_to": {"shape": broadcasted},
    "broadcast_shapes": {"args": one_of((2, 3), 3, (1,), (), (2, 1), [3], np.int64(3), -1)},
    "unravel_index": {"indices": one_of(0, 5, [0, 3], np.array([1, 2]), np.array([[5]]), 6, -1, 1.0),
                      "shape": one_of((2, 3), 6, (3, 2), ())},
    "can_cast": {"from_": lambda c: c.choice([c.array(), c.scalar(), "i4", float, np.dtype("D"), 1, 2.5]), "to": DTYPE},
    "arange": dict.fromkeys(["start_or_stop", "stop", "step"],
                            one_of(0, 1, 5, -3, 2.5, 0.5, True, np.int8(4), np.float32(1.5), 1j, None, np.array(3))),
    "linspace": {"start": spacing, "stop": spacing, "num": one_of(0, 1, 2, 5, -1, 2.5, np.int8(3)), "endpoint": FLAG,
                 "retstep": FLAG, "axis": one_of(0, -1, 1, 2)},
    "moveaxis": {"source": axes, "destination": axes},
    "squeeze": {"axis": axes}, "flip": {"axis": axes}, "ndarray.squeeze": {"axis": axes}, "roll": {"axis": axes},
    "expand_dims": {"axis": new_axis}, "stack": {"axis": new_axis}, "size": {"axis": axes},
    "rot90": {"axes": pair, "k": SMALL},
    "tensordot": {"axes": one_of(2, 1, 0, (0, 0), ([0], [0]), ([-1], [0]), (1, 0), ([0, 1], [0, 1]), 5)},
    "as_strided": {"x": row, "shape": strided_shape, "strides": strided_steps},
    "sliding_window_view": {"axis": axes},
    "take": {"a": operand}, "diag": {"v": operand}, "diagflat": {"v": operand},
    "searchsorted": {"a": sorted_vector, "v": other}, "ndarray.searchsorted": {"self": sorted_vector, "v": other},
    "compress": {"condition": one_of([True, False], [1, 0, 1], np.array([True, True]), [False], [True] * 9, True), "a": operand},
    "ndarray.compress": {"condition": one_of([True, False], [1, 0, 1], np.array([True, True]), [False], [True] * 9)},
    "where": {"condition": operand, "x": other, "y": other},
    "pad": {"pad_width": one_of(1, 0, 2, (1, 2), ((1, 0),), ((1, 2), (0, 1)), [1], np.array([1, 2]), {0: 1}, -1, 1.5),
            "mode": one_of("constant", "edge", "linear_ramp", "maximum", "mean", "median", "minimum", "reflect", "symmetric",
                           "wrap", "empty", "nonsense")},
    "_cond_svdvals": {"x": lambda c: np.asarray(matrix(c))},
    "tensorsolve": {
        "a": lambda c: c.array("dfFDl", [(2, 3, 6), (6, 2, 3), (4, 4), (1, 1), (2, 3, 2, 3), (2, 3, 5)]),
        "b": lambda c: c.array("dfDl", [(2, 3), (6,), (4,), (1,), (3, 2)]),
        "axes": one_of(None, None, (0,), (0, 1), [1], (2,), (5,), (-1,), 1),
    },
    "qr": {"mode": one_of("reduced", "complete", "r", "raw", "nonsense"), "a": matrix},
    "correlate": {"a": operand, "v": factor, "mode": one_of(0, 1, 2, 3, "same", "valid", "full")},
    "convolve": {"a": operand, "v": factor, "mode": one_of("same", "valid", "full", 1, "nonsense")},
    "correlate2": {"a": operand, "v": factor, "mode": one_of(0, 1, 2, 3)},
    "interp": {"x": operand, "xp": lambda c: np.array([-1.0, 0.0, 1.5, 2.0]),
               "fp": lambda c: c.array("ddfDl", [(4,), (4,), (3,)]), "left": number, "right": number},
    "_place": {"input": operand, "mask": mask, "vals": value},
    "einsum": {"operands": last, "optimize": one_of(True, False, "greedy", "optimal", None)},
    "_raw_fft": {"a": float_operand, "n": one_of(1, 2, 3, 4, 8, 0), "axis": one_of(-1, 0), "is_real": one_of(False, True),
                 "is_forward": one_of(True, False), "norm": one_of(None, "ortho", "forward", "backward")},
    "clip": {"kwargs": last}, "ndarray.item": {"args": SMALL},
    "var": {"axis": axes}, "std": {"axis": axes},
}  # fmt: skip
for _name in ("sum", "prod", "max", "min", "amax", "amin", "any", "all", "ptp", "count_nonzero", "mean", "var", "std"):
    BY_FUNCTION.setdefault(_name, {})["axis"] = axes
    BY_FUNCTION.setdefault(f"ndarray.{_name}", {})["axis"] = axes
for _name in ("solve", "inv", "det", "slogdet", "cholesky", "eigh", "eigvalsh", "eig", "eigvals", "svd", "lstsq", "cond"):
    BY_FUNCTION[_name] = {"a": matrix, "b": right_hand_side}

# Keywords that a signature hides behind **kwargs.
REDUCTION = ("keepdims", "initial", "where")
MOMENTS = ("keepdims", "where")
OF_UFUNCS = ("where", "casting", "order", "dtype", "subok")
HIDDEN: dict[str, dict[str, Strategy]] = {
    name: {keyword: BY_NAME[keyword] for keyword in keywords}
    for names, keywords in (
        (("ndarray.sum", "ndarray.prod", "ndarray.max", "ndarray.min"), REDUCTION),
        (("ndarray.mean",), MOMENTS),
        (("ndarray.var", "ndarray.std"), (*MOMENTS, "mean", "correction")),
        (("clip", "ndarray.clip"), OF_UFUNCS),
        (("einsum",), ("dtype", "order", "casting")),
    )
    for name in names
} | {
    "ndarray.view": {"dtype": DTYPE, "type": one_of(np.ndarray, np.matrix)},
    "pad": {
        "constant_values": one_of(0, 1, 2.5, (1, 2), ((1, 2),), 300, np.float32(1), [1], None),
        "end_values": one_of(0, 3, (1, 2), 2.5),
        "stat_length": one_of(None, 1, 2, (1, 2), 0, 9),
        "reflect_type": one_of("even", "odd", "nonsense"),
    },
}

SUBSCRIPTS = {
    "ij,jk": ((2, 3), (3, 2)), "ij,jk->ik": ((2, 3), (3, 2)), "ii": ((3, 3),), "ii->i": ((3, 3),), "ij->ji": ((2, 3),),
    "ij->": ((2, 3),), "i,i": ((3,), (3,)), "i,j->ij": ((3,), (2,)), "...ij,...jk": ((2, 2, 3), (3, 2)), "ij,ij->i": ((2, 3),
    (2, 3)), "i->": ((3,),), "ij,j,i->": ((2, 3), (3,), (2,)), "ij,kj": ((2, 3), (2, 4)), "i->ii": ((3,),), "ijk,ikl->ijl":
    ((2, 2, 3), (2, 3, 2)),
}  # fmt: skip


def einsum_operands(c: Drawing) -> tuple[Any, ...]:
    subscripts = c.choice(list(SUBSCRIPTS))
    return (subscripts, *(c.array(DTYPES, [shape]) for shape in SUBSCRIPTS[subscripts]))
