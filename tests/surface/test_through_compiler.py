"""Calls of the surface on arrays of every dtype and layout, compiled: a sample of what `python -m
tests.surface.through_compiler` runs in full, drawn with a fixed seed."""

from __future__ import annotations

import pytest

import npcompile as npc
from tests.surface import keywords
from tests.surface.through_compiler import SEED, drawn, failures

SAMPLES = [("eager", 300, SEED + k) for k in range(4)] + [("cpu", 40, SEED)]


@pytest.mark.parametrize(("backend", "number", "seed"), SAMPLES)
def test_calls_are_numpys_on_each_dtype_and_layout(backend: str, number: int, seed: int) -> None:
    found = [f"{case}: {error!r}" for case, error in failures(drawn(number, seed), backend)]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(("backend", "number"), [("eager", 400), ("cpu", 30)])
def test_calls_have_numpys_bits(backend: str, number: int) -> None:
    with npc.config.patch(accuracy="bitwise"):
        found = [f"{case}: {error!r}" for case, error in failures(drawn(number, SEED + 9), backend)]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(("backend", "number"), [("eager", 400), ("cpu", 20)])
def test_drawn_keywords_of_functions_written_in_python(backend: str, number: int) -> None:
    found = [f"{case}: {error!r}" for case, error in failures(keywords.drawn(number), backend)]
    assert not found, "\n".join(found)
