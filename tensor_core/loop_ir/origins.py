"""Which arrays a value may be, among those that a part of a program is given or makes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from npcompile.tensor_core.loop_ir.activity import handed_on
from npcompile.tensor_core.loop_ir.forms import walk
from npcompile.tensor_core.loop_ir.ops import Op, View


@dataclass(frozen=True, slots=True)
class Origins:
    givers: dict[int, list[int]]  # value -> those whose memory it may have

    @classmethod
    def of(cls, region: Sequence[Op]) -> Origins:
        """In ops of a structured program. A value that they neither hand on nor make a view of is its own origin."""
        givers: dict[int, list[int]] = {}
        ops = walk(list(region))
        for given, taken in handed_on(ops):
            givers.setdefault(taken, []).append(given)
        for op in ops:
            if isinstance(op, View):
                givers.setdefault(op.result, []).append(op.array)
        return cls(givers)

    def origins(self, value: int) -> list[int]:
        """All that it may be, each once."""
        found: dict[int, None] = {}
        seen, pending = {value}, [value]
        while pending:
            each = pending.pop()
            if each not in self.givers:
                found[each] = None
            for giver in self.givers.get(each, ()):
                if giver not in seen:
                    seen.add(giver)
                    pending.append(giver)
        return list(found)
