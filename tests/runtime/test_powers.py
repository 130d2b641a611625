"""The tables of squares by logarithms, computed anew from what powers.c says they are."""

from __future__ import annotations

import re
import struct
from decimal import Decimal, localcontext

import pytest

from npcompile.backends.cpu.runtime import FOLDER

SOURCE = (FOLDER / "powers.c").read_text()


def table(name: str) -> list[tuple[str, ...]]:
    text = re.search(rf"}} {name}\[LOGARITHMS\] = {{(.*?)\n}};", SOURCE, re.S)
    assert text is not None
    return [tuple(row.split(", ")) for row in re.findall(r"\{([^{}]*)\}", text[1])]


def number_of(bits: int) -> float:
    return struct.unpack("<d", struct.pack("<Q", bits))[0]


@pytest.fixture(autouse=True)
def places():
    with localcontext() as context:
        context.prec = 50
        yield


def test_logarithms():
    rows = table("logarithms")
    assert len(rows) == 128
    first = int(re.search(r"#define FROM (0x\w+)", SOURCE)[1], 16)
    for part, row in enumerate(rows):
        inverse, log, rest = map(float.fromhex, row)
        low, high = (number_of(first + (k << 45)) for k in (part, part + 1))
        assert inverse * 256 == int(inverse * 256)
        assert max(abs(low * inverse - 1), abs(high * inverse - 1)) < 1 / 128
        exact = -Decimal(inverse).ln()
        assert Decimal(log) == (exact * 2**43).to_integral_value() / 2**43
        assert rest == float(exact - Decimal(log))


def test_powers():
    rows = table("powers")
    assert len(rows) == 128
    for k, (rest, bits) in enumerate(rows):
        exact = (Decimal(2).ln() * k / 128).exp()
        nearest = number_of(int(bits, 16) + (k << 45))
        assert nearest == float(exact)
        assert float.fromhex(rest) == float(exact / Decimal(nearest) - 1)
