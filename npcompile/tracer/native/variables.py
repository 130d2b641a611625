"""Which variables of a loop an iteration sets, and which it reads as another one has left them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from npcompile.tracer.bytecode.analysis import CodeFacts


@dataclass(frozen=True, slots=True)
class Variables:
    """What a loop does to local variables."""

    stored: frozenset[str]
    once: frozenset[str]  # set by one instruction only
    carried: frozenset[str]  # that an iteration reads as another one has set them, or the code behind as not the last one has
    has_results: bool  # does the code after the loop read any?

    @classmethod
    def of(cls, facts: CodeFacts, header: int, region: frozenset[int]) -> Variables:
        counts: dict[str, int] = {}
        for k in region:
            for access in facts.effects[k].accesses:
                if access.kind != "read":
                    counts[facts.slots[access.slot]] = counts.get(facts.slots[access.slot], 0) + 1
        stored = frozenset(counts)
        read = read_first(facts, header, region)
        behind = (facts.live[header] - read) & stored
        carried = (read & stored) | (behind - set_always(facts, header, region))
        return cls(stored, frozenset(n for n, count in counts.items() if count == 1), carried, bool(behind))


def inner_successors(facts: CodeFacts, k: int, header: int, region: frozenset[int]) -> list[int]:
    return [s for s in facts.successors[k] if s in region and s != header]


def read_first(facts: CodeFacts, header: int, region: frozenset[int]) -> frozenset[str]:
    """Variables that an iteration may read before it sets them."""
    live: dict[int, frozenset[str]] = {k: frozenset() for k in region}
    changed = True
    while changed:
        changed = False
        for k in sorted(region, reverse=True):
            names = frozenset[str]().union(*(live[s] for s in inner_successors(facts, k, header, region)))
            for access in reversed(facts.effects[k].accesses):
                name = facts.slots[access.slot]
                names = names | {name} if access.kind in ("read", "take") else names - {name}
            changed |= names != live[k]
            live[k] = names
    return live[header]


def set_always(
    facts: CodeFacts, header: int, region: frozenset[int], inside: Mapping[int, frozenset[str]] | None = None
) -> frozenset[str]:
    """Variables that every iteration sets before the next begins. `inside`: headers of loops, and what these set in any case."""
    every = frozenset(facts.slots)
    before: dict[int, frozenset[str]] = dict.fromkeys(region, every) | {header: frozenset()}
    ends: dict[int, frozenset[str]] = {}
    changed = True
    while changed:
        changed = False
        for k in sorted(region):
            names = before[k] | {facts.slots[a.slot] for a in facts.effects[k].accesses if a.kind == "write"}
            names |= (inside or {}).get(k, frozenset())
            for s in facts.successors[k]:
                if s == header:
                    ends[k] = names
                elif s in region and not before[s] <= names:
                    before[s] &= names
                    changed = True
    return every.intersection(*ends.values()) if ends else frozenset()
