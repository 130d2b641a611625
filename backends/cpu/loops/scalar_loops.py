"""Loops over single elements as C: numbers in registers, arrays read and written where they lie, jumps between blocks.

A program is written statement by statement, each where the user's program has it. Kinds of numbers are "int", "float" and
"bool" for Python's, and "f8", "i4", "b1" ... for NumPy's scalars. What a statement cannot do exactly as Python or NumPy
would (an overflow, a division by zero, an index out of bounds, a floating-point error that NumPy reports) jumps to an exit
before it has changed anything: Python goes on from there, and reports.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from npcompile.backends.cpu.elements import C_OF_KIND, INTEGER, LIMITS, PART_OF_COMPLEX, ArrayInput
from npcompile.backends.cpu.loops import column_packing, complex_numbers, fp_status
from npcompile.backends.cpu.loops.dependence import Accesses
from npcompile.backends.cpu.loops.scalar_functions import EXACT, LIBM, LIBM_OF_TWO, WITHOUT_REPORT, name_of
from npcompile.backends.cpu.loops.side_exits import Handed, WayOut, failed
from npcompile.backends.cpu.loops.speculation import Strip
from npcompile.backends.cpu.loops.value_ranges import RULES, Integer, constant, divided
from npcompile.backends.cpu.primitives import truncated_text
from npcompile.backends.native_profiling import told
from npcompile.backends.passes import PassLog

FUNCTIONS = ("pow", *LIBM, *LIBM_OF_TWO, *EXACT)
BITWISE = {"bitwise_and": "&", "bitwise_or": "|", "bitwise_xor": "^"}
SIGNS = {"add": "+", "subtract": "-", "multiply": "*", "divide": "/"}
COMPARISONS = {"less": "<", "less_equal": "<=", "equal": "==", "not_equal": "!=", "greater": ">", "greater_equal": ">="}
LARGEST_EXACT = 2**53  # integers up to here are float64 numbers
BOUNDS = {**LIMITS, "int": (-(2**63), 2**63 - 1), "bool": (0, 1), "b1": (0, 1)}

LITERAL = re.compile(r"INT64_C\((-?\d+)\)")
SIZE = re.compile(r"a\d+_n\d+")
INPUT = re.compile(r"in\d+")
# Of integers and addresses: expressions that give the same wherever they stand, as nothing in them is set twice.
# Each word is taken whole: parts of words tried in all ways, as `n12` is `n1` and `2`, take for ever where there are 30.
PURE = re.compile(
    r"(?:t\d++|a\d++(?:_[ns]\d++)?+|in\d++|npc_(?:bound|max|count|mod|near_mod)|int64_t|INT64_C|\d++|[-+*?:<>=(), ])++"
)

Fail = Callable[[], str]  # the label of the exit before the present instruction


class NoForm(Exception):
    """There is no C for this, or none that does it exactly."""


def is_complex(kind: str) -> bool:
    return kind in PART_OF_COMPLEX


def is_float(kind: str) -> bool:
    return kind in ("float", "f8", "f4")


def is_integer(kind: str) -> bool:
    return kind == "int" or kind[0] in "iu" and kind != "int"


def definition(kind: str, name: str, text: str) -> str:
    return f"const {C_OF_KIND[kind]} {name} = {text};"


def suffix(kind: str) -> str:
    return "f" if kind == "f4" else ""


@dataclass(slots=True)
class ScalarLoops:
    """The program as it is written. Values are the texts of C variables that are set once."""

    lines: list[str] = field(default_factory=list)
    variables: dict[str, str] = field(default_factory=dict)  # of the user's, and of the stack -> C type
    exits: list[WayOut] = field(default_factory=list)
    failing: Fail = failed  # the label for the statement that is being written, where an exception is set
    numbers: list[tuple[str, str]] = field(default_factory=list)  # inputs: (kind, name)
    arrays: list[ArrayInput] = field(default_factory=list)
    objects: int = 0  # inputs that are only handed on
    examples: dict[str, int] = field(default_factory=dict)  # sizes of arrays that are given, in the call that this is written for
    bounds: dict[str, int] = field(default_factory=dict)  # products of such sizes -> the most that they may be
    dtypes: list[np.dtype] = field(default_factory=list)
    lists: dict[str, None] = field(default_factory=dict)  # of numbers, that the program makes: C variables
    constants: set[str] = field(default_factory=set)  # variables that are set once, before the program begins
    statements: Any = None  # over whole arrays: an ArrayLoops
    pointwise: Any = None  # the loop that is followed to see what it does to each element
    by_blocks: set[int] = field(default_factory=set)  # instructions of loops that are written by blocks of rows
    indexed: set[int] = field(default_factory=set)  # loops in which some index is a variable
    instruction: int = -1  # the bytecode that is being written
    of: str = ""  # the directive with the user's line, where profilers are told
    where: tuple[int | None, ...] = (0, 0, 0, 0)  # in the user's text: line, its end, column, its end
    passes: PassLog = field(default_factory=PassLog)
    loop: int = -1  # the header of the outermost loop that it is in
    within: set[tuple[str, int, str]] = field(default_factory=set)  # (array, axis, index): known to be within bounds there
    are_small: bool = False  # are all arrays that are given small, so far?
    asks_small: bool = False  # do they have to be?
    is_bitwise: bool = False  # are NumPy's bits asked for, in all results?
    made: int = 0
    sites: int = 0  # where arrays are made
    parts: dict[str, tuple[str, str]] = field(default_factory=dict)  # variables of complex numbers that were made of these
    integers: dict[str, Integer] = field(default_factory=dict)  # what is known of variables that are set once
    copies: dict[str, str] = field(default_factory=dict)  # C variables that are set once -> of the program, as they were read
    read_at: dict[str, set[str]] = field(default_factory=dict)  # elements -> variables of the program among the indices
    sums: set[str] = field(default_factory=set)  # of integers that are no products
    products: set[str] = field(default_factory=set)
    strip: Strip | None = None  # that is being written
    declarations: list[str] = field(default_factory=list)
    functions: list[str] = field(default_factory=list)  # of strips
    apart: set[tuple[str, str]] = field(default_factory=set)  # arrays that must not overlap where strips run
    computed: dict[tuple[str, str], tuple[str, int]] = field(default_factory=dict)  # kind, expression -> variable, its line
    accesses: Accesses | None = None  # of the loop whose chunks are being written
    copied: frozenset[str] = frozenset()  # matrices of which chunks of a loop have copies by columns

    wraps_results: bool = False  # does what it returns come in a list, as what it hands over does?
    clean_at: int = 0  # the line from which Python goes on where a statement is left

    # --- inputs

    def number(self, kind: str) -> str:
        name = f"in{len(self.numbers)}"
        self.numbers.append((kind, name))
        return name

    def array(self, dtype: np.dtype, ndim: int, is_contiguous: bool, made: str = "") -> ArrayInput:
        kind = dtype.str[1:]
        if kind not in C_OF_KIND:
            raise NoForm(f"elements of {dtype}")
        array = ArrayInput(f"a{len(self.arrays)}", kind, ndim, is_contiguous, made=made)
        self.arrays.append(array)
        self.constants.update(array.texts)
        return array

    @property
    def given_arrays(self) -> list[ArrayInput]:
        return [a for a in self.arrays if not a.made]

    def write_to(self, root: str) -> None:
        """What is stored is this object's memory, also where a view of it is written to: if it is given, it must be writeable."""
        for array in self.arrays:
            array.is_written |= array.root == root

    def stay(self, dtype: np.dtype, data: str, sizes: Sequence[str], strides: Sequence[str], made: str) -> ArrayInput:
        """An array in C order that the program has made and keeps, as one whose elements loops read and write."""
        array = self.array(dtype, len(sizes), True, made)
        for line in array.set(data, sizes, strides):
            self.line(line)
        return array

    # --- statements

    def line(self, text: str) -> None:
        self.lines.append(told(text, self.of) if self.of else text)
        if text[-1:] in "{}" and (text[-1:] == "{" or not text.strip("}")):
            self.computed.clear()  # of another block of C

    def new(self, kind: str, text: str) -> str:
        """A variable for an expression: the one that has its value, if there is one."""
        is_pure = kind in ("int", "data") and "*)" not in text and PURE.fullmatch(text) is not None
        is_pure |= text in self.variables and text[0] in "LS" and kind not in ("data", "object")  # until it is set
        name, at = self.computed.get((kind, text), ("", -1)) if is_pure else ("", -1)
        if name and at < len(self.lines) and self.lines[at] == definition(kind, name, text):
            return name
        self.made += 1
        name = f"t{self.made}"
        if is_pure:
            self.computed[kind, text] = name, len(self.lines)
        self.line(definition(kind, name, text))
        if kind in BOUNDS and (known := self.integer(text, kind)).fits(*BOUNDS[kind]):
            self.integers[name] = known
        if text in self.variables:
            self.copies[name] = text
            if self.strip is not None:
                self.strip.copies[name] = text
        if self.accesses is not None and text in self.accesses.inner:
            self.accesses.inner[name] = self.accesses.inner[text]
        return name

    def known(self, kind: str, text: str, known: Integer | None) -> str:
        """A variable of its own for an integer of which something is known."""
        name = self.new(kind, text)
        if known is not None and known.fits(*BOUNDS[kind]):
            self.integers[name] = known
        return name

    def has_read(self) -> bool:
        """Has the statement read memory, which it would read again where it is left?"""
        lines = (line.replace("(npc_array*)", "") for line in self.lines[self.clean_at :])
        return any("*)" in line or line.startswith(("switch", "for")) for line in lines)

    def room(self, kind: str) -> str:
        self.made += 1
        self.line(f"{C_OF_KIND[kind]} t{self.made} = 0;")
        return f"t{self.made}"

    def integer(self, text: str, kind: str = "int") -> Integer:
        """What is known of an integer: a variable or a literal."""
        text = text.removeprefix("(int64_t)")
        if (known := self.integers.get(text)) is not None:
            return known
        if (literal := LITERAL.fullmatch(text)) is not None:
            return constant(int(literal[1]))
        least, most = BOUNDS[kind]
        if SIZE.fullmatch(text):
            return Integer(0, 2**63 - 1, ((text, 1),))
        if INPUT.fullmatch(text) or self.strip is not None and text in self.strip.stays:
            return Integer(least, most, ((text, 1),))
        return Integer(least, most)

    def bound(self, text: str, least: int, most: int) -> None:
        """An integer lies between these, where the program is being written."""
        known = self.integer(text)
        least, most = max(least, known.least), min(most, known.most)
        if least <= most:
            self.integers[text] = replace(known, least=least, most=most)

    def variable(self, name: str, kind: str) -> str:
        self.variables[name] = C_OF_KIND[kind]
        return name

    def set(self, name: str, value: str) -> None:
        if name != value:
            self.line(f"{name} = {value};")
            for key in [key for key in self.computed if key[1] == name]:
                del self.computed[key]
            if self.strip is not None:
                self.strip.assigned.setdefault(name, set()).add(value)

    def leave_if(self, condition: str, fail: Fail) -> None:
        """What follows must be harmless where the condition holds: a strip of iterations is undone later."""
        if self.strip is not None:
            self.strip.note(condition)
        else:
            self.line(f"if (UNLIKELY({condition})) goto {fail()};")

    def leave_if_new(self, value: str, kind: str, condition: str, fail: Fail, carried: Sequence[str] = ()) -> None:
        """Leave if a result is not finite and the condition holds. Where one of `carried` is not finite, neither is it."""
        if self.strip is not None:
            self.strip.not_finite(value, kind, carried)
        else:
            self.leave_if(condition, fail)

    def refuse_strip(self) -> None:
        """What follows reads or writes memory by other means than `load` and `store`."""
        if self.strip is not None:
            raise NoForm("a strip with other statements than those on single elements")

    def floats(self) -> frozenset[str]:
        """Variables, and numbers that are given, which are no integers."""
        given = {name: C_OF_KIND[kind] for kind, name in self.numbers}
        return frozenset(name for name, c in {**self.variables, **given}.items() if c in fp_status.FLOATS)

    def outer(self) -> dict[str, str]:
        """What functions of strips may be given -> C type."""
        given = {name: C_OF_KIND[kind] for kind, name in self.numbers}
        for a in self.arrays:
            given[a.name] = "char* restrict"
            given |= {f"{a.name}_{part}{axis}": "int64_t" for part in "ns" for axis in range(a.ndim)}
        copied = self.copied if self.accesses is None else self.copied | self.accesses.columns
        given |= dict.fromkeys(map(column_packing.name_of, sorted(copied)), "const char*")
        moving = self.accesses.moving if self.accesses is not None else ()
        return {**self.variables, **given, **dict.fromkeys(moving, "int64_t")}

    def keep_apart(self, written: Iterable[str], named: Iterable[str]) -> list[str]:
        """C conditions under which arrays that a strip writes do not overlap others that it names."""

        def pairs(arrays: set[str]) -> set[tuple[str, str]]:
            return {(min(a, b), max(a, b)) for a in arrays.intersection(written) for b in arrays if a != b}

        # Those that the program made are apart, where several names do not have the same.
        given = pairs({a.name for a in self.given_arrays}.intersection(named))
        self.apart |= given
        lent = pairs({a.name for a in self.arrays if a.is_lent}.intersection(named))
        return [*["apart"] * bool(given), *(f"{a} != {b}" for a, b in sorted(lent))]

    def settle(self) -> None:
        """Before a branch."""
        if self.strip is not None:
            self.strip.settle()

    def label(self, name: str) -> None:
        self.line(f"{name}:;")
        self.computed.clear()

    def jump(self, label: str) -> None:
        self.line(f"goto {label};")

    def branch(self, condition: str, true: str, false: str) -> None:
        self.line(f"if ({condition}) goto {true}; else goto {false};")

    def poll(self, leaving: str = "", throws: bool = True) -> None:
        """Seldom, see whether the user interrupts, if that `throws` here; go to the label where Python has waited for a while."""
        then = f"if (rt->poll()) goto {self.failing()};" if throws else ""
        then += f"if (rt->is_due(&due)) goto {leaving};" if leaving else ""
        self.line(f"if (UNLIKELY(--fuel <= 0)) {{ fuel = POLL, elements = -POLL; {then} }}")

    def dtype(self, dtype: np.dtype) -> int:
        """Its index in npc_dtypes."""
        if dtype not in self.dtypes:
            self.dtypes.append(dtype)
        return self.dtypes.index(dtype)

    def new_site(self) -> int:
        self.sites += 1
        return self.sites

    def object(self) -> str:
        self.objects += 1
        return f"given{self.objects - 1}"

    def boxed(self, kind: str, text: str) -> str:
        """A number as a new object."""
        makers = {"int": "from_int64", "float": "from_double", "bool": "from_bool"}
        if kind in makers:
            return f"rt->{makers[kind]}({text})"
        if kind == "complex":
            return f"rt->from_complex(__real__ {text}, __imag__ {text})"
        return f"rt->box(npc_dtypes[{self.dtype(np.dtype(kind))}], &({C_OF_KIND[kind]}){{{text}}})"

    def handed(self, kind: str, text: str) -> Handed:
        """The same object, of what an exit passes to the runtime."""
        letters = {"int": "i", "float": "f", "bool": "b"}
        if kind in letters:
            return letters[kind], f"({C_OF_KIND[kind]})({text})"
        if kind == "complex":
            return "c", f"__real__ {text}, __imag__ {text}"
        dtype = f"npc_dtypes[{self.dtype(np.dtype(kind))}]"
        return ("d", f"{dtype}, (double)({text})") if kind == "f8" else ("n", f"{dtype}, &({C_OF_KIND[kind]}){{{text}}}")

    def exit(self, values: Sequence[Handed], throws: bool = False, asks: bool = False) -> str:
        """The label at which the program ends, and hands over objects; with the exception that is set, if it `throws`.

        One that `asks` whether the user has interrupted is followed by one that throws.
        """
        number, way = len(self.exits), WayOut((*values,), throws, asks)
        self.exits += [way, *[WayOut(way.values, throws=True)] * asks]
        return way.label(number)

    # --- numbers

    def constant(self, kind: str, value: bool | int | float | complex) -> str:
        if isinstance(value, complex):
            return complex_numbers.paired(self, kind, self.constant("float", value.real), self.constant("float", value.imag))
        if kind == "bool":
            return str(int(value))
        if kind == "int":
            if not -(2**63) < value < 2**63:
                raise NoForm("a Python integer beyond 64 bits")
            return f"INT64_C({value})"
        if value != value:
            return '__builtin_nan("")'
        return value.hex() if abs(value) != float("inf") else f"{'-' if value < 0 else ''}__builtin_inf()"  # type: ignore[union-attr]

    def converted(self, value: str, kind: str, to: str, fail: Fail) -> str:
        """A number as an operand of a loop of NumPy's, or as Python's: `to` can hold it, or the program leaves."""
        if kind == to or C_OF_KIND[kind] == C_OF_KIND[to]:
            return value
        if is_complex(to):
            return complex_numbers.converted(self, value, kind, to, fail)
        if kind == "int" and to in LIMITS:
            self.require_range(value, kind, to, fail)
        if kind in ("float", "f8") and to == "f4":
            made = self.new(to, f"(float){value}")
            self.leave_if_new(made, to, f"IS_BAD1({made}, {value})", fail)
            return made
        if is_complex(kind) or is_float(kind) and not is_float(to):
            raise NoForm(f"{kind} as {to}")
        if to == "f4":
            return self.new(to, f"(float)(double){value}")  # NumPy rounds twice
        if C_OF_KIND[to] == "double" and (found := LITERAL.fullmatch(value)) and abs(int(found[1])) <= LARGEST_EXACT:
            return float(int(found[1])).hex()
        return self.new(to, f"({C_OF_KIND[to]}){value}")

    def require_range(self, value: str, kind: str, to: str, fail: Fail) -> None:
        """Leave if an integer is none of `to`."""
        (low, high), known = LIMITS[to], self.integer(value, kind)
        tests = [f"{value} < {low}"] * (known.least < low) + [f"{value} > INT64_C({high})"] * (known.most > high)
        if tests:
            self.leave_if(" || ".join(tests), fail)

    def require_exact(self, values: Sequence[str], fail: Fail) -> None:
        """Leave if an integer may be none of float64."""
        limit = f"INT64_C({LARGEST_EXACT})"
        large = [x for x in values if not self.integer(x).fits(-LARGEST_EXACT, LARGEST_EXACT)]
        if large:
            self.leave_if(" || ".join(f"{x} > {limit} || {x} < -{limit}" for x in large), fail)

    def stored(self, value: str, kind: str, to: str, fail: Fail) -> str:
        """A number as an element of an array: cast as NumPy's assignment does, where that reports nothing."""
        if to == "b1":
            return self.truth(value, kind)
        if is_complex(to):
            return complex_numbers.converted(self, value, kind, to, fail, is_stored=True)
        if is_complex(kind):
            raise NoForm(f"{kind} stored as {to}")  # a warning
        if is_float(kind) and not is_float(to):
            low, high = LIMITS[to]
            upper = f"{value} < {float(high + 1)!r}" if high > 2**31 else f"{value} < {high + 1}.0"
            fits = self.new("bool", f"{value} > {low - 1 if low > -(2**31) else float(low)!r} && {upper}")
            self.leave_if(f"!{fits}", fail)
            return self.new(to, f"({C_OF_KIND[to]}){self.harmless(fits, value, '0', kind)}")
        if to == "f4":
            return self.converted(value, kind, to, fail)
        if to in LIMITS and kind not in ("bool", "b1"):  # integers of NumPy's are taken by their value, as Python's are
            self.require_range(value, kind, to, fail)
        return value if C_OF_KIND[kind] == C_OF_KIND[to] else self.new(to, f"({C_OF_KIND[to]}){value}")

    def truth(self, value: str, kind: str) -> str:
        return value if kind in ("bool", "b1") else self.new("bool", f"{value} != 0")

    def harmless(self, condition: str, value: str, other: str, kind: str) -> str:
        """The value where the condition holds: in a strip, also computed where it does not."""
        return value if self.strip is None else self.new(kind, f"{condition} ? {value} : {other}")

    def binary(self, op: str, kind: str, a: str, b: str, fail: Fail) -> tuple[str, str]:
        """(kind, value) of an operation on two operands of one kind, by the name of NumPy's function."""
        c = C_OF_KIND[kind]
        if kind in ("bool", "b1"):
            if op not in BITWISE:
                raise NoForm(f"{op} of booleans")
            return kind, self.new(kind, f"{a} {BITWISE[op]} {b}")
        if is_float(kind):
            return kind, self.float_binary(op, kind, a, b, fail)
        if is_complex(kind):
            if op not in complex_numbers.OPERATIONS:
                raise NoForm(f"{op} of {kind}")
            return kind, complex_numbers.OPERATIONS[op](self, kind, a, b, fail)
        rule, x, y = RULES.get(op), self.integer(a, kind), self.integer(b, kind)
        known = rule(x, y) if rule is not None else None
        low = BOUNDS[kind][0]
        if op in INTEGER:
            assert known is not None
            made = self.arithmetic(op, kind, a, b, known, fail)
            if op == "multiply":
                self.products.add(made)
            elif self.products.isdisjoint((a, b)):
                self.sums.add(made)
            return kind, made
        if op in BITWISE:
            made = self.known(kind, f"{a} {BITWISE[op]} {b}", known)
        elif op in ("floor_divide", "remainder"):
            if y.least <= 0 <= y.most:
                self.leave_if(f"{b} == 0", fail)
                if self.strip is not None:
                    b = self.new(kind, f"{b} + ({b} == 0)")  # of a choice GCC 12 concludes that what was asked above is not 0
            if low and y.least <= -1 <= y.most and x.least == low:
                is_lowest = self.new("bool", f"{b} == -1 && {a} == ({c}){low + 1} - 1")
                self.leave_if(is_lowest, fail)
                b = self.harmless(f"!{is_lowest}", b, "1", kind)
            is_near = kind in ("int", "i8") and a in self.sums and op == "remainder" and y.least < y.most
            if is_near:
                self.noted("remainder without division")
            made = self.known(kind, divided(op, a, b, x, y, is_near), known)
        elif op == "divide" and kind == "int":
            self.leave_if(f"{b} == 0", fail)
            self.require_exact([a, b], fail)
            return "float", self.new("float", f"(double){a} / (double){b}")
        elif op == "power" and kind == "int":
            made = self.room(kind)
            self.leave_if(f"npc_power({a}, {b}, &{made})", fail)
        elif op in ("left_shift", "right_shift"):
            bits = 8 * np.dtype(kind).itemsize if kind != "int" else 64
            if not y.fits(0, bits - 1):
                self.leave_if(f"{b} < 0 || {b} >= {bits}", fail)
                b = self.harmless(f"{b} >= 0 && {b} < {bits}", b, "0", kind)
            made = self.known(kind, f"{a} >> {b}" if op == "right_shift" else f"({c})((uint64_t){a} << {b})", known)
            if kind == "int" and op == "left_shift" and (known is None or not known.fits(*BOUNDS[kind])):
                self.leave_if(f"({made} >> {b}) != {a}", fail)
        else:
            raise NoForm(f"{op} of {kind}")
        return kind, made

    def arithmetic(self, op: str, kind: str, a: str, b: str, known: Integer, fail: Fail) -> str:
        """A sum, difference or product of integers. The program leaves where it overflows."""
        c, (low, high) = C_OF_KIND[kind], BOUNDS[kind]
        plain = f"({c})({a} {SIGNS[op]} {b})"
        x, y = self.integer(a, kind), self.integer(b, kind)
        if known.fits(*BOUNDS[kind]):
            made = self.known(kind, plain, known)
            if self.strip is not None:
                self.strip.note_sum(op, a, b, made, x, y)
            return made
        if self.strip is None:
            self.noted("overflow check elimination", "the result may have more bits")
            made = self.room(kind)
            self.leave_if(f"__builtin_{INTEGER[op]}_overflow({a}, {b}, &{made})", fail)
            self.integers[made] = replace(known, least=max(known.least, low), most=min(known.most, high))
            return made
        lines = len(self.lines)
        made = self.new(kind, plain)
        if len(self.lines) == lines:  # it was computed before, and tested
            return made
        line = self.strip.note_overflow(op, c, a, b, made, x.least >= 0, y.least >= 0)
        if kind in ("int", "i8"):
            self.strip.note_sum(op, a, b, made, x, y, line)
        if kind in ("int", "i8") and known.terms is not None:
            least, most = BOUNDS[kind]
            checks = known.checks | {line}
            self.integers[made] = Integer(max(least, known.least), min(most, known.most), known.terms, known.constant, checks)
        return made

    def float_binary(self, op: str, kind: str, a: str, b: str, fail: Fail) -> str:
        c = C_OF_KIND[kind]
        if op in SIGNS:
            if op == "divide" and kind == "float":
                self.leave_if(f"{b} == 0", fail)
            text = f"{a} {SIGNS[op]} {b}"
            made = self.new(kind, f"NPC_ROUNDED({text})" if op == "multiply" else text)
        elif op in ("floor_divide", "remainder"):
            self.leave_if(f"{b} == 0 || !__builtin_isfinite({a}) || !__builtin_isfinite({b})", fail)
            made = self.new(kind, f"npc_{'floordiv' if op == 'floor_divide' else 'mod'}_{c}({a}, {b})")
        elif op == "power":
            made = self.new(kind, f"npc_libm_pow{suffix(kind)}({a}, {b})")
            self.leave_if_new(made, kind, f"!__builtin_isfinite({made})", fail)
            return made
        else:
            raise NoForm(f"{op} of {kind}")
        if kind != "float":  # a scalar of NumPy's reports
            carried = [a] if op == "divide" else [a, b] if op in SIGNS else []
            self.leave_if_new(made, kind, f"IS_BAD2({made}, {a}, {b})", fail, carried)
        return made

    def negative(self, kind: str, a: str, fail: Fail) -> str:
        if kind in ("bool", "b1") or kind[0] == "u":
            raise NoForm(f"the negative of {kind}")
        if is_complex(kind):
            return complex_numbers.negative(self, kind, a, fail)
        if is_integer(kind):
            return self.binary("subtract", kind, "INT64_C(0)", a, fail)[1]
        made = self.new(kind, f"-({a})" if a[0] == "-" else f"-{a}")
        if self.strip is not None:
            self.strip.is_not_finite_with(made, kind, a)
        return made

    def invert(self, kind: str, a: str) -> str:
        if is_float(kind) or is_complex(kind) or kind == "bool":
            raise NoForm(f"the inverse of {kind}")
        return self.new(kind, f"!{a}" if kind == "b1" else f"~{a}")

    def absolute(self, kind: str, a: str, fail: Fail) -> str:
        if is_float(kind):
            made = self.new(kind, f"fabs{suffix(kind)}({a})")
            if self.strip is not None:
                self.strip.is_not_finite_with(made, kind, a)
            return made
        if kind in ("bool", "b1") or is_complex(kind):
            raise NoForm(f"the absolute value of {kind}")
        return a if self.integer(a, kind).least >= 0 else self.new(kind, f"{a} < 0 ? {self.negative(kind, a, fail)} : {a}")

    def compare(self, op: str, kind: str, a: str, b: str) -> str:
        if is_complex(kind) and op not in ("equal", "not_equal"):
            raise NoForm(f"{op} of {kind}")
        return self.new("bool", f"{a} {COMPARISONS[op]} {b}")

    def choose(self, kind: str, condition: str, a: str, b: str) -> str:
        if is_complex(kind):
            return complex_numbers.choose(self, kind, condition, a, b)
        if self.strip is None:
            return self.new(kind, f"{condition} ? {a} : {b}")
        made = self.new(kind, self.strip.choice(condition, a, b))
        self.strip.note_choice(a, b, made)
        return made

    def truncated(self, kind: str, a: str, fail: Fail) -> str:
        """int() of a floating-point number."""
        fits = self.new("bool", f"{a} > -0x1p63 && {a} < 0x1p63")
        self.leave_if(f"!{fits}", fail)
        return self.new("int", truncated_text(f"(int64_t){self.harmless(fits, a, '0', kind)}", "int64_t"))

    def function(self, name: str, kind: str, arguments: Sequence[str], fail: Fail) -> str:
        """A function of libm. What is not finite is left to Python and NumPy, whose errors depend on the reason."""
        assert name in FUNCTIONS, name
        made = self.new(kind, f"{name_of(name, suffix(kind))}({', '.join(arguments)})")
        if name not in WITHOUT_REPORT:
            self.leave_if_new(made, kind, f"!__builtin_isfinite({made})", fail)
        return made

    def noted(self, name: str, why_not: str | None = None) -> None:
        """Note that a pass was tried at the expression that is written, and why it did not fire, if so."""
        if self.pointwise is None:  # else nothing is written
            self.passes.note(name, f"line {self.where[0]}, column {self.where[2]}", why_not)

    # --- elements

    def place(self, array: ArrayInput, axis: int, index: str, fail: Fail) -> str:
        """The position on an axis; an index counts from the end when it is negative."""
        if (array.name, axis, index) in self.within:
            return index
        size = f"{array.name}_n{axis}"
        key = ("place", f"{index} of {size}")
        place, at = self.computed.get(key, ("", -1))
        if place and at < len(self.lines) and self.lines[at] == f"int64_t {place} = {index};":
            return place  # it was looked at before
        is_positive = self.integer(index).least >= 0
        self.noted("bounds check elimination", "the index may be outside" if is_positive else "the index may count from the end")
        if is_positive:
            self.leave_if(f"(uint64_t){index} >= (uint64_t){size}", fail)
            return index
        self.made += 1
        place = f"t{self.made}"
        self.computed[key] = place, len(self.lines)
        self.line(f"int64_t {place} = {index};")
        outside = f"(uint64_t){place} >= (uint64_t){size}"
        # Seldom: no choice stands between an index and its element.
        self.line(f"if (UNLIKELY({outside})) {{ {place} += {size}; if ({outside}) goto {fail()}; }}")
        return place

    def load(self, array: ArrayInput, indices: Sequence[str], fail: Fail) -> str:
        self.note_access(array, indices, is_written=False)
        if self.strip is not None:
            found = [self.strip.index(array, axis, index) for axis, index in enumerate(indices)]
            places = [place for place, _ in found]
        else:
            places = [self.place(array, axis, index, fail) for axis, index in enumerate(indices)]
        if self.pointwise is not None:
            if is_complex(array.kind):
                raise NoForm("elements of complex numbers in blocks of rows")
            self.pointwise.reads[f"(PyObject*){array.name}_array"] = None
        made = self.new(array.kind, array.element(places))
        self.read_at[made] = {self.copies.get(index, index) for index in indices}
        if self.strip is not None:
            self.strip.load(array, [known for _, known in found], made)
        return made

    def store(self, array: ArrayInput, indices: Sequence[str], value: str, fail: Fail) -> None:
        array.is_written = True
        if self.pointwise is not None:
            self.pointwise.set_element(array, [self.place(array, axis, index, fail) for axis, index in enumerate(indices)], value)
            return
        self.note_access(array, indices, is_written=True)
        if self.strip is not None:
            self.strip.refuse_stores()
            found = [self.strip.index(array, axis, index) for axis, index in enumerate(indices)]
            self.strip.store(array, array.at([place for place, _ in found]), [known for _, known in found], value)
        else:
            self.line(f"{array.at([self.place(array, axis, index, fail) for axis, index in enumerate(indices)])} = {value};")

    def note_access(self, array: ArrayInput, indices: Sequence[str], is_written: bool) -> None:
        if self.accesses is not None and self.strip is None:  # what strips do the loop itself does too
            self.accesses.element(array, [(index, self.integer(index)) for index in indices], is_written)
