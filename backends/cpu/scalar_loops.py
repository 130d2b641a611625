"""Loops over single elements as C: numbers in registers, arrays read and written where they lie, jumps between blocks.

A program is written statement by statement, each where the user's program has it. Kinds of numbers are "int", "float" and
"bool" for Python's, and "f8", "i4", "b1" ... for NumPy's scalars. What a statement cannot do exactly as Python or NumPy
would (an overflow, a division by zero, an index out of bounds, a floating-point error that NumPy reports) jumps to an exit
before it has changed anything: Python goes on from there, and reports.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from npcompile.backends.cpu.loader import load

C_OF_KIND = {
    "int": "int64_t",
    "float": "double",
    "bool": "uint8_t",
    "b1": "uint8_t",
    "f4": "float",
    "f8": "double",
    **{f"i{n}": f"int{8 * n}_t" for n in (1, 2, 4, 8)},
    **{f"u{n}": f"uint{8 * n}_t" for n in (1, 2, 4, 8)},
    "data": "char*",  # memory
    "object": "PyObject*",  # an array that the program made: a reference of its own, or NULL
}
LIMITS = {f"i{n}": (-(2 ** (8 * n - 1)), 2 ** (8 * n - 1) - 1) for n in (1, 2, 4, 8)} | {
    f"u{n}": (0, 2 ** (8 * n) - 1) for n in (1, 2, 4, 8)
}
POLL = 1 << 22  # iterations between two looks for signals
FLAGS = {"aligned": 0x100, "writeable": 0x400}  # of NumPy's arrays

HELPERS = r"""
double sqrt(double), exp(double), log(double), sin(double), cos(double), tan(double), tanh(double), atan(double);
double fabs(double), floor(double), ceil(double), fmod(double, double), pow(double, double), atan2(double, double);
double copysign(double, double), trunc(double);
float sqrtf(float), expf(float), logf(float), sinf(float), cosf(float), tanf(float), tanhf(float), atanf(float);
float fabsf(float), floorf(float), ceilf(float), fmodf(float, float), powf(float, float), copysignf(float, float);
#define SELDOM(c) __builtin_expect(!!(c), 0)
/* A floating-point error that NumPy reports gave r: it is not finite, and the operands are not why. */
#define IS_BAD1(r, a) (!__builtin_isfinite(r) && __builtin_isfinite(a))
#define IS_BAD2(r, a, b) (!__builtin_isfinite(r) && !__builtin_isnan(a) && !__builtin_isnan(b) && \
  (__builtin_isnan(r) || (__builtin_isfinite(a) && __builtin_isfinite(b))))
static inline int npc_power(int64_t a, int64_t b, int64_t* out) {
  int64_t r = 1;
  if (b < 0) return 1;
  for (;;) {
    if ((b & 1) && __builtin_mul_overflow(r, a, &r)) return 1;
    if (!(b >>= 1)) break;
    if (__builtin_mul_overflow(a, a, &a)) return 1;
  }
  *out = r;
  return 0;
}
#define FLOOR_DIVISION(T, s)                                                       \
  static inline T npc_mod_##T(T a, T b) {                                          \
    T m = fmod##s(a, b);                                                           \
    if (m) return (b < 0) != (m < 0) ? m + b : m;                                  \
    return copysign##s(0, b);                                                      \
  }                                                                                \
  static inline T npc_floordiv_##T(T a, T b) {                                     \
    T m = fmod##s(a, b), d = (a - m) / b;                                          \
    if (m && (b < 0) != (m < 0)) d -= 1;                                           \
    if (!d) return copysign##s(0, a / b);                                          \
    T f = floor##s(d);                                                             \
    return d - f > (T)0.5 ? f + 1 : f;                                             \
  }
FLOOR_DIVISION(double, )
FLOOR_DIVISION(float, f)
"""

FUNCTIONS = ("sqrt", "exp", "log", "sin", "cos", "tan", "tanh", "atan", "fabs", "floor", "ceil", "pow", "atan2")
INTEGER = {"add": "add", "subtract": "sub", "multiply": "mul"}
BITWISE = {"bitwise_and": "&", "bitwise_or": "|", "bitwise_xor": "^"}
SIGNS = {"add": "+", "subtract": "-", "multiply": "*", "divide": "/"}
COMPARISONS = {"less": "<", "less_equal": "<=", "equal": "==", "not_equal": "!=", "greater": ">", "greater_equal": ">="}
LARGEST_EXACT = 2**53  # integers up to here are float64 numbers

Fail = Callable[[], str]  # the label of the exit before the present instruction


class NoForm(Exception):
    """There is no C for this, or none that does it exactly."""


def is_float(kind: str) -> bool:
    return kind in ("float", "f8", "f4")


def is_integer(kind: str) -> bool:
    return kind == "int" or kind[0] in "iu" and kind != "int"


def suffix(kind: str) -> str:
    return "f" if kind == "f4" else ""


@dataclass(slots=True)
class ScalarLoops:
    """The program as it is written. Values are the texts of C variables that are set once."""

    lines: list[str] = field(default_factory=list)
    variables: dict[str, str] = field(default_factory=dict)  # of the user's, and of the stack -> C type
    exits: list[list[tuple[str, str]]] = field(default_factory=list)  # (kind, variable) that each hands over
    numbers: list[tuple[str, str]] = field(default_factory=list)  # inputs: (kind, name)
    arrays: list[ArrayInput] = field(default_factory=list)
    objects: list[list[str]] = field(default_factory=list)  # C expressions of new references that each exit hands over
    dtypes: list[np.dtype] = field(default_factory=list)
    constants: set[str] = field(default_factory=set)  # variables that are set once, before the program begins
    statements: Any = None  # over whole arrays: an ArrayLoops
    is_indexed: bool = False  # is some index a variable?
    made: int = 0
    sites: int = 0  # where arrays are made

    # --- inputs

    def number(self, kind: str) -> str:
        name = f"in{len(self.numbers)}"
        self.numbers.append((kind, name))
        return name

    def array(self, dtype: np.dtype, ndim: int, is_contiguous: bool) -> ArrayInput:
        kind = dtype.str[1:]
        if kind not in C_OF_KIND:
            raise NoForm(f"elements of {dtype}")
        made = ArrayInput(f"a{len(self.arrays)}", kind, ndim, is_contiguous)
        self.arrays.append(made)
        self.constants |= {made.name, *(f"{made.name}_{part}{axis}" for part in "ns" for axis in range(ndim))}
        return made

    # --- statements

    def line(self, text: str) -> None:
        self.lines.append(text)

    def new(self, kind: str, text: str) -> str:
        """A variable of its own for an expression."""
        self.made += 1
        self.line(f"const {C_OF_KIND[kind]} t{self.made} = {text};")
        return f"t{self.made}"

    def room(self, kind: str) -> str:
        self.made += 1
        self.line(f"{C_OF_KIND[kind]} t{self.made};")
        return f"t{self.made}"

    def variable(self, name: str, kind: str) -> str:
        self.variables[name] = C_OF_KIND[kind]
        return name

    def set(self, name: str, value: str) -> None:
        if name != value:
            self.line(f"{name} = {value};")

    def leave_if(self, condition: str, fail: Fail) -> None:
        self.line(f"if (SELDOM({condition})) goto {fail()};")

    def label(self, name: str) -> None:
        self.line(f"{name}:;")

    def jump(self, label: str) -> None:
        self.line(f"goto {label};")

    def branch(self, condition: str, true: str, false: str) -> None:
        self.line(f"if ({condition}) goto {true}; else goto {false};")

    def poll(self) -> None:
        """Seldom, see whether the user wants to interrupt."""
        self.line("if (SELDOM(--fuel == 0)) { fuel = POLL; if (rt->poll()) goto failed; }")

    def dtype(self, dtype: np.dtype) -> int:
        """Its index in npc_dtypes."""
        if dtype not in self.dtypes:
            self.dtypes.append(dtype)
        return self.dtypes.index(dtype)

    def new_site(self) -> int:
        self.sites += 1
        return self.sites

    def exit(self, values: list[tuple[str, str]], objects: Sequence[str] = ()) -> str:
        """The label at which the program ends, and hands over values."""
        self.exits.append(values)
        self.objects.append([*objects])
        return f"exit{len(self.exits) - 1}"

    # --- numbers

    def constant(self, kind: str, value: bool | int | float) -> str:
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
        if kind == "int" and to in LIMITS:
            self.require_range(value, kind, to, fail)
        if kind in ("float", "f8") and to == "f4":
            made = self.new(to, f"(float){value}")
            self.leave_if(f"IS_BAD1({made}, {value})", fail)
            return made
        if is_float(kind) and not is_float(to):
            raise NoForm(f"{kind} as {to}")
        if to == "f4":
            return self.new(to, f"(float)(double){value}")  # NumPy rounds twice
        return self.new(to, f"({C_OF_KIND[to]}){value}")

    def require_range(self, value: str, kind: str, to: str, fail: Fail) -> None:
        """Leave if an integer is none of `to`."""
        (low, high), (least, most) = LIMITS[to], LIMITS["i8" if kind == "int" else kind]
        tests = [f"{value} < {low}"] * (least < low) + [f"{value} > INT64_C({high})"] * (most > high)
        if tests:
            self.leave_if(" || ".join(tests), fail)

    def require_exact(self, values: Sequence[str], fail: Fail) -> None:
        """Leave if an integer may be none of float64."""
        limit = f"INT64_C({LARGEST_EXACT})"
        self.leave_if(" || ".join(f"{x} > {limit} || {x} < -{limit}" for x in values), fail)

    def stored(self, value: str, kind: str, to: str, fail: Fail) -> str:
        """A number as an element of an array: cast as NumPy's assignment does, where that reports nothing."""
        if to == "b1":
            return self.truth(value, kind)
        if is_float(kind) and not is_float(to):
            low, high = LIMITS[to]
            upper = f"{value} < {float(high + 1)!r}" if high > 2**31 else f"{value} < {high + 1}.0"
            self.leave_if(f"!({value} > {low - 1 if low > -(2**31) else float(low)!r} && {upper})", fail)
            return self.new(to, f"({C_OF_KIND[to]}){value}")
        if to == "f4":
            return self.converted(value, kind, to, fail)
        if to in LIMITS and kind not in ("bool", "b1"):  # integers of NumPy's are taken by their value, as Python's are
            self.require_range(value, kind, to, fail)
        return value if C_OF_KIND[kind] == C_OF_KIND[to] else self.new(to, f"({C_OF_KIND[to]}){value}")

    def truth(self, value: str, kind: str) -> str:
        return value if kind in ("bool", "b1") else self.new("bool", f"{value} != 0")

    def binary(self, op: str, kind: str, a: str, b: str, fail: Fail) -> tuple[str, str]:
        """(kind, value) of an operation on two operands of one kind, by the name of NumPy's function."""
        c = C_OF_KIND[kind]
        if kind in ("bool", "b1"):
            if op not in BITWISE:
                raise NoForm(f"{op} of booleans")
            return kind, self.new(kind, f"{a} {BITWISE[op]} {b}")
        if is_float(kind):
            return kind, self.float_binary(op, kind, a, b, fail)
        low = LIMITS[kind][0] if kind in LIMITS else -(2**63)
        if op in INTEGER:
            made = self.room(kind)
            self.leave_if(f"__builtin_{INTEGER[op]}_overflow({a}, {b}, &{made})", fail)
        elif op in BITWISE:
            made = self.new(kind, f"{a} {BITWISE[op]} {b}")
        elif op in ("floor_divide", "remainder"):
            self.leave_if(f"{b} == 0" + (f" || ({b} == -1 && {a} == ({c}){low + 1} - 1)" if low else ""), fail)
            sign, name = ("/", "npc_floordiv") if op == "floor_divide" else ("%", "npc_mod")
            made = self.new(kind, f"{name}({a}, {b})" if low else f"{a} {sign} {b}")
        elif op == "divide" and kind == "int":
            self.leave_if(f"{b} == 0", fail)
            self.require_exact([a, b], fail)
            return "float", self.new("float", f"(double){a} / (double){b}")
        elif op == "power" and kind == "int":
            made = self.room(kind)
            self.leave_if(f"npc_power({a}, {b}, &{made})", fail)
        elif op == "left_shift":
            bits = 8 * np.dtype(kind).itemsize if kind != "int" else 64
            self.leave_if(f"{b} < 0 || {b} >= {bits}", fail)
            made = self.new(kind, f"({c})((uint64_t){a} << {b})")
            if kind == "int":
                self.leave_if(f"({made} >> {b}) != {a}", fail)
        elif op == "right_shift":
            bits = 8 * np.dtype(kind).itemsize if kind != "int" else 64
            self.leave_if(f"{b} < 0 || {b} >= {bits}", fail)
            made = self.new(kind, f"{a} >> {b}")
        else:
            raise NoForm(f"{op} of {kind}")
        return kind, made

    def float_binary(self, op: str, kind: str, a: str, b: str, fail: Fail) -> str:
        c = C_OF_KIND[kind]
        if op in SIGNS:
            if op == "divide" and kind == "float":
                self.leave_if(f"{b} == 0", fail)
            made = self.new(kind, f"{a} {SIGNS[op]} {b}")
        elif op in ("floor_divide", "remainder"):
            self.leave_if(f"{b} == 0 || !__builtin_isfinite({a}) || !__builtin_isfinite({b})", fail)
            made = self.new(kind, f"npc_{'floordiv' if op == 'floor_divide' else 'mod'}_{c}({a}, {b})")
        elif op == "power":
            made = self.new(kind, f"pow{suffix(kind)}({a}, {b})")
            self.leave_if(f"!__builtin_isfinite({made})", fail)
            return made
        elif op in ("maximum", "minimum"):
            sign = ">=" if op == "maximum" else "<="
            return self.new(kind, f"{a} {sign} {b} || __builtin_isnan({a}) ? {a} : {b}")
        else:
            raise NoForm(f"{op} of {kind}")
        if kind != "float":  # a scalar of NumPy's reports
            self.leave_if(f"IS_BAD2({made}, {a}, {b})", fail)
        return made

    def negative(self, kind: str, a: str, fail: Fail) -> str:
        if kind in ("bool", "b1") or kind[0] == "u":
            raise NoForm(f"the negative of {kind}")
        if is_integer(kind):
            made = self.room(kind)
            self.leave_if(f"__builtin_sub_overflow(({C_OF_KIND[kind]})0, {a}, &{made})", fail)
            return made
        return self.new(kind, f"-{a}")

    def invert(self, kind: str, a: str) -> str:
        if is_float(kind) or kind == "bool":
            raise NoForm(f"the inverse of {kind}")
        return self.new(kind, f"!{a}" if kind == "b1" else f"~{a}")

    def absolute(self, kind: str, a: str, fail: Fail) -> str:
        if is_float(kind):
            return self.new(kind, f"fabs{suffix(kind)}({a})")
        if kind in ("bool", "b1"):
            raise NoForm("the absolute value of a boolean")
        return a if kind[0] == "u" else self.new(kind, f"{a} < 0 ? {self.negative(kind, a, fail)} : {a}")

    def compare(self, op: str, kind: str, a: str, b: str) -> str:
        return self.new("bool", f"{a} {COMPARISONS[op]} {b}")

    def choose(self, kind: str, condition: str, a: str, b: str) -> str:
        return self.new(kind, f"{condition} ? {a} : {b}")

    def truncated(self, kind: str, a: str, fail: Fail) -> str:
        """int() of a floating-point number."""
        self.leave_if(f"!({a} > -0x1p63 && {a} < 0x1p63)", fail)
        return self.new("int", f"(int64_t){a}")

    def function(self, name: str, kind: str, arguments: Sequence[str], fail: Fail) -> str:
        """A function of libm. What is not finite is left to Python and NumPy, whose errors depend on the reason."""
        assert name in FUNCTIONS, name
        if kind == "f4" and name == "atan2":
            raise NoForm(f"{name} of float32")
        made = self.new(kind, f"{name}{suffix(kind)}({', '.join(arguments)})")
        if name not in ("fabs", "floor", "ceil"):
            self.leave_if(f"!__builtin_isfinite({made})", fail)
        return made

    # --- elements

    def element(self, array: ArrayInput, indices: Sequence[str], fail: Fail) -> str:
        """The address of an element; an index counts from the end when it is negative."""
        terms = []
        for axis, index in enumerate(indices):
            size = f"{array.name}_n{axis}"
            place = self.new("int", f"{index} < 0 ? {index} + {size} : {index}")
            self.leave_if(f"(uint64_t){place} >= (uint64_t){size}", fail)
            terms.append(f"{place} * {array.step(axis)}")
        c = C_OF_KIND[array.kind]
        if array.is_contiguous:
            return f"(({c}*){array.name})[{' + '.join(terms)}]"
        return f"*({c}*)({array.name} + {' + '.join(terms)})"

    def load(self, array: ArrayInput, indices: Sequence[str], fail: Fail) -> str:
        element = self.element(array, indices, fail)
        return self.new(array.kind, f"{element} != 0" if array.kind == "b1" else element)  # any byte may stand for True

    def store(self, array: ArrayInput, indices: Sequence[str], value: str, fail: Fail) -> None:
        array.is_written = True
        self.line(f"{self.element(array, indices, fail)} = {value};")

    # --- the unit

    def source(self) -> str:
        """The C unit: `npc_run(arrays ..., buffer, numbers ...)` writes the number of the exit, then what it hands over.

        It returns a tuple of the objects that the exit hands over.
        """
        lines = ["#define INT64_C(x) x##L", f"#define POLL {POLL}", HELPERS]
        if self.statements is not None:
            lines.append(self.statements.text())
        lines.append("PyObject* npc_run(PyObject* self, PyObject* const* args, int64_t nargs) {")
        lines += [f"  {line}" for line in self.inputs()]
        lines += [f"  {c} {name} = 0;" for name, c in self.variables.items()]
        lines.append("  PyObject* result = 0;")
        lines.append("  int64_t fuel = POLL;")
        lines += [f"  {line}" for line in self.lines]
        for k, (values, objects) in enumerate(zip(self.exits, self.objects)):
            lines.append(f"exit{k}:")
            lines.append(f"  buffer[0] = {k};")
            for j, (kind, name) in enumerate(values):
                wide = "double" if is_float(kind) else "uint64_t" if kind == "u8" else "int64_t"
                lines.append(f"  *({wide}*)(buffer + {j + 1}) = {name};")
            lines.append(f"  if (!(result = rt->tuple({len(objects)}))) goto failed;")
            for j, text in enumerate(objects):
                lines.append(f"  {{ PyObject* item = {text}; if (!item) goto undone; rt->tuple_set(result, {j}, item); }}")
            lines.append("  goto done;")
        lines += ["undone:", "  rt->decref(result);", "  result = 0;", "failed:", "done:"]
        lines += [f"  rt->decref({name});" for name, c in self.variables.items() if c == "PyObject*"]
        lines += ["  return result;", "}"]
        return "\n".join(lines) + "\n"

    def inputs(self) -> list[str]:
        lines = []
        for k, a in enumerate(self.arrays):
            wanted = FLAGS["aligned"] | (FLAGS["writeable"] if a.is_written else 0)
            lines.append(f"npc_array* const {a.name}_array = (npc_array*)args[{k}];")
            lines.append(f"char* const {a.name} = {a.name}_array->data;")
            for axis in range(a.ndim):
                lines.append(f"const int64_t {a.name}_n{axis} = {a.name}_array->dimensions[{axis}];")
                lines.append(f"const int64_t {a.name}_s{axis} = {a.name}_array->strides[{axis}];")
            lines.append(f"const int {a.name}_fits = ({a.name}_array->flags & {wanted}) == {wanted};")
        n = len(self.arrays)
        lines.append(f"int64_t* const buffer = (int64_t*)((npc_array*)args[{n}])->data;")
        far = self.statements.far_texts() if self.statements is not None else []
        fits = " && ".join([*(f"{a.name}_fits" for a in self.arrays), *far]) or "1"
        lines.append(f"if (!({fits})) {{ buffer[0] = -1; return rt->tuple(0); }}")
        for k, (kind, name) in enumerate(self.numbers):
            read, c = {"f": ("double", "double"), "u": ("uint64", "uint64_t")}.get(kind[0], ("int64", "int64_t"))
            lines.append(f"{c} {name}_read;")
            lines.append(f"if (rt->as_{read}(args[{n + 1 + k}], &{name}_read)) return 0;")
            lines.append(f"const {C_OF_KIND[kind]} {name} = ({C_OF_KIND[kind]}){name}_read;")
        return lines

    def compile(self) -> tuple[Callable[..., tuple[Any, ...]], str, float]:
        """(the function, its source, seconds to compile). Raises CompilerError."""
        source = self.source()
        loaded = load(source, self.dtypes)
        return loaded.call, source, loaded.seconds


@dataclass(slots=True)
class ArrayInput:
    """An array that the loops read or write: `name` is its first byte."""

    name: str
    kind: str
    ndim: int
    is_contiguous: bool  # in C order
    is_written: bool = False

    def step(self, axis: int) -> str:
        """Bytes from one index to the next; elements of a contiguous array."""
        if not self.is_contiguous:
            return f"{self.name}_s{axis}"
        return " * ".join(f"{self.name}_n{k}" for k in range(axis + 1, self.ndim)) or "1"
