"""No program that went through the loop IR is refused now."""

from __future__ import annotations

import json

from tests.loop_ir.share import FILE, TAKEN, answers


def test_what_was_taken_is_taken() -> None:
    found = answers()
    stored = json.loads(FILE.read_text())
    assert stored.keys() == found.keys()
    lost = {
        (way, name): found[way].get(name, "no such program")
        for way, shares in stored.items()
        for name in shares["taken"]
        if found[way].get(name) != TAKEN
    }
    assert not lost, "`python -m tests.loop_ir.share` tells more"
