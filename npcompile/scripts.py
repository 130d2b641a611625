"""A call of a function as a script of its own: what it imports, the functions that it needs, the arguments as text."""

from __future__ import annotations

import ast
import builtins
import inspect
import sys
import textwrap
import types
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

WRITTEN = "numbers, texts, arrays of NumPy's numbers, tuples, lists, dicts, sets, modules, and functions and classes of a file"
DEFAULT_DTYPES = (np.dtype(float), np.dtype(int), np.dtype(bool), np.dtype(complex))  # those that np.array takes for numbers
OURS = {__name__.partition(".")[0]}
OF_NUMBERS = "biufc"  # kinds of dtypes


class NotWritable(ValueError):
    """No text stands for a value."""


@dataclass(frozen=True, slots=True)
class Fault:
    """How a compiled call goes wrong, in words, and what has to be printed to see it."""

    text: str
    ours: str = ""  # the exception's class, where one is raised
    theirs: str = ""  # that of plain Python
    is_visible: bool = True  # without all digits

    @property
    def kind(self) -> tuple[str, str]:
        return self.ours, self.theirs

    @property
    def is_of_arguments(self) -> bool:
        return self.text.startswith("argument")


@dataclass(frozen=True, eq=False)
class Script:
    """The functions, by name, that are called last; the values of other names; and the arguments."""

    functions: Mapping[str, str]  # name -> source: helpers, then the function itself
    outside: Mapping[str, Any]  # values that their names had, of which only those are written that are needed
    positional: dict[str, Any]  # names -> values
    keywords: dict[str, Any]
    options: str = ""  # of npcompile.compile
    fault: Fault | None = None  # what it is to show

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Script) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)

    @property
    def name(self) -> str:
        return [*self.functions][-1]

    @cached_property
    def needed(self) -> dict[str, str]:
        """The sources that are reached from the function."""
        found, pending = {self.name}, [self.name]
        while pending:
            for name in names_in(self.functions[pending.pop()]):
                if name in self.functions and name not in found:
                    found.add(name)
                    pending.append(name)
        return {name: source for name, source in self.functions.items() if name in found}

    @cached_property
    def definitions(self) -> str:
        """All but the calls. Raises NotWritable."""
        imports, constants = ["import numpy as np", "import npcompile as npc"], list[str]()
        for name in dict.fromkeys(n for source in self.needed.values() for n in names_in(source)):
            if name in self.outside and name not in self.functions:
                line = line_of(name, self.outside[name])
                (imports if line.startswith(("import ", "from ")) else constants).append(line)
        parts = ["\n".join(dict.fromkeys(imports)), *(["\n".join(constants)] * bool(constants)), *self.needed.values()]
        return "\n\n".join(parts) + "\n"

    @cached_property
    def text(self) -> str:
        compiled = f"npc.compile({', '.join([self.name, *([self.options] if self.options else [])])})"
        values = self.positional | self.keywords
        call = f"run({', '.join([*self.positional, *(f'{name}={name}' for name in self.keywords)])})"
        changed = [name for name, value in values.items() if is_mutable(value) and self.fault and self.fault.is_of_arguments]
        joined = ", ".join([call, *changed])
        shown = f"print(repr({f'[{joined}]' if changed else call}))"
        inside = [line for name, value in values.items() for line in lines_of(name, value)]
        lines = []
        if self.fault and self.fault.theirs:
            shown = f"try:\n    {shown}\nexcept Exception as error:\n    print(repr(error))"
        elif self.fault and self.fault.ours:
            lines = ['npc.config.internal_errors = "raise"']
        elif self.fault and not self.fault.is_visible:
            lines = ["np.set_printoptions(precision=17, threshold=10**9)"]
        lines.append(f"for run in {self.name}, {compiled}:")
        return "\n".join([self.definitions, *lines, textwrap.indent("\n".join([*inside, shown]), "    "), ""])


def names_in(source: str) -> list[str]:
    """Names from outside that are read, in order."""
    nodes = [*ast.walk(ast.parse(source))]
    names = [node for node in nodes if isinstance(node, ast.Name)]
    elsewhere = {name for node in nodes if isinstance(node, ast.Global) for name in node.names}
    here = {node.arg for node in nodes if isinstance(node, ast.arg)} | {n.id for n in names if not isinstance(n.ctx, ast.Load)}
    return [*dict.fromkeys(n.id for n in names if isinstance(n.ctx, ast.Load) and n.id not in here - elsewhere)]


def is_mutable(value: Any) -> bool:
    return isinstance(value, np.ndarray | list | dict | set)


def source_of(function: Any, name: str, is_plain: bool) -> str:
    """The source of a function or class as a statement. Raises NotWritable.

    `is_plain`: without decorators, which may be those that have compiled it.
    """
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(getattr(function, "__code__", function))))
    except (OSError, TypeError, SyntaxError) as error:
        raise NotWritable(f"the source of {function.__qualname__} is not to be had: {error}") from None
    for node in ast.walk(tree):
        if isinstance(node, ast.arg):
            node.annotation = None
        if isinstance(node, ast.FunctionDef):
            node.returns = None
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name == function.__name__:
            if is_plain:
                node.decorator_list.clear()
            node.name = name
            return ast.unparse(node)
    lambdas = [node for node in ast.walk(tree) if isinstance(node, ast.Lambda)]
    if len(lambdas) != 1:
        raise NotWritable(f"{function.__qualname__} is one of several lambdas on its lines: write it as `def`")
    made = ast.parse(f"def {name}(): return 0")
    [function] = made.body
    assert isinstance(function, ast.FunctionDef)
    function.args, function.body = lambdas[0].args, [ast.Return(lambdas[0].body)]
    return ast.unparse(ast.fix_missing_locations(made))


def outside_of(function: types.FunctionType) -> dict[str, Any]:
    """The values of global names, and of variables of functions around."""
    cells = zip(function.__code__.co_freevars, function.__closure__ or ())
    return {**function.__globals__, **{name: cell.cell_contents for name, cell in cells}}


def functions_of(function: types.FunctionType, plain: Any) -> tuple[dict[str, str], dict[str, Any]]:
    """The sources of a function and of those of the user's that it calls, which come first, and what other names are.

    `plain` gives what is compiled of a function. Raises NotWritable.
    """
    sources: dict[str, str] = {}
    others: dict[str, Any] = {}

    def add(name: str, each: Any, is_plain: bool) -> None:
        source = source_of(each, name, is_plain)
        sources[name] = source  # before those that it calls, which may call it
        around = outside_of(each) if isinstance(each, types.FunctionType) else vars(sys.modules[each.__module__])
        for inner in names_in(source):
            if inner in around and not hasattr(builtins, inner):
                value = plain(around[inner])
                if is_users(value):
                    if inner not in sources:
                        add(inner, value, value is not around[inner])
                else:
                    others[inner] = value
        sources[name] = sources.pop(name)

    add(function.__name__ if function.__name__.isidentifier() else "function", function, True)
    return sources, others


def is_users(value: Any) -> bool:
    """Is it a function or class whose source is to be written, and not imported?"""
    if not isinstance(value, types.FunctionType | type):
        return False
    package, file = str(value.__module__).partition(".")[0], getattr(sys.modules.get(value.__module__), "__file__", None) or ""
    return package not in (sys.stdlib_module_names - {"__main__"}) | OURS and "site-packages" not in file


def line_of(name: str, value: Any) -> str:
    """A line that gives a name its value. Raises NotWritable."""
    if isinstance(value, types.ModuleType):
        return f"import {value.__name__}{f' as {name}' if value.__name__ != name else ''}"
    module, found = getattr(value, "__module__", None), getattr(value, "__name__", "")
    if found.isidentifier() and getattr(sys.modules.get(module or ""), found, None) is value and module != "__main__":
        return f"from {module} import {found}{f' as {name}' if found != name else ''}"
    if found.isidentifier() and getattr(np, found, None) is value:  # ufuncs do not know their module
        return f"from numpy import {found}{f' as {name}' if found != name else ''}"
    return "\n".join(lines_of(name, value))


def lines_of(name: str, value: Any) -> Iterator[str]:
    """Lines that make a value. Raises NotWritable."""
    try:
        yield f"{name} = {text_of(value)}"
    except NotWritable as error:
        raise NotWritable(f"{name}: {error}") from None
    if isinstance(value, np.ndarray) and not value.flags.writeable:
        yield f"{name}.flags.writeable = False"


def text_of(value: Any) -> str:
    """An expression of Python for a value, whose names are those of `Script.definitions`. Raises NotWritable."""
    match value:
        case None | bool() | int() | str() | bytes() | range() if type(value) in (type(None), bool, int, str, bytes, range):
            return repr(value)
        case float() if type(value) is float:
            return repr(value) if np.isfinite(value) else f'float("{value}")'
        case complex() if type(value) is complex:
            return f"complex({text_of(value.real)}, {text_of(value.imag)})"
        case np.ndarray() if type(value) is np.ndarray and value.dtype.kind in OF_NUMBERS and value.dtype.isnative:
            return text_of_array(value)
        case np.generic() if value.dtype.kind in OF_NUMBERS:
            return f"np.{type(value).__name__}({text_of(value.item())})"
        case np.dtype():
            return f"np.dtype({value.str!r})"
        case type() if issubclass(value, np.generic):
            return f"np.{value.__name__}"
        case tuple() | list() | set() if type(value) in (tuple, list, set) and (value or not isinstance(value, set)):
            items = ", ".join(map(text_of, value))
            opened, closed = {tuple: ("(", ")"), list: ("[", "]"), set: ("{", "}")}[type(value)]
            return f"{opened}{items}{',' * (isinstance(value, tuple) and len(value) == 1)}{closed}"
        case dict() if type(value) is dict:
            return f"{{{', '.join(f'{text_of(k)}: {text_of(x)}' for k, x in value.items())}}}"
        case slice():
            return f"slice({text_of(value.start)}, {text_of(value.stop)}, {text_of(value.step)})"
    raise NotWritable(f"a script has no text for a {type(value).__qualname__}; it has for {WRITTEN}")


def text_of_array(array: np.ndarray) -> str:
    flags = array.flags
    if not flags.aligned:
        raise NotWritable("a script has no text for an array that is not aligned; give a copy")
    if flags.c_contiguous:
        return text_of_dense(array)
    if flags.f_contiguous:
        return f"np.asfortranarray({text_of_dense(array)})"
    flat, offset = memory_of(array)
    return f"np.ndarray({array.shape}, np.{array.dtype.name}, {text_of_dense(flat)}, {offset}, {array.strides})"


def memory_of(array: np.ndarray) -> tuple[np.ndarray, int]:
    """A copy of the memory that an array reaches over, and where in it the first element is, in bytes. Raises NotWritable."""
    if any(stride % array.itemsize for stride in array.strides):
        raise NotWritable("a script has no text for an array whose strides are not multiples of its elements; give a copy")
    low, high = np.lib.array_utils.byte_bounds(array)
    offset = array.__array_interface__["data"][0] - low
    lowest = array[tuple(slice(None, None, -1) if stride < 0 else slice(None) for stride in array.strides)]
    size = (high - low) // array.itemsize
    return np.lib.stride_tricks.as_strided(lowest, (size,), (array.itemsize,)).copy(), offset


def text_of_dense(array: np.ndarray) -> str:
    """One in C order."""
    dtype = array.dtype
    given = "" if dtype in DEFAULT_DTYPES else f", np.{dtype.name}"
    if array.size == 1 or not is_constant(array):
        return f"np.array({text_of(array.tolist())}{given})"
    shape, first = text_of(array.shape if array.ndim > 1 else len(array)), array.flat[0] if array.size else dtype.type(0)
    for name, value in (("zeros", 0), ("ones", 1)):
        if first.tobytes() == dtype.type(value).tobytes():
            return f"np.{name}({shape}{'' if dtype == np.float64 else f', np.{dtype.name}'})"
    return f"np.full({shape}, {text_of(first.item())}{given})"


def is_constant(array: np.ndarray) -> bool:
    """Are all elements the same bits?"""
    return array.size == 0 or array.tobytes() == array.flat[0].tobytes() * array.size
