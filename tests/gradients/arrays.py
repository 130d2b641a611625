"""Programs that make, index, write, sort and choose."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.gradients.program import Program, positive, spread


def filled_in_place(x: Any) -> Any:
    out = np.zeros((2, len(x)))
    out[0] = x
    out[1, 1:] = x[:-1] * x[1:]
    out[:, ::2] *= 3
    out[1, 0] += x.sum()
    return np.sum(out**2)


def filled_in_place_at(x: Any) -> Any:
    out = np.zeros((2, len(x)))
    out = out.at[0].set(x).at[1, 1:].set(x[:-1] * x[1:]).at[:, ::2].multiply(3).at[1, 0].add(x.sum())
    return np.sum(out**2)


def recurrence_in_place(x: Any, start: Any) -> Any:
    out = np.empty(len(x) + 1)
    out[0] = start
    for i in range(len(x)):
        out[i + 1] = np.sin(out[i]) + x[i]
    return np.sum(out * out)


def recurrence_in_place_at(x: Any, start: Any) -> Any:
    out = np.empty(len(x) + 1).at[0].set(start)
    for i in range(len(x)):
        out = out.at[i + 1].set(np.sin(out[i]) + x[i])
    return np.sum(out * out)


def view_written(x: Any) -> Any:
    """Writes through views are seen by what they are views of."""
    y = x * 1.0
    column = y[:, 1]
    column *= 2
    y.T[0, :2] = y[1, 1:3]
    np.multiply(y[0], y[1], out=y[2])
    return np.sum(y**2) + column.sum()


def view_written_at(x: Any) -> Any:
    y = x.at[:, 1].multiply(2)
    y = y.at[:2, 0].set(y[1, 1:3])
    y = y.at[2].set(y[0] * y[1])
    return np.sum(y**2) + y[:, 1].sum()


def histogram_of_weights(weights: Any, bins: Any) -> Any:
    out = np.zeros(4)
    np.add.at(out, bins, weights)
    return np.sum(out**3)


def histogram_of_weights_at(weights: Any, bins: Any) -> Any:
    return np.sum(np.zeros(4).at[bins].add(weights) ** 3)


def scattered(x: Any, values: Any, places: Any) -> Any:
    y = x.copy()
    y[places] = values
    y[y > 1.5] = 0
    return np.sum(y**2)


def scattered_at(x: Any, values: Any, places: Any) -> Any:
    y = x.at[places].set(values)
    return np.sum(np.where(y > 1.5, 0, y) ** 2)


def masked(x: Any) -> Any:
    return np.sum(np.where(x > 0, np.sqrt(np.where(x > 0, x, 1)), x**2)) + np.mean(x * (np.abs(x) < 1))


def selected(x: Any) -> Any:
    return np.sum(np.select([x < -1, x < 1], [x**2, x**3], -x)) + np.sum(np.clip(x, -1, 1) ** 2)


def gathered(x: Any, places: Any) -> Any:
    return np.sum(x[places] * np.take(x, places[::-1])) + np.sum(x[np.array([0, 0, 1])] ** 2)


def gathered_by_pairs(x: Any, rows: Any, columns: Any) -> Any:
    return np.sum(x[rows, columns] ** 2) + np.sum(x[rows, :, None][..., 0] ** 3) + np.sum(x[1:, columns])


def taken_along(x: Any) -> Any:
    order = np.argsort(x, axis=1)
    return np.sum(np.take_along_axis(x, order, axis=1)[:, :2] ** 2) + np.sum(x[np.arange(3), x.argmax(1)] ** 3)


def interpolated(table: Any, at: Any) -> Any:
    """Linear, by indices."""
    place = np.clip(at, 0, len(table) - 1.001)
    low = np.floor(place).astype(int)
    part = place - low
    return np.sum(((1 - part) * table[low] + part * table[low + 1]) ** 2)


def interpolated_bilinear(image: Any, y: Any, x: Any) -> Any:
    i, j = np.floor(y).astype(int), np.floor(x).astype(int)
    a, b = y - i, x - j
    top = (1 - b) * image[i, j] + b * image[i, j + 1]
    bottom = (1 - b) * image[i + 1, j] + b * image[i + 1, j + 1]
    return np.sum(((1 - a) * top + a * bottom) ** 2)


def interpolated_by_numpy(at: Any, points: Any, values: Any) -> Any:
    """Outside of the points as well, on both sides."""
    return np.sum(np.interp(at, points, values) ** 2) + np.sum(np.interp(at, points, values, left=-1.0, right=3.0) * at)


def padded(x: Any) -> Any:
    return (
        np.sum(np.pad(x, ((1, 2), (0, 1))) ** 3)
        + np.sum(np.diff(np.pad(x, 1, mode="edge"), axis=0) ** 2)
        + np.sum(np.pad(x, 1, mode="reflect")[0] ** 2)
        + np.sum(np.pad(x, 2, mode="wrap")[:, 0] ** 2)
    )


def rolled(x: Any) -> Any:
    return np.sum(np.roll(x, 2) * x) + np.sum(np.roll(x, (1, -1), axis=(0, 1)) ** 2 * x)


def products_with_zeros(x: Any) -> Any:
    return np.prod(x) + np.sum(np.prod(x, axis=0)) + np.sum(np.prod(x, axis=1) ** 2)


def cumulated(x: Any) -> Any:
    return np.sum(np.cumsum(x, axis=0) ** 2) + np.sum(np.cumprod(x, axis=1)) + np.cumsum(x)[-3] ** 3


def cumulated_products_with_zeros(x: Any) -> Any:
    return np.sum(np.cumprod(x) * np.arange(1, len(x) + 1))


def tied_choices(x: Any, y: Any) -> Any:
    return 2 * np.sum(np.maximum(x, y)) + 3 * np.sum(np.minimum(x, y) * np.arange(3))


def tied_extremes(x: Any) -> Any:
    return np.max(x) ** 2 + np.sum(np.min(x, axis=1))


def ranges(x: Any) -> Any:
    return np.ptp(x) + np.sum(x.max(0) - x.min(0)) * np.sum(np.sort(x, axis=None)[-3:])


def integrals(x: Any, y: Any) -> Any:
    return np.trapezoid(y, x) + np.sum(np.gradient(y) ** 2) + np.sum(np.diff(y, n=2) ** 2)


def integrated(y: Any) -> Any:
    """Simpson's rule."""
    return (y[0] + y[-1] + 4 * y[1:-1:2].sum() + 2 * y[2:-1:2].sum()) ** 2 / 3


def polynomial(coefficients: Any, x: Any) -> Any:
    total = np.zeros_like(x)
    for c in coefficients:
        total = total * x + c
    return np.sum(total**2) + np.sum(np.polyval(coefficients, x))


def vandermonde(x: Any, c: Any) -> Any:
    return np.sum((np.vander(x, 4) @ c) ** 2)


def joined(x: Any, y: Any) -> Any:
    a = np.concatenate([x, y[:, :2]], axis=1)
    b = np.stack([x, y[:, :2]], axis=-1)
    c = np.vstack([x, y.T[:2].T[::-1]])
    d = np.hstack([x[0], y[0]])
    return np.sum(a**2) + np.prod(b.sum(0)) + np.sum(np.tile(c, 2)[:, 1] ** 3) + np.sum(np.repeat(d, 2).reshape(2, -1).prod(0))


def split_apart(x: Any) -> Any:
    a, b, c = np.split(x, [2, 5])
    return a.sum() * b.sum() ** 2 + np.sum(np.array_split(x, 3)[1] ** 2) * c.sum()


def rearranged(x: Any) -> Any:
    y = np.moveaxis(x, 0, -1).reshape(x.shape[1], -1)
    z = np.swapaxes(x, 0, 2)[::-1, ..., None]
    return (
        np.sum(np.sin(y) * np.arange(y.shape[1])) + np.sum(np.flip(z, 0)[1] ** 2) + np.sum(np.rot90(x[0]) ** 3 * 2) + x.ravel()[3]
    )


def triangles(x: Any) -> Any:
    return np.sum(np.tril(x) @ np.triu(x, 1)) + np.sum(np.diag(np.diag(x)) ** 2) + np.trace(x, 1) * np.sum(np.diagonal(x, -1))


def grids(x: Any, y: Any) -> Any:
    a, b = np.meshgrid(x, y, indexing="ij")
    return np.sum(np.sin(a * b) + np.hypot(a, b) + np.arctan2(a, b))


def special_functions(x: Any) -> Any:
    return np.sum(
        np.log1p(np.expm1(x)) * np.arctan(x)
        + np.cbrt(x)
        + np.exp2(np.sinc(x))
        + np.sinh(x) / np.cosh(x)
        + np.arcsinh(x) * np.log2(x)
        + np.float_power(x, 1.5)
        + np.logaddexp2(x, 1)
        + np.log10(x) * np.reciprocal(x)
        + np.square(np.deg2rad(x))
    )


def powers(x: Any, y: Any) -> Any:
    return np.sum(x**y + x**-2 + 2.0**x + x**0.5 + np.power(y, 3) - x % 0.7 + (y // 0.3) * x)


def weighted(x: Any, weights: Any) -> Any:
    total = np.sum(weights)
    mean = np.sum(x * weights) / total
    return np.sum((x - mean) ** 2 * weights) / total + np.average(x)


def convolved(x: Any, kernel: Any) -> Any:
    return np.sum(np.convolve(x, kernel, mode="same") ** 2) + np.sum(np.convolve(x, kernel)[::2])


def scans_of_maxima(x: Any) -> Any:
    best = x[0]
    total = 0.0
    for value in x[1:]:
        best = np.maximum(best * 0.9, value)
        total = total + best**2
    return total


def numbers_with_nan(x: Any) -> Any:
    y = np.where(np.abs(x) < 0.5, np.nan, x)
    return np.nansum(y**2) + np.nanprod(y) + np.nancumsum(y)[3] * np.nan_to_num(y, nan=1.0).prod()


def places(rng: np.random.Generator) -> np.ndarray:
    return rng.integers(-5, 5, 7)


WITH_ZEROS = np.array([[1.5, 0.0, -2.0, 3.0], [0.5, 0.0, 0.0, 1.0], [2.0, -1.0, 0.7, 1.1]])
TIED = np.array([[1.0, 2.0, 2.0], [0.0, 0.0, 2.0]])

PROGRAMS = [
    Program(filled_in_place, lambda r: (r.normal(size=5),), written=filled_in_place_at),
    Program(recurrence_in_place, lambda r: (r.normal(size=5), r.normal()), (0, 1), written=recurrence_in_place_at),
    Program(view_written, lambda r: (r.normal(size=(3, 4)),), written=view_written_at),
    Program(
        histogram_of_weights,
        lambda r: (r.normal(size=6), np.array([0, 3, 3, -1, 0, 2])),
        written=histogram_of_weights_at,
    ),
    Program(scattered, lambda r: (spread(r, 8), spread(r, 3), np.array([6, -3, 0])), (0, 1), written=scattered_at),
    Program(masked, lambda r: (spread(r, 3, 4),)),
    Program(selected, lambda r: (spread(r, 9) * 1.1,)),
    Program(gathered, lambda r: (r.normal(size=5), places(r))),
    Program(gathered_by_pairs, lambda r: (r.normal(size=(3, 4)), r.integers(-3, 3, 5), r.integers(-4, 4, 5))),
    Program(taken_along, lambda r: (spread(r, 3, 4),)),
    Program(interpolated, lambda r: (r.normal(size=6), r.uniform(-1, 7, 8)), (0, 1)),
    Program(interpolated_bilinear, lambda r: (r.normal(size=(4, 5)), r.uniform(0, 3, 6), r.uniform(0, 4, 6)), (0, 1, 2)),
    Program(interpolated_by_numpy, lambda r: (r.uniform(-2.5, 3, 9), np.sort(spread(r, 6)), r.normal(size=6)), (0, 1, 2)),
    Program(padded, lambda r: (r.normal(size=(3, 4)),)),
    Program(rolled, lambda r: (r.normal(size=(3, 4)),)),
    Program(products_with_zeros, lambda r: (WITH_ZEROS,)),
    Program(cumulated, lambda r: (r.normal(size=(3, 4)),)),
    Program(cumulated_products_with_zeros, lambda r: (np.array([2.0, 3.0, 0.0, 1.5, 0.0, 2.0]),)),
    Program(tied_choices, lambda r: (np.array([1.0, 2.0, 3.0]), np.array([1.0, 3.0, 3.0])), (0, 1)),
    Program(tied_extremes, lambda r: (TIED,), has_differences=False),
    Program(ranges, lambda r: (spread(r, 3, 4),)),
    Program(integrals, lambda r: (np.sort(spread(r, 7)), r.normal(size=7)), (0, 1)),
    Program(integrated, lambda r: (r.normal(size=9),)),
    Program(polynomial, lambda r: (r.normal(size=4), r.normal(size=5)), (0, 1)),
    Program(vandermonde, lambda r: (r.normal(size=5), r.normal(size=4)), (0, 1)),
    Program(joined, lambda r: (r.normal(size=(3, 2)), r.normal(size=(3, 4))), (0, 1)),
    Program(split_apart, lambda r: (r.normal(size=9),)),
    Program(rearranged, lambda r: (r.normal(size=(2, 3, 4)),)),
    Program(triangles, lambda r: (r.normal(size=(4, 4)),)),
    Program(grids, lambda r: (r.normal(size=3), r.normal(size=4)), (0, 1)),
    Program(special_functions, lambda r: (positive(r, 5),)),
    Program(powers, lambda r: (positive(r, 6), positive(r, 6)), (0, 1)),
    Program(weighted, lambda r: (r.normal(size=6), positive(r, 6)), (0, 1)),
    Program(convolved, lambda r: (r.normal(size=7), r.normal(size=3)), (0, 1)),
    Program(scans_of_maxima, lambda r: (spread(r, 6),)),
    Program(numbers_with_nan, lambda r: (spread(r, 8),)),
]
