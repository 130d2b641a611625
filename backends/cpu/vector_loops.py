"""Which innermost loops of float64 or of float32 are written in vectors of 64 bytes, where the processor has AVX-512.

The compiler makes vectors of most loops by itself, and then calls a function for each: nothing stays in a register between two
calls, and of the last elements, too few for a vector, the function is called for four, two and one. Written out, the functions
of `vector_functions` are part of the loop, if they are not many. Results of kernels that move more than caches keep are written
past these, whose lines memory would have to fill first.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass

from npcompile.backends.cpu.c_functions import SUFFIX, VECTORISED, WHOLE
from npcompile.backends.cpu.fp_barriers import KnownNumbers
from npcompile.backends.cpu.lanes import LANES, Lanes
from npcompile.backends.cpu.primitives import NUMPY_LIBM, PRIMITIVES
from npcompile.backends.cpu.small_powers import CHOSEN
from npcompile.backends.kernels.index import is_number, split_linear, symbols_in
from npcompile.backends.kernels.kernel import Accumulate, Columns, Let, Load, Position, Statement, Store
from npcompile.backends.kernels.operations import short

MOST_INSIDE = 12  # functions that are written into a loop: compilers take long over more
FUNCTIONS = {op: f for op, f in NUMPY_LIBM.items() if f in VECTORISED["f8"].split() and op != "cbrt"}
OF_SINGLES = {"exp": "npc_exp16({0})", "log": "npc_log16({0})"}  # that are other ones than libmvec's

# What is said for scalars holds for vectors too.
SAME = "add subtract multiply divide negative positive square reciprocal equal not_equal less less_equal greater greater_equal"
SAME += " laid_out isnan degrees rad2deg radians deg2rad"
TEMPLATES = {op: PRIMITIVES[op]["f"] for op in SAME.split()} | {
    "absolute": "npc_size@({0})",
    "fabs": "npc_size@({0})",
    "sqrt": "npc_sqrt@({0})",
    "maximum": "npc_either@((npc_words@)({0} != {0}), {0}, npc_larger@({0}, {1}))",
    "minimum": "npc_either@((npc_words@)({0} != {0}), {0}, npc_smaller@({0}, {1}))",
    "fmax": "npc_either@((npc_words@)({1} != {1}), {0}, npc_larger@({0}, {1}))",
    "fmin": "npc_either@((npc_words@)({1} != {1}), {0}, npc_smaller@({0}, {1}))",
    "zero_or_multiply": "npc_either@((npc_words@)({0} == 0), {0}, {0} * {1})",
    "zero_or_divide": "npc_either@((npc_words@)({0} == 0), {0}, {0} / {1})",
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
COMPARISONS = ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal")
OF_INTEGERS = {op: PRIMITIVES[op]["i"] for op in ("add", "subtract", "multiply", "negative", "positive", "square", *COMPARISONS)}
CASTS = dict.fromkeys((("b1", "f8"), ("b1", "f4")), "npc_either@({0}, npc_all@(1), npc_all@(0))")
CASTS |= dict.fromkeys((("f8", "b1"), ("f4", "b1")), "({0} != 0)")
CASTS |= {("i8", "f8"): "__builtin_convertvector({0}, npc_f8x8)"}


@dataclass(frozen=True, slots=True)
class VectorForm:
    """An innermost loop in vectors."""

    lanes: Lanes
    axis: str
    scalars: frozenset[str]  # values that are the same in all elements, made in the loop
    made: frozenset[str]  # others that are
    read: tuple[Load, ...]  # as vectors
    written: tuple[Store, ...]
    are_inside: bool  # are functions written into the loop over whole vectors?
    is_past_caches: bool  # may whole vectors be written past the caches?


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
            case Let(target) | Load(target) | Position(target) | Store(_, _, target) | Accumulate(_, target):
                found.add(short(target.dtype))
            case _:
                return None
    dtype = "f4" if "f4" in found else "f8"
    return LANES[dtype] if found <= ({"f4", "b1"} if dtype == "f4" else {"f8", "b1", "i8"}) else None


def vectors_of(axis: str, body: Sequence[Statement], known: KnownNumbers, unread: Set[str]) -> VectorForm | None:
    """How the body of a parallel loop is written in vectors, if all of it can be. `unread`: memory that is only written.

    A body that accumulates is that of columns, whose sums are vectors.
    """
    scalars: set[str] = set()
    made: set[str] = set()
    read: list[Load] = []
    written: list[Store] = []
    accumulates = False
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
            case Accumulate(_, value) if short(value.dtype) == lanes.dtype:
                accumulates = True
            case _:
                return None
    if not written and not accumulates:
        return None
    return VectorForm(
        lanes,
        axis,
        frozenset(scalars),
        frozenset(made),
        tuple(read),
        tuple(written),
        are_inside=sum(isinstance(s, Let) and s.op in FUNCTIONS for s in body) <= MOST_INSIDE,
        is_past_caches=bool(written) and all(s.buffer in unread for s in written),
    )


def column_vectors_of(s: Columns, known: KnownNumbers) -> VectorForm | None:
    """How sums of columns that one vector has room for are written, where conditions choose what is added.

    So few columns are no loop any more before compilers look for vectors, and a condition is a jump then. Without conditions
    they make vectors of the columns themselves.
    """
    if s.is_running or s.run > 1 or not s.loops or not isinstance(s.size, int) or (lanes := lanes_of(s.body)) is None:
        return None
    if not 1 < s.size <= lanes.count or not any(isinstance(x, Let) and x.op == "where" for x in s.body):
        return None
    if any(a.reducer != "add" or short(a.dtype) != lanes.dtype for a in s.accumulators):
        return None
    return vectors_of(s.axis, s.body, known, frozenset())
