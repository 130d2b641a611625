"""Which regions together are all of an array, against the elements themselves."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from npcompile.backends.kernels.demanded_regions import Range, are_all
from npcompile.tensor_core.dim import ShapeEnv


@st.composite
def regions(draw):
    shape = tuple(draw(st.lists(st.integers(0, 4), min_size=1, max_size=3)))
    drawn = draw(st.lists(st.tuples(*(st.slices(n) for n in shape)), max_size=5))
    return shape, [tuple(slice(*s.indices(n)) for s, n in zip(each, shape)) for each in drawn]


@given(regions())
def test_regions_that_are_all_of_an_array(drawn) -> None:
    shape, keys = drawn
    covered = np.zeros(shape, bool)
    for key in keys:  # as in a graph: a slice that goes back to the first element ends at -1
        covered[np.ix_(*(range(s.start, s.stop, s.step) for s in key))] = True
    found = [tuple(Range(s.start, s.step, len(range(s.start, s.stop, s.step))) for s in key) for key in keys]
    assert are_all(found, shape) == covered.all()


def test_regions_of_sizes_that_are_not_known() -> None:
    env = ShapeEnv()
    n = env.symbol("n", 10, at_least=2)
    first, second, last = Range(0, 1, n - 1), Range(1, 1, n - 1), Range(n - 1, -1, n)
    assert are_all([(first,), (second,)], (n,)) and are_all([(last,)], (n,))
    assert not are_all([(first,)], (n,)) and not are_all([(Range(0, n, n),)], (n,)) and not are_all([(Range(0, 1, 10),)], (n,))
    m = env.symbol("m", 10, at_least=3)
    parts = [(Range(1, 1, m - 2),), (Range(0, 1, 1),), (Range(m - 1, 1, 1),)]
    assert are_all(parts, (m,)) and not are_all(parts[:2], (m,))
    assert not env.guards
