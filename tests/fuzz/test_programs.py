"""Random programs: what NumPy does, compiled code does. docs/fuzzing.md tells how to run it for long."""

from __future__ import annotations

from typing import Any

import pytest

import npcompile as npc
from tests.backends import BACKENDS
from tests.fuzz.generate import draw_program
from tests.fuzz.outcomes import Comparison, check_program, difference
from tests.fuzz.programs import Program
from tests.random_programs import check_examples

EXAMPLES = {"eager": 150, "cpu": 30, "cuda": 30}


@pytest.mark.parametrize("backend", BACKENDS)
def test_random_programs(backend: str) -> None:
    check_examples(draw_program, check_program, backend, EXAMPLES[backend])


@pytest.mark.parametrize("place", ["position", "global", "cell"])
@pytest.mark.parametrize(
    "body",
    [
        ("def later():", "    x[None] += 1", "    yield 0 - x", "return later()"),  # generators go on where they were left
        ("v = object()", "return {v: x, 1: v}, {v, len(x), record}"),  # keys and members that each run makes
    ],
)
def test_programs_that_are_compared_with_care(body: tuple[str, ...], place: str) -> None:
    arguments = ("x = laid_out((n, m), 'float64', 1 + round, 'fortran')",)
    program = Program(("x",), body, arguments, ((3, 4, 2), (2, 6, 3)), True, False, place=place)
    assert difference(program, "eager") is None


@pytest.mark.parametrize("text", ["y + np.absolute(y)", "y ** (y * 2j)"])
def test_what_complex_numbers_leave_where_they_cancel(text: str) -> None:
    """The last bits of both may be others than NumPy's."""
    arguments = ("y = laid_out((n, m), 'complex128', 2 + round, 'reversed')",)
    program = Program(("y",), (f"return {text}",), arguments, ((4, 4, 4), (3, 2, 4), (6, 1, 5)), True, False)
    assert difference(program, "cpu") is None


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [({1}, {2}), ({1: 0}, {2: 0}), ({1: 0}, {True: 0}), ({1, object()}, {1}), ({object()}, {1}), ({1: 0, 2: 0}, {2: 0, 1: 0})],
)
def test_differences_in_keys_and_members(ours: Any, theirs: Any) -> None:
    program = Program(("x",), ("return x",), ("x = laid_out((n,), 'float64', 1, '')",), ((3, 4, 2),), True, False)
    with pytest.raises(AssertionError):
        Comparison(program, False).same(ours, theirs)


def test_random_programs_have_numpys_bits() -> None:
    with npc.config.patch(accuracy="bitwise"):
        check_examples(draw_program, check_program, "cpu", EXAMPLES["cpu"] // 2)
