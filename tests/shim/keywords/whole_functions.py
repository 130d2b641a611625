"""What the parameters may be of functions that NumPy runs whole in the graph (numpy_shim/numpy_calls.py)."""

from __future__ import annotations

import numpy as np

from tests.shim.keywords.parameters import FLAG, Strategy, axes, axis, mask, one_of, operand, other, value

WHOLE: dict[str, dict[str, Strategy]] = {
    "bincount": {
        "x": lambda c: c.array("lbBi?d", [(5,), (2,), (0,), (2, 2)]),
        "weights": one_of(None, None, np.ones(5), [1, 2]),
        "minlength": one_of(0, 3, 9, -1, None, 1.5),
    },
    "digitize": {
        "x": operand,
        "bins": lambda c: c.choice([np.sort(c.array("dfl", [(4,)])), [0, 1, 2], [2.0, 1.0], [0, 2, 1], 1]),
        "right": FLAG,
    },
    "histogram": {
        "a": operand,
        "bins": one_of(10, 3, 1, 0, [0, 1, 2], np.array([-1.0, 0.5, 4.0]), "auto", [1, 0], 2.5),
        "range": one_of(None, None, (0, 2), (0.5, 1.5), (2, 1), [0, 1]),
        "density": FLAG,
        "weights": one_of(None, None, 1),
    },
    "histogramdd": {
        "sample": lambda c: c.choice([tuple(c.array("dfl", [(4,)]) for _ in range(c.integer(1, 3))), c.array()]),
        "bins": one_of(2, 3, (2, 3), [1, 1], 0, [[0, 1], [0, 2]]),
        "range": one_of(None, None, [(0, 1), (0, 1)]),
        "density": FLAG,
        "weights": one_of(None, None, [1, 1, 1, 1]),
    },
    "packbits": {"a": lambda c: c.array("?Blbd"), "axis": axis, "bitorder": one_of("big", "little", "nonsense")},
    "unpackbits": {
        "a": lambda c: c.array("BBBl?"),
        "axis": axis,
        "count": one_of(None, None, 3, -1),
        "bitorder": one_of("big", "little", "nonsense"),
    },
    "ravel_multi_index": {
        "multi_index": lambda c: tuple(c.array("lib", [(3,)]) for _ in range(2)),
        "dims": one_of((6, 6), (2, 3), 5),
        "mode": one_of("raise", "wrap", "clip", ("wrap", "clip"), "nonsense"),
    },
    "choose": {
        "a": lambda c: c.array("lbB?d", [(3,), (2, 3), ()]),
        "choices": lambda c: c.choice(
            [
                [c.array("dl", [(3,), (2, 3)]) for _ in range(3)],
                (c.array("d", [(3,)]), c.array("f", [(3,)])),
                [1, 2, 3],
                c.array("d", [(3, 3)]),
            ]
        ),
    },
    "ndarray.choose": {
        "self": lambda c: c.array("lbB?d", [(3,), (2, 3), ()]),
        "choices": lambda c: [c.array("dl", [(3,)]) for _ in range(3)],
    },
    "setdiff1d": {"ar1": operand, "ar2": other},
    "min_scalar_type": {"a": operand},
    "polymul": {"a1": lambda c: c.array("dflD", [(3,), (1,), (2, 2)]), "a2": lambda c: c.array("dflD", [(2,), (3,), ()])},
    "polydiv": {
        "u": lambda c: c.array("dflDB", [(4,), (3,), (1,), (2, 2), ()]),
        "v": lambda c: c.array("dflD", [(2,), (3,), (1,), ()]),
    },
    "trim_zeros": {
        "filt": lambda c: c.choice(
            [c.array("dl?DB", [(4,), (6,), (2, 3)]), np.array([0, 0, 1.5, 0, 2, 0]), np.zeros(4), [0, 1, 2, 0]]
        ),
        "trim": one_of("fb", "f", "b", "BF", "", "ff", "x", 1),
        "axis": one_of(None, None, 0, -1, 1, (0,), True),
    },
    "delete": {"obj": lambda c: c.choice([c.array("?", [(2,), (3,), (6,), (1,)]), 1, [0, 1], slice(0, 1)])},
    "real_if_close": {"a": operand, "tol": one_of(100, 1, 1e9, None)},
    "polyint": {
        "p": lambda c: c.array("dflD", [(3,), (1,), (2, 2)]),
        "m": one_of(1, 2, 0, -1, 1.5),
        "k": one_of(None, None, 3, [1]),
    },
    "i0": {"x": operand},
    "ndarray.byteswap": {"inplace": one_of(False, False, True)},
    **{w: {"M": one_of(5, 1, 2, 0, -1, 12, 2.5, np.int8(4), True)} for w in ("bartlett", "blackman", "hamming", "hanning")},
    "kaiser": {"M": one_of(5, 1, 2, 0, -1, 12), "beta": one_of(0.0, 8.6, 14, np.float32(2), 1j)},
    **{f: {"axis": axes, "overwrite_input": FLAG} for f in ("nanmedian", "nanvar", "nanstd")},
    **{
        f: {
            "axis": axes,
            "overwrite_input": one_of(False),
            "q": one_of(30, 0.5, [0.2, 0.7], np.array([0.1]), 101, np.float32(0.5), 1j),
            "weights": one_of(None, None, np.ones(3)),
            "interpolation": one_of(None),
            "method": one_of("linear", "lower", "hazen", "nonsense"),
        }
        for f in ("nanpercentile", "nanquantile")
    },
    "place": {"mask": mask, "vals": value},
}
