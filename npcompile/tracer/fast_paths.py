"""A compiler of the variants' programs into steps that the runtime takes, as CPython's is into bytecode.

It knows the expressions and statements that programs which end in a result are made of. Each step calls the function of CPython's
that the bytecode calls. What a name or guard is for, nobody asks here.
"""

from __future__ import annotations

import ast
import builtins
import ctypes
import sys
from collections.abc import Iterable, Mapping, Sequence
from itertools import takewhile
from types import BuiltinMethodType, MethodType
from typing import Any

from npcompile.backends.array_guards import LIKENESS
from npcompile.backends.entering import (
    MOST_GIVEN,
    MOST_PARAMETERS,
    MOST_VALUES,
    FastPath,
    Step,
    is_native,
    native_call,
)
from npcompile.tracer.variant import Variant

BINARY: dict[type[ast.operator], str] = {
    ast.Add: "Add", ast.Sub: "Subtract", ast.Mult: "Multiply", ast.MatMult: "MatrixMultiply", ast.Div: "TrueDivide",
    ast.FloorDiv: "FloorDivide", ast.Mod: "Remainder", ast.LShift: "Lshift", ast.RShift: "Rshift", ast.BitAnd: "And",
    ast.BitOr: "Or", ast.BitXor: "Xor",
}  # fmt: skip
UNARY: dict[type[ast.unaryop], str] = {ast.USub: "Negative", ast.UAdd: "Positive", ast.Invert: "Invert"}
COMPARISONS = (ast.Lt, ast.LtE, ast.Eq, ast.NotEq, ast.Gt, ast.GtE)  # in the order of CPython's Py_LT to Py_GE


class NoFastPath(Exception):
    """Something has no form in steps."""


class Steps:
    """The steps of one path while they are written. Text is that of the generated program, whose namespace is `scope`."""

    def __init__(self, parameters: Sequence[str], scope: Mapping[str, Any]) -> None:
        if len(parameters) > MOST_PARAMETERS:
            raise NoFastPath("so many parameters")
        self.values = {name: k for k, name in enumerate(parameters, 1)}  # of variables: operands
        self.parts: dict[str, int] = {}  # those that what was run gave in a tuple, and are not asked for yet: places
        self.made: tuple[int, int] = 0, 0  # this tuple, and how long it is
        self.count = 1 + len(parameters)
        self.scope = scope
        self.words: list[int] = []
        self.held: list[Any] = [scope]  # and with it what has a name there: classes that nothing else holds are seen to be gone
        self.has_run = False

    def path(self, **goes_on: Any) -> FastPath:
        return FastPath(tuple(self.words), tuple(self.held), **goes_on)

    # --- text

    def ask(self, texts: Iterable[str]) -> None:
        """The call is for this path only where these are true."""
        for text in texts:
            self.require(expression(text), True)

    def run(self, function: Any, texts: Iterable[str]) -> int:
        """Call what was compiled with these arguments."""
        given = [self.value(expression(text)) for text in texts]
        native = native_call(function) if is_native(function) else (0, self.held_at(function))
        self.has_run = True
        self.held.append(function)
        return self.value_of(Step.RUN, *native, *self.several(given))

    def name_parts(self, made: int, names: Sequence[str]) -> None:
        """Variables for the parts of a tuple."""
        self.made = made, len(names)
        self.parts = {name: place for place, name in enumerate(names)}

    def follow(self, lines: Iterable[str]) -> None:
        """The statements of a program to its end."""
        for statement in ast.parse("\n".join(lines)).body:
            match statement:
                case ast.Return(ast.expr() as value):
                    self.add(Step.GIVE, self.value(value))
                case ast.Assign([ast.Name(name)], value):
                    self.values[name] = self.value(value)
                    self.parts.pop(name, None)
                case ast.Assign([ast.Attribute(owner, name)], value):
                    set_to = self.value(value)
                    self.add(Step.SET_ATTRIBUTE, 3, self.value(owner), self.held_at(name), set_to)
                case ast.Assign([ast.Subscript(owner, key)], value):
                    set_to = self.value(value)
                    self.add(Step.SET_ITEM, 3, self.value(owner), self.key(key), set_to)
                case ast.AugAssign(ast.Name(name), op, value):
                    function = c_function(f"InPlace{BINARY[type(op)]}")
                    self.values[name] = self.value_of(Step.BINARY, function, self.variable(name), self.value(value))
                case ast.Expr(value):
                    self.value(value)
                case _:
                    raise NoFastPath(ast.unparse(statement))
        if self.words[-2] != Step.GIVE:
            raise NoFastPath("the end is not reached")

    # --- words

    def add(self, step: Step, *operands: int) -> None:
        self.words += [step, *operands]

    def value_of(self, step: Step, *operands: int) -> int:
        """The value that a step gives."""
        self.add(step, *operands)
        self.count += 1
        if self.count > MOST_VALUES:
            raise NoFastPath("so many values")
        return self.count - 1

    def held_at(self, value: Any) -> int:
        value = sys.intern(value) if type(value) is str else value  # as the keys of namespaces are
        self.held.append(value)
        return id(value)

    def several(self, operands: Sequence[int]) -> list[int]:
        if len(operands) > MOST_GIVEN:
            raise NoFastPath("so many operands")
        return [len(operands), *operands]

    # --- questions

    def require(self, node: ast.expr, answer: bool) -> None:
        match node:
            case ast.BoolOp(ast.And(), values) if answer:
                for each in values:
                    self.require(each, True)
            case ast.BoolOp(ast.Or(), values) if not answer:
                for each in values:
                    self.require(each, False)
            case ast.UnaryOp(ast.Not(), inner):
                self.require(inner, not answer)
            case ast.Compare(left, ops, rights) if answer or len(ops) == 1:
                first = self.value(left)
                for op, right in zip(ops, rights):
                    second = self.value(right)
                    self.require_compared(first, op, second, answer)
                    first = second
            case ast.Call(function, arguments, []) if answer and self.asks_likeness(function):
                self.add(Step.LIKE, *self.several([*map(self.value, arguments)]))
            case _:
                self.add(Step.HOLDS, self.value(node), answer)

    def require_compared(self, first: int, op: ast.cmpop, second: int, answer: bool) -> None:
        match op:
            case ast.Is() | ast.IsNot():
                self.add(Step.IS, first, second, answer == isinstance(op, ast.Is))
            case ast.In() | ast.NotIn():
                self.add(Step.IN, first, second, answer == isinstance(op, ast.In))
            case _:
                self.add(Step.HOLDS, self.value_of(Step.COMPARE, first, second, COMPARISONS.index(type(op))), answer)

    # --- expressions

    def asks_likeness(self, function: ast.expr) -> bool:
        return LIKENESS.are_like is not None and self.constant(function) is LIKENESS.are_like

    def constant(self, node: ast.expr) -> Any:
        """The object that an expression is in every call; None for others."""
        if isinstance(node, ast.Name) and node.id not in self.values and node.id not in self.parts:
            return self.scope.get(node.id, getattr(builtins, node.id, None))
        return None

    def value(self, node: ast.expr) -> int:
        match node:
            case ast.Constant(value):
                return self.held_at(value)
            case ast.Name(name):
                return self.variable(name)
            case ast.NamedExpr(ast.Name(name), inner):
                self.values[name] = found = self.value(inner)
                return found
            case ast.Subscript(ast.Attribute(array, "shape" | "strides" as part), ast.Constant(int(axis))) if (
                axis >= 0 and not self.has_run
            ):
                return self.value_of(Step.SIZE, self.value(array), part == "strides", axis)
            case ast.Attribute(owner, name):
                return self.value_of(Step.ATTRIBUTE, self.value(owner), self.held_at(name))
            case ast.Subscript(owner, key):
                return self.value_of(Step.ITEM, self.value(owner), self.key(key))
            case ast.Call(ast.Name("type"), [inner], []):
                return self.value_of(Step.TYPE, self.value(inner))
            case ast.Call(function, arguments, []):
                called = self.value(function)
                return self.value_of(Step.CALL, called, *self.several([*map(self.value, arguments)]))
            case ast.BinOp(left, ast.Pow(), right):
                return self.value_of(Step.POWER, self.value(left), self.value(right))
            case ast.BinOp(left, op, right):
                return self.value_of(Step.BINARY, c_function(BINARY[type(op)]), self.value(left), self.value(right))
            case ast.UnaryOp(op, inner) if type(op) in UNARY:
                return self.value_of(Step.UNARY, c_function(UNARY[type(op)]), self.value(inner))
            case ast.Compare(left, [op], [right]) if isinstance(op, COMPARISONS):
                how = COMPARISONS.index(type(op))
                return self.value_of(Step.COMPARE, self.value(left), self.value(right), how)
            case ast.Tuple(items):
                return self.tuple_of(items)
            case ast.List(items):
                return self.value_of(Step.LIST, *self.several([*map(self.value, items)]))
            case ast.Slice(start, stop, step):
                parts = [self.value(part or ast.Constant(None)) for part in (start, stop, step)]
                return self.value_of(Step.CALL, self.held_at(slice), *self.several(parts))
            case ast.Dict([], []):
                return self.value_of(Step.CALL, self.held_at(dict), 0)
        raise NoFastPath(ast.unparse(node))

    def variable(self, name: str) -> int:
        if name in self.parts:
            self.values[name] = self.value_of(Step.PART, self.made[0], self.parts.pop(name))
        if name in self.values:
            return self.values[name]
        if name in self.scope:  # where it stays, apart from methods, which dispatches make anew
            found = self.scope[name]
            return self.held_at(found) if isinstance(found, (MethodType, BuiltinMethodType)) else id(found)
        if hasattr(builtins, name):
            return self.held_at(getattr(builtins, name))
        raise NoFastPath(name)

    def tuple_of(self, items: Sequence[ast.expr]) -> int:
        """One that a graph made is given on, where it is what is asked for."""
        made, count = self.made
        if count and [self.parts.get(item.id) if isinstance(item, ast.Name) else None for item in items] == [*range(count)]:
            return made
        return self.value_of(Step.TUPLE, *self.several([*map(self.value, items)]))

    def key(self, node: ast.expr) -> int:
        try:
            return self.held_at(literal_key(node))
        except ValueError:
            return self.value(node)


def first_paths(parameters: Sequence[str], scope: Mapping[str, Any], variants: Sequence[Variant]) -> list[FastPath]:
    """The fast paths of the first variants of a Point, in their order, up to the last that has one."""
    last = max((k for k, variant in enumerate(variants) if variant.fast_path is not None), default=-1)
    paths = (variant.fast_path or leaving(parameters, scope, variant) for variant in variants[: last + 1])
    return [path for path in takewhile(bool, paths) if path is not None]


def leaving(parameters: Sequence[str], scope: Mapping[str, Any], variant: Variant) -> FastPath | None:
    """The path instead of a variant that has none: calls that the variant is for are entered."""
    try:
        steps = Steps(parameters, scope)
        steps.ask(map(str, variant.conditions))
    except NoFastPath:
        return None
    steps.add(Step.LEAVE)
    return steps.path()


def expression(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


def literal_key(node: ast.expr) -> Any:
    """The object that a key is, slices among them. ValueError where it is none in every call."""
    match node:
        case ast.Slice(start, stop, step):
            return slice(*(None if part is None else ast.literal_eval(part) for part in (start, stop, step)))
        case ast.Tuple(items):
            return tuple(map(literal_key, items))
    return ast.literal_eval(node)


def c_function(name: str) -> int:
    """Address of an operator of CPython's."""
    return ctypes.cast(getattr(ctypes.pythonapi, f"PyNumber_{name}"), ctypes.c_void_p).value or 0
