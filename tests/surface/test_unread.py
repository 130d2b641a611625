"""A few of the programs that `python -m tests.surface.unread` draws."""

import pytest

from tests.surface.unread import differences


@pytest.mark.parametrize("backend, number", [("eager", 60), ("cpu", 15)])
def test_programs_that_read_a_part_of_what_they_compute(backend, number):
    assert not list(differences(number, backend, "sample"))
