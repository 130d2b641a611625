"""Innermost loops around functions of float64, written in vectors of eight where the processor has AVX-512.

The compiler makes vectors of most loops by itself, and then calls a function for each: nothing stays in a register between two
calls, and of the last elements, too few for a vector, the function is called for four, two and one. Written out, the functions
of `vector_functions` are part of the loop, and the last elements are one vector of which only they are read and stored. Its
other lanes hold the first of them again, so that they note no error of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from npcompile.backends.cpu.c_functions import VECTORISED, WHOLE
from npcompile.backends.cpu.c_running_results import RunningResults
from npcompile.backends.cpu.c_sizes import size_text
from npcompile.backends.cpu.primitives import NUMPY_LIBM, PRIMITIVES, c_type, power_text
from npcompile.backends.cpu.unfolded import KnownNumbers
from npcompile.backends.kernels.index import is_number, split_linear
from npcompile.backends.kernels.kernel import Let, Load, Position, Statement, Store, Value
from npcompile.backends.kernels.operations import short

WIDTH = 8
FUNCTIONS = {op: f for op, f in NUMPY_LIBM.items() if f in VECTORISED["f8"].split() and op != "cbrt"}
TYPES = {"f8": "npc_f8x8", "b1": "npc_bits64", "i8": "npc_bits64"}  # of truth values all bits or none

# What is said for scalars holds for vectors too.
SAME = "add subtract multiply divide negative positive square reciprocal equal not_equal less less_equal greater greater_equal"
SAME += " isnan degrees rad2deg radians deg2rad"
TEMPLATES = {op: PRIMITIVES[op]["f"].replace("{T}", "double") for op in SAME.split()} | {
    "absolute": "npc_size8({0})",
    "fabs": "npc_size8({0})",
    "sqrt": "npc_sqrt8({0})",
    "maximum": "npc_either8((npc_bits64)({0} != {0}), {0}, npc_larger8({0}, {1}))",
    "minimum": "npc_either8((npc_bits64)({0} != {0}), {0}, npc_smaller8({0}, {1}))",
    "fmax": "npc_either8((npc_bits64)({1} != {1}), {0}, npc_larger8({0}, {1}))",
    "fmin": "npc_either8((npc_bits64)({1} != {1}), {0}, npc_smaller8({0}, {1}))",
    "copysign": "npc_either8(npc_sign8(), {1}, {0})",
    "isfinite": "(({0} == {0}) & (npc_size8({0}) != npc_all8(__builtin_inf())))",
    "isinf": "(npc_size8({0}) == npc_all8(__builtin_inf()))",
    "signbit": "((npc_bits64){0} < 0)",
    "floor": "npc_floor8({0})",
    "ceil": "npc_ceil8({0})",
    "trunc": "npc_trunc8({0})",
    "rint": "npc_rint8({0})",
}
OF_TRUTH_VALUES = dict.fromkeys(("logical_and", "bitwise_and"), "{0} & {1}")
OF_TRUTH_VALUES |= dict.fromkeys(("logical_or", "bitwise_or"), "{0} | {1}")
OF_TRUTH_VALUES |= dict.fromkeys(("logical_xor", "bitwise_xor"), "{0} ^ {1}")
OF_TRUTH_VALUES |= dict.fromkeys(("logical_not", "invert"), "~{0}")
OF_INTEGERS = {op: PRIMITIVES[op]["i"] for op in ("add", "subtract", "multiply", "negative", "positive", "square")}
CASTS = {
    ("b1", "f8"): "npc_either8({0}, npc_all8(1), npc_all8(0))",
    ("f8", "b1"): "({0} != 0)",
    ("i8", "f8"): "__builtin_convertvector({0}, npc_f8x8)",
}


@dataclass(slots=True)
class Elements:
    """A loop over elements, of which the compiler makes vectors."""

    p: RunningResults
    print_statements: Callable[[Sequence[Statement]], None]
    width: int = 1

    def type_of(self, v: Value) -> str:
        return c_type(v.dtype)

    def statements(self, body: Sequence[Statement], end: str = "") -> None:
        self.print_statements(body)

    def say_independent(self, elements: int = 0) -> None:
        """That no element of the next loop depends on another one, or on none of so many."""
        self.p.line(f"#pragma omp simd safelen({elements})" if elements else "#pragma GCC ivdep")


@dataclass(slots=True)
class Vectors(Elements):
    """The same over vectors."""

    axis: str = ""
    scalars: frozenset[str] = frozenset()  # values that are the same in all elements, made in the loop
    made: frozenset[str] = frozenset()  # others that are
    constants: dict[str, object] | None = None
    width: int = WIDTH

    def type_of(self, v: Value) -> str:
        return TYPES[short(v.dtype)]

    def say_independent(self, elements: int = 0) -> None:
        pass  # the compiler makes nothing of it

    def statements(self, body: Sequence[Statement], end: str = "") -> None:
        """What is done to the elements from `axis` on: eight, or as many as there are before `end`."""
        if end:
            self.p.line(f"const npc_mask8 which = npc_first8({end} - {self.axis});")
        for s in body:
            self.statement(s, is_some=bool(end))

    def statement(self, s: Statement, *, is_some: bool) -> None:
        match s:
            case Store(buffer, offset, value):
                place, vector = f"{buffer} + {size_text(offset)}", self.operand(value)
                if is_some:
                    self.p.line(f"__builtin_ia32_storeupd512_mask((double*)({place}), {vector}, which);")
                else:
                    self.p.line(f"*(npc_f8x8_in_memory*)({place}) = {vector};")
            case Load() | Let() | Position() if s.target.name in self.scalars:
                self.print_statements([s])
            case Load(target, buffer, offset, _):
                place = f"{buffer} + {size_text(offset)}"
                read = f"npc_some8({place}, which)" if is_some else f"*(const npc_f8x8_in_memory*)({place})"
                vector = self.type_of(target)
                self.p.line(f"const {vector} {target.name} = ({vector}){read};")
            case Position(target, index):
                linear = split_linear(index, self.axis)
                assert linear is not None
                order = "npc_order_of8(which)" if is_some else "npc_order8()"
                self.p.line(f"const npc_bits64 {target.name} = {size_text(index)} + {size_text(linear[0])} * {order};")
            case Let(target, op, args, _):
                text = (template_of(s) or "").format(*map(self.operand, args))
                if op == "power" and self.constants is not None:
                    exponent = self.constants.get(args[1].name)
                    text = power_text(self.operand(args[0]), args[0].dtype, exponent) or text
                self.p.line(f"const {self.type_of(target)} {target.name} = ({self.type_of(target)})({text});")

    def operand(self, v: Value) -> str:
        if v.name in self.made:
            return v.name
        if v.dtype.kind == "f":
            return f"npc_all8({v.name})"
        return f"((npc_bits64){{0}} {'+' if v.dtype.kind == 'i' else '-'} {v.name})"


def template_of(s: Let) -> str | None:
    """The operation in C, of vectors; None where it has none."""
    of = {short(a.dtype) for a in s.args}
    match s.op:
        case "cast":
            return CASTS.get((*of, short(s.target.dtype)))  # type: ignore[arg-type]
        case "where" if of <= {"b1", "f8"}:
            return "({0} & {1}) | (~{0} & {2})" if s.target.dtype.kind == "b" else "npc_either8({0}, {1}, {2})"
        case op if op in FUNCTIONS and of == {"f8"}:
            return f"{WHOLE}{FUNCTIONS[op]}({', '.join(f'{{{k}}}' for k in range(len(s.args)))})"
    found = {"f8": TEMPLATES, "b1": OF_TRUTH_VALUES, "i8": OF_INTEGERS}
    return found.get(of.pop(), {}).get(s.op) if len(of) == 1 else None


def vectors_of(
    p: RunningResults,
    axis: str,
    body: Sequence[Statement],
    known: KnownNumbers,
    constants: dict[str, object],
    print_statements: Callable[[Sequence[Statement]], None],
) -> Vectors | None:
    """How the body of a parallel loop is written in vectors: where it calls functions, and all of it has such a form."""
    scalars: set[str] = set()
    made: set[str] = set()
    for s in body:
        match s:
            case Let(target, "constant"):
                scalars.add(target.name)
            case Let(target) if template_of(s) and known.hidden(s) is None:
                made.add(target.name)
            case Load(target, _, offset, None) | Position(target, offset) if linear := split_linear(offset, axis):
                size = 1 if isinstance(s, Position) else target.dtype.itemsize
                if is_number(linear[0], 0):
                    scalars.add(target.name)
                elif isinstance(s, Position) or (short(target.dtype) in ("f8", "i8") and is_number(linear[0], size)):
                    made.add(target.name)
                else:
                    return None
            case Store(_, offset, value) if short(value.dtype) == "f8" and (linear := split_linear(offset, axis)):
                if not is_number(linear[0], value.dtype.itemsize):
                    return None
            case _:
                return None
    if not any(isinstance(s, Let) and s.op in FUNCTIONS for s in body):
        return None
    return Vectors(p, print_statements, axis=axis, scalars=frozenset(scalars), made=frozenset(made), constants=constants)


def print_vectors(vectors: Vectors, body: Sequence[Statement], first: str, end: str) -> None:
    p, axis = vectors.p, vectors.axis
    p.open("{")
    p.line(f"const int64_t past_{axis} = {end};")
    p.line(f"int64_t {axis} = {first};")
    p.open(f"for (; {axis} + {WIDTH} <= past_{axis}; {axis} += {WIDTH}) {{")
    vectors.statements(body)
    p.close()
    p.open(f"if ({axis} < past_{axis}) {{")
    vectors.statements(body, f"past_{axis}")
    p.close()
    p.close()
