"""Arguments of another call: arrays of other types, layouts and lengths, special numbers, one array twice, other numbers."""

from __future__ import annotations

import random
import warnings
from typing import Any

import numpy as np

DTYPES = ("f8", "f4", "i8", "i4", "u1", "?", "i2", "u8", "f2", "c16", ">f8")
SPECIAL = (np.nan, np.inf, -np.inf, -0.0, 0.0)
NUMBERS = (np.float32(1.5), np.int8(5), np.uint64(3), np.float64(2.5), True, False, 0, -1, 1, 2.0, np.nan, 1j)
NO_NUMBERS = (None, "text", np.array(3), np.array([1, 2]))


def varied(draw: random.Random, values: tuple[Any, ...]) -> tuple[Any, ...]:
    """The arguments, one or two of which are others."""
    found = [*values]
    for k in draw.sample(range(len(values)), draw.randint(1, min(2, len(values)))):
        if isinstance(values[k], np.ndarray):
            found[k] = another_array(draw, values[k], values)
        elif isinstance(values[k], int | float | np.number):
            found[k] = draw.choice((*NUMBERS, *NO_NUMBERS))
        else:
            found[k] = draw.choice((None, "text", {}, *NO_NUMBERS))
    return tuple(found)


def another_array(draw: random.Random, given: np.ndarray, values: tuple[Any, ...]) -> np.ndarray:
    alike = [v for v in values if isinstance(v, np.ndarray) and v.shape == given.shape]
    return draw.choice((of_another_type, of_another_layout, with_special_numbers, lambda *_: draw.choice(alike)))(draw, given)


def of_another_type(draw: random.Random, given: np.ndarray) -> np.ndarray:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return given.astype(draw.choice(DTYPES))


def of_another_layout(draw: random.Random, given: np.ndarray) -> np.ndarray:
    shorter, read_only, wide = given[draw.randint(0, 20) :].copy(), given.copy(), np.repeat(given, 2, axis=-1)[..., ::2]
    read_only.flags.writeable = False
    return draw.choice((shorter, read_only, wide, np.asfortranarray(given), given[::-1].copy()[::-1]))


def with_special_numbers(draw: random.Random, given: np.ndarray) -> np.ndarray:
    made = given.copy()
    limits = (np.iinfo(given.dtype).min, np.iinfo(given.dtype).max) if given.dtype.kind in "iu" else ()
    for _ in range(3 if made.size else 0):
        made.flat[draw.randrange(made.size)] = draw.choice(SPECIAL if given.dtype.kind in "fc" else limits or (False, True))
    return made
