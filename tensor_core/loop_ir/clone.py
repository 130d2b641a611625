"""Copies of ops with new values, labels and states for those that they define; and a program numbered anew."""

from __future__ import annotations

from dataclasses import dataclass, field

from npcompile.tensor_core.loop_ir.forms import COPY
from npcompile.tensor_core.loop_ir.ops import Block, FrameState, Op, Param, Program, Region, Scope, While


@dataclass(slots=True)
class Cloner:
    """Copies of ops with new values, labels and states for those that they define."""

    program: Program
    source: Program  # may be the same
    values: dict[int, int] = field(default_factory=dict)
    labels: dict[int, int] = field(default_factory=dict)
    states: dict[int, int] = field(default_factory=dict)

    def define(self, value: int) -> int:
        made = self.values[value] = self.program.new(self.source.types[value], self.source.names.get(value, ""))
        return made

    def region(self, region: Region) -> Region:
        return [COPY[type(op)](op, self) for op in region]

    def op(self, op: Op) -> Op:
        return COPY[type(op)](op, self)

    def blocks(self, blocks: list[Block]) -> list[Block]:
        for block in blocks:
            self.labels[block.label] = self.program.new_label()
        return [self.block(block) for block in blocks]

    def block(self, block: Block) -> Block:
        args = [self.define(value) for value in block.args]
        return Block(self.labels[block.label], args, self.region(block.ops))

    def label(self, op: Op, label: int) -> int:
        if type(op) is Scope or type(op) is While:
            self.labels[label] = self.program.new_label()
        return self.labels.get(label, label)

    def state(self, op: Op, state: int) -> int:
        if type(op) is FrameState:
            self.states[state] = self.program.new_state()
        return self.states.get(state, state)


def renumber(program: Program) -> None:
    """Number values, labels and states in the order of the text, and forget those that are gone: equal programs print alike."""
    made = Program(program.name, program.file)
    cloner = Cloner(made, program)
    made.params = [Param(cloner.define(param.value), param.slot) for param in program.params]
    made.body = cloner.region(program.body)
    program.params, program.types, program.names, program.body = made.params, made.types, made.names, made.body
    program.labels, program.states = made.labels, made.states
