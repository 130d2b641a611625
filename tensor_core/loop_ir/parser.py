"""Programs from their printed text: Python's own parser reads it, and the comments at the ends of lines are the places.

No more is needed to run one: `parse_program(text)` in a process that has no front end.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field

from npcompile.tensor_core.loop_ir.forms import FORMS, OP_CLASSES
from npcompile.tensor_core.loop_ir.ops import (
    Block,
    Call,
    Cfg,
    For,
    If,
    Let,
    LoopKind,
    Op,
    Param,
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
from npcompile.tensor_core.loop_ir.printer import word_of
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
from npcompile.tensor_core.loop_ir.types import Kind, List, Memref, Object, Scalar, Type

CLASSES = {word_of(kind): kind for kind in OP_CLASSES.values()}


class ParseError(ValueError):
    """The text is not a printed program."""


def parse_program(text: str) -> Program:
    """The program that `print_program` printed. Raises ParseError, with the line.

    Values, labels and states have the numbers that they had, so `parse_program(print_program(p)) == p`.
    """
    try:
        (function,) = ast.parse(text).body
    except (SyntaxError, ValueError) as error:
        raise ParseError(f"not one printed function: {error}") from error
    if not isinstance(function, ast.FunctionDef):
        raise ParseError("a program begins with def")
    return Parser(text.splitlines()).program(function)


@dataclass(slots=True)
class Parser:
    lines: list[str]
    file: str = ""
    values: dict[int, tuple[Type, str]] = field(default_factory=dict)
    types: dict[str, Type] = field(default_factory=dict)  # by printed name
    labels: int = 0
    states: int = 0

    def program(self, function: ast.FunctionDef) -> Program:
        self.file = self.comment(function)
        params = []
        for arg, slot in zip(function.args.args, function.args.defaults, strict=True):
            assert arg.annotation is not None, arg.arg
            params.append(
                Param(
                    self.define(arg.arg, self.type(arg.annotation)),
                    None if isinstance(slot, ast.Constant) and slot.value is None else self.integer(slot),
                )
            )
        body = self.region(function.body)
        count = max(self.values, default=-1) + 1
        if missing := set(range(count)) - set(self.values):
            raise ParseError(f"values without a definition: {sorted(missing)}")
        types, names = [self.values[k][0] for k in range(count)], {k: hint for k in range(count) if (hint := self.values[k][1])}
        policy = [Policy(each.id) for each in function.decorator_list if isinstance(each, ast.Name)]
        return Program(function.name, self.file, params, types, names, body, self.labels, self.states, *policy)

    # --- names, types, places

    def define(self, name: str, kind: Type) -> int:
        hint, number = split(name)
        self.values[number] = kind, hint
        self.types[name] = kind
        return number

    def use(self, node: ast.expr) -> int:
        if not isinstance(node, ast.Name):
            raise self.error(node, "a value")
        return split(node.id)[1]

    def type(self, node: ast.expr) -> Type:
        match node:
            case ast.Subscript(ast.Name("object"), ast.Constant(str(name))):
                return Object(name)
            case ast.Name(kind):
                return Scalar(Kind(kind))
            case ast.BinOp(ast.Name(kind), ast.Mult(), ast.Constant(int(lanes))):
                return Scalar(Kind(kind), lanes)
            case ast.Subscript(ast.Name("list"), ast.Name(kind)):
                return List(Kind(kind))
            case ast.Subscript(ast.Name(kind), ast.Constant(int(rank))):
                return Memref(Kind(kind), rank)
            case ast.Subscript(ast.Name(kind), ast.Tuple([ast.Constant(int(rank)), *facts])):
                return Memref(Kind(kind), rank, **dict.fromkeys([f.id for f in facts if isinstance(f, ast.Name)], True))
        raise self.error(node, "a type")

    def comment(self, node: ast.stmt) -> str:
        return self.lines[node.lineno - 1].rpartition("  # ")[2] if "  # " in self.lines[node.lineno - 1] else ""

    def place(self, node: ast.stmt) -> Place:
        comment = self.comment(node)
        if not comment:
            return Place()
        file, _, line = comment.rpartition(":")
        return Place(file or self.file, int(line))

    def error(self, node: ast.AST, wanted: str) -> ParseError:
        line = getattr(node, "lineno", 0)
        return ParseError(f"line {line}: {wanted} is expected, not {ast.unparse(node)}")

    def integer(self, node: ast.expr) -> int:
        if isinstance(node, ast.Constant) and isinstance(node.value, int):
            return node.value
        raise self.error(node, "an integer")

    def label(self, node: ast.expr) -> int:
        label = self.integer(node)
        self.labels = max(self.labels, label + 1)
        return label

    def state(self, node: ast.expr) -> int:
        state = self.integer(node)
        self.states = max(self.states, state + 1)
        return state

    # --- statements

    def region(self, body: list[ast.stmt]) -> Region:
        found: Region = []
        declared: list[int] = []
        for node in body:
            if isinstance(node, ast.AnnAssign) and node.value is None:
                assert isinstance(node.target, ast.Name)
                declared.append(self.define(node.target.id, self.type(node.annotation)))
            else:
                found.append(self.op(node, declared))
                declared = []
        return found

    def op(self, node: ast.stmt, declared: list[int]) -> Op:
        at = self.place(node)
        match node:
            case ast.If(test, then, orelse):
                return If(self.use(test), self.region(then), self.region(orelse), declared, at)
            case ast.For(ast.Name(index), ast.Call(ast.Name(kind), [start, stop], carried), body):
                number = self.define(index, Scalar(Kind.INT))
                args = [self.carried(keyword) for keyword in carried]
                initial = [self.use(keyword.value) for keyword in carried]
                made = self.region(body)
                return For(LoopKind(kind), number, self.use(start), self.use(stop), args, initial, made, declared, at)
            case ast.With([ast.withitem(ast.Call(ast.Name("loop"), [label], carried))], body):
                args = [self.carried(keyword) for keyword in carried]
                initial = [self.use(keyword.value) for keyword in carried]
                return While(self.label(label), args, initial, self.region(body), at)
            case ast.With([ast.withitem(ast.Call(ast.Name("scope"), [label]))], body):
                return Scope(self.label(label), self.region(body), declared, at)
            case ast.With(
                [ast.withitem(ast.Call(ast.Name("speculate"), [errors]))], [ast.With(), ast.With(), ast.With()] as parts
            ):
                inside = [self.region(part.body) for part in parts if isinstance(part, ast.With)]
                return Speculate(self.integer(errors), inside[0], inside[1], inside[2], declared, at)
            case ast.With([ast.withitem(ast.Call(ast.Name("cfg"), []))], body):
                return Cfg([self.block(each) for each in body], at)
            case ast.Return(ast.expr() as value):
                return Return(self.recipe(value), at)
            case ast.Expr(ast.Yield(ast.List(values))):
                return Yield([self.use(value) for value in values], at)
            case ast.AnnAssign(ast.Name(name), annotation, ast.Call(function, args)):
                return self.simple(function, args, [self.define(name, self.type(annotation))], at)
            case ast.Expr(ast.Call(function, args)):
                return self.simple(function, args, [], at)
        raise self.error(node, "an op")

    def carried(self, keyword: ast.keyword) -> int:
        assert keyword.arg is not None and isinstance(keyword.value, ast.Name), ast.dump(keyword)
        return self.define(keyword.arg, self.types[keyword.value.id])

    def block(self, node: ast.stmt) -> Block:
        match node:
            case ast.With([ast.withitem(ast.Call(ast.Name("block"), [label], args))], body):
                defined = [self.define(arg.arg or "", self.type(arg.value)) for arg in args]
                return Block(self.label(label), defined, self.region(body))
        raise self.error(node, "a block")

    def simple(self, function: ast.expr, args: list[ast.expr], defined: list[int], at: Place) -> Op:
        match function:
            case ast.Attribute(ast.Name("call"), routine):
                return Call(defined[0], routine, [self.use(arg) for arg in args], at)
            case ast.Name(word) if word in CLASSES:
                kind = CLASSES[word]
                form = FORMS[kind]
                if len(args) + len(defined) != len(form.names):
                    raise self.error(function, f"{len(form.names) - len(defined)} arguments, not {len(args)}, of an op")
                rest = iter(args)
                values = [
                    defined[0] if role == "Result" else self.field(next(rest), role) for name, role in zip(form.names, form.roles)
                ]
                return kind(*values, at)  # type: ignore[call-arg]  # the fields of the class, by its form
            case ast.Name(op):
                return Let(defined[0], op, [self.use(arg) for arg in args], at)
        raise self.error(function, "an op's name")

    def field(self, node: ast.expr, role: str) -> object:
        match role:
            case "Value":
                return self.use(node)
            case "Label":
                return self.label(node)
            case "State":
                return self.state(node)
            case "Literal":
                return self.literal(node)
            case "Recipe":
                return self.recipe(node)
        match role, node:
            case "list[Value]", ast.List(items):
                return [self.use(item) for item in items]
            case "list[bool]", ast.List(items):
                return [self.literal(item) for item in items]
            case "list[int]", ast.List(items):
                return [int(self.literal(item).real) for item in items]
            case "list[Recipe]", ast.List(items):
                return [self.recipe(item) for item in items]
            case "list[Slot]", ast.Dict(keys, values):
                return [Slot(self.integer(k), self.recipe(v)) for k, v in zip(keys, values) if k is not None]
            case "int" | "bool", ast.Constant(int(value)):
                return value
            case "str", ast.Name(name):  # of a routine
                return name
        raise self.error(node, role)

    def literal(self, node: ast.expr) -> Literal:
        match node:
            case ast.Constant(bool() | int() | float() | complex() as value):
                return value
            case ast.UnaryOp(ast.USub(), operand):
                return -self.literal(operand)
            case ast.Call(ast.Name("float"), [ast.Constant(str(text))]):
                return float(text)
            case ast.Call(ast.Name("complex"), [real, imag]):
                parts = self.literal(real), self.literal(imag)
                return complex(float(parts[0].real), float(parts[1].real))
        raise self.error(node, "a number")

    def recipe(self, node: ast.expr) -> Recipe:
        match node:
            case ast.Constant(None):
                return Fixed(None)
            case ast.Name():
                return Use(self.use(node))
            case ast.Tuple(items):
                return TupleOf(tuple(map(self.recipe, items)))
            case ast.Call(ast.Name("tagged"), [tag, value]):
                return Tagged(self.use(tag), self.use(value))
            case ast.Call(ast.Name("sequence_iterator"), [sequence, taken]):
                return SequenceIterator(self.recipe(sequence), self.use(taken))
            case ast.Call(ast.Name("range_iterator"), [start, step, length, taken]):
                count = self.literal(step)
                assert isinstance(count, int)
                return RangeIterator(self.use(start), count, self.use(length), self.use(taken))
            case ast.Call(ast.Name("error_state"), [], modes):
                named = {m.arg: Mode(m.value.value) for m in modes if m.arg and isinstance(m.value, ast.Constant)}
                return ErrorState(**named)
        return Fixed(self.literal(node))


def split(name: str) -> tuple[str, int]:
    """The hint and the number of a printed value."""
    hint, _, number = name.rpartition("_")
    if not hint:
        number = name.removeprefix("v")
    if not number.isdigit():
        raise ParseError(f"{name} is not a value")
    return hint, int(number)
