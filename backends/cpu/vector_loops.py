"""Innermost loops of float64 or of float32, written in vectors of 64 bytes where the processor has AVX-512.

The compiler makes vectors of most loops by itself, and then calls a function for each: nothing stays in a register between two
calls, and of the last elements, too few for a vector, the function is called for four, two and one. Written out, the functions
of `vector_functions` are part of the loop, if they are not many, and the last elements are one vector, of which only they are
read and stored. Its other lanes hold the first of them again, so that they note no error of their own. Results of kernels that
move more than caches keep are written past these, whose lines memory would have to fill first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from npcompile.backends.cpu.c_functions import CALLED_WHOLE, SUFFIX, VECTORISED, WHOLE
from npcompile.backends.cpu.c_running_results import RunningResults
from npcompile.backends.cpu.c_sizes import size_text
from npcompile.backends.cpu.lanes import BYTES, LANES, Lanes
from npcompile.backends.cpu.primitives import NUMPY_LIBM, PRIMITIVES, c_type, power_text
from npcompile.backends.cpu.small_powers import CHOSEN
from npcompile.backends.cpu.unfolded import KnownNumbers
from npcompile.backends.kernels.index import is_number, split_linear, symbols_in
from npcompile.backends.kernels.kernel import Let, Load, Position, Statement, Store, Value
from npcompile.backends.kernels.operations import short

MOST_INSIDE = 12  # functions that are written into a loop: compilers take long over more
EARLY = 1536  # bytes ahead
FUNCTIONS = {op: f for op, f in NUMPY_LIBM.items() if f in VECTORISED["f8"].split() and op != "cbrt"}
OF_SINGLES = {"exp": "npc_exp16({0})", "log": "npc_log16({0})"}  # that are other ones than libmvec's

# What is said for scalars holds for vectors too.
SAME = "add subtract multiply divide negative positive square reciprocal equal not_equal less less_equal greater greater_equal"
SAME += " isnan degrees rad2deg radians deg2rad"
TEMPLATES = {op: PRIMITIVES[op]["f"] for op in SAME.split()} | {
    "absolute": "npc_size@({0})",
    "fabs": "npc_size@({0})",
    "sqrt": "npc_sqrt@({0})",
    "maximum": "npc_either@((npc_words@)({0} != {0}), {0}, npc_larger@({0}, {1}))",
    "minimum": "npc_either@((npc_words@)({0} != {0}), {0}, npc_smaller@({0}, {1}))",
    "fmax": "npc_either@((npc_words@)({1} != {1}), {0}, npc_larger@({0}, {1}))",
    "fmin": "npc_either@((npc_words@)({1} != {1}), {0}, npc_smaller@({0}, {1}))",
    "copysign": "npc_either@(npc_sign@(), {1}, {0})",
    "isfinite": "(({0} == {0}) & (npc_size@({0}) != npc_all@(__builtin_inf())))",
    "isinf": "(npc_size@({0}) == npc_all@(__builtin_inf()))",
    "signbit": "((npc_words@){0} < 0)",
    "floor": "npc_floor@({0})",
    "ceil": "npc_ceil@({0})",
    "trunc": "npc_trunc@({0})",
    "rint": "npc_rint@({0})",
}
OF_TRUTH_VALUES = dict.fromkeys(("logical_and", "bitwise_and"), "{0} & {1}")
OF_TRUTH_VALUES |= dict.fromkeys(("logical_or", "bitwise_or"), "{0} | {1}")
OF_TRUTH_VALUES |= dict.fromkeys(("logical_xor", "bitwise_xor"), "{0} ^ {1}")
OF_TRUTH_VALUES |= dict.fromkeys(("logical_not", "invert"), "~{0}")
OF_INTEGERS = {op: PRIMITIVES[op]["i"] for op in ("add", "subtract", "multiply", "negative", "positive", "square")}
CASTS = dict.fromkeys((("b1", "f8"), ("b1", "f4")), "npc_either@({0}, npc_all@(1), npc_all@(0))")
CASTS |= dict.fromkeys((("f8", "b1"), ("f4", "b1")), "({0} != 0)")
CASTS |= {("i8", "f8"): "__builtin_convertvector({0}, npc_f8x8)"}


@dataclass(slots=True)
class Elements:
    """A loop over elements, of which the compiler makes vectors."""

    p: RunningResults
    print_statements: Callable[[Sequence[Statement]], None]
    width: int = 1

    def type_of(self, v: Value) -> str:
        return c_type(v.dtype)

    def begin(self, first: str) -> None:
        """Before the loop."""

    def statements(self, body: Sequence[Statement], end: str = "") -> None:
        self.print_statements(body)

    def say_independent(self, elements: int = 0) -> None:
        """That no element of the next loop depends on another one, or on none of so many."""
        self.p.line(f"#pragma omp simd safelen({elements})" if elements else "#pragma GCC ivdep")

    def finish(self) -> None:
        """Behind the loop."""


@dataclass(slots=True)
class Vectors(Elements):
    """The same over vectors."""

    lanes: Lanes = LANES["f8"]
    axis: str = ""
    scalars: frozenset[str] = frozenset()  # values that are the same in all elements, made in the loop
    made: frozenset[str] = frozenset()  # others that are
    read: tuple[str, ...] = ()  # the places of vectors
    written: tuple[str, ...] = ()
    constants: dict[str, object] = field(default_factory=dict)
    are_inside: bool = True  # are functions written into the loop over whole vectors?
    is_past_caches: bool = False  # may whole vectors be written past the caches?

    def __post_init__(self) -> None:
        self.width = self.lanes.count

    def type_of(self, v: Value) -> str:
        """Words hold truth values, all bits of them or none, and integers."""
        return self.lanes.named("npc_numbers@" if v.dtype.kind == "f" else "npc_words@")

    def begin(self, first: str) -> None:
        if self.is_past_caches:
            tests = [f"!((uintptr_t)({place}) % {BYTES})" for place in self.written]
            tests += [f"{place} != {other}" for place in self.written for other in self.read]  # not where they are in caches
            self.p.line("int is_far = c->is_far;")
            self.p.line(f"if (is_far) {{ const int64_t {self.axis} = {first}; is_far = {' && '.join(tests)}; }}")

    def say_independent(self, elements: int = 0) -> None:
        """The compiler is to make nothing of it."""

    def statements(self, body: Sequence[Statement], end: str = "") -> None:
        """What is done to the elements from `axis` on: to a whole vector, or to as many as there are before `end`."""
        if end:
            self.p.line(self.lanes.named(f"const npc_choice@ which = npc_first@({end} - {self.axis});"))
        for s in body:
            match s:
                case Store():
                    self.store(place_of(s), self.operand(s.value), is_some=bool(end))
                case Let() | Load() | Position() if s.target.name in self.scalars:
                    self.print_statements([s])
                case Let() | Load() | Position():
                    vector, text = self.type_of(s.target), self.lanes.named(self.text_of(s, is_some=bool(end)))
                    self.p.line(f"const {vector} {s.target.name} = ({vector})({text});")

    def text_of(self, s: Let | Load | Position, *, is_some: bool) -> str:
        match s:
            case Load():
                place = place_of(s)
                return f"npc_some@({place}, which)" if is_some else f"*(const npc_numbers@_in_memory*)({place})"
            case Position(_, index):
                linear = split_linear(index, self.axis)
                assert linear is not None
                order = "npc_order_of8(which)" if is_some else "npc_order8()"
                return f"{size_text(index)} + {size_text(linear[0])} * {order}"
            case Let(_, op, args):
                operands, dtype = [self.operand(v) for v in args], args[0].dtype
                if op == "power" and (product := power_text(operands[0], dtype, self.constants.get(args[1].name), "@")):
                    return product
                text = (template_of(s) or "").format(*operands, T=c_type(dtype))
                return text.replace(WHOLE, CALLED_WHOLE) if is_some or not self.are_inside else text

    def store(self, place: str, vector: str, *, is_some: bool) -> None:
        if is_some:
            return self.p.line(self.lanes.named(f"npc_store_some@({place}, {vector}, which);"))
        if self.is_past_caches:  # asked anew each time: the compiler would make two loops
            self.p.line('__asm__("" : "+r"(is_far));')
            early = " ".join(f"__builtin_prefetch({other} + {EARLY});" for other in self.read)
            self.p.line(self.lanes.named(f"if (is_far) {{ npc_past_caches@({place}, {vector}); {early} }} else"))
        self.p.line(self.lanes.named(f"*(npc_numbers@_in_memory*)({place}) = {vector};"))

    def operand(self, v: Value) -> str:
        if v.name in self.made:
            return v.name
        if v.dtype.kind == "f":
            return self.lanes.named(f"npc_all@({v.name})")
        return self.lanes.named(f"((npc_words@){{0}} {'+' if v.dtype.kind == 'i' else '-'} {v.name})")

    def finish(self) -> None:
        if self.is_past_caches:
            self.p.line("if (is_far) __builtin_ia32_sfence();")


def place_of(s: Load | Store) -> str:
    return f"{s.buffer} + {size_text(s.offset)}"


def template_of(s: Let) -> str | None:
    """The operation in C, of vectors; None where it has none."""
    of = {short(a.dtype) for a in s.args}
    number = of - {"b1"}
    match s.op:
        case "cast":
            return CASTS.get((short(s.args[0].dtype), short(s.target.dtype)))
        case "where" if number <= {"f8"} or number <= {"f4"}:
            return "({0} & {1}) | (~{0} & {2})" if s.target.dtype.kind == "b" else "npc_either@({0}, {1}, {2})"
        case op if op in OF_SINGLES and of == {"f4"}:
            return OF_SINGLES[op]
        case op if op in FUNCTIONS and (of == {"f8"} or of == {"f4"}):
            operands = ", ".join(f"{{{k}}}" for k in range(len(s.args)))
            made = f"{WHOLE}{FUNCTIONS[op]}{SUFFIX[of.pop()]}({operands})"
            return CHOSEN.replace("POWER", made) if op == "power" else made
    found = {"f8": TEMPLATES, "f4": TEMPLATES, "b1": OF_TRUTH_VALUES, "i8": OF_INTEGERS}
    return found.get(of.pop(), {}).get(s.op) if len(of) == 1 else None


def lanes_of(body: Sequence[Statement]) -> Lanes | None:
    """The vectors of the dtype that all numbers have. None where there are several, or others."""
    found: set[str] = set()
    for s in body:
        match s:
            case Let(target) | Load(target) | Position(target) | Store(_, _, target):
                found.add(short(target.dtype))
            case _:
                return None
    dtype = "f4" if "f4" in found else "f8"
    return LANES[dtype] if found <= ({"f4", "b1"} if dtype == "f4" else {"f8", "b1", "i8"}) else None


def vectors_of(
    p: RunningResults,
    axis: str,
    body: Sequence[Statement],
    known: KnownNumbers,
    constants: dict[str, object],
    print_statements: Callable[[Sequence[Statement]], None],
) -> Vectors | None:
    """How the body of a parallel loop is written in vectors: where all of it has such a form."""
    scalars: set[str] = set()
    made: set[str] = set()
    read: list[Load] = []
    written: list[Store] = []
    if (lanes := lanes_of(body)) is None:
        return None
    for s in body:
        match s:
            case Let(target, "constant"):
                scalars.add(target.name)
            case Let(target) if template_of(s) and known.hidden(s) is None:
                made.add(target.name)
            case Load(target, _, offset, None) | Position(target, offset) if linear := split_linear(offset, axis):
                size = target.dtype.itemsize
                if symbols_in(offset) & made:  # an index that is data
                    return None
                if is_number(linear[0], 0):
                    scalars.add(target.name)
                elif isinstance(s, Position):
                    made.add(target.name)
                elif short(target.dtype) in (lanes.dtype, "i8") and is_number(linear[0], size):
                    made.add(target.name)
                    read.append(s)
                else:
                    return None
            case Store(_, offset, value) if short(value.dtype) == lanes.dtype and (linear := split_linear(offset, axis)):
                if symbols_in(offset) & made or not is_number(linear[0], value.dtype.itemsize):
                    return None
                written.append(s)
            case _:
                return None
    if not written:
        return None
    return Vectors(
        p,
        print_statements,
        lanes=lanes,
        axis=axis,
        scalars=frozenset(scalars),
        made=frozenset(made),
        read=tuple(map(place_of, read)),
        written=tuple(map(place_of, written)),
        constants=constants,
        are_inside=sum(isinstance(s, Let) and s.op in FUNCTIONS for s in body) <= MOST_INSIDE,
        is_past_caches=not any(s.buffer in p.plan.loaded for s in written),
    )


def print_vectors(vectors: Vectors, body: Sequence[Statement], first: str, end: str) -> None:
    p, axis, width = vectors.p, vectors.axis, vectors.width
    p.open("{")
    vectors.begin(first)
    p.line(f"const int64_t past_{axis} = {end};")
    p.line(f"int64_t {axis} = {first};")
    p.open(f"for (; {axis} + {width} <= past_{axis}; {axis} += {width}) {{")
    vectors.statements(body)
    p.close()
    p.open(f"if ({axis} < past_{axis}) {{")
    vectors.statements(body, f"past_{axis}")
    p.close()
    vectors.finish()
    p.close()
