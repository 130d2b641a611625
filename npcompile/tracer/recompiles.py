"""Why compiled programs do not fit a call: the guard that failed, and the value that it is about.

Of the programs that are for values of the same kinds (types, dtypes, layouts of arrays) there are no more than
`config.recompile_limit`. Kinds are few: programs for others are not counted.
"""

from __future__ import annotations

import ast
import enum
import gc
import re
import sys
import types
from typing import Any

import numpy as np

from npcompile.tracer.conditions import IS_FIXED
from npcompile.tracer.made_anew import IS_OF_PYTHON


def why_not(guards: tuple[str, ...], namespace: dict[str, Any], parameters: dict[str, Any], names: dict[str, str]) -> str | None:
    """The first of the guards that does not hold, as text, and the value that it is about. None where all hold.

    `names` are what the user calls parameters.
    """
    scope = namespace | parameters
    for guard in guards:
        try:
            if eval(guard, scope):
                continue
            asked = failing(guard, scope)
            what = ""
            if isinstance(asked, ast.Compare):
                is_member = isinstance(asked.ops[0], (ast.In, ast.NotIn))
                text = ast.unparse(asked.comparators[0] if is_member else asked.left)
                what = f", but {text} is {shortened(eval(text, scope))}"
        except CANNOT_ASK as error:
            what = f", but it raises {type(error).__name__}: {error}"
        text = re.sub(r"\w+", lambda m: names.get(m[0], m[0]), f"{guard}{what}")
        return _CONSTANT_NAME.sub(r"\1", text)
    return None


def failing(guard: str, scope: dict[str, Any]) -> ast.expr:
    """The part of a guard that does not hold."""
    asked = ast.parse(guard, mode="eval").body
    parts = asked.values if isinstance(asked, ast.BoolOp) and isinstance(asked.op, ast.And) else [asked]
    return next((part for part in parts[:-1] if not eval(ast.unparse(part), scope)), parts[-1])


OF_KIND = re.compile(r"^type\(|\.(dtype|flags|requires_grad|is_leaf)\b|^not hasattr\(")
FEW = (bool, enum.Enum, type, np.ufunc, types.BuiltinFunctionType, types.ModuleType)  # objects that a program has few of
OF_LAYOUT = re.compile(r"\.(ndim|shape|strides)\b")
SYMBOL = re.compile(r"\bs\d+\b")


def is_of_other_kind(
    guards: tuple[str, ...], namespace: dict[str, Any], parameters: dict[str, Any], layouts: bool = True
) -> bool:
    """Is a parameter of another kind, or the first guard that does not hold about the kind of a value?

    `layouts`: are those of arrays kinds?
    """
    scope = namespace | parameters
    if not may_fit(guards, scope, parameters):
        return True
    try:
        asked = first_failing(guards, scope)
        if asked is None:
            return False
        text = ast.unparse(asked)
        if layouts and any(OF_LAYOUT.search(t) for t in (text, *bound_in(guards, SYMBOL.findall(text)))):
            return True
        if isinstance(asked, ast.Compare) and isinstance(asked.ops[0], ast.Is):
            left, right = (eval(ast.unparse(each), scope) for each in (asked.left, asked.comparators[0]))
            return type(left) is not type(right) or isinstance(right, FEW)
        return OF_KIND.search(text) is not None
    except CANNOT_ASK:  # what it is about is not there
        return True


OF_PARAMETER = re.compile(  # what `kind_of` tells apart
    r"type\((?P<typed>\w+)\) is (?:k_\w+|[a-z]+)(?: and (?P=typed)\.dtype (?:is|==) k_\w+)?"
    r"|(?P<flagged>\w+)\.flags\.num & \d+ == \d+|(?P<ranked>\w+)\.ndim == \d+"
    r"|(?P<shaped>\w+)\.shape == (?P<shape>\(.*\))|(?P<known>\w+) is (?P<value>k_\w+)"
)


def may_fit(guards: tuple[str, ...], scope: dict[str, Any], values: dict[str, Any]) -> bool:
    """May a program fit arguments of the same kinds as these values, as `kind_of` tells kinds? `scope` has the values, too."""
    return all(match is None or holds_for_kind(match, scope, values) for match in map(OF_PARAMETER.fullmatch, guards))


def holds_for_kind(guard: re.Match[str], scope: dict[str, Any], values: dict[str, Any]) -> bool:
    name = next(guard[group] for group in ("typed", "flagged", "ranked", "shaped", "known") if guard[group])
    if name not in values:
        return True
    value = values[name]
    try:
        if guard["shape"]:
            return bool(value.ndim == len(ast.literal_eval(guard["shape"])))
        if guard["known"]:
            known = scope[guard["value"]]
            return value is known or type(value) is type(known) and type(value) is not bool
        return bool(eval(guard[0], scope))
    except CANNOT_ASK:
        return False


CANNOT_ASK = (AttributeError, KeyError, IndexError, TypeError, ValueError, ArithmeticError)


def first_failing(guards: tuple[str, ...], scope: dict[str, Any]) -> ast.expr | None:
    return next((failing(guard, scope) for guard in guards if not eval(guard, scope)), None)


def is_stale(guards: tuple[str, ...], namespace: dict[str, Any], parameters: dict[str, Any]) -> bool:
    """Is it for a global function that is another now, or for objects of a class that is gone? Such a program is not missed."""
    scope = namespace | parameters
    try:
        asked = first_failing(guards, scope)
    except CANNOT_ASK:
        return False
    if asked is None:
        return False
    text = ast.unparse(asked)
    named = [scope[node.id] for node in ast.walk(asked) if isinstance(node, ast.Name) and node.id in namespace]
    if OF_GLOBAL.match(text) and any(isinstance(v, (types.FunctionType, types.CodeType)) for v in named):
        return True
    return any(isinstance(v, type) and is_gone(v, namespace, scope) for v in named)


OF_GLOBAL = re.compile(r"G\['\w+'\](\.__code__)? (is|==) ")


def is_gone(kind: type, *programs: dict[str, Any]) -> bool:
    """Does nothing but its own parts, and the programs' names, refer to a class?"""
    module = sys.modules.get(kind.__module__)
    if not kind.__flags__ & IS_OF_PYTHON or getattr(module, kind.__qualname__, None) is kind:  # all objects are gone over below
        return False
    ours = {id(kind.__mro__), *map(id, programs)}
    for each in gc.get_referrers(kind):
        is_running = isinstance(each, types.FrameType | types.GeneratorType | list)  # those that ask
        if not is_running and id(each) not in ours and getattr(each, "__objclass__", None) is not kind:
            return False
    return True


def asked_of(guards: tuple[str, ...], namespace: dict[str, Any], parameters: dict[str, Any]) -> tuple[str, str]:
    """The part of a guard that does not hold, and the source of the integer that it is about, if it is about one alone."""
    try:
        asked = first_failing(guards, namespace | parameters)
    except CANNOT_ASK:
        return "", ""
    text = "" if asked is None else ast.unparse(asked)
    if not (match := IS_FIXED.fullmatch(text)):
        return text, ""
    bound = f"(({match[1]} := "
    return text, next((guard[len(bound) : -len(") is not None)")] for guard in guards if guard.startswith(bound)), "")


def is_about(asked: str, source: str) -> bool:
    """Does the text ask for what the source gives, and not for a part of it?"""
    return re.search(rf"(?<![\w.]){re.escape(source)}(\.__code__)?(?![\w.\[])", asked) is not None


def bound_in(guards: tuple[str, ...], names: list[str]) -> list[str]:
    """The guards that give symbols their values."""
    return [text for text in guards if any(f"({name} := " in text for name in names)]


_CONSTANT_NAME = re.compile(r"\bk_(\w+?)_\d+\b")


def shortened(value: Any) -> str:
    text = value.__qualname__ if isinstance(value, type) else repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
