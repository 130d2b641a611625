"""A program as text that reads like Python: every value with its type where it is defined, every op with the user's line."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from npcompile.tensor_core.loop_ir.forms import FORMS, results
from npcompile.tensor_core.loop_ir.ops import (
    Block,
    Cfg,
    For,
    If,
    Op,
    Place,
    Policy,
    Program,
    Region,
    Return,
    Scope,
    Speculate,
    While,
    Yield,
)
from npcompile.tensor_core.loop_ir.states import (
    ErrorState,
    Fixed,
    Literal,
    Mode,
    RangeIterator,
    Recipe,
    SequenceIterator,
    Slot,
    Tagged,
    TupleOf,
    Use,
)
from npcompile.tensor_core.loop_ir.types import List, Memref, Object, Scalar, Type

WORDS = {
    "FpClear": "fp_clear",
    "FpCheck": "fp_check",
    "SideExit": "side_exit",
    "NewList": "new_list",
    "FrameState": "frame_state",
}
WORDS |= {"Break": "leave"}
INDENT = "    "


def word_of(kind: type[Op]) -> str:
    """What an op is called in the text."""
    name = kind.__name__
    return WORDS.get(name, name.lower())


def print_program(program: Program) -> str:
    """The text of a program, from which parser.py makes an equal one."""
    return "\n".join(Printer(program).lines()) + "\n"


def print_type(kind: Type) -> str:
    """For example `f64`, `f64 * 8` (a vector), `f64[2, contiguous, writeable]`, `list[int]`."""
    match kind:
        case Scalar(element, 1):
            return element.value
        case Scalar(element, lanes):
            return f"{element.value} * {lanes}"
        case Memref(element, rank):
            facts = [name for name in ("contiguous", "writeable", "owned") if getattr(kind, name)]
            return f"{element.value}[{', '.join([str(rank), *facts])}]"
        case List(element):
            return f"list[{element.value}]"
        case Object(name):
            return f"object[{name!r}]"


def print_literal(value: Literal | None) -> str:
    match value:
        case float() if value != value or value in (float("inf"), -float("inf")):
            return f"float({str(value)!r})"
        case complex():
            return f"complex({print_literal(value.real)}, {print_literal(value.imag)})"
    return repr(value)


@dataclass(slots=True)
class Printer:
    program: Program

    def name(self, value: int) -> str:
        hint = self.program.names.get(value)
        return f"{hint}_{value}" if hint else f"v{value}"

    def typed(self, value: int) -> str:
        return f"{self.name(value)}: {print_type(self.program.types[value])}"

    def listed(self, values: list[int]) -> str:
        return f"[{', '.join(map(self.name, values))}]"

    def lines(self) -> Iterator[str]:
        program = self.program
        params = ", ".join(f"{self.typed(p.value)} = {p.slot}" for p in program.params)
        if program.policy is not Policy.RESUME:
            yield f"@{program.policy.value}"
        yield f"def {program.name}({params}):  # {program.file}"
        yield from self.region(program.body, INDENT)

    def region(self, region: Region, indent: str) -> Iterator[str]:
        for op in region:
            yield from self.op(op, indent)

    def op(self, op: Op, indent: str) -> Iterator[str]:
        where = self.place(op.at)  # type: ignore[attr-defined]
        match op:
            case If():
                yield from self.declared(op, indent)
                yield f"{indent}if {self.name(op.condition)}:{where}"
                yield from self.region(op.then, indent + INDENT)
                yield f"{indent}else:"
                yield from self.region(op.orelse, indent + INDENT)
            case For():
                yield from self.declared(op, indent)
                head = f"{op.kind.value}({self.name(op.start)}, {self.name(op.stop)}{self.carried(op.args, op.initial)})"
                yield f"{indent}for {self.name(op.index)} in {head}:{where}"
                yield from self.region(op.body, indent + INDENT)
            case Speculate():
                yield from self.declared(op, indent)
                yield f"{indent}with speculate({op.errors}):{where}"
                for name, part in (("body", op.body), ("undo", op.undo), ("slow", op.slow)):
                    yield f"{indent + INDENT}with {name}():"
                    yield from self.region(part, indent + 2 * INDENT)
            case While():
                carried = self.carried(op.args, op.initial)
                yield f"{indent}with loop({op.label}{carried}):{where}"
                yield from self.region(op.body, indent + INDENT)
            case Scope():
                yield from self.declared(op, indent)
                yield f"{indent}with scope({op.label}):{where}"
                yield from self.region(op.body, indent + INDENT)
            case Cfg():
                yield f"{indent}with cfg():{where}"
                for block in op.blocks:
                    yield from self.block(block, indent + INDENT)
            case _:
                yield f"{indent}{self.simple(op)}{where}"

    def declared(self, op: Op, indent: str) -> Iterator[str]:
        """The results of an op with regions stand before it."""
        for value in results(op):
            yield f"{indent}{self.typed(value)}"

    def carried(self, args: list[int], initial: list[int]) -> str:
        return "".join(f", {self.name(arg)}={self.name(value)}" for arg, value in zip(args, initial, strict=True))

    def block(self, block: Block, indent: str) -> Iterator[str]:
        args = "".join(f", {self.name(a)}={print_type(self.program.types[a])}" for a in block.args)
        yield f"{indent}with block({block.label}{args}):"
        yield from self.region(block.ops, indent + INDENT)

    def simple(self, op: Op) -> str:
        form = FORMS[type(op)]
        parts = [
            self.field(getattr(op, name), role)
            for name, role in zip(form.names, form.roles)
            if role not in ("Result", "list[Result]")
        ]
        if isinstance(op, Return | Yield):
            return f"{word_of(type(op))} {parts[0]}"
        text = f"{word_of(type(op))}({', '.join(parts)})"
        if type(op).__name__ in ("Let", "Call"):
            text = f"{parts[0]}({', '.join(map(self.name, op.args))})"  # type: ignore[attr-defined]
            text = text if type(op).__name__ == "Let" else f"call.{text}"
        defined = results(op)
        return f"{self.typed(defined[0])} = {text}" if defined else text

    def field(self, value: object, role: str) -> str:
        match role, value:
            case "Value", int():
                return self.name(value)
            case "list[Value]", list():
                return self.listed(value)
            case "Literal", bool() | int() | float() | complex():
                return print_literal(value)
            case "list[Recipe]", list():
                return f"[{', '.join(map(self.recipe, value))}]"
            case "list[Slot]", list():
                return f"{{{', '.join(map(self.slot, value))}}}"
            case "Recipe", Use() | Tagged() | Fixed() | TupleOf() | RangeIterator() | SequenceIterator() | ErrorState():
                return self.recipe(value)
        return str(value)

    def slot(self, slot: Slot) -> str:
        return f"{slot.index}: {self.recipe(slot.recipe)}"

    def recipe(self, recipe: Recipe) -> str:
        match recipe:
            case Use(value):
                return self.name(value)
            case Tagged(tag, value):
                return f"tagged({self.name(tag)}, {self.name(value)})"
            case Fixed(value):
                return print_literal(value)
            case TupleOf(items):
                return f"({''.join(self.recipe(item) + ', ' for item in items)})"
            case SequenceIterator(sequence, taken):
                return f"sequence_iterator({self.recipe(sequence)}, {self.name(taken)})"
            case RangeIterator(start, step, length, taken):
                return f"range_iterator({self.name(start)}, {step}, {self.name(length)}, {self.name(taken)})"
            case ErrorState():
                modes = {name: getattr(recipe, name) for name in ("divide", "over", "under", "invalid")}
                named = ", ".join(f"{name}={mode.value!r}" for name, mode in modes.items() if mode is not Mode.KEPT)
                return f"error_state({named})"

    def place(self, place: Place) -> str:
        if not place.line:
            return ""
        return f"  # {place.line}" if place.file == self.program.file else f"  # {place.file}:{place.line}"
