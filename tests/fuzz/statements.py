"""Random statements: each function appends lines to the Writer, and raises Rejected when it cannot."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

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


def require(condition: object) -> None:
    if not condition:
        raise Rejected


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
                    f"np.cumsum({x}[None], axis=0, out={out})",  # a 0-D out crashes NumPy 2.4
                    f"np.add.at({out}, 0, 1)",
                    f"np.fill_diagonal({out}, 2)",
                    f"np.put({out}, [0], 3)",
                    f"np.putmask({out}, {out} == 1, 2)",
                ]
            )
        ]
        require(w.is_exact)
    require(w.add(lines))


def container(w: Writer) -> None:
    names = [n for n, v in w.env.items() if isinstance(v, (np.ndarray, np.generic, int, float))]
    require(names)
    items = [w.pick(names) for _ in range(w.integer(1, 3))]
    lists = [n for n, v in w.env.items() if type(v) is list and v]
    tables = [n for n, v in w.env.items() if type(v) is dict and v]
    tuples = [n for n, v in w.env.items() if type(v) is tuple and v]
    v = w.name()
    lines = [
        f"{v} = [{', '.join(items)}]",
        f"{v} = ({', '.join(items)},)",
        f"{v} = {{{', '.join(f'{k!r}: {x}' for k, x in zip('abc', items))}}}",
        f"{', '.join(f'{v}_{k}' for k in range(len(items)))}, = {', '.join(items)},",
    ]
    if lists and not w.iterated:
        x = w.pick(lists)
        lines += [f"{x}.append({items[0]})", f"{x} += [{items[0]}]", f"{x}.extend(({items[0]},))", f"{x}.insert(0, {items[0]})"]
    if lists:
        x = w.pick(lists)
        lines += [
            f"{x}[0] = {items[0]}",
            f"{v} = {x}[-1]",
            f"{v} = {x}.pop()",
            f"{v} = {x}[1:]",
            f"*{v}, {v}_l = {x}",
            f"{v} = [p for p in {x}]",
            f"{v} = [p * 2 for p in {x}]",
            f"{v} = len({x})",
            f"{x}.reverse()",
            f"{x}[0] += 1",
            f"{v} = {x} * 2",
            f"{v} = {x} + [1]",
            f"del {x}[0]",
            f"{v} = tuple({x})",
            f"{v} = sum({x})",
        ]
    if tuples:
        x = w.pick(tuples)
        lines += [f"{v}, *{v}_r = {x}", f"{v} = {x}[0]", f"{v} = list({x})", f"{v} = {x}[::-1]"]
    if tables:
        x = w.pick(tables)
        lines += [
            f"{v} = {x}['a']",
            f"{x}['d'] = {items[0]}",
            f"{x}['a'] += 1",
            f"{v} = [*{x}.values()]",
            f"{v} = {{**{x}, 'e': {items[0]}}}",
            f"{v} = {{p: q for p, q in {x}.items()}}",
            f"{v} = {x}.get('b', 2)",
            f"{x}.update(a={items[0]})",
            f"{v} = list({x})",
            f"{v} = {x}.pop('a')",
        ]
    require(w.add([w.pick(lines)]))


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


def block(w: Writer, header: Sequence[str], count: int = 2, statements: Sequence[Callable[[Writer], None]] = ()) -> None:
    """A compound statement: its header, and statements drawn where it stands."""
    outer, body = w.env, list(w.body)
    w.body += ["    " * w.indent + line for line in header]
    w.indent += 1
    try:
        env = w.probe([])
    except Exception as error:
        raise Rejected from error
    w.env = env if env is not None else outer
    length = len(w.body)
    for _ in range(w.integer(1, count)):
        grow(w, statements or SIMPLE)
    if len(w.body) == length:
        w.body += ["    " * w.indent + "pass"]
    w.indent -= 1
    added = w.body
    w.env, w.body = outer, body
    prefix = "    " * w.indent
    if not w.add([line.removeprefix(prefix) for line in added[len(body) :]]):
        raise Rejected


def loop(w: Writer) -> None:
    x = w.array()
    p, q = w.name(), w.name()
    containers = [n for n, v in w.env.items() if type(v) in (list, tuple) and v]
    headers = [
        f"for {p} in range({w.pick(['3', '1', '2', *w.numbers(int)])}):",
        f"for {p} in {x}:",
        f"for {p}, {q} in enumerate({x}):",
        f"for {p}, {q} in zip({x}, {w.array()}):",
        f"for {p} in range({w.pick(['20', '18'])}):",
        f"for {p} in range({x}.ndim - 1, -1, -1):",
    ]
    if containers:
        c = w.pick(containers)
        headers += [
            f"for {p} in {c}:",
            f"for {p}, {q} in enumerate({c}):",
            f"for {p}, {q} in zip({c}, range(5)):",
            f"for {p} in reversed({c}):",
        ]
    header = w.pick(headers)
    if not w.breaks and ("18" in header or "20" in header):
        raise Rejected
    over_list = any(c in header for c in containers)
    w.iterated += over_list
    try:
        block(w, [header], 3, (*SIMPLE, *SIMPLE, leave_loop))
    finally:
        w.iterated -= over_list


def leave_loop(w: Writer) -> None:
    require(w.add([f"if {condition(w)}:", f"    {w.pick(['break', 'continue'])}"]))


def condition(w: Writer) -> str:
    x = w.array()
    ndim = np.ndim(w.value(x))
    texts = [
        f"{x}.ndim > 1",
        f"{x}.shape[0] > 2" if ndim else f"{x}.ndim == 0",
        f"{x}.size < 5",
        f"{x}.shape == (3, 2)",
        f"{x}.dtype == float",
        f"len({x}.shape) == 2",
        f"{x} is {w.array()}",
    ]
    for number in w.numbers()[-3:]:
        texts += [
            f"{number} > 1",
            f"{number} == 2",
            f"{number}",
            f"not {number}",
            f"{number} < {x}.size",
            f"{number} > 0 and {x}.ndim",
        ]
    if w.breaks and w.is_exact and is_dyadic(w.value(x)) and kind(w.value(x)) != "c":
        texts += [
            f"{x}.sum() > 0",
            f"{x}.any()",
            f"({x} == 1).all() or {x}.size > 3",
            f"{x}.max() > {x}.min()",
            f"not {x}.any()",
            f"{x}.min() < 0 and {x}.ndim < 2",
        ] * 2
    return w.pick(texts)


def while_loop(w: Writer) -> None:
    v = w.name()
    limit = w.pick(["2", "3", *w.numbers(int)[-1:], f"min({w.array()}.ndim, 3)"])
    require(w.add([f"{v} = 0"]))
    block(w, [f"while {v} < {limit}:", f"    {v} += 1"], 2)


def branch(w: Writer) -> None:
    outer = dict(w.env)
    body = list(w.body)
    block(w, [f"if {condition(w)}:"], 2)
    if w.chance(2):
        env, first, w.env = w.env, w.body, outer
        try:
            w.body = [*first, "    " * w.indent + "else:"]
            w.indent += 1
            length = len(w.body)
            for _ in range(w.integer(1, 2)):
                grow(w, (assign, setitem, inplace))
            if len(w.body) == length:
                w.body.append("    " * w.indent + "pass")
        finally:
            w.indent -= 1
        added, w.body, w.env = w.body, body, outer
        prefix = "    " * w.indent
        if not w.add([line.removeprefix(prefix) for line in added[len(body) :]]):
            w.body, w.env = first, env


def function(w: Writer) -> None:
    """An inner function with a closure, called at once."""
    f, p = f"f{w.names}", w.name()
    x = w.array()
    outer = w.array()
    lines = w.pick(
        [
            [f"def {f}({p}):", f"    return {p} + {outer}"],
            [f"def {f}({p}, q=2, *rest, **named):", f"    return {p} * q + len(rest)"],
            [f"{f} = lambda {p}, q={outer}: ({p}, q)"],
            [f"def {f}({p}):", f"    {p}[...] = 1", f"    return {outer}"],
            [f"def {f}({p}):", f"    nonlocal {outer}", f"    {outer} = {p}", f"    return {p}.T"],
            [f"def {f}({p}):", f"    if {p}.ndim > 1:", f"        return {p}[0]", f"    return {p}"],
            [f"def {f}({p}):", "    total = 0", "    for r in range(3):", f"        total = total + {p} * r", "    return total"],
            [f"def {f}({p}):", "    def g(r):", f"        return r * {p}", f"    return g({outer})"],
            [f"def {f}({p}):", f"    record({p})", f"    return {p} * 2"]
            if w.breaks
            else [f"def {f}({p}):", f"    return {p} * 2"],
            [f"def {f}({p}):", f"    if {p}.any():", f"        return {p} * 2", f"    return {p}"]
            if w.breaks
            else [f"def {f}({p}):", f"    return {p}"],
        ]
    )
    if not w.is_exact and "any" in " ".join(lines):
        raise Rejected
    call = w.pick(
        [
            f"{w.name()} = {f}({x})",
            f"{w.name()} = {f}({x}) if {x}.ndim else {f}({outer})",
            f"{w.name()} = [{f}(r) for r in ({x}, {outer})]",
        ]
    )
    require(w.add([*lines, call]))


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


def guarded(w: Writer) -> None:
    """try and with blocks."""
    x = w.array()
    choice = w.integer(0, 3)
    if choice == 0:
        block(w, ["with np.errstate(all='ignore'):"], 2)
    else:
        v = w.name()
        failing = w.pick(
            [
                f"{v} = {x}[100]",
                f"{v} = {x} + np.ones(17)",
                f"{v} = {x}.reshape(7, 11, 13)",
                f"{v} = {x}.sum(axis=9)",
                f"{v} = {x} * 2",
            ]
        )
        handler = w.pick(
            [
                ["except (IndexError, ValueError):", f"    {v} = {x}"],
                ["except Exception as error:", f"    {v} = str(error)"],
                ["except TypeError:", f"    {v} = 1", "finally:", f"    {v}_f = {x} * 1"],
            ]
        )
        require(w.add(["try:", f"    {failing}", *handler]))


def python_code(w: Writer) -> None:
    """Expressions of the language around arrays."""
    x, y, v = w.array(), w.array(), w.name()
    test = condition(w)
    texts = [
        f"{v} = {x} if {test} else {y}",
        f"{v} = {test} and {x}",
        f"{v} = {test} or {x}",
        f"{v} = [p * 2 for p in ({x}, {y}) if p.ndim]",
        f"{v} = sum(p.size for p in ({x}, {y}))",
        f"{v} = ({v}_w := {x} * 2) * {v}_w",
        f"assert {test}",
        f"{v} = slice(1, None); {v}_s = {x}[{v}]",
        f"{v} = {x}[(0, slice(None))]",
        f"{v} = f'{{{x}.shape}} {{{x}.ndim:>3}} {{{x}.dtype}}'",
        f"{v} = max(len({x}), {y}.ndim)",
        f"{v} = math.sqrt({x}.size) * {x}.ndim",
        f"{v} = {x} * SCALE + RATE",
        f"{v} = TABLE * {x}",
        f"{v} = TABLE",
        f"{v} = {x}.shape; {v}_n = np.zeros({v})",
        f"{v}, {v}_m = {x}.shape",
        f"{v} = {x}; del {v}",
        f"{v} = {{k: {x} * i for i, k in enumerate(NAMES)}}",
        f"{v} = {x}.dtype",
        f"{v} = {x}.flags.c_contiguous, {x}.strides, {x}.itemsize",
        f"{v} = {x} is {y}, {x} is {x}",
        f"{v} = list(map(lambda p: p + 1, [{x}, {y}]))",
        f"{v} = [g() for g in [lambda: {x}, lambda: {y}]]",
        f"{v} = any(p.ndim > 1 for p in [{x}, {y}])",
        f"{v} = sorted([{x}.size, {y}.ndim, 2])",
        f"{v} = isinstance({x}, np.ndarray), type({y})",
        f"{v} = range({x}.ndim); {v}_l = len({v})",
        f"{v} = [*{x}.shape, {x}.ndim]",
        f"{v} = ({x},) + ({y},)",
        f"{v} = {x}.copy().T.base is None, {x}.T.base is {x}",
        f"{v} = dict(a={x}, b=1)['a']",
        f"{v} = [[{x}, {y}], {x}][0][1]",
        f"{v} = 1 < {x}.ndim <= {y}.ndim < 4",
        f"{v} = {x}.ndim in (1, 2), 'a' in NAMES",
        f"{v} = divmod({x}.size, 3)",
        f"{v} = {x}[{y}.ndim - 1]",
        f"{v} = np.shape({x}), np.ndim({y}), np.size({x})",
        f"{v} = (1 + 2j) * {x}.ndim; {v}_c = {v} * {x}",
        f"{v} = (0.5 + {x}.ndim) ** 2; {v}_f = {x} * {v}",
        f"{v} = {x}.size / 2, {x}.size // -2, -{x}.ndim % 3, {x}.ndim ** 2, {x}.size << 1, {x}.size & 6",
        f"{v} = {x}.copy(); {v}.shape = (-1,)",
        f"{v} = np.empty_like({x}); {v}[...] = {x}",
    ]
    if w.is_exact and is_dyadic(w.value(x)):
        texts += [f"{v} = [p.sum() for p in {x}]", f"{v} = {x}.sum() * 2 + 1", f"{v} = sum({x})", f"{v} = list({x})"]
        texts += [
            f"{v}, *{v}_r = {x}",
            f"{v} = [p for p in {x}[::-1]]",
            f"{v} = max([{x}.ndim, 2]) * {x}.min()",
            f"{v} = {x}.tolist()",
        ]
    require(w.add(w.pick(texts).split("; ")))


def user_code(w: Writer) -> None:
    """Functions and objects of the user's own."""
    x, y, v = w.array(), w.array(), w.name()
    texts = [
        [f"{v} = helper({x})"],
        [f"{v} = helper({x}, {scalar(w)}, {y}, b={scalar(w)})"],
        [f"{v} = helper(*[{x}, 3], **{{'b': 2}})"],
        [f"{v} = recursive({x}, {w.pick(['2', '0', f'{x}.ndim'])})"],
        [f"{v} = [helper(p, k) for p, k in zip(({x}, {y}), (1, 2))]"],
    ]
    if w.breaks:
        texts += [
            [f"{v} = breaking_helper({x})"],
            [f"{v} = breaking_helper({x}, {x}.ndim) + breaking_helper({y})"],
            [f"{v} = Box({x})", f"{v}_a = {v}.scaled({y}.ndim)", f"{v}_b = {v}.total"],
            [
                f"{v} = Box({x})",
                f"{v}.data = {v}.data + 1",
                f"{v}_a = {v}.touch(), {v}.touch()",
                f"{v}_b = {v}.data",
                f"{v} = {v}.uses",
            ],
            [f"{v} = Box({x})", f"{v}.data += 1", f"{v} = {v}.data"],
            [f"{v} = Box({x})", f"{v}.data[0] = 2", f"{v} = {v}.data, {v}.scale"],
        ]
    lines = w.pick(texts)
    if lines[0].startswith(f"{v} = Box") and not lines[-1].startswith(f"{v} = "):
        lines = [*lines, f"{v} = 0"]
    require(w.add(lines))


def element_loops(w: Writer) -> None:
    """Loops that fill an array element by element or row by row."""
    x, v, i, j = w.array(lambda y: np.ndim(y) > 0), w.name(), w.name(), w.name()
    shape = np.shape(w.value(x))
    texts = [
        [f"{v} = np.zeros({x}.shape)", f"for {i} in range({x}.shape[0]):", f"    {v}[{i}] = {x}[{i}] * {i}"],
        [f"{v} = np.zeros_like({x})", f"for {i} in range(1, len({x})):", f"    {v}[{i}] = {v}[{i} - 1] + {x}[-{i}]"],
        [
            f"{v} = []",
            f"for {i} in range(len({x})):",
            f"    {v}.append({x}[{i}])",
            f"    if {i} == 2:",
            "        break",
            "else:",
            f"    {v} = ({v}, 1)",
        ],
        [f"{v} = 0", f"for {i} in {x}:", f"    {v} = {v} + {i}"],
        [f"{v} = []", f"for {i}, {j} in zip({x}, {x}[::-1]):", f"    {v} += [{i} * {j}]"],
        [f"{v} = {x}.copy()", f"for {i} in range(len({v}) // 2):", f"    {v}[{i}], {v}[-1 - {i}] = {v}[-1 - {i}], {v}[{i}]"],
    ]
    if len(shape) == 2:
        texts += [
            [
                f"{v} = np.zeros({x}.T.shape)",
                f"for {i} in range({x}.shape[0]):",
                f"    for {j} in range({x}.shape[1]):",
                f"        {v}[{j}, {i}] = {x}[{i}, {j}]",
            ],
            [
                f"{v} = 0",
                f"for {i} in {x}:",
                f"    for {j} in {i}:",
                f"        {v} = {v} + {j}",
                f"        if {j}:" if w.breaks else "        if False:",
                "            continue",
                f"        {v} = {v} + 1",
            ],
        ]
    if w.breaks and kind(w.value(x)) != "c":
        texts += [
            [f"{v} = 0", f"while {x}.max() > {v} < 40:", f"    {v} += 2"],
            [
                f"{v} = {x}.copy()",
                f"for {i} in range(25):",
                f"    {v} = {v} * 0.5",
                f"    if abs({v}).max() < 1:",
                "        break",
            ],
            [f"{v} = 0", f"for {i} in range(len({x})):", f"    if {x}[{i}].any():", f"        {v} += 1", f"        record({v})"],
            [f"{v} = [opaque(p) for p in {x}]"],
            [
                f"{v} = 0",
                f"for {i} in iter([{x}, {x}]):",
                "    try:",
                f"        {v} = {v} + {i}",
                f"        record({i}.shape)",
                "    finally:",
                f"        {v} = {v} * 2",
            ],
        ]
    require(w.is_exact and is_dyadic(w.value(x)) and np.isfinite(w.value(x)).all())
    require(w.add(w.pick(texts)))


def multiple_return(w: Writer) -> None:
    """Leave early, for a reason that may hold in some rounds only."""
    require(w.add([f"if {w.pick(w.arrays())}.size > {w.pick(['10', '100', '4'])}:", f"    return {w.pick(list(w.env))}"]))


SIMPLE = (
    *[assign] * 5,
    *[inplace] * 3,
    *[setitem] * 3,
    write_through,
    call_with_out,
    *[container] * 2,
    python_code,
    python_number,
    swap,
    leave_graph,
)
STATEMENTS = (
    *SIMPLE * 2,
    alias,
    *[python_code] * 6,
    *[user_code] * 2,
    *[element_loops] * 3,
    *[loop] * 4,
    while_loop,
    *[branch] * 3,
    *[function] * 2,
    leave_graph,
    guarded,
    multiple_return,
)


def grow(w: Writer, statements: Sequence[Callable[[Writer], None]] = STATEMENTS) -> bool:
    """Draw one statement; False when it was rejected."""
    saved = list(w.body), w.env, w.indent
    try:
        w.pick(statements)(w)
    except Rejected:
        w.body, w.env, w.indent = saved
        return False
    return True
