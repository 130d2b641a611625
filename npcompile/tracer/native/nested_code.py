"""Code of another function that is written where a native program calls it, with blocks and variables of its own.

Nothing in it may have effects: what it cannot do leaves the program before the call, and Python does all of it.
"""

from __future__ import annotations

import types
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

from npcompile.backends.cpu.loops.scalar_loops import Fail, NoForm
from npcompile.tracer.bytecode.analysis import analyse
from npcompile.tracer.bytecode.decode import decode
from npcompile.tracer.native.blocks import Blocks
from npcompile.tracer.native.states import Placing, State, is_attribute, key_of, still_needed

MOST_DEPTH = 3


def never() -> str:
    raise AssertionError


@dataclass(slots=True)
class NestedCode(Blocks):
    """Such code, while it is written."""

    name: ClassVar[str]  # what it is, for people
    outer: Blocks | None = None
    following: int = -1  # the outer code's next instruction
    base: State = field(default_factory=lambda: State([], {}))  # the outer code's, without the call
    left: Fail = never  # the exit before the call

    @classmethod
    def within(cls, b: Blocks, code: types.CodeType, following: int, fail: Fail, **own: Any) -> Self:
        """In the middle of other code, which goes on at `following`. NoForm where it cannot be there."""
        if any(map(is_attribute, b.state.locals)):
            raise NoForm(f"{cls.name} beside attributes that were set")
        if b.calls or len(b.suffix) > 6 * MOST_DEPTH:
            raise NoForm(f"{cls.name} in a function that is called, or in other such code")
        facts = analyse(code)
        shared: dict[str, Any] = {
            "globals": b.globals,
            "globals_source": b.globals_source,
            "exits": b.exits,
            "realized": b.realized,
            "inputs": b.inputs,
            "arrays": b.arrays,
            "objects": b.objects,
            "contents": b.contents,
            "attributes": b.attributes,
        }
        return cls(
            decode(code),
            facts,
            header=facts.start,
            guard=b.guard,
            object_of=b.object_of,
            code=b.code,
            site=f"{b.site}w{b.code.instruction}",
            suffix=f"{b.suffix}w{b.code.new_site()}",
            outer=b,
            following=following,
            base=b.state.copy(),
            left=fail,
            **shared | own,
        )

    def write_from(self, state: State) -> None:
        """Write it, entered at its start, and what follows. NoForm where it cannot be, with all as it was before."""
        b, code = self.outer, self.code
        assert b is not None
        written, loop = len(code.lines), code.loop
        saved = b.labels.copy(), b.pending.copy(), b.origins.copy(), b.came_back.copy(), b.state.copy()
        self.state = state
        try:
            code.settle()
            self.go(self.facts.start)
            self.write_pending()
        except NoForm as reason:
            del code.lines[written:]
            code.computed.clear()
            b.labels, b.pending, b.origins, b.came_back, b.state = saved
            code.loop = loop
            raise NoForm(str(reason)) from None
        code.loop = loop

    def ahead(self) -> frozenset[int]:
        return frozenset(k for k, state in enumerate(self.facts.states) if state is not None)

    def fail(self) -> Fail:
        return self.left

    def back_out(self, is_refused: bool = False) -> str:
        raise NoForm(self.refused.pop() if self.refused else self.name)

    def note_write(self) -> None:
        raise NoForm(f"{self.name} with effects")

    def values_in_use(self) -> list[Any]:
        assert self.outer is not None
        own = Blocks.values_in_use(self)
        return [*own, *self.base.stack, *self.base.locals.values(), *self.outer.values_in_use()]

    def go(self, index: int) -> None:
        if self.calls:
            Blocks.go(self, index)
            return
        self.settle(self.left)
        copies: list[tuple[str, str, str]] = []
        slots = {name: k for k, name in enumerate(self.facts.slots)}
        kept = still_needed(self.state.locals, self.facts.live[index] | self.own_cells)
        if any(map(is_attribute, kept)):
            raise NoForm(f"an attribute in {self.name}")
        state = Placing(self.code, copies, self.suffix).all(State(self.state.stack, kept), slots)
        if any(kind == "object" for _, _, kind in copies):
            raise NoForm(f"arrays that {self.name} makes")
        copies = [c for c in copies if c[0] != c[1]]
        texts = [self.code.new(kind, text) if text in self.code.variables else text for _, text, kind in copies]
        for (target, source, kind), text in zip(copies, texts):
            if kind == "data" and self.code.accesses is not None:
                self.code.accesses.moved(target, source)
            self.code.set(target, text)
        key = key_of(index, state)
        label = self.labels.get(key)
        if label is None:
            label = self.labels[key] = f"block{len(self.labels)}{self.suffix}_{index}"
            self.pending.append((index, state, label))
        self.code.jump(label)

    def finish(self, value: Any) -> None:
        """Go on after the call."""
        assert self.outer is not None
        if value is None:
            self.code.jump(self.left())
            return
        self.outer.state = State([*self.base.stack, value], self.base.locals.copy())
        self.outer.go(self.following)
