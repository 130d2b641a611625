"""A program that may abort, as a function that C calls: `npc.cfunc`.

It holds Python's lock while it runs. Where the program was left, what it had written is put back and Python's function called.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from npcompile.backends.cpu.loader import load
from npcompile.backends.cpu.loop_ir.functions import definitions
from npcompile.backends.cpu.loop_ir.target import CPU, KINDS
from npcompile.backends.errors import CompilerError, NoCompiler
from npcompile.backends.loop_ir.c_text import CText, c, joined, unit
from npcompile.backends.loop_ir.c_values import field_of, literal
from npcompile.backends.loop_ir.exits import Way, Ways, words_of
from npcompile.backends.loop_ir.native import Callback, CType, Parameter
from npcompile.backends.loop_ir.parallel import names_of
from npcompile.backends.loop_ir.statements import print_function
from npcompile.backends.loop_ir.target import Unsupported
from npcompile.backends.native_profiling import profiled
from npcompile.tensor_core.loop_ir.ops import Program
from npcompile.tensor_core.loop_ir.states import Fixed, Recipe, Tagged, Use
from npcompile.tensor_core.loop_ir.types import DTYPES, Kind, Scalar

HELPERS = """int PyGILState_Ensure(void);
void PyGILState_Release(int);
static int npc_share(const char* a, npc_i64 m, const char* b, npc_i64 n) { return a < b + 8 * n && b < a + 8 * m; }
static char* npc_kept_aside(const char* a, npc_i64 n) {
  char* const made = rt->scratch(8 * n + 1);
  if (made) memcpy(made, a, 8 * n);
  return made;
}"""
NEVER = (1 << 63) - 1  # iterations before signals are looked for
FLOATS = (Kind.FLOAT, Kind.F64, Kind.F32)
MADE: Counter[str] = Counter()  # texts: each function has static variables of its own, so no two have one text


def compile_callback(program: Program, parameters: Sequence[Parameter], result: CType, outside: Sequence[object]) -> Callback:
    """The function of C. `outside`: the last arguments of the program, numbers and arrays, which stay what they are.

    Raises Unsupported: where an op has no text, with the user's line, and where there is no compiler.
    """
    lines, ways = print_function(program, CPU)
    try:
        text = profiled(
            definitions(program) + unit([*lines, *Printed(program, parameters, result, ways).lines()]),
            program.name,
            *names_of(program),
        )
        source = text + f"/* {MADE[text]} */\n"
        loaded = load(source, [DTYPES[kind] for kind in KINDS])
    except (NoCompiler, CompilerError) as error:
        raise Unsupported(str(error), 0) from error
    MADE[text] += 1
    kept = [word for x in outside for word in words(x)]
    return Callback(lambda python: loaded.call(python, *kept), source, loaded.seconds)  # type: ignore[arg-type,return-value]


def words(x: object) -> list[int | float]:
    """Of a number or an array from outside."""
    if isinstance(x, np.ndarray):
        return [x.ctypes.data, 0, 0, *x.shape, *x.strides]
    return [float(x) if isinstance(x, (float, np.floating)) else int(x)]  # type: ignore[call-overload]


@dataclass(slots=True)
class Printed:
    """Prints `npc_callback`, and `npc_run`, which gives its address."""

    program: Program
    parameters: Sequence[Parameter]
    result: CType
    ways: Ways

    def lines(self) -> Iterator[CText]:
        size = [words_of(self.program.types[param.value]) for param in self.program.params]
        passed = sum(1 for each in self.parameters if each.is_passed)
        outside = sum(size[passed:])
        names = joined(", ", (c("p{}", k) for k in range(len(self.parameters))))
        given = (
            joined(", ", (c("{} p{}", c(each.text), k) for k, each in enumerate(self.parameters)))
            if self.parameters
            else c("void")
        )
        yield CText(HELPERS)
        yield c("static union npc_word npc_outside[{}];", max(1, outside))
        yield c("static {} (*npc_python)({});", c(self.result.text), given)
        yield c("static {} npc_callback({}) {{", c(self.result.text), given)
        if self.result.text != "void":
            yield c("  {} result;", c(self.result.text))
        yield c("  const int lock = PyGILState_Ensure();")
        yield c("  union npc_word in[{}], out[{}];", max(1, sum(size)), max(1, self.ways.words))
        yield c("  struct npc_frame frame = {{ .errors = 15, .fuel = {} }};", NEVER)
        yield c("  npc_i64 way = -1;")
        yield from self.taken()
        yield c("  for (int k = 0; k < {}; k++) in[{} + k] = npc_outside[k];", outside, sum(size[:passed]))
        yield from self.run()
        yield c("  switch (way) {{")
        for number in self.ways.of_return.values():
            yield c("    case {}: {} break;", number, self.returned(self.ways.found[number]))
        yield c("    default:")
        for k in self.written():
            yield c("      if (saved_{}) memcpy(p{}, saved_{}, 8 * ({}));", k, k, k, self.length(k))
        yield c("      rt->pardon();")
        yield c("      {}npc_python({});", c("" if self.result.text == "void" else "result = "), names)
        yield c("  }}")
        yield c("  npc_free(&frame);")
        for k in self.written():
            yield c("  rt->release(saved_{});", k)
        yield c("  PyGILState_Release(lock);")
        if self.result.text != "void":
            yield c("  return result;")
        yield c("}}")
        yield from self.address(outside)

    def taken(self) -> Iterator[CText]:
        """The program's words of what C gives."""
        word = 0
        for k, each in enumerate(self.parameters):
            if not each.is_passed:
                continue
            if each.is_pointer:
                yield c("  in[{}].p = (char*)p{}; in[{}].i = {}; in[{}].i = 8;", word, k, word + 3, self.length(k), word + 4)
                word += 5
            else:
                yield c("  in[{}].{} = p{};", word, c("d" if each.type.is_floating else "i"), k)
                word += 1

    def run(self) -> Iterator[CText]:
        """Where arrays that are written lie apart from all others: as the program takes them to lie."""
        pointers = [k for k, each in enumerate(self.parameters) if each.is_passed and each.is_pointer]
        apart = c("1")
        for k in self.written():
            yield c("  char* const saved_{} = npc_kept_aside((char*)p{}, {});", k, k, self.length(k))
            apart = c("{} && saved_{}", apart, k)
            for other in pointers:
                if other != k:
                    share = c("npc_share((char*)p{}, {}, (char*)p{}, {})", k, self.length(k), other, self.length(other))
                    apart = c("{} && !{}", apart, share)
        yield c("  if ({}) way = npc_loop(&frame, in, out);", apart)

    def written(self) -> list[int]:
        return [k for k, each in enumerate(self.parameters) if each.is_passed and each.is_written]

    def length(self, k: int) -> CText:
        found = self.parameters[k].length
        if isinstance(found, int):
            return c("{}", found)
        (place,) = (i for i, each in enumerate(self.parameters) if each.name == found)
        return c("(npc_i64)p{}", place)

    def returned(self, way: Way) -> CText:
        (recipe,) = way.stack
        if self.result.text == "void":
            return c("")
        return c("result = {};", self.number(recipe, {leaf.value: leaf.word for leaf in way.leaves}))

    def number(self, recipe: Recipe, found: dict[int, int]) -> CText:
        match recipe:
            case Fixed(bool() | int() | float() as value) if self.result.is_floating or not isinstance(value, float):
                return literal(value)
            case Use(value) | Tagged(_, value):
                kind = self.program.types[value]
                if isinstance(kind, Scalar) and (self.result.is_floating or kind.kind not in FLOATS):
                    return c("out[{}].{}", found[value], field_of(kind))
        raise Unsupported(f"a result that is not a C {self.result.text}", 0)

    def address(self, outside: int) -> Iterator[CText]:
        yield c("PyObject* npc_run(PyObject* self, PyObject* const* args, int64_t nargs) {{")
        yield c("  int64_t word;")
        yield c("  if (nargs != {} || rt->take_int(args[0], &word)) return rt->from_bool(0);", outside + 1)
        yield c("  memcpy(&npc_python, &word, sizeof npc_python);")
        yield c("  for (int k = 0; k < {}; k++) {{", outside)
        yield c("    if (!rt->take_int(args[k + 1], &word)) npc_outside[k].i = word;")
        yield c("    else if (rt->take_float(args[k + 1], &npc_outside[k].d)) return rt->from_bool(0);")
        yield c("  }}")
        yield c("  return rt->from_int64((int64_t)&npc_callback);")
        yield c("}}")
