"""The C function that CPython calls: objects become words, and the words of a way out become objects."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from npcompile.backends.cpu.loop_ir.target import KINDS, PATIENCE
from npcompile.backends.loop_ir.c_text import CText, c, joined
from npcompile.backends.loop_ir.exits import GIVEN, OTHERS, UNFIT, UNUSUAL, USUAL, Leaf, Way, Ways, how_to_run, words_of
from npcompile.backends.loop_ir.target import C_TYPES, Unsupported
from npcompile.tensor_core.loop_ir.forms import walk
from npcompile.tensor_core.loop_ir.ops import Poll, Program, Routine
from npcompile.tensor_core.loop_ir.states import Fixed, Recipe, Tagged, TupleOf, Use
from npcompile.tensor_core.loop_ir.types import (
    DTYPES,
    MOST_ELEMENTS,
    NUMPYS,
    Kind,
    List,
    Memref,
    Object,
    Scalar,
    Type,
    kind_in_words,
)

CONTIGUOUS, WRITEABLE, ALIGNED = 0x1, 0x400, 0x100  # flags of NumPy's arrays
LETTERS: Final = {**dict.fromkeys(KINDS, "n"), Kind.BOOL: "b", Kind.INT: "i", Kind.FLOAT: "f", Kind.F64: "d"}
TAKEN: Final = {Kind.BOOL: "bool", Kind.INT: "int", Kind.FLOAT: "float"}
HEAD: Final = f"""PyObject* npc_run(PyObject* self, PyObject* const* args, int64_t nargs) {{
  int64_t how = {how_to_run(USUAL, PATIENCE)};
  switch (rt->are_names_known(args[0])) {{ case 1: break; case 0: return rt->leave({OTHERS}, ""); default: return 0; }}
  switch (rt->is_state_known(args[1])) {{ case 1: break; case 0: return rt->leave({UNUSUAL}, ""); default: return 0; }}
  args += 2; nargs -= 2;
  struct npc_frame frame;
  frame.blocks = 0; frame.lists = 0; frame.rooms = 0; frame.args = args; frame.nargs = nargs; frame.few = 0;"""
END: Final = """  if (raised) rt->decref(raised);
  npc_free(&frame);
  return result;
}"""


def entry_lines(program: Program, ways: Ways, written: Sequence[bool]) -> Iterator[CText]:
    """`npc_run(names, states, arguments ..., how)` gives what the program returns, a list in a list after GIVEN.

    `how` is `how_to_run`'s, and may be left out where NumPy ignores underflow alone. Where the program leaves, or returns what is
    made of Python's own objects, it gives a list: the number of the way, what it hands over, and about how many iterations
    there were. Where a handler of signals has raised, the number is greater by the number of ways, and the exception stands
    before the iterations. `written`: the arguments that may be stored to.
    """
    kinds = [program.types[param.value] for param in program.params]
    yield CText(HEAD)
    yield c('  if (nargs > {} && rt->take_int(args[{}], &how)) return rt->leave({}, "");', len(kinds), len(kinds), OTHERS)
    yield c("  frame.lets_others = {};", int(not any(written)))
    yield c("  frame.errors = how & 15; frame.leaves = how >> 4 & 1; frame.fuel = how >> 5;")
    yield c("  union npc_word in[{}], out[{}];", 1 + sum(map(words_of, kinds)), 1 + ways.words)
    word = 0
    for number, kind in enumerate(kinds):
        yield from taken(kind, number, word)
        word += words_of(kind)
    for number, (kind, is_written) in enumerate(zip(kinds, written, strict=True)):
        if isinstance(kind, Memref):
            yield from fitting(kind, number, is_written)
    yield c("  const npc_i64 way = npc_loop(&frame, in, out);")
    yield c("  PyObject *result = 0, *raised = 0;")
    yield c("  switch (way) {{")
    polled = {ways.of_state[op.state] for op in walk(program.body) if isinstance(op, Poll | Routine)}
    for number, way in enumerate(ways.found):
        yield from handed(number, way, program, len(ways.found) if number in polled else 0)
    yield c("  }}")
    yield CText(END)


def taken(kind: Type, number: int, word: int) -> Iterator[CText]:
    """An argument as words."""
    others = c('return rt->leave({}, "")', OTHERS)
    match kind:
        case Memref(element, rank):
            flags = CONTIGUOUS * kind.contiguous
            test = c("rt->take_array(args[{}], npc_dtypes[NPC_OF_{}], {}, {})", number, c(element.name), rank, flags)
            yield c("  if ({}) {};", test, others)
            yield c("  {{ const npc_array* const a = (npc_array*)args[{}];", number)
            yield c("    in[{}].p = a->data;", word)
            for axis in range(rank):
                if DTYPES[element].itemsize < 8:
                    yield c("    if (a->dimensions[{}] > {}) {};", axis, MOST_ELEMENTS, others)
                at = (word + 3 + axis, axis, word + 3 + rank + axis, axis)
                yield c("    in[{}].i = a->dimensions[{}]; in[{}].i = a->strides[{}];", *at)
            yield c("  }}")
        case Object():
            pass
        case Scalar(Kind.FLOAT):
            yield c("  if (rt->take_float(args[{}], &in[{}].d)) {};", number, word, others)
        case Scalar(Kind.BOOL):
            yield c("  {{ uint8_t b; if (rt->take_bool(args[{}], &b)) {}; in[{}].i = b; }}", number, others, word)
        case Scalar(Kind.INT):
            yield c("  {{ int64_t n; if (rt->take_int(args[{}], &n)) {}; in[{}].i = n; }}", number, others, word)
        case Scalar(element) if kind.is_numpys:
            taken_as = c("rt->take_scalar(args[{}], npc_dtypes[NPC_OF_{}], &number)", number, c(element.name))
            field = c("f" if element is Kind.F32 else "d" if element is Kind.F64 else "i")
            yield c("  {{ {} number; if ({}) {}; in[{}].{} = number; }}", c(C_TYPES[element]), taken_as, others, word, field)
        case _:
            raise Unsupported(f"an argument that is {kind_in_words(kind)}", 0)


def fitting(kind: Memref, number: int, is_written: bool) -> Iterator[CText]:
    """What is asked of an array of that type: memory that elements can be read from, and written to."""
    flags = ALIGNED | WRITEABLE * is_written
    array = c("((npc_array*)args[{}])", number)
    overlaps = c(" || rt->overlaps_itself({})", array) if is_written and not kind.contiguous else c("")
    yield c('  if (({}->flags & {}) != {}{}) return rt->leave({}, "");', array, flags, flags, overlaps, UNFIT)


def handed(number: int, way: Way, program: Program, ways: int) -> Iterator[CText]:
    """The objects of a way out. Two names of one view are one object. `ways`: 0 where no handler of signals may have raised."""
    leaves = way.leaves
    objects = [leaf for leaf in leaves if not isinstance(leaf.kind, Scalar)]
    yield c("  case {}: {{", number)
    for k, leaf in enumerate(objects):
        yield c("    PyObject* o{} = {};", k, object_of(leaf, objects[:k]))
    are_made = joined(" && ", [c("1"), *(c("o{}", k) for k in range(len(objects)))])
    if way.is_returned:
        arguments = {param.value: k for k, param in enumerate(program.params)}
        made = result(way.stack[0], {leaf.value: leaf for leaf in leaves}, objects, arguments)
        recipe = way.stack[0]
        if isinstance(recipe, Use) and isinstance(program.types[recipe.value], List):
            made = c('rt->leave({}, "o", o0)', GIVEN)
        yield c("    if ({}) result = {};", are_made, made)
    else:
        letters = "".join(LETTERS[leaf.kind.kind] if isinstance(leaf.kind, Scalar) else "o" for leaf in leaves)
        given = [argument(leaf, objects) for leaf in leaves]
        made = left(number, letters, given)
        if ways:
            yield c("    if (rt->error()) raised = rt->caught();")
            made = c("raised ? {} : {}", left(number + ways, letters + "o", [*given, c("raised")]), made)
        yield c("    if ({}) result = {};", are_made, made)
    for k in range(len(objects)):
        yield c("    rt->decref(o{});", k)
    yield c("    break;")
    yield c("  }}")


def result(recipe: Recipe, leaves: dict[int, Leaf], objects: list[Leaf], arguments: dict[int, int]) -> CText:
    """A new reference to what a recipe makes. A number that was given is the object that was."""
    match recipe:
        case Use(value) if value in arguments:
            return c("(rt->incref(args[{}]), args[{}])", arguments[value], arguments[value])
        case Use(value) if isinstance(leaves[value].kind, Scalar):
            return boxed(leaves[value])
        case Use(value):
            k = objects.index(leaves[value])
            return c("(rt->incref(o{}), o{})", k, k)
        case Fixed():
            return c("(rt->incref(rt->none), rt->none)")
        case Tagged(tag, value):
            at = leaves[value].word
            return c("(out[{}].i ? rt->from_double(out[{}].d) : {})", leaves[tag].word, at, boxed(leaves[value]))
        case TupleOf(items):
            return c(
                "rt->tuple_of({})", joined(", ", [c("{}", len(items)), *(result(x, leaves, objects, arguments) for x in items)])
            )
    raise AssertionError(recipe)


def boxed(leaf: Leaf) -> CText:
    match leaf.kind:
        case Scalar(Kind.FLOAT):
            return c("rt->from_double(out[{}].d)", leaf.word)
        case Scalar(Kind.INT):
            return c("rt->from_int64(out[{}].i)", leaf.word)
        case Scalar(Kind.BOOL):
            return c("rt->from_bool(out[{}].i)", leaf.word)
        case Scalar(kind):
            return c("rt->box(npc_dtypes[NPC_OF_{}], &out[{}])", c(kind.name), leaf.word)
    raise AssertionError(leaf)


def left(number: int, letters: str, given: list[CText]) -> CText:
    parts = [c("{}", number), c(f'"{letters}i"'), *given, c("(int64_t)(frame.done - frame.left)")]
    return c("rt->leave({})", joined(", ", parts))


def object_of(leaf: Leaf, before: list[Leaf]) -> CText:
    match leaf.kind:
        case List(kind):
            at = (leaf.word, c(LETTERS[kind].replace("d", "n")), c(NUMPYS.get(kind, kind).name), c(C_TYPES[kind]))
            return c('npc_list_of((struct npc_list*)out[{}].p, "{}", NPC_OF_{}, sizeof({}))', *at)
        case Memref(element, rank):
            text = c("npc_array_of(&frame, &out[{}], NPC_OF_{}, {})", leaf.word, c(element.name), rank)
            for k, other in enumerate(before):
                if other.kind == leaf.kind:
                    same = c("!memcmp(&out[{}], &out[{}], {} * sizeof *out)", leaf.word, other.word, words_of(leaf.kind))
                    text = c("o{} && {} ? (rt->incref(o{}), o{}) : {}", k, same, k, k, text)
            return text
        case Object():
            return c("(rt->incref(args[out[{}].i]), args[out[{}].i])", leaf.word, leaf.word)
    raise AssertionError(leaf.kind)


def argument(leaf: Leaf, objects: list[Leaf]) -> CText:
    match leaf.kind:
        case Scalar(Kind.FLOAT):
            return c("out[{}].d", leaf.word)
        case Scalar(Kind.F64):
            return c("npc_dtypes[NPC_OF_F64], out[{}].d", leaf.word)
        case Scalar(kind) if leaf.kind.is_numpys:
            return c("npc_dtypes[NPC_OF_{}], (const void*)&out[{}]", c(kind.name), leaf.word)
        case Scalar(kind):
            return c("({})out[{}].i", c("int" if kind is Kind.BOOL else "int64_t"), leaf.word)
    return c("o{}", objects.index(leaf))
