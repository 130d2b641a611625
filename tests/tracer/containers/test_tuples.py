"""Operations on tuples that give the tuple itself, as CPython's do."""

from collections import namedtuple

import numpy as np
import pytest

import npcompile as npc
from tests.backends import HOST_BACKENDS

Pair = namedtuple("Pair", "a b")


def parts(x, t):
    return x + 1, t[:], t[0:], t[::1], t[:1], t[::-1], t + (), () + t, t * 1, 1 * t, t * 0, tuple(t), list(t)


@pytest.mark.parametrize("backend", HOST_BACKENDS)
@pytest.mark.parametrize("given", [(), (1.0,), (1.0, 2.0), (1.0, 1.0), [1.0], Pair(1.0, 2.0)], ids=repr)
def test_the_same_object(backend, given):
    x = np.ones(3)
    if isinstance(given, list):

        def function(x, t):
            return x + 1, t[:], t + [], [] + t, t * 1, tuple(t), list(t)
    else:
        function = parts
    compiled = npc.compile(function, backend=backend)
    with npc.config.patch(tiers="always"):
        for _ in range(2):
            theirs, ours = function(x, given), compiled(x, given)
            assert theirs[1:] == ours[1:] and list(map(type, theirs)) == list(map(type, ours))
            assert [each is given for each in ours] == [each is given for each in theirs]
