"""What the fields of each op are, read from their annotations, and from that one walk, substitution and clone for all ops."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields

from npcompile.tensor_core.loop_ir import ops
from npcompile.tensor_core.loop_ir.ops import Block, Cfg, FrameState, Op, Param, Program, Region, Return
from npcompile.tensor_core.loop_ir.states import Recipe, Slot, leaves, substituted


@dataclass(frozen=True, slots=True)
class Form:
    """The fields of an op by role, in the order in which they are written."""

    names: tuple[str, ...]  # without the place
    roles: tuple[str, ...]  # the annotations of the same
    uses: tuple[str, ...]
    use_lists: tuple[str, ...]
    results: tuple[str, ...]
    result_lists: tuple[str, ...]
    inner: tuple[str, ...]
    inner_lists: tuple[str, ...]
    regions: tuple[str, ...]
    labels: tuple[str, ...]
    states: tuple[str, ...]


def form_of(kind: type[Op]) -> Form:
    found = [(f.name, str(f.type)) for f in fields(kind) if f.name != "at"]

    def of(role: str) -> tuple[str, ...]:
        return tuple(name for name, annotation in found if annotation == role)

    return Form(
        tuple(name for name, _ in found),
        tuple(annotation for _, annotation in found),
        of("Value"),
        of("list[Value]"),
        of("Result"),
        of("list[Result]"),
        of("Inner"),
        of("list[Inner]"),
        of("Region"),
        of("Label"),
        of("State"),
    )


OP_CLASSES = {k.__name__: k for k in vars(ops).values() if isinstance(k, type) and issubclass(k, Op) and k is not Op}
FORMS: dict[type[Op], Form] = {kind: form_of(kind) for kind in OP_CLASSES.values()}


def recipes(op: Op) -> Iterator[Recipe]:
    if type(op) is FrameState:
        yield from op.stack
        yield from (slot.recipe for slot in op.locals)
    elif type(op) is Return:
        yield op.value


def uses(op: Op) -> list[int]:
    """The values that the op itself reads, those of its recipes included, without what its regions read."""
    form = FORMS[type(op)]
    found = [getattr(op, name) for name in form.uses]
    for name in form.use_lists:
        found += getattr(op, name)
    for recipe in recipes(op):
        found += leaves(recipe)
    return found


def results(op: Op) -> list[int]:
    form = FORMS[type(op)]
    found = [getattr(op, name) for name in form.results]
    for name in form.result_lists:
        found += getattr(op, name)
    return found


def inner(op: Op) -> list[int]:
    """The values that the op defines inside its region."""
    form = FORMS[type(op)]
    found = [getattr(op, name) for name in form.inner]
    for name in form.inner_lists:
        found += getattr(op, name)
    return found


def regions(op: Op) -> list[Region]:
    if type(op) is Cfg:
        return [block.ops for block in op.blocks]
    return [getattr(op, name) for name in FORMS[type(op)].regions]


def walk(region: Region) -> Iterator[Op]:
    """Every op, those inside others included, in the order of the text."""
    for op in region:
        yield op
        for part in regions(op):
            yield from walk(part)


def all_regions(region: Region) -> Iterator[Region]:
    """The region and all that are inside it."""
    yield region
    for op in region:
        for part in regions(op):
            yield from all_regions(part)


def substitute(op: Op, new: dict[int, int]) -> None:
    """Let the op itself read other values."""
    form = FORMS[type(op)]
    for name in form.uses:
        value = getattr(op, name)
        if value in new:
            setattr(op, name, new[value])
    for name in form.use_lists:
        values = getattr(op, name)
        if any(value in new for value in values):
            setattr(op, name, [new.get(value, value) for value in values])
    if type(op) is FrameState:
        op.stack = [substituted(recipe, new) for recipe in op.stack]
        op.locals = [Slot(slot.index, substituted(slot.recipe, new)) for slot in op.locals]
    elif type(op) is Return:
        op.value = substituted(op.value, new)


def substitute_all(region: Region, new: dict[int, int]) -> None:
    if new:
        for op in walk(region):
            substitute(op, new)


def copy(op: Op, form: Form) -> Op:
    """The same fields in a new op: copy.copy takes four times as long."""
    made: Op = object.__new__(type(op))
    for name in form.names:
        setattr(made, name, getattr(op, name))
    made.at = op.at  # type: ignore[attr-defined]
    return made


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
        return [self.op(op) for op in region]

    def op(self, op: Op) -> Op:
        form = FORMS[type(op)]
        made = copy(op, form)
        substitute(made, self.values)
        for name in (*form.results, *form.inner):
            setattr(made, name, self.define(getattr(op, name)))
        for name in (*form.result_lists, *form.inner_lists):
            setattr(made, name, [self.define(value) for value in getattr(op, name)])
        for name in (*form.use_lists,):
            setattr(made, name, list(getattr(made, name)))
        if form.labels:
            self.relabel(op, made, form)
        if form.states:
            self.restate(op, made, form)
        if isinstance(op, Cfg):
            assert isinstance(made, Cfg)
            for block in op.blocks:
                self.labels[block.label] = self.program.new_label()
            made.blocks = [self.block(block) for block in op.blocks]
        for name in form.regions:
            setattr(made, name, self.region(getattr(op, name)))
        return made

    def block(self, block: Block) -> Block:
        args = [self.define(value) for value in block.args]
        return Block(self.labels[block.label], args, self.region(block.ops))

    def relabel(self, op: Op, made: Op, form: Form) -> None:
        for name in form.labels:
            label = getattr(op, name)
            if name == "label":
                self.labels[label] = self.program.new_label()
            setattr(made, name, self.labels.get(label, label))

    def restate(self, op: Op, made: Op, form: Form) -> None:
        for name in form.states:
            state = getattr(op, name)
            if isinstance(op, FrameState):
                self.states[state] = self.program.new_state()
            setattr(made, name, self.states.get(state, state))


def renumber(program: Program) -> None:
    """Number values, labels and states in the order of the text, and forget those that are gone: equal programs print alike."""
    made = Program(program.name, program.file)
    cloner = Cloner(made, program)
    made.params = [Param(cloner.define(param.value), param.slot) for param in program.params]
    made.body = cloner.region(program.body)
    program.params, program.types, program.names, program.body = made.params, made.types, made.names, made.body
    program.labels, program.states = made.labels, made.states
