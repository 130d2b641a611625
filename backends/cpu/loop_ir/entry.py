"""The C function that CPython calls: objects become words, and the words of a way out become a list of objects."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from npcompile.backends.cpu.loop_ir.target import KINDS
from npcompile.backends.loop_ir.c_text import CText, c, joined
from npcompile.backends.loop_ir.exits import Leaf, Ways, words_of
from npcompile.backends.loop_ir.target import C_TYPES, Unsupported
from npcompile.tensor_core.loop_ir.ops import Program
from npcompile.tensor_core.loop_ir.types import NUMPYS, Kind, List, Memref, Object, Scalar, Type

WRONG_TYPES, UNUSUAL = -2, -3  # exits of a program that does nothing: of the arguments, and of NumPy's state of errors
CONTIGUOUS, WRITEABLE, ALIGNED = 0x1, 0x400, 0x100  # flags of NumPy's arrays
LETTERS: Final = {**dict.fromkeys(KINDS, "n"), Kind.BOOL: "b", Kind.INT: "i", Kind.FLOAT: "f", Kind.F64: "d"}
HEAD: Final = """PyObject* npc_run(PyObject* self, PyObject* const* args, int64_t nargs) {
  int64_t errors, fuel; uint8_t leaves;
  switch (rt->is_state_known(args[0])) { case 1: break; case 0: return rt->leave(-3, ""); default: return 0; }
  if (rt->take_int(args[1], &errors) || rt->take_int(args[2], &fuel) || rt->take_bool(args[3], &leaves)) return rt->leave(-2, "");
  args += 4; nargs -= 4;
  struct npc_frame frame = {errors, fuel, leaves, 0, 0, 0, args, nargs};"""
END: Final = """  if (raised) rt->decref(raised);
  npc_free(&frame);
  return result;
}"""


def entry_lines(program: Program, ways: Ways) -> Iterator[CText]:
    """`npc_run(states, errors, fuel, leaves, arguments ...)` gives the way and what it hands over, and then the exception that a
    handler of signals has raised, if one has."""
    kinds = [program.types[param.value] for param in program.params]
    yield CText(HEAD)
    yield c('  if (nargs != {}) return rt->leave({}, "");', len(kinds), WRONG_TYPES)
    yield c("  union npc_word in[{}], out[{}];", 1 + sum(map(words_of, kinds)), 1 + ways.words)
    word = 0
    for number, kind in enumerate(kinds):
        yield from taken(kind, number, word)
        word += words_of(kind)
    yield c("  const npc_i64 way = npc_loop(&frame, in, out);")
    yield c("  PyObject *result = 0, *raised = way >= 0 && rt->error() ? rt->caught() : 0;")
    yield c("  switch (way) {{")
    for number, way in enumerate(ways.found):
        yield from handed(number, way.leaves)
    yield c("  }}")
    yield CText(END)


def taken(kind: Type, number: int, word: int) -> Iterator[CText]:
    """An argument as words."""
    match kind:
        case Memref(element, rank):
            flags = ALIGNED | CONTIGUOUS * kind.contiguous | WRITEABLE * kind.writeable
            test = c("rt->take_array(args[{}], npc_dtypes[NPC_OF_{}], {}, {})", number, c(element.name), rank, flags)
            yield c('  if ({}) return rt->leave({}, "");', test, WRONG_TYPES)
            yield c("  {{ const npc_array* const a = (npc_array*)args[{}];", number)
            yield c("    in[{}].p = a->data;", word)
            for axis in range(rank):
                at = (word + 3 + axis, axis, word + 3 + rank + axis, axis)
                yield c("    in[{}].i = a->dimensions[{}]; in[{}].i = a->strides[{}];", *at)
            yield c("  }}")
        case Object():
            pass
        case Scalar(Kind.FLOAT):
            yield c('  if (rt->take_float(args[{}], &in[{}].d)) return rt->leave({}, "");', number, word, WRONG_TYPES)
        case Scalar(Kind.F64):
            yield c("  if (rt->as_double(args[{}], &in[{}].d)) return 0;", number, word)
        case Scalar(element) if kind.is_numpys:
            taken_as = c("rt->take_scalar(args[{}], npc_dtypes[NPC_OF_{}], &in[{}])", number, c(element.name), word)
            yield c('  if ({}) return rt->leave({}, "");', taken_as, WRONG_TYPES)
        case Scalar():
            yield c("  {{ int64_t n; if (rt->as_int64(args[{}], &n)) return 0; in[{}].i = n; }}", number, word)
        case _:
            raise Unsupported(f"an argument of type {kind}", 0)


def handed(number: int, leaves: list[Leaf]) -> Iterator[CText]:
    """The objects of a way out. Two names of one view are one object."""
    objects = [leaf for leaf in leaves if not isinstance(leaf.kind, Scalar)]
    yield c("  case {}: {{", number)
    for k, leaf in enumerate(objects):
        yield c("    PyObject* o{} = {};", k, object_of(leaf, objects[:k]))
    are_made = joined(" && ", [c("1"), *(c("o{}", k) for k in range(len(objects)))])
    letters = "".join(LETTERS[leaf.kind.kind] if isinstance(leaf.kind, Scalar) else "o" for leaf in leaves)
    given = [argument(leaf, objects) for leaf in leaves]
    with_raised, without = left(number, letters + "o", [*given, c("raised")]), left(number, letters, given)
    yield c("    if ({}) result = raised ? {} : {};", are_made, with_raised, without)
    for k in range(len(objects)):
        yield c("    rt->decref(o{});", k)
    yield c("    break;")
    yield c("  }}")


def left(number: int, letters: str, given: list[CText]) -> CText:
    return c("rt->leave({})", joined(", ", [c("{}", number), c(f'"{letters}"'), *given]))


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
