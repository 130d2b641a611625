"""`flags` of a NumPy scalar, read in a graph, after a break, and handed out."""

from __future__ import annotations

import numpy as np
import pytest

import npcompile as npc


def read(x):
    return x.flags.owndata, x.flags.writeable, x.flags["C"], x.flags.num


def read_later(x):
    flags = x.flags
    npc.graph_break()
    return flags.owndata, x + 1


def of_a_loop(x):
    s = x * 0.0
    for k in range(40):
        s += k * 1.1
    return s.flags.owndata, s.flags.writeable


def handed_out(x):
    return type(x.flags), repr(x.flags)


@pytest.mark.parametrize("program", (read, read_later, of_a_loop, handed_out), ids=lambda f: f.__name__)
@pytest.mark.parametrize("x", (np.float64(3), np.int32(2), np.complex64(1j), np.array(3.0)), ids=repr)
def test_they_are_numpys(program, x):
    compiled = npc.compile(program, backend="eager")
    for _ in range(2):
        assert compiled(x) == program(x)
