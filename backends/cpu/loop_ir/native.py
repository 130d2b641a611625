"""A program that may abort, as a function that CPython calls directly: objects become words, and words objects, in C.

`npc_run(*arguments)` gives what the program returns; False where arguments are not what the program is for, and True
where the program was left: then what it had written is as it was before. One that tells where it was left takes the errors that
NumPy is to report after its arguments, and gives the point of the state that it left at in the place of True.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from npcompile.backends.cpu.loader import load
from npcompile.backends.cpu.loop_ir.entry import boxed, object_of
from npcompile.backends.cpu.loop_ir.functions import definitions
from npcompile.backends.cpu.loop_ir.target import CPU, KINDS, PATIENCE
from npcompile.backends.errors import CompilerError, NoCompiler
from npcompile.backends.loop_ir.c_text import CText, c, joined, unit
from npcompile.backends.loop_ir.c_values import field_of
from npcompile.backends.loop_ir.exits import Leaf, Way, Ways, words_of
from npcompile.backends.loop_ir.native import Native, Taken
from npcompile.backends.loop_ir.parallel import names_of
from npcompile.backends.loop_ir.statements import print_function
from npcompile.backends.loop_ir.target import C_TYPES, Unsupported
from npcompile.backends.native_profiling import profiled
from npcompile.tensor_core.loop_ir.ops import ALL_ERRORS, Program
from npcompile.tensor_core.loop_ir.states import Fixed, Recipe, Tagged, TupleOf, Use
from npcompile.tensor_core.loop_ir.types import DTYPES, MOST_ELEMENTS, Kind, Memref, Object, Scalar, kind_in_words

CONTIGUOUS, ALIGNED, WRITEABLE = 0x1, 0x100, 0x400  # of NumPy's flags
DTYPE_OF = {kind: number for number, kind in enumerate(KINDS)}  # in npc_dtypes
TAKEN = {Kind.BOOL: "bool", Kind.INT: "int", Kind.FLOAT: "float"}
HELPERS = r"""
static int64_t npc_bytes(const npc_array* a) {
  int64_t bytes = ((npc_descr*)a->descr)->elsize;
  for (int i = 0; i < a->nd; i++) bytes *= a->dimensions[i];
  return bytes;
}
/* Copies the elements from or to memory without gaps, of which the end is given. */
static char* npc_copy(const npc_array* a, int axis, char* at, char* packed, int is_back) {
  if (a->flags & 1 || axis == a->nd) {
    const int64_t size = axis ? ((npc_descr*)a->descr)->elsize : npc_bytes(a);
    if (is_back) memcpy(at, packed, size); else memcpy(packed, at, size);
    return packed + size;
  }
  for (int64_t i = 0; i < a->dimensions[axis]; i++) packed = npc_copy(a, axis + 1, at + i * a->strides[axis], packed, is_back);
  return packed;
}
static struct npc_extent npc_extent_of(const npc_array* a) {
  return npc_extent(a->data, a->nd, (const npc_i64*)a->dimensions, (const npc_i64*)a->strides, ((npc_descr*)a->descr)->elsize);
}
static int npc_are_apart(const npc_array* a, const npc_array* b) {
  return !npc_bytes(a) || !npc_bytes(b) || npc_apart(npc_extent_of(a), npc_extent_of(b));
}
"""


def compile_native(program: Program, arguments: Sequence[Taken], made: Sequence[int], tells: bool = False) -> Native:
    """The function of a program that aborts: it gives what that returns. `made`: for each of the program's last params, an array
    of zeros, the number of the argument that has its sizes. `tells`: also where it was left.

    Raises Unsupported: where an op has no text, with the user's line, and where there is no compiler.
    """
    lines, ways = print_function(program, CPU)
    try:
        source = profiled(
            definitions(program) + unit([*lines, *Entry(program, arguments, made, ways, tells).lines()]),
            program.name,
            *names_of(program),
        )
        loaded = load(source, [DTYPES[kind] for kind in DTYPE_OF])
    except (NoCompiler, CompilerError) as error:
        raise Unsupported(str(error), 0) from error
    return Native(loaded.call, source, loaded.seconds, loaded.was_cached)


@dataclass(slots=True)
class Entry:
    """Prints `npc_run`."""

    program: Program
    arguments: Sequence[Taken]
    made: Sequence[int]
    ways: Ways
    tells: bool = False

    def lines(self) -> Iterator[CText]:
        words = sum(words_of(self.program.types[param.value]) for param in self.program.params)
        yield c(HELPERS.replace("{", "{{").replace("}", "}}"))
        yield c("PyObject* npc_run(PyObject* self, PyObject* const* args, int64_t nargs) {{")
        yield c("  union npc_word in[{}], out[{}];", max(1, words), max(1, self.ways.words))
        count = len(self.arguments)
        yield c("  if (nargs != {}) return rt->from_bool(0);", count + self.tells)
        if self.tells:
            yield c("  int64_t errors;")
            yield c("  if (rt->take_int(args[{}], &errors)) return rt->from_bool(0);", count)
        yield from self.taken()
        yield from self.apart()
        yield from self.arrays()
        frame = c(
            "{{ .errors = {}, .fuel = {}, .args = args, .nargs = {}, .lets_others = {} }}",
            c("errors") if self.tells else ALL_ERRORS,
            PATIENCE,
            c("{}", count) if self.tells else c("nargs"),
            int(not self.writes),
        )
        yield c("  struct npc_frame frame = {};", frame)
        yield c("  const npc_i64 way = failed ? -1 : npc_loop(&frame, in, out);")
        yield c("  PyObject* result = 0;")
        yield c("  switch (way) {{")
        for number in sorted({*self.ways.of_return.values()}):
            yield c("  case {}: {{", number)
            yield from self.result(self.ways.found[number])
            yield c("    break;")
            yield c("  }}")
        yield c("  default:")
        for k, each in enumerate(self.arguments):
            if each.is_written:
                yield c("    if (saved_{}) npc_copy(array_{}, 0, array_{}->data, saved_{}, 1);", k, k, k, k)
        yield c("    if (!failed && !rt->error()) result = {};", self.left())
        yield c("  }}")
        yield c("  npc_free(&frame);")
        for k, each in enumerate(self.arguments):
            if each.is_written:
                yield c("  rt->release(saved_{});", k)
        for k in range(len(self.made)):
            yield c("  rt->decref(made_{});", k)
        yield c("  return result;")
        yield c("}}")

    @property
    def writes(self) -> bool:
        return any(each.is_written for each in self.arguments)

    def taken(self) -> Iterator[CText]:
        """What is asked of the arguments, and their words."""
        word = 0
        for k, (each, param) in enumerate(zip(self.arguments, self.program.params)):
            match each.kind:
                case Memref(element, rank):
                    flags = ALIGNED | CONTIGUOUS * each.kind.contiguous | WRITEABLE * each.is_written
                    take = c("rt->take_array(args[{}], npc_dtypes[{}], {}, {})", k, DTYPE_OF[element], rank, flags)
                    yield c("  if ({}) return rt->from_bool(0);", take)
                    if DTYPES[element].itemsize < 8:
                        for axis in range(rank):
                            long = c("((npc_array*)args[{}])->dimensions[{}] > {}", k, axis, MOST_ELEMENTS)
                            yield c("  if ({}) return rt->from_bool(0);", long)
                    yield c("  npc_array* const array_{} __attribute__((unused)) = (npc_array*)args[{}];", k, k)
                    yield from array_words(c("array_{}", k), rank, word)
                case Scalar(kind):
                    dtype = c("") if kind in TAKEN else c("npc_dtypes[{}], ", DTYPE_OF[kind])
                    yield c("  {} number_{};", c("int64_t" if kind is Kind.INT else C_TYPES[kind]), k)
                    take = c(f"rt->take_{TAKEN.get(kind, 'scalar')}(args[{{}}], {{}}&number_{{}})", k, dtype, k)
                    yield c("  if ({}) return rt->from_bool(0);", take)
                    yield c("  in[{}].{} = number_{};", word, field_of(each.kind), k)
                case Object():
                    pass
                case _:
                    raise Unsupported(f"an argument that is {kind_in_words(each.kind)}", 0)
            word += words_of(self.program.types[param.value])

    def apart(self) -> Iterator[CText]:
        """Arrays that are written share no memory with others, nor with themselves."""
        arrays = [k for k, each in enumerate(self.arguments) if isinstance(each.kind, Memref)]
        written = [k for k in arrays if self.arguments[k].is_written]
        for k in written:
            yield c("  if (rt->overlaps_itself(array_{})) return rt->from_bool(0);", k)
            for other in arrays:
                if other != k and not (other in written and other < k):
                    yield c("  if (!npc_are_apart(array_{}, array_{})) return rt->from_bool(0);", k, other)

    def arrays(self) -> Iterator[CText]:
        """What was there before, and arrays of zeros."""
        yield c("  int failed = 0;")
        for k, each in enumerate(self.arguments):
            if each.is_written:
                yield c("  char* const saved_{} = rt->scratch(npc_bytes(array_{}));", k, k)
                yield c("  if (saved_{}) npc_copy(array_{}, 0, array_{}->data, saved_{}, 0);", k, k, k, k)
                yield c("  else failed = 1;")
        params = self.program.params
        word = sum(words_of(self.program.types[param.value]) for param in params[: len(self.arguments)])
        for number, k in enumerate(self.made):
            kind = self.program.types[params[len(self.arguments) + number].value]
            assert isinstance(kind, Memref), kind
            yield c("  PyObject* const made_{} =", number)
            size = c("array_{}->dimensions", k)
            yield c("    failed ? 0 : rt->empty(npc_dtypes[{}], {}, {}, 0);", DTYPE_OF[kind.element], kind.rank, size)
            yield c("  if (!made_{}) failed = 1;", number)
            yield c("  else {{")
            yield c("    npc_array* const made = (npc_array*)made_{};", number)
            yield c("    memset(made->data, 0, npc_bytes(made));")
            yield from array_words(c("made"), kind.rank, word)
            yield c("  }}")
            word += words_of(kind)

    def left(self) -> CText:
        """An object for the way out."""
        if not self.tells:
            return c("rt->from_bool(1)")
        points = joined(", ", (c("{}", -1 if way.point is None else way.point) for way in self.ways.found))
        return c("rt->from_int64(((const int64_t[]){{{}}})[way])", points)

    def result(self, way: Way) -> Iterator[CText]:
        """Sets `result` to a new object, or 0 where there is no memory for one."""
        made = {param.value: k for k, param in enumerate(self.program.params[len(self.arguments) :])}
        objects = [leaf for leaf in way.leaves if not isinstance(leaf.kind, Scalar) and leaf.value not in made]
        for k, leaf in enumerate(objects):
            yield c("    PyObject* o{} = {};", k, object_of(leaf, objects[:k]))
        are_made = joined(" && ", [c("1"), *(c("o{}", k) for k in range(len(objects)))])
        leaves = {leaf.value: leaf for leaf in way.leaves}
        yield c("    if ({}) result = {};", are_made, self.made_of(way.stack[0], leaves, objects, made))
        for k in range(len(objects)):
            yield c("    rt->decref(o{});", k)

    def given(self) -> dict[int, int]:
        """Params that are the objects of arguments, as these are given."""
        params = [param.value for param in self.program.params]
        return {value: k for k, (value, each) in enumerate(zip(params, self.arguments)) if self.program.types[value] == each.kind}

    def made_of(self, recipe: Recipe, leaves: dict[int, Leaf], objects: list[Leaf], made: dict[int, int]) -> CText:
        given = self.given()
        match recipe:
            case Fixed(float() as value):
                return c("rt->from_double({})", c(value.hex()))
            case Fixed(bool() as value):
                return c("rt->from_bool({})", int(value))
            case Fixed(int() as value):
                return c("rt->from_int64({})", value)
            case Fixed(None):
                return c("(rt->incref(rt->none), rt->none)")
            case Use(value) if value in given:
                return c("(rt->incref(args[{}]), args[{}])", given[value], given[value])
            case Use(value) if value in made:
                return c("(rt->incref(made_{}), made_{})", made[value], made[value])
            case Use(value) if isinstance(leaves[value].kind, Scalar):
                return boxed(leaves[value])
            case Use(value):
                k = objects.index(leaves[value])
                return c("(rt->incref(o{}), o{})", k, k)
            case Tagged(tag, value):
                word = leaves[value].word
                return c("(out[{}].i ? rt->from_double(out[{}].d) : {})", leaves[tag].word, word, boxed(leaves[value]))
            case TupleOf(items):
                parts = [self.made_of(item, leaves, objects, made) for item in items]
                return c("rt->tuple_of({})", joined(", ", [c("{}", len(parts)), *parts]))
        raise Unsupported("a result of another kind", 0)


def array_words(name: CText, rank: int, word: int) -> Iterator[CText]:
    yield c("  in[{}].p = {}->data;", word, name)
    for axis in range(rank):
        yield c("  in[{}].i = {}->dimensions[{}];", word + 3 + axis, name, axis)
        yield c("  in[{}].i = {}->strides[{}];", word + 3 + rank + axis, name, axis)
