"""Calls of functions that NumPy writes in Python, with drawn keywords, compiled, on drawn dtypes and layouts, beside NumPy's own:

python -m tests.surface.keywords 2000 [eager|cpu] [with this seed]

Those functions are captured by their source, so there is no captured form whose parameters `tests.shim.keywords` could draw.
"""

from __future__ import annotations

import random
import re
import sys

from tests.surface.through_compiler import DTYPES, LAYOUTS, UNDEFINED, Case, failures

# What a hole in a call may be, and what may be left out: `<, axis={axis}>`.
OPTIONS = {
    "axis": "0 | 1 | -1 | None | (0, 1) | () | 2",
    "one": "0 | 1 | -1 | None | 2",
    "flag": "True | False",
    "value": "0 | 1.5 | -1 | np.inf | y | x[0] | [1, 2] | 1j | np.zeros(0) | 2**40",
    "index": "1 | [0, 2] | slice(0, 2) | -1 | np.array([1]) | [1, 1] | slice(None, None, 2) | [] | 9",
    "bins": "10 | 4 | [0, 1, 2] | np.array([-2.0, 0.0, 1.0, 5.0]) | 'auto' | 'fd' | 'sqrt' | 1 | 0 | [2, 1]",
    "range": "(0, 2) | (-1.5, 3) | None | (0, 0) | (1, 0)",
    "weights": "w | None | np.ones(v.shape) | w > 1",
    "q": "0.3 | [0.1, 0.5] | 0 | 1 | np.array([[0.25, 0.75]]) | 1.01",
    "method": "'linear' | 'lower' | 'higher' | 'midpoint' | 'nearest' | 'inverted_cdf' | 'closest_observation' | 'hazen'",
    "pad": "'constant' | 'edge' | 'linear_ramp' | 'maximum' | 'mean' | 'median' | 'reflect' | 'symmetric' | 'wrap'",
    "width": "1 | (1, 2) | ((1, 2), (0, 1)) | 0 | 5 | [1, 0] | {-1: 1}",
    "ord": "None | 2 | -2 | 1 | -1 | np.inf | 'fro' | 'nuc' | 0 | 3",
    "length": "None | 2 | 5 | 8 | 1 | 0",
    "norm": "None | 'ortho' | 'forward' | 'backward'",
    "shift": "0 | 1 | -1 | 2 | -5",
    "dtype": "'f' | 'd' | int | complex | bool | 'e' | 'u1'",
    "ddof": "0 | 1 | 0.5 | 10",
    "shape": "(2, -1) | -1 | x.size | (-1, 1) | (0, -1) | ()",
}
CALLS = """
np.average(x<, axis={axis}><, weights=np.abs(y)><, returned={flag}><, keepdims={flag}>)
np.cov(x<, ddof={ddof}><, rowvar={flag}><, bias={flag}>) ; np.cov(v, w<, aweights=np.abs(w)>) ; np.corrcoef(x<, rowvar={flag}>)
np.var(x<, axis={axis}><, ddof={ddof}><, keepdims={flag}>) ; np.std(x<, axis={axis}><, correction={ddof}><, dtype={dtype}>)
np.median(x<, axis={axis}><, keepdims={flag}><, overwrite_input={flag}>) ; np.quantile(x, {q}<, axis={axis}><, method={method}>)
np.quantile(v, {q}, method={method}<, keepdims={flag}>) ; np.nanquantile(x, {q}<, axis={one}><, method={method}>)
np.nanmax(x<, axis={axis}><, keepdims={flag}>) ; np.nanmean(x<, axis={axis}><, dtype={dtype}>) ; np.nanargmin(x<, axis={one}>)
np.nanvar(x<, axis={axis}><, ddof={ddof}><, keepdims={flag}>) ; np.nanmedian(x<, axis={axis}><, keepdims={flag}>)
np.histogram(v<, bins={bins}><, range={range}><, density={flag}><, weights={weights}>)
np.histogram_bin_edges(v<, bins={bins}><, range={range}>) ; np.histogram2d(v, w<, bins=(2, 3)><, density={flag}>)
np.histogramdd((v, w)<, bins={bins}><, density={flag}>) ; np.bincount(k<, weights={weights}><, minlength=9>)
np.unique(x<, axis={one}><, return_index={flag}><, return_inverse={flag}><, return_counts={flag}><, equal_nan={flag}>)
np.intersect1d(v, w<, return_indices={flag}>) ; np.isin(x, v<, invert={flag}><, assume_unique={flag}>) ; np.setxor1d(v, w)
np.pad(x, {width}<, mode={pad}>) ; np.pad(v, {width}, mode={pad}) ; np.pad(v, 2, 'linear_ramp', end_values={value})
np.pad(v, 3, 'reflect', reflect_type='odd') ; np.insert(x, {index}, {value}<, axis={one}>) ; np.delete(x, {index}<, axis={one}>)
np.append(x, {value}<, axis={one}>) ; np.resize(x, {shape}) ; np.tile(x, {shape}) ; np.roll(x, {shift}<, axis={axis}>)
np.diff(x<, n=2><, axis={one}><, prepend={value}>) ; np.gradient(x<, 2.0><, axis={axis}><, edge_order=2>)
np.trapezoid(x<, dx=0.5><, axis={one}>) ; np.interp(v, np.sort(w), w<, left={value}><, period=2.5>)
np.unwrap(x<, axis={one}><, discont=1>) ; np.kron(x, v) ; np.cross(x[:, :3], y[:, :3]<, axis={one}>)
np.take_along_axis(x, i % 3, axis={one}) ; np.put_along_axis(x, i % 3, {value}, axis={one}) ; np.fill_diagonal(x, {value})
np.select([v > 1, b], [v, {value}]<, 7>) ; np.piecewise(v, [v > 1, b], [1, 2.5]) ; np.nan_to_num(x<, nan={value}><, copy={flag}>)
np.isclose(x, y<, rtol=0.5><, equal_nan={flag}>) ; np.array_equal(x, x<, equal_nan={flag}>) ; np.real_if_close(x) ; np.sinc(x)
np.linspace(v, w, 3<, axis=-1><, endpoint={flag}><, dtype={dtype}>) ; np.geomspace(1, 8, 4<, endpoint={flag}>)
np.full_like(x, {value}<, dtype={dtype}>) ; np.stack((x, y)<, axis={one}>) ; np.block([[x, y], [y, x]]) ; np.rot90(x<, {shift}>)
np.apply_over_axes(np.sum, c, {axis}) ; np.polyfit(v, w, 1<, full={flag}>) ; np.vander(v<, 3><, increasing={flag}>)
np.linalg.norm(x<, {ord}><, axis={axis}><, keepdims={flag}>) ; np.linalg.vector_norm(x<, axis={axis}><, ord={ord}>)
np.linalg.matrix_norm(c<, ord={ord}><, keepdims={flag}>) ; np.linalg.cond(s<, {ord}>) ; np.linalg.matrix_power(a, {shift})
np.linalg.matrix_rank(a<, tol=1.0>) ; np.linalg.trace(c<, offset={shift}><, dtype={dtype}>)
np.fft.fft(x<, n={length}><, axis={one}><, norm={norm}>) ; np.fft.rfft(x<, n={length}><, norm={norm}>)
np.fft.irfft(x<, n={length}><, axis={one}><, norm={norm}>) ; np.fft.fft2(c<, s=(2, 3)><, norm={norm}>)
np.fft.hfft(v<, n={length}>) ; np.fft.fftn(c<, axes=(0, 1)>) ; np.fft.fftshift(x<, axes={axis}>)
np.lib.stride_tricks.sliding_window_view(x, 2, axis={one})
"""
TEMPLATES = [t.strip() for line in CALLS.splitlines() for t in line.split(" ; ") if t.strip()]


def drawn_call(template: str, draw: random.Random) -> str:
    kept = re.sub(r"<([^>]*)>(?!=)", lambda m: m[1] if draw.random() < 0.5 else "", template)
    return re.sub(r"\{(\w+)\}", lambda m: draw.choice(OPTIONS[m[1]].split(" | ")), kept)


def drawn(number: int, seed: int | str = 0) -> list[Case]:
    """So many cases: each call on two dtypes, in two layouts."""
    draw, found = random.Random(seed), []
    while len(found) < number:
        call = drawn_call(TEMPLATES[len(found) // 2 % len(TEMPLATES)], draw)
        kinds = [(draw.choice(list(DTYPES)), draw.choice(["C", *LAYOUTS])) for _ in range(2)]
        found += [Case(call, *kind) for kind in kinds if kind != UNDEFINED[1:]]
    return found


def main() -> None:
    number, backend, seed = [*sys.argv[1:], *["1000", "eager", "0"][len(sys.argv) - 1 :]]
    found = 0
    for case, error in failures(drawn(int(number), seed), backend):
        found += 1
        print(case, "|", type(error).__name__, str(error)[:300].replace("\n", " "), flush=True)
    print(f"{found} of {number} differ")


if __name__ == "__main__":
    main()
