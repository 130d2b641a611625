"""What is here is about passes of the compiler of text, also for functions that the loop IR takes from it."""

from collections.abc import Iterator

import pytest

from tests.native_loops.agreement import without_loop_ir


@pytest.fixture(autouse=True)
def as_text() -> Iterator[None]:
    with without_loop_ir():
        yield
