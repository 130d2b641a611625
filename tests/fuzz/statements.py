"""Random statements about arrays: each function appends lines to the Writer, and raises Rejected when it cannot."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.fuzz.blocks import require
from tests.fuzz.expressions import (
    ARITHMETIC,
    BITWISE,
    EXACT_BINARY,
    INEXACT_BINARY,
    expression,
    index,
    is_convertible,
    mask,
    operand,
    out_array,
    scalar,
)
from tests.fuzz.writer import Rejected, Writer, is_dyadic, kind


def assign(w: Writer) -> None:
    target = w.pick(w.arrays()) if w.chance(5) else w.name()
    require(w.add([f"{target} = {expression(w)}"]))


def alias(w: Writer) -> None:
    require(w.add([f"{w.name()} = {w.pick(list(w.env))}"]))


def inplace(w: Writer) -> None:
    x = w.array()
    symbol = w.pick([*ARITHMETIC[:6], "/", *BITWISE[:3]] if w.is_exact else ["+", "-", "*", "/"])
    require(w.add([f"{x} {symbol}= {right_side(w, x)}"]))


def right_side(w: Writer, x: str) -> str:
    """What may be stored into x without leaving what C defines."""
    choice = w.integer(0, 3)
    text = scalar(w) if choice == 0 else operand(w, x) if choice == 1 else expression(w, 1)
    require(kind(w.value(x)) not in "biu" or is_convertible(w.value(text)))
    require(kind(w.value(x)) not in "u" or np.all(np.asarray(w.value(text)) >= 0) or kind(w.value(text)) in "iu")
    return text


def writeable(x: Any) -> bool:
    return isinstance(x, np.ndarray) and x.flags.writeable


def setitem(w: Writer) -> None:
    x = w.array(writeable) if not w.chance(15) else w.array()
    shape = np.shape(w.value(x))
    key = mask(w, x) if w.chance(5) else index(w, shape)
    symbol = w.pick(["=", "=", "=", "+=", "*=", "-="])
    require(w.add([f"{x}[{key}] {symbol} {right_side(w, x)}"]))


def write_through(w: Writer) -> None:
    x = w.array(writeable)
    target = w.pick([f"{x}.T", f"{x}[::-1]", f"{x}.real", f"{x}.flat", f"{x}.reshape(-1)", f"{x}[...]"])
    require(w.add([f"{target}[{w.pick([':', '0', '...', '1:', '::2', '-1'])}] {w.pick(['=', '+='])} {right_side(w, x)}"]))


def call_with_out(w: Writer) -> None:
    x, out = w.array(), out_array(w)
    require(kind(w.value(out)) != "u")
    name = w.pick(EXACT_BINARY[:6] if w.is_exact else INEXACT_BINARY)
    where = f", where={w.array(lambda y: kind(y) == 'b')}" if w.chance(3) and w.arrays(lambda y: kind(y) == "b") else ""
    casting = w.pick(["", "", "", ", casting='unsafe'"]) if is_convertible(w.value(x)) else ""
    lines = [f"{name}({x}, {operand(w, x)}, out={out}{where}{casting})"]
    if w.is_exact and not is_dyadic(w.value(x)):
        raise Rejected
    if w.chance(3):
        lines = [
            w.pick(
                [
                    f"{x}.sum(axis=0, out={out})",
                    f"np.copyto({out}, {x})",
                    f"{out}.fill({scalar(w)})",
                    f"{out}.sort()",
                    f"np.cumsum({out}, axis=0, out={out}) if {out}.ndim else None",  # into another shape it may crash NumPy 2.4
                    f"np.add.at({out}, 0, 1)",
                    f"np.fill_diagonal({out}, 2)",
                    f"np.put({out}, [0], 3)",
                    f"np.putmask({out}, {out} == 1, 2)",
                ]
            )
        ]
        require(w.is_exact)
    require(w.add(lines))


def swap(w: Writer) -> None:
    a, b = w.array(), w.array()
    require(w.add([w.pick([f"{a}, {b} = {b}, {a}", f"{a} = {b} = {b}", f"{a}[...], {b} = {b}, {a}"])]))


def python_number(w: Writer) -> None:
    x = w.array()
    ndim = np.ndim(w.value(x))
    texts = [f"{x}.ndim", f"{x}.size", f"{x}.shape[0]" if ndim else "2", f"len({x})" if ndim else "3", "1"]
    for number in w.numbers(int)[-2:]:
        texts += [
            f"{number} + 1",
            f"{number} // 2",
            f"{number} % 3",
            f"-{number}",
            f"min({number}, 3)",
            f"max({number}, {x}.ndim)",
            f"abs({number})",
        ]
    for number in w.numbers(float)[-2:]:
        texts += [f"{number} * 2", f"{number} - 1", f"abs({number})", f"{number} / 2", f"-{number}"]
    if w.breaks and w.is_exact and is_dyadic(w.value(x)) and kind(w.value(x)) != "c":
        texts += [f"float({x}.sum())", f"int({x}.sum())", f"{x}.sum().item()", f"{x}.max().item()", f"bool({x}.any())"]
    require(w.add([f"{w.name()} = {w.pick(texts)}"]))


def leave_graph(w: Writer) -> None:
    require(w.breaks)
    x, v = w.array(), w.name()
    texts = [
        f"record({x}.shape)",
        f"record({x})",
        f"{v} = opaque({x})",
        "npc.graph_break()",
        f"{v} = {x} + opaque({scalar(w)})",
        f"{v} = opaque([{x}, {w.array()}])",
        f"{v} = [{x} * 2, opaque({x})]",
        f"{v} = ({x} + 1, opaque({x}) , {x} - 1)",
    ]
    require(w.add([w.pick(texts)]))
