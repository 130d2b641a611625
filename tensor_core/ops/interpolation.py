"""Values between sampled points."""

from typing import Any

import numpy as np

from npcompile.tensor_core.meta import TensorMeta
from npcompile.tensor_core.op import row

Value = Any  # tensor_core.transforms.value.Value


def vjp_interp(g: Value, out: Value, xp: Value, x: Value, fp: Value, *, stack=0) -> tuple[Value, Value, Value]:
    """On a point x, that of the segment to its right; of the last point, that to its left. Beyond the points 0 to x and xp."""
    grid = [x.of(x.builder.apply("index", shape=x.shape, axis=a)) for a in range(stack)]
    above = xp.op("searchsorted", x, side="right", stack=stack).op("minimum", xp.shape[-1] - 1).op("maximum", 0)
    below = (above - 1).op("maximum", 0)
    x0, x1, y0, y1 = (v.op("gather", *grid, at) for v in (xp, fp) for at in (below, above))
    width = (x1 - x0).equals(0).where(1, x1 - x0)
    slope = g * ((y1 - y0) / width)
    part = (x - x0) / width
    is_inside = (part >= 0) & (part <= 1)
    share = g * is_inside.where(part, (part > 1).cast(x.dtype))
    rest = part.equals(part).where(g - share, 0)

    def scattered(like: Value, to_below: Value, to_above: Value) -> Value:
        found = like.zeros().op("scatter", to_below, *grid, below, mode="add")
        return found.op("scatter", to_above, *grid, above, mode="add")

    to_x = is_inside.where(slope, 0)
    return (
        scattered(xp, -to_x * (1 - is_inside.where(part, 0)), -to_x * is_inside.where(part, 0)),
        to_x,
        scattered(fp, rest, share),
    )


def eager_interp(xp: np.ndarray, x: np.ndarray, fp: np.ndarray, *, stack=0) -> np.ndarray:
    if not stack:
        return np.asarray(np.interp(x, xp, fp))
    out = np.empty(x.shape)
    for place in np.ndindex(xp.shape[:stack]):
        out[place] = np.interp(x[place], xp[place], fp[place])
    return out


@row("extern", eager=eager_interp, vjp=vjp_interp, numpy=np.interp, raises=(ValueError,), chooses=True)
def interp(xp: TensorMeta, x: TensorMeta, fp: TensorMeta, *, stack=0):
    """Each x on the line through the points (xp, fp), of float64, that are beside it; beyond them the first or last fp.

    The first `stack` axes, which all inputs have, are for as many lines. ValueError without points.
    """
    assert xp.ndim == fp.ndim == 1 + stack and xp.dtype == x.dtype == fp.dtype == np.float64
    return TensorMeta(x.shape, x.dtype)
