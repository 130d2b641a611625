"""C functions over the elements of arrays as they are written: what they take, and the nests of loops that they have."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from npcompile.backends.cpu.array_expressions import Apply, Gather, Number, Part, Read, Tree
from npcompile.backends.cpu.fp_barriers import KnownNumbers
from npcompile.backends.cpu.kept_values import kept_text, not_needed
from npcompile.backends.cpu.loops.scalar_loops import NoForm
from npcompile.backends.cpu.primitives import c_type, power_text, primitive_text
from npcompile.backends.kernels.kernel import Let, Value

INTEGER = re.compile(r"U?INT64_C\((-?\d+)\)")
NARROW = (2, 3)  # elements of rows for which loops are compiled apart
DEEPEST = 8  # loops in each other: with 24 GCC takes a minute, with 40 four


def require_shallow(ndim: int) -> None:
    if ndim > DEEPEST:
        raise NoForm(f"a statement over arrays of more than {DEEPEST} dimensions")


@dataclass(slots=True)
class Function:
    """A C function as it is written: what it needs of its caller becomes parameters."""

    name: str
    parameters: dict[str, tuple[str, str]] = field(default_factory=dict)  # the caller's text -> (C type, name)
    own: set[str] = field(default_factory=set)  # names of numbers that it finds itself

    def take(self, text: str, c: str = "int64_t") -> str:
        """A name for the caller's value; numbers that are known stay as they are."""
        if text.lstrip("-").isdigit() or text in self.own:
            return text
        if text not in self.parameters:
            self.parameters[text] = c, f"p{len(self.parameters)}"
        return self.parameters[text][1]

    @property
    def signature(self) -> str:
        return ", ".join(f"{c} {name}" for c, name in self.parameters.values())

    @property
    def names(self) -> str:
        return ", ".join(name for _, name in self.parameters.values())

    def loop(self, axis: int, size: str) -> str:
        return f"for (int64_t i{axis} = 0; i{axis} < {self.take(size)}; i{axis}++) {{"

    @property
    def texts(self) -> str:
        return ", ".join(f"(char*)({t})" if c == "char*" else t for t, (c, _) in self.parameters.items())


@dataclass(slots=True)
class Nest:
    """Loops over all elements of a shape. Rows are pointers that the loops around the innermost one set."""

    function: Function
    sizes: tuple[str, ...]
    rows: list[str] = field(default_factory=list)  # statements before the innermost loop
    begins: list[str] = field(default_factory=list)  # and before all loops
    body: list[str] = field(default_factory=list)  # statements of the innermost loop, before the value is used
    known: KnownNumbers = field(default_factory=KnownNumbers)
    lets: list[Let] = field(default_factory=list)  # the operations, for what they note
    made: int = 0

    def __post_init__(self) -> None:
        require_shallow(len(self.sizes))

    def element(self, part: Part) -> str:
        """The C expression of the element where the loops are, as an lvalue."""
        f, c = self.function, c_type(part.dtype)
        first = f.take(part.data, "char*")
        lead = len(self.sizes) - part.ndim
        terms = []
        for k, stride in enumerate(part.strides):
            if part.sizes[k] == "1" and self.sizes[lead + k] != "1":
                continue
            terms.append((lead + k, f.take(stride)))
        inner = [s for k, s in terms if k == len(self.sizes) - 1]
        outer = "".join(f" + i{k} * {s}" for k, s in terms if k != len(self.sizes) - 1)
        self.made += 1
        row = f"r{self.made}"
        self.rows.append(f"char* const {row} = {first}{outer};")
        place = f"i{len(self.sizes) - 1}"
        return f"*({c}*)({row} + {place} * {inner[0]})" if inner else f"*({c}*){row}"

    def stored(self, tree: Tree) -> str:
        """The element's value, as it is stored or combined: also made of what must be computed for its errors alone."""
        text = self.value(tree)
        others = [(v.name, c_type(v.dtype)) for v in not_needed(self.lets, Value(text, tree.dtype))]
        return kept_text(text, c_type(tree.dtype), others, self.function.take("rt", "char*")) if others else text

    def value(self, tree: Tree) -> str:
        match tree:
            case Number(text, dtype):
                name = self.function.take(text, c_type(dtype))
                if (number := literal(text, dtype)) is not None:
                    self.lets.append(Let(Value(name, dtype), "constant", (), (("value", number),)))
                    self.known.hidden(self.lets[-1])
                return name
            case Read(part):
                text = self.element(part)
                if text.endswith(f"*)r{self.made}") and len(self.sizes) > 1:  # one for the row
                    self.rows.append(f"const {c_type(part.dtype)} row{self.made} = {text};")
                    text = f"row{self.made}"
                return f"({text} != 0)" if part.dtype.kind == "b" else text
            case Gather(part, places):
                return self.gathered(part, places)
            case Apply(op, args, dtype):
                values = [self.named(self.value(a), a) for a in args]
                self.made += 1
                name = f"v{self.made}"
                params = (("dtype", dtype),) if op == "cast" else ()
                let = Let(Value(name, dtype), op, tuple(Value(v, a.dtype) for v, a in zip(values, args)), params)
                if (hidden := self.known.hidden(let)) is not None:
                    values[hidden] = self.known.opaque(let.args[hidden], values[hidden], self.function.take("rt", "char*"))
                text = primitive_text(op, values, [a.dtype for a in args], dtype)
                if op == "power" and isinstance(args[1], Number):
                    text = power_text(values[0], args[0].dtype, literal(args[1].text, dtype)) or text
                if kept := self.known.kept(let):
                    others = [(arm.name, c_type(arm.dtype)) for arm in kept]
                    text = kept_text(text, c_type(dtype), others, self.function.take("rt", "char*"))
                self.lets.append(let)
                self.body.append(f"const {c_type(dtype)} {name} = {text};")
                return name
        raise AssertionError(tree)

    def named(self, text: str, tree: Tree) -> str:
        """Primitives may name an operand more than once."""
        if not isinstance(tree, Number) and not text.isidentifier():
            self.made += 1
            self.body.append(f"const {c_type(tree.dtype)} v{self.made} = {text};")
            text = f"v{self.made}"
        if isinstance(tree, Read):
            self.known.reads(Value(text, tree.dtype), (tree.part.data, tree.part.sizes, tree.part.strides))
        return text

    def gathered(self, part: Part, places: Tree) -> str:
        f, c = self.function, c_type(part.dtype)
        first, size, stride = f.take(part.data, "char*"), f.take(part.sizes[0]), f.take(part.strides[0])
        where = self.value(places)
        self.made += 1
        k = f"k{self.made}"
        self.body += [f"int64_t {k} = {where};", f"{k} += {k} < 0 ? {size} : 0;", *self.checked(k, size)]
        if f"if (!{size}) return 1;" not in self.begins:
            self.begins.append(f"if (!{size}) return 1;")
        text = f"*({c}*)({first} + {k} * {stride})"
        return f"({text} != 0)" if part.dtype.kind == "b" else text

    def checked(self, place: str, size: str) -> list[str]:
        """Statements after which a place is inside; `bad` tells if it was not."""
        return [
            f"bad |= (uint64_t){place} >= (uint64_t){size};",
            f"{place} = (uint64_t){place} >= (uint64_t){size} ? 0 : {place};",
        ]

    def loops(self, inner: Sequence[str], first: str = "0", end: str | None = None, pragma: str = "") -> list[str]:
        """The loops; the outermost from `first` to `end`."""
        sizes = [self.function.take(n) for n in self.sizes]
        lines, closing = [], []
        for k, n in enumerate(sizes[:-1]):
            start, stop = (first, end or n) if k == 0 else ("0", n)
            lines.append(f"for (int64_t i{k} = {start}; i{k} < {stop}; i{k}++) {{")
            closing.append("}")
        last = len(sizes) - 1
        lines += self.rows
        if sizes:
            start, stop = (first, end or sizes[0]) if last == 0 else ("0", sizes[last])
            lines += [pragma] * bool(pragma)
            lines.append(f"for (int64_t i{last} = {start}; i{last} < {stop}; i{last}++) {{")
            closing.append("}")
        return [*lines, *self.body, *inner, *closing]


def literal(text: str, dtype: np.dtype) -> float | None:
    """The number that a C literal is, if the dtype has it."""
    if match := INTEGER.fullmatch(text):
        number = int(match[1])
        return number if dtype.kind not in "iu" or np.iinfo(dtype).min <= number <= np.iinfo(dtype).max else None
    try:
        return float.fromhex(text) if "x" in text else float(text)
    except ValueError:
        return None


def known_product(factors: Sequence[str]) -> str:
    return " * ".join(f for f in factors if f != "1") or "1"


def dense_strides(sizes: Sequence[str], itemsize: int) -> tuple[str, ...]:
    """Of C order, as C expressions."""
    return tuple(known_product([*sizes[k + 1 :], str(itemsize)]) if sizes[k + 1 :] else str(itemsize) for k in range(len(sizes)))


def with_narrow_rows(
    name: str, parameters: str, body: Sequence[str], f: Function, parts: Sequence[Part], others: Mapping[str, str]
) -> list[str]:
    """The function, which for rows of a few elements side by side is compiled apart.

    `others`: parameters, and the number or the parameter whose value each has in most calls.
    """
    head = f"static inline __attribute__((always_inline)) int {name}"
    names = [p.split()[-1].lstrip("*") for p in parameters.split(", ")]
    tests = []
    for n in NARROW:
        fixed = narrow_rows(f, parts, n)
        if fixed:
            fixed |= {k: int(fixed.get(v, v)) for k, v in others.items() if v in fixed or v.isdigit()}
            passed = ", ".join(str(fixed.get(p, p)) for p in names)
            tests.append(f"if ({' && '.join(f'{k} == {v}' for k, v in fixed.items())}) return {name}_rows({passed});")
    if not tests:
        return [f"{head}({parameters}) {{", *body, "}"]
    # What is for any rows has buffers, and would take registers from those that need few.
    anyone = f"static __attribute__((noinline)) int {name}_any({parameters}) {{ return {name}_rows({', '.join(names)}); }}"
    called = f"return {name}_any({', '.join(names)});"
    return [f"{head}_rows({parameters}) {{", *body, "}", anyone, f"static int {name}({parameters}) {{", *tests, called, "}"]


def narrow_rows(f: Function, parts: Sequence[Part], n: int) -> dict[str, int] | None:
    """What parameters must be where the matrices have n columns and are dense. None where that is known, or cannot be."""
    rows = [p for p in parts if p.ndim == 2 and "1" not in p.sizes]
    if not rows or any(p.ndim > 2 for p in parts) or rows[0].sizes[1].isdigit():
        return None
    wanted = [(p.sizes[1], n) for p in rows]
    wanted += [pair for p in rows for pair in zip(p.strides, (n * p.dtype.itemsize, p.dtype.itemsize))]
    if any(text.isdigit() and int(text) != value for text, value in wanted):
        return None
    return {f.parameters[text][1]: value for text, value in wanted if text in f.parameters}
