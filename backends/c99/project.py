"""An exported program as a project of C: a header, a source and a CMakeLists.txt."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np

from npcompile.backends.c99.description import KEYWORDS, LIBRARY, PUBLIC, Description, Result, flat, number_in_words, public_type
from npcompile.backends.c99.target import C99
from npcompile.backends.loop_ir.c_text import CText, c, joined, unit
from npcompile.backends.loop_ir.c_values import c_type, element_type, field_of, literal, memory_of
from npcompile.backends.loop_ir.exits import Way, side_exits, words_of
from npcompile.backends.loop_ir.statements import Statements
from npcompile.backends.loop_ir.target import Unsupported
from npcompile.tensor_core.loop_ir.causes import Cause
from npcompile.tensor_core.loop_ir.ops import Alloc, Let, Room, Scratch
from npcompile.tensor_core.loop_ir.states import Fixed, Recipe, Tagged, TupleOf, Use
from npcompile.tensor_core.loop_ir.types import FLOATING, NUMPYS, Kind, List, Memref, Object, Scalar, Type, kind_in_words

DONE, NO_MEMORY, UNFIT = 0, 1, 2  # what a function gives; from here on, why there is no result
# Comparisons of a number with itself: of floating-point numbers, and of others.
SELF: Final = {
    **dict.fromkeys(("equal", "less_equal", "greater_equal"), ("!isnan({})", "1")),
    **dict.fromkeys(("less", "greater"), ("0", "0")),
    "not_equal": ("!!isnan({})", "0"),
}
Form: TypeAlias = tuple[Any, ...]  # of a result, as in_wheels.py reads it


class Portable(Statements):
    """Prints statements that compilers warn of nothing in: variables have a value from the beginning."""

    def declarations(self, values: list[int]) -> None:
        for value in values:
            kind = self.program.types[value]
            initial = c("{{0}}") if isinstance(kind, Memref) else c("0")
            star = c("* ") if isinstance(kind, List) else c(" ")
            self.line("  NPC_UNUSED {}{}{} = {};", base_type(kind), star, self.name(value), initial)
        self.lines += memory_of((op for op in self.ops if isinstance(op, Alloc | Room | Scratch)), self.program.types)

    def scalar(self, op: Let) -> None:
        """A number that is compared with itself is asked whether it is NaN: compilers warn of the comparison."""
        kind = self.program.types[op.args[0]] if op.args else None
        if op.op in SELF and len(set(op.args)) == 1 and isinstance(kind, Scalar):
            of_number, of_integer = SELF[op.op]
            text = of_number if kind.kind in FLOATING else of_integer
            self.set(op.result, c(text, self.name(op.args[0])))
        else:
            Statements.scalar(self, op)


def base_type(kind: Type) -> CText:
    return c("struct npc_list") if isinstance(kind, List) else c_type(kind)


@dataclass
class Project:
    """Prints the files. `tells`: the function is `name_told`, and says last, in words, which end it came to, and of each result
    whether it is Python's number, whose memory it is, and whether it is a view of that."""

    of: Description
    tells: bool = False
    lines: list[CText] = field(init=False)
    results: list[Result] = field(init=False)

    def __post_init__(self) -> None:
        program, name = self.of.program, self.of.name
        if not (name.isascii() and name.isidentifier()) or name in KEYWORDS | LIBRARY or name.startswith("npc_"):
            raise ValueError(f"{name!r} cannot be the name of a function of C: give another one as name=...")
        printer = Portable(program, C99, side_exits(program))
        printer.reports = False
        self.lines, self.ways, self.left = printer.unit(), printer.ways, sorted(printer.used)
        found = [[self.kind_of(leaf) for leaf in flat(self.ways.found[n].stack[0])] for n in self.returns]
        if not found:
            raise Unsupported("the function never returns", 0)
        if any(kinds != found[0] for kinds in found):
            raise Unsupported("the function returns numbers and arrays of other types in other places", 0)
        names = ["result"] if len(found[0]) == 1 else [f"result_{k}" for k in range(len(found[0]))]
        taken = set(self.of.parameters)
        self.results = [Result(kind, name + "_" * (name in taken)) for kind, name in zip(found[0], names)]

    @property
    def returns(self) -> list[int]:
        return sorted(set(self.ways.of_return.values()))

    def kind_of(self, recipe: Recipe) -> Type:
        """As which type a part of the result is handed over: a number that is Python's or NumPy's is one of C's."""
        match recipe:
            case Use(value) | Tagged(_, value):
                kind = self.of.program.types[value]
                if isinstance(kind, Scalar):
                    return Scalar(NUMPYS.get(kind.kind, kind.kind))
                if isinstance(kind, Memref):
                    return Memref(kind.element, kind.rank)
                raise Unsupported(f"a result that is {kind_in_words(kind)}", 0)
            case Fixed(bool()):
                return Scalar(Kind.B1)
            case Fixed(int()):
                return Scalar(Kind.I64)
            case Fixed(float()):
                return Scalar(Kind.F64)
        raise Unsupported("a result of another kind", 0)

    # --- the header

    @property
    def declaration(self) -> str:
        given = [
            f"const {public_type(kind)}* {name}" if isinstance(kind, Memref) else f"{public_type(kind)} {name}"
            for kind, name in zip(self.of.kinds, self.of.parameters)
        ]
        told = ["int64_t* npc_told"] * self.tells
        name = self.of.name + "_told" * self.tells
        return f"int {name}({', '.join([*given, *(each.declared for each in self.results), *told]) or 'void'})"

    @property
    def statuses(self) -> dict[int, Cause]:
        """Why a call gave no result, of the causes that there are."""
        points = sorted({point for n in self.left if (point := self.ways.found[n].point)})
        return {UNFIT + point: self.of.causes[point] for point in points}

    def header(self) -> str:
        guard = f"NPC_EXPORTED_{self.of.name.upper()}_H"
        return "\n".join(
            [
                f"#ifndef {guard}",
                f"#define {guard}",
                "#include <stdbool.h>",
                "#include <stdint.h>",
                "#ifdef __cplusplus",
                'extern "C" {',
                "#endif",
                "/* Arrays: the first element, for each axis the size and the stride in bytes, and what is to be freed. */",
                *self.structs(),
                "",
                *self.comment(),
                f"{self.declaration};",
                "",
                "/* What a status says. */",
                f"const char* {self.of.name}_message(int status);",
                "#ifdef __cplusplus",
                "}",
                "#endif",
                "#endif",
                "",
            ]
        )

    def structs(self) -> Iterator[str]:
        kinds = [kind for kind in (*self.of.kinds, *(each.kind for each in self.results)) if isinstance(kind, Memref)]
        for element, rank in sorted({(kind.element, kind.rank) for kind in kinds}, key=str):
            name = public_type(Memref(element, rank))
            yield f"#ifndef {name.upper()}_DEFINED"
            yield f"#define {name.upper()}_DEFINED"
            yield f"typedef struct {name} {{"
            yield f"  {PUBLIC[element]}* data;"
            yield f"  int64_t shape[{rank}], strides[{rank}];"
            yield "  void* memory; /* of results: free() it; 0 where it is that of an argument or of a result before */"
            yield f"}} {name};"
            yield "#endif"

    def comment(self) -> Iterator[str]:
        doc = (self.of.doc or self.of.name).replace("*/", "* /").split("\n")
        yield f"/* {doc[0]}"
        for line in doc[1:]:
            yield f" * {line}".rstrip()
        yield " *"
        for k, (name, kind) in enumerate(zip(self.of.parameters, self.of.kinds)):
            said = kind_in_words(kind)
            if isinstance(kind, Memref):
                said += ", in C order" * kind.contiguous + ", written to" * self.of.written[k]
                said += f", of the shape {self.of.shapes[k]}" if self.of.shapes else ""
            yield f" * {name}: {said}"
        for each in self.results:
            yield f" * {each.name}: {kind_in_words(each.kind)}, set if the call gives 0"
        yield " *"
        yield " * Returns a status. Other than 0 there is no result, and arrays that are written to are as before:"
        yield from (f" *   {status}  {text}" for status, text in self.messages())
        yield " * Floating-point errors are not reported; fenv.h tells of them. Any number of threads may call it at once. */"

    def messages(self) -> Iterator[tuple[int, str]]:
        yield DONE, "done"
        yield NO_MEMORY, "not enough memory for an array"
        yield UNFIT, "an array has another shape or order than is needed, or is written to and shares memory"
        for status, cause in self.statuses.items():
            said = ": ".join(filter(None, (cause.name, cause.reason)))
            yield status, f"{said} ({Path(cause.at.file).name}:{cause.at.line})".replace("*/", "* /")

    # --- the source

    def source(self) -> str:
        head = f"/* Made by {self.of.made_by}. */\n" + "".join(
            f"#include {name}\n"
            for name in (f'"{self.of.name}.h"', "<math.h>", "<stddef.h>", "<stdint.h>", "<stdlib.h>", "<string.h>")
        )
        return head + unit([*self.lines, *self.kept_arrays(), *self.function(), *self.message_function()])

    def kept_arrays(self) -> Iterator[CText]:
        for k, x in enumerate(self.of.outside):
            kind = self.of.program.types[self.of.program.params[len(self.of.names) + k].value]
            values = [literal(value) for value in x.ravel().tolist()] or [c("0")]
            yield c("static const {} npc_outside_{}[] = {{{}}};", element_type(kind), k, joined(",\n  ", values))

    def function(self) -> Iterator[CText]:
        arrays = [k for k, kind in enumerate(self.of.kinds) if isinstance(kind, Memref)]
        written = [k for k in arrays if self.of.written[k]]
        words = sum(words_of(self.of.program.types[param.value]) for param in self.of.program.params)
        yield c("{} {{", c(self.declaration.replace("{", "{{")))
        yield c("  union npc_word npc_in[{}] = {{{{0}}}}, npc_out[{}] = {{{{0}}}};", max(1, words), max(1, self.ways.words))
        yield c("  struct npc_frame npc_frame = {{0}};")
        yield c("  npc_i64 npc_way;")
        yield c("  int npc_status = {};", DONE)
        for k in written if self.left else ():
            yield c("  char* npc_saved_{};", k)
        for k in arrays:
            yield from self.fitting(k)
        yield from self.apart(arrays, written)
        yield from self.words()
        for k in written if self.left else ():
            yield c("  npc_saved_{} = npc_allocate(&npc_frame, {}, sizeof *{}->data, 0);", k, self.shape_of(k), self.name(k))
            yield c("  if (!npc_saved_{}) {{ npc_free(&npc_frame); return {}; }}", k, NO_MEMORY)
            yield self.copied(k, 0)
        yield c("  npc_way = npc_loop(&npc_frame, npc_in, npc_out);")
        yield c("  switch (npc_way) {{")
        for end, number in enumerate(self.returns):
            yield c("    case {}:", number)
            if self.tells:
                yield c("      npc_told[0] = {};", end)
            yield from self.returned(self.ways.found[number])
            yield c("      break;")
        for number in self.left:
            point = self.ways.found[number].point or 0
            yield c("    case {}: npc_status = {}; break;", number, UNFIT + point)
        yield c("    default: npc_status = {};", NO_MEMORY)
        yield c("  }}")
        for k in written if self.left else ():
            yield c("  if (npc_status) {}", self.copied(k, 1))
        yield c("  npc_free(&npc_frame);")
        yield c("  return npc_status;")
        yield c("}}")

    def name(self, k: int) -> CText:
        return CText(self.of.parameters[k])

    def rank(self, k: int) -> int:
        kind = self.of.kinds[k]
        assert isinstance(kind, Memref), kind
        return kind.rank

    def shape_of(self, k: int) -> CText:
        """Rank and sizes."""
        return c("{}, {}->shape", self.rank(k), self.name(k))

    def layout(self, k: int) -> CText:
        """Rank, sizes, strides, and the size of an element."""
        name = self.name(k)
        return c("{}, {}->shape, {}->strides, sizeof *{}->data", self.rank(k), name, name, name)

    def copied(self, k: int, is_back: int) -> CText:
        return c("  npc_copy({}, (char*){}->data, npc_saved_{}, {});", self.layout(k), self.name(k), k, is_back)

    def fitting(self, k: int) -> Iterator[CText]:
        kind, name = self.of.kinds[k], self.name(k)
        assert isinstance(kind, Memref), kind
        yield c("  if (!npc_is_shape({}, {}->shape)) return {};", kind.rank, name, UNFIT)
        if kind.contiguous:
            yield c("  if (!npc_is_dense({})) return {};", self.layout(k), UNFIT)
        for axis, size in enumerate(self.of.shapes[k] if self.of.shapes else ()):
            yield c("  if ({}->shape[{}] != {}) return {};", name, axis, size, UNFIT)

    def apart(self, arrays: list[int], written: list[int]) -> Iterator[CText]:
        """Arrays that are written share no memory with others, nor with themselves."""

        def extent(k: int) -> CText:
            name = self.name(k)
            sizes = c("{}->shape, {}->strides", name, name)
            return c("npc_extent((char*){}->data, {}, {}, sizeof *{}->data)", name, self.rank(k), sizes, name)

        for k in written:
            yield c("  if (npc_overlaps_itself({})) return {};", self.layout(k), UNFIT)
            for other in arrays:
                if other != k and not (other in written and other < k):
                    yield c("  if (!npc_apart({}, {})) return {};", extent(k), extent(other), UNFIT)

    def words(self) -> Iterator[CText]:
        """Arguments, and arrays from outside, as words."""
        word = 0
        for k, param in enumerate(self.of.program.params):
            kind = self.of.program.types[param.value]
            match kind:
                case Scalar():
                    yield c("  npc_in[{}].{} = {};", word, field_of(kind), self.name(k))
                case Memref(_, rank) if k < len(self.of.names):
                    yield c("  npc_in[{}].p = (char*){}->data;", word, self.name(k))
                    for axis in range(rank):
                        yield c("  npc_in[{}].i = {}->shape[{}];", word + 3 + axis, self.name(k), axis)
                        yield c("  npc_in[{}].i = {}->strides[{}];", word + 3 + rank + axis, self.name(k), axis)
                case Memref(_, rank):
                    kept = k - len(self.of.names)
                    x: np.ndarray[Any, Any] = self.of.outside[kept]
                    yield c("  npc_in[{}].p = (char*)npc_outside_{};", word, kept)
                    for axis in range(rank):
                        yield c("  npc_in[{}].i = {};", word + 3 + axis, x.shape[axis])
                        yield c("  npc_in[{}].i = {};", word + 3 + rank + axis, x.strides[axis])
                case List() | Object():
                    raise Unsupported(f"an argument that is {kind_in_words(kind)}", 0)
            word += words_of(kind)

    def returned(self, way: Way) -> Iterator[CText]:
        found = {leaf.value: leaf for leaf in way.leaves}
        for k, (recipe, result) in enumerate(zip(flat(way.stack[0]), self.results, strict=True)):
            name = CText(result.name)
            if self.tells and isinstance(recipe, Tagged):
                yield c("      npc_told[{}] = npc_out[{}].i;", 1 + 3 * k, found[recipe.tag].word)
            match recipe:
                case Fixed(bool() | int() | float() as value):
                    yield c("      *{} = {};", name, literal(value))
                case Use(value) | Tagged(_, value):
                    leaf = found[value]
                    if isinstance(leaf.kind, Scalar):
                        yield c(
                            "      *{} = ({})npc_out[{}].{};",
                            name,
                            CText(public_type(result.kind)),
                            leaf.word,
                            field_of(leaf.kind),
                        )
                        continue
                    assert isinstance(leaf.kind, Memref), leaf.kind
                    rank = leaf.kind.rank
                    if self.tells:
                        for word in (1, 2):
                            yield c("      npc_told[{}] = npc_out[{}].i;", 1 + 3 * k + word, leaf.word + word)
                    yield c("      {}->data = (void*)npc_out[{}].p;", name, leaf.word)
                    yield c("      {}->memory = npc_keep(&npc_frame, npc_out[{}].i);", name, leaf.word + 1)
                    for axis in range(rank):
                        yield c("      {}->shape[{}] = npc_out[{}].i;", name, axis, leaf.word + 3 + axis)
                        yield c("      {}->strides[{}] = npc_out[{}].i;", name, axis, leaf.word + 3 + rank + axis)

    def message_function(self) -> Iterator[CText]:
        yield c("const char* {}_message(int status) {{", CText(self.of.name))
        yield c("  switch (status) {{")
        for status, text in self.messages():
            yield c("    case {}: return {};", status, CText(quoted(text)))
        yield c("  }}")
        yield c('  return "no status of this function";')
        yield c("}}")

    def form(self, recipe: Recipe, numbers: Iterator[int]) -> Form:
        """How a result of Python's is made of the numbers and arrays that a call gives."""
        types = self.of.program.types
        match recipe:
            case TupleOf(items):
                return "tuple", tuple(self.form(item, numbers) for item in items)
            case Fixed(None):
                return "fixed", None
            case Fixed(bool() | int() | float() as value):
                next(numbers)
                return "fixed", value
            case Use(value) if isinstance(kind := types[value], Scalar):
                return "number", next(numbers), number_in_words(kind.kind)
            case Tagged(_, value) if isinstance(kind := types[value], Scalar):
                own = {numpys: python for python, numpys in NUMPYS.items()}.get(kind.kind, kind.kind)
                return "number", next(numbers), f"{own.value}|{number_in_words(kind.kind)}"
        return "array", next(numbers)

    def forms(self) -> list[Form]:
        """For each end of the function."""
        return [self.form(self.ways.found[number].stack[0], itertools.count()) for number in self.returns]

    # --- the build

    def cmake(self) -> str:
        name = self.of.name
        return f"""cmake_minimum_required(VERSION 3.10)
project({name} C)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()
set(CMAKE_C_STANDARD 99)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS OFF)
add_library({name} {name}.c)
target_include_directories({name} PUBLIC ${{CMAKE_CURRENT_SOURCE_DIR}})
if(NOT MSVC)
  target_compile_options({name} PRIVATE -ffp-contract=off) # as NumPy rounds
  target_link_libraries({name} PUBLIC m)
endif()
"""

    def write(self, folder: Path) -> list[Path]:
        """The paths of the files."""
        folder.mkdir(parents=True, exist_ok=True)
        texts = {f"{self.of.name}.h": self.header(), f"{self.of.name}.c": self.source(), "CMakeLists.txt": self.cmake()}
        for name, text in texts.items():
            (folder / name).write_text(text, encoding="utf-8")
        return [folder / name for name in texts]


def quoted(text: str) -> str:
    """As a string of C."""
    data = text.encode("ascii", "backslashreplace").decode()
    return '"' + data.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ").replace("??", "?\\?") + '"'
