"""Two programs serve all sizes of one dimension, 0 and 1 apart: a part of the calls that `python -m tests.surface.streams`
makes, and all of those that need more, which may only become fewer."""

from __future__ import annotations

import pytest

from tests.surface.streams import calls, count

SHARE = 20  # of the calls one in so many, which are others for each remainder
NEED_MORE = {
    "np.cross(x[:, :3], y[:, :3])": "vectors of two elements are NumPy's branch, which warns",
    'np.pad(v, (1, 2), mode="reflect")': "NumPy's loop goes around as often as the axis is shorter than what is added",
}
CALLS = sorted({call for call in calls() if call[0] not in NEED_MORE})


@pytest.mark.parametrize("remainder", (0, 7, 14))
def test_two_programs_serve_all_sizes(remainder: int) -> None:
    more = {call: number for call in CALLS[remainder::SHARE] if (number := count(*call)) > 2}
    assert not more


@pytest.mark.parametrize("expression", NEED_MORE)
def test_three_programs_where_numpy_branches(expression: str) -> None:
    assert all(count(e, stream) <= 3 for e, stream in calls() if e == expression)
