"""The numbers that functions are tried at: everywhere, and densely where functions are hard to compute."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from mpmath import MPContext

SPECIAL = [0.0, np.inf, np.nan, 1.0, 0.5, 2.0, 3.0, 0.25, 1.5, 10.0, 1e-3, 1e3, np.pi]
# Where results overflow, become subnormal, or zero: exp, exp2, sinh and cosh of float16, float32, float64; powers of ten.
EDGES = [
    np.log(x) for x in (65504.0, 6.1e-5, 5.96e-8 / 2, 3.4028235e38, 1.1754944e-38, 7e-46, 1.797e308, 2.2250738585e-308, 2.5e-324)
]
EDGES += [-x for x in EDGES] + [
    np.log(2 * 65504.0),
    np.log(2 * 3.4028235e38),
    710.4758600739439,
    37.0,
    36.7,
    18.0,
    17.3,
    22.0,
    9.0,
]
EDGES += [16.0, -14.0, -24.0, -25.0, 128.0, -126.0, -149.0, -150.0, 1024.0, -1022.0, -1074.0, -1075.0]
INTERVALS = [(-1, 1), (-2, 2), (-10, 10), (-90, 90), (-750, 750), (0.5, 1.5), (0.9, 1.1), (-0.3, 0.3), (-1e5, 1e5), (-1e-3, 1e-3)]


def specials(dtype: np.dtype) -> np.ndarray:
    """Zeros, infinities, NaN, the ends of the dtype's range, and numbers at which many functions are exact; of both signs."""
    about = np.finfo(dtype)
    ends = [about.max, about.tiny, about.smallest_subnormal, about.eps, 1 + about.eps, 1 - about.epsneg, about.tiny * 0.75]
    with np.errstate(all="ignore"):
        found = np.array([*SPECIAL, *ends], np.float64).astype(dtype)
    return np.concatenate([found, -found])


def neighbours(x: np.ndarray, steps: int = 3) -> np.ndarray:
    """Each number with the next ones below and above it."""
    found, low, high = [x], x, x
    for _ in range(steps):
        low, high = np.nextafter(low, x.dtype.type(-np.inf)), np.nextafter(high, x.dtype.type(np.inf))
        found += [low, high]
    return np.concatenate(found)


@lru_cache
def near_turns() -> np.ndarray:
    """The float64 nearest to multiples of pi/2, of many exponents: from the convergents of 2^k/(pi/2)."""
    mp = MPContext()
    mp.prec = 1300
    found = []
    for exponent in range(-14, 971, 11):
        rest, denominators = mp.ldexp(1, exponent) / (mp.pi / 2), (1, 0)
        while denominators[1] < 2**53:
            if denominators[1] > 2**40:  # of smaller ones the multiples are near too, but not as near
                found.append(math.ldexp(denominators[1], exponent))
            whole = int(mp.floor(rest))
            denominators = (denominators[1], whole * denominators[1] + denominators[0])
            rest = 1 / (rest - whole)
    return np.array([*found, 6381956970095103 * 2.0**797])


def real_numbers(dtype: np.dtype, rng: np.random.Generator, count: int) -> np.ndarray:
    """About `count` finite numbers of a real dtype."""
    about = np.finfo(dtype)
    n = max(count // 24, 8)
    with np.errstate(all="ignore"):
        every_exponent = np.ldexp(rng.uniform(1, 2, 5 * n), rng.integers(about.minexp, about.maxexp, 5 * n)).astype(dtype)
        near_one = (1 + np.ldexp(rng.uniform(-2, 2, 2 * n), rng.integers(-about.nmant - 1, -1, 2 * n))).astype(dtype)
        subnormal = (rng.integers(1, 2**about.nmant, n) * np.float64(about.smallest_subnormal)).astype(dtype)
        turns = np.concatenate([np.arange(1, n // 8 + 1), rng.integers(1, 1_000_000, n // 8), 2 ** rng.integers(20, 50, n // 8)])
        turns = neighbours((turns * (np.pi / 2)).astype(dtype))
        edges = neighbours(np.array(EDGES, np.float64).astype(dtype), 2)
        whole = np.concatenate([np.arange(0.5, 40, 0.5), 10.0 ** np.arange(-20, 39), 2.0 ** np.arange(-30, 31)]).astype(dtype)
        whole = rng.permutation(neighbours(whole, 1))[: 2 * n]
        inside = np.concatenate([rng.uniform(low, high, n) for low, high in INTERVALS]).astype(dtype)
        found = np.concatenate([every_exponent, near_one, subnormal, turns, edges, whole])
        found = np.concatenate([found * rng.choice([1, -1], len(found)).astype(dtype), inside, specials(dtype)])
    return rng.permutation(found[np.isfinite(found)])


def every_float16() -> np.ndarray:
    return np.arange(2**16, dtype=np.uint16).view(np.float16)


def pairs(name: str, dtype: np.dtype, rng: np.random.Generator, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Operands of a function of two numbers: any with any, those near each other, and what is hard for the function."""
    x, y = (rng.choice(real_numbers(dtype, rng, count), count) for _ in range(2))
    with np.errstate(all="ignore"):
        near = (x * (1 + rng.uniform(-0.5, 0.5, count))).astype(dtype)
        match name:
            case "power" | "float_power":
                base = np.abs(rng.choice(real_numbers(dtype, rng, count), count))
                # Exponents with which the result fills the range, and small whole numbers.
                largest = np.abs(np.finfo(dtype).maxexp / np.log2(base.astype(np.longdouble)))
                filling = (largest * rng.uniform(-1.05, 1.05, count)).astype(dtype)
                whole = rng.integers(-8, 9, count).astype(dtype)
                more = [(base, filling), (x, whole), (base, np.abs(whole) / 2)]
            case "logaddexp" | "logaddexp2":
                log = np.log if name == "logaddexp" else np.log2
                share = rng.uniform(0, 1, count)
                # Numbers whose exponentials add up to nearly one: the result is nearly zero. And both terms of one size.
                low = rng.uniform(-60, 0, count).astype(dtype)
                small = (
                    np.exp(low.astype(np.float64) * np.log(2.0 if log is np.log2 else np.e)) * rng.uniform(-2, 2, count)
                ).astype(dtype)
                more = [(log(share).astype(dtype), log(1 - share).astype(dtype)), (x, near), (small, low)]
            case _:
                more = [(x, near), (near, x)]
        first, second = (np.concatenate(part) for part in zip((x, y), *more))
    keep = rng.permutation(np.flatnonzero(np.isfinite(first) & np.isfinite(second)))[:count]
    return first[keep], second[keep]


def complex_numbers(dtype: np.dtype, rng: np.random.Generator, count: int) -> np.ndarray:
    """Parts are not zero: on a branch cut, the sign of a zero says which side is meant, and mpmath has none."""
    part = np.empty(0, dtype).real.dtype
    re, im = (rng.choice(real_numbers(part, rng, count), count) for _ in range(2))
    angle, size = (
        rng.uniform(-np.pi, np.pi, count),
        1 + rng.choice([0, 1e-12, 1e-6, 1e-3, 0.3], count) * rng.uniform(-1, 1, count),
    )
    ordinary = rng.uniform(-9, 9, (2, count))
    found = np.concatenate([re + 1j * im.astype(dtype), size * np.exp(1j * angle), ordinary[0] + 1j * ordinary[1]]).astype(dtype)
    found = found[np.isfinite(found) & (found.real != 0) & (found.imag != 0)]
    return rng.permutation(found)[:count]


def complex_powers(dtype: np.dtype, rng: np.random.Generator, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Any with any; exponents with which the result fills the range, or has an angle of many turns; and small whole exponents."""
    z, w = (complex_numbers(dtype, rng, count) for _ in range(2))
    turns = 10.0 ** rng.uniform(-3, np.log10(np.finfo(dtype).max), count)
    with np.errstate(all="ignore"):
        largest = np.log(np.finfo(dtype).max) * rng.uniform(-1, 1, count)
        logarithms = np.log(z.astype(np.clongdouble))
        filling = ((largest + 1j * rng.normal(size=count) * 30) / logarithms).astype(dtype)
        far = ((largest + 1j * np.minimum(turns, 1e9)) / logarithms).astype(dtype)
    whole = rng.integers(-99, 100, count).astype(dtype)
    base = rng.permutation(np.abs(z)) + np.zeros(count, dtype)
    of_a_real_number = (rng.uniform(-1, 1, count) + 1j * turns).astype(dtype)
    found = [(z, w), (z, filling), (z, far), (z, whole), (base, of_a_real_number)]
    first, second = (np.concatenate(part) for part in zip(*found))
    keep = rng.permutation(np.flatnonzero(np.isfinite(first) & np.isfinite(second) & (first != 0)))[:count]
    return first[keep], second[keep]


def operands(name: str, dtype: np.dtype, rng: np.random.Generator, count: int) -> tuple[np.ndarray, ...]:
    """What the ufunc is measured at: every number of float16, else about `count`."""
    nin = getattr(np, name).nin
    if name in ("power", "float_power") and dtype.kind == "c":
        return complex_powers(dtype, rng, count)
    if dtype.kind == "c":
        return tuple(complex_numbers(dtype, rng, count) for _ in range(nin))
    if nin == 2:
        return pairs(name, dtype, rng, count)
    if dtype == np.float64:
        return (np.concatenate([real_numbers(dtype, rng, count), near_turns(), -near_turns()]),)
    return (every_float16() if dtype == np.float16 else real_numbers(dtype, rng, count),)
