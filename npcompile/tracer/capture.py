"""One attempt to capture a program from one Point: the graph being built, what was assumed, what was decided before."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from npcompile.tensor_core.array import Array, Step, Storage
from npcompile.tensor_core.graph import Builder, Node
from npcompile.tensor_core.guards import Length
from npcompile.tensor_core.known import known_contents
from npcompile.tensor_core.meta import Decline
from npcompile.tensor_core.source import Bound, Formula, Source
from npcompile.tensor_core.transforms.reverse import gradients, is_constant, is_differentiable
from npcompile.tracer.random_state import Draws
from npcompile.tracer.restarts import Arms, BranchKey, Break
from npcompile.tracer.values import Cell, Generator
from npcompile.tracer.wrapping import Wrapping


class Running(Protocol):
    """What a Capture asks of Frames, whose class is above it."""

    index: int
    stack: list[Any]
    locals: dict[str, Any]
    cells: dict[str, Cell]

    @property
    def root(self) -> Running: ...
    def forget(self) -> None: ...


@dataclass(slots=True, eq=False, weakref_slot=True)
class Capture(Wrapping):
    """One attempt: what the program has read, made and changed so far."""

    instructions: int = 0
    may_ask_levels: bool = False  # is no other program at this Point for sizes that make a function call itself often?
    asks_levels: bool = False  # is this one?
    calls_itself: bool = False  # does the function here come after such a call, so that further ones are calls too?
    # Is a loop at a header, with these variables and arguments, none to unroll if it is short?
    is_native: Callable[[int, dict[str, Any], Iterable[Any]], bool] = lambda *_: False
    came_after: Break | None = None  # the graph break that this capture resumes after
    transforming: int = 0  # how many transforms the code here is inside of
    bodies: int = 0  # how many functions of loops and branches, which are read more than once: nothing else may change
    undecided: list[Any] = field(default_factory=list)  # arrays whose memory data decides: see tracer.joining
    namespace: dict[str, Any] = field(default_factory=dict)  # of the generated programs
    arguments: dict[str, Any] = field(default_factory=dict)  # of this call, by the names of the generated programs
    arms: Arms = field(default_factory=Arms)  # which arms of branches earlier captures have assumed
    assumed: list[BranchKey] = field(default_factory=list)  # those of which this one assumes it
    draws: Draws = field(default_factory=Draws)  # random numbers
    grads: dict[Source, Any] = field(default_factory=dict)  # source of a Tensor -> its new `.grad`
    lost: dict[Node, str] = field(default_factory=dict)  # what has lost its gradient, and why
    error_states: set[int] = field(default_factory=set)  # instructions after blocks of np.errstate
    frame: Running | None = None  # the Frame whose instruction is being captured: `frame.running`
    frames: list[Running] = field(default_factory=list)  # all of them
    begun: list[Generator] = field(default_factory=list)  # generators with blocks that were asked for an item
    effects: list[Any] = field(default_factory=list)  # what the program changes beside arrays: see tracer.effects
    remembered: dict[Source, Bound] = field(default_factory=dict)  # what was asked once: a call, a class -> the name for it
    globals_written: dict[tuple[int, str], Any] = field(default_factory=dict)  # id of the namespace, name -> value

    def __post_init__(self) -> None:
        self.grad_enabled = self.grad_enabled_outside
        alive = weakref.ref(self)  # else the two would refer to each other, and what was captured would live until Python looks
        self.builder.may_measure = lambda: (capture := alive()) is not None and capture.may_measure()
        self.builder.is_plain = lambda: (capture := alive()) is not None and capture.is_plain()

    def may_measure(self) -> bool:
        """May sizes be what data decides? Not in bodies, where what runs is one graph, nor in transformed functions."""
        return not (self.bodies or self.transforming or self.draws.batches) and self.place is None

    def is_plain(self) -> bool:
        return self.may_measure() and not self.goes_through_gradients

    @property
    def goes_through_gradients(self) -> bool:
        """May what is captured here be differentiated? Then long loops are nodes; else they run as compiled functions."""
        return self.transforming > 0 or bool(self.leaves())

    @contextmanager
    def within(self, inner: Builder) -> Iterator[None]:
        """Capture into `inner`, the builder of a graph that a node of this one will hold."""
        outer, enabled = self.builder, self.grad_enabled
        self.builder, outer.is_closed, inner.outer, inner.records = inner, True, outer, enabled
        self.bodies += 1
        try:
            yield
        finally:
            self.builder, outer.is_closed, self.grad_enabled = outer, False, enabled
            self.bodies -= 1

    @property
    def stands_at(self) -> int:
        """The instruction of the outermost frame."""
        assert self.frame is not None
        return self.frame.root.index

    def forget(self) -> None:
        """Let go of the arguments of this call: the capture's parts refer to each other."""
        for frame in self.frames:
            frame.forget()
        for held in (self.arguments, self.frames, self.realized, self.by_identity, self.examples, self.cells, self.tensors,
                     self.tensors_by_identity, self.anew, self.begun, self.owners, self.changed, self.effects):  # fmt: skip
            held.clear()
        self.frame = None

    def require_no_body(self, what: str) -> None:
        if self.bodies:
            raise Decline(f"{what} in the body of a loop or branch that is a node of the graph")

    def ask_levels(self, call: int) -> None:
        """The program calls a function that is often inside itself. It is for such sizes: smaller ones are one graph each."""
        levels = self.decisions.levels.get(call)
        if levels is not None and levels.guards and self.may_ask_levels and levels.symbols.items() <= self.symbols.items():
            self.asks_levels = True
            for guard in levels.guards:
                self.guard(guard)

    # --- Tensors

    def leaf_gradients(self, outputs: Iterable[Node], cotangents: Iterable[Node]) -> list[Node | None]:
        """The gradient of `outputs` times `cotangents` with respect to each of `leaves()`."""
        found = iter(gradients(self.builder, [*outputs], [*cotangents], self.uses_of_leaves()))
        sums: list[Node | None] = []
        for t in self.leaves():
            parts = [n for _ in t.variable.uses if (n := next(found)) is not None]
            sums.append(functools.reduce(lambda a, b: self.builder.apply("add", a, b), parts) if parts else None)
        return sums

    def require_distinct_leaves(self) -> None:
        """Each `.grad` that the program sets is of another Tensor: guarded."""
        sources = [t.source for t in self.leaves() if t.source is not None]
        ids = Formula(f"{{{{{', '.join(['id({})'] * len(sources))}}}}}", *sources)
        self.guard(Length(ids, "==", len(sources)))

    def why_lost(self, node: Node) -> str | None:
        """Why what was computed here has no gradient though it should have one."""
        pending, seen = [node], {node}
        while self.lost and pending:
            each = pending.pop()
            if each in self.lost:
                return self.lost[each]
            if is_differentiable(each.meta) and not is_constant(each):
                pending += [i for i in each.inputs if i not in seen]
                seen.update(each.inputs)
        return None

    def tensor_of(self, storage: Storage, steps: tuple[Step, ...] = ()) -> str | None:
        """The source of the Tensor from outside that has this memory, and gives its gradient to what is seen by `steps`."""
        if steps and steps[0].kind == "variable":
            return str(steps[0].param.source)
        return next((str(s) for s, (t, _) in self.tensors.items() if t.array.storage is storage), None)

    # --- arrays whose contents are known

    def known_contents(self, array: Array) -> np.ndarray | None:
        """The contents of a small array that depends on constants alone, else None."""
        return known_contents(array.node)
