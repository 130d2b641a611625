"""Exported programs: functions that are compiled as a whole, without the Python that they were written in.

What is here needs no front end: a program is text of the loop IR, with a line of JSON that says what it takes.
"""

from __future__ import annotations

import base64
import builtins
import hashlib
import importlib.metadata
import json
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import numpy as np

from npcompile.backends.c99 import write_c, write_wheel
from npcompile.backends.c99.description import Description, dtype_in_words
from npcompile.backends.errors import NoCompiler
from npcompile.backends.loop_ir import target
from npcompile.backends.loop_ir.native import Native, Taken
from npcompile.devices import host_programs
from npcompile.tensor_core.loop_ir.activity import written_params
from npcompile.tensor_core.loop_ir.causes import FLOATING_POINT, Cause, is_exception
from npcompile.tensor_core.loop_ir.forms import walk
from npcompile.tensor_core.loop_ir.invalid import Invalid
from npcompile.tensor_core.loop_ir.ops import ALL_ERRORS, FP_ERRORS, Place, Program, Return
from npcompile.tensor_core.loop_ir.parser import ParseError, parse_program
from npcompile.tensor_core.loop_ir.pipeline import run_passes
from npcompile.tensor_core.loop_ir.states import TupleOf
from npcompile.tensor_core.loop_ir.types import Memref, Scalar, Type, kind_in_words, type_of
from npcompile.tensor_core.loop_ir.verifier import verify

FORMAT: Final = 1  # of files
MAGIC: Final = "npcompile exported program"
WORDS_OF_ERRORS: Final = {
    "divide": "divide by zero encountered",
    "over": "overflow encountered",
    "under": "underflow encountered",
    "invalid": "invalid value encountered",
}


class ExportError(Exception):
    """A function cannot be exported, a file is no exported program, or a program has no answer for its arguments.

    The message says why, and for functions of users where: file and line.
    """


@dataclass(frozen=True, slots=True)
class Parameter:
    """An argument: its name, its type, and the sizes that it had."""

    name: str
    kind: Type
    shape: tuple[int, ...] = ()
    is_written: bool = False

    def __str__(self) -> str:
        if not isinstance(self.kind, Memref):
            return f"{self.name}: {kind_in_words(self.kind)}"
        order = " in C order" if self.kind.contiguous else ""
        return f"{self.name}: {kind_in_words(self.kind)}{order}{', written to' if self.is_written else ''}"


@dataclass(frozen=True, eq=False)
class Exported:
    """A function of arrays and numbers as one compiled program, made by `export` or `load_exported`.

    name, doc: the function's. parameters: what it takes; `print` shows them. program: its loop IR, as text. dynamic: may sizes
    differ from the example's? is_exact: are sums and powers those of compiled functions? If not, last bits may differ.
    """

    name: str
    doc: str
    parameters: tuple[Parameter, ...]
    program: str
    causes: tuple[Cause, ...]
    outside: tuple[np.ndarray, ...] = field(default=(), repr=False)  # arrays that the function read from outside
    dynamic: bool = True
    is_exact: bool = True

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the program.

        Returns
        -------
        object
            What the function returns: numbers, new arrays, arguments, views of these, and tuples.

        Raises
        ------
        TypeError
            For arguments of other types, dtypes or numbers of axes; the message names the argument.
        ValueError
            For arrays that are read-only and written to, not in C order where the example was, that share memory with one that
            is written to, or of other sizes where `dynamic=False`.
        IndexError, ZeroDivisionError, ...
            What the function raises, where the program knows it.
        FloatingPointError
            For what `np.errstate` says "raise" of. Warnings of floating-point errors are warnings here.
        ExportError
            Where it does not know it: for an integer of more than 64 bits, for one.

        Arrays are as before the call where it raises.
        """
        if kwargs or len(args) != len(self.parameters):
            args = self._bound(args, kwargs)
        if not self.dynamic:
            self._require_sizes(args)
        found = self._native.call(*args, *self.outside, ALL_ERRORS)
        if type(found) is not tuple:
            if found is False:
                raise self._misfit(args)
            if self.causes[found].name != FLOATING_POINT:
                raise self._error(self.causes[found])
            found = self._with_errors(args, found)
        return found[0]

    def __str__(self) -> str:
        sizes = "any sizes" if self.dynamic else "the sizes " + ", ".join(str(p.shape) for p in self.parameters if p.shape)
        return f"exported {self.name}({', '.join(map(str, self.parameters))}), {sizes}"

    __repr__ = __str__

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return read_exported, (self.as_text(),)

    @property
    def source(self) -> str:
        """The C that runs here."""
        return self._native.source

    @cached_property
    def _native(self) -> Native:
        made = self.parsed()
        for op in walk(made.body):
            if isinstance(op, Return):
                op.value = TupleOf((op.value,))  # else a number where it was left could be a result
        run_passes(made)
        taken = [Taken(p.kind, p.is_written) for p in self.parameters]
        taken += [Taken(made.types[param.value]) for param in made.params[len(taken) :]]
        try:
            return host_programs()(made, taken, (), tells=True)
        except target.Unsupported as error:
            raise NoCompiler(error.reason) from error

    def parsed(self) -> Program:
        """The program, verified. Raises ExportError."""
        try:
            made = parse_program(self.program)
            verify(made)
        except (ParseError, Invalid) as error:
            raise ExportError(f"{self.name}: the program is damaged: {error}") from error
        return made

    # --- C

    def to_c(self, folder: str | Path, name: str = "") -> list[Path]:
        """Write the program as C99 that needs neither Python nor NumPy: `name.h`, `name.c` and `CMakeLists.txt`.

        Parameters
        ----------
        folder
            Where to write them. It is made where it is not there.
        name
            Of the function in C; that of the Python function by default.

        Returns
        -------
        list of Path
            The files. The header says what the function takes and gives: numbers as they are, arrays as structs of their data,
            shape and strides, results through pointers, and a status, which is 0 where there is a result.

        Raises
        ------
        ExportError
            Where a result has no type of C's, or results at several ends of the function have different types.
        ValueError
            For a name that no function of C can have.

        Notes
        -----
        Without functions of the C library's such as exp, and without powers and products of matrices, the numbers have the bits
        of Python's and NumPy's.
        """
        try:
            return write_c(self._described(name), Path(folder))
        except target.Unsupported as error:
            raise ExportError(f"{self.name} cannot be C: {error}") from error

    def to_wheel(self, folder: str | Path, name: str = "", version: str = "1.0") -> Path:
        """Write the program as a wheel that needs NumPy alone: no compiler and no npcompile where it is installed.

        Parameters
        ----------
        folder
            Where to write it. It is made where it is not there.
        name
            Of the distribution, of its module and of the function in that; that of the Python function by default.
        version
            Of the distribution.

        Returns
        -------
        Path
            The wheel. It has libraries for this machine's system. For x86-64 there is one for each of x86-64-v2, -v3 and -v4 that
            the compiler makes, and the module takes the best for the processor when it is imported.

        Raises
        ------
        ExportError
            As `to_c`.
        ValueError
            For a name that no function of C can have, or a version that is none.
        NoCompiler
            Where there is no compiler, or it makes no library of the program.

        Notes
        -----
        The function has the docstring, takes what the program takes, and raises what it raises. It reports no floating-point
        errors, as under `np.errstate(all="ignore")`. Its numbers have the bits that `to_c` says.
        """
        try:
            return write_wheel(self._described(name), Path(folder), version)
        except target.Unsupported as error:
            raise ExportError(f"{self.name} cannot be a wheel: {error}") from error

    def _described(self, name: str) -> Description:
        return Description(
            name or self.name,
            self.doc,
            self.parsed(),
            [p.name for p in self.parameters],
            [p.is_written for p in self.parameters],
            None if self.dynamic else [p.shape for p in self.parameters],
            self.causes,
            self.outside,
            f"npcompile {own_version()}",
        )

    # --- arguments

    def _bound(self, args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        names = [p.name for p in self.parameters]
        if len(args) > len(names):
            raise TypeError(f"{self.name}() takes {len(names)} arguments ({', '.join(names)}), {len(args)} were given")
        given = dict(zip(names, args))
        for name, x in kwargs.items():
            if name not in names or name in given:
                why = "was given twice" if name in given else f"is none of its arguments ({', '.join(names)})"
                raise TypeError(f"{self.name}(): {name!r} {why}")
            given[name] = x
        if missing := [name for name in names if name not in given]:
            raise TypeError(f"{self.name}() lacks {', '.join(map(repr, missing))}: it takes {', '.join(names)}")
        return tuple(given[name] for name in names)

    def _require_sizes(self, args: Sequence[Any]) -> None:
        for p, x in zip(self.parameters, args):
            if isinstance(p.kind, Memref) and isinstance(x, np.ndarray) and x.ndim == len(p.shape) and x.shape != p.shape:
                raise ValueError(
                    f"{self.name}(): {p.name!r} has the shape {x.shape}; it was exported with dynamic=False for {p.shape}"
                )

    def _misfit(self, args: Sequence[Any]) -> Exception:
        """Why the program does not take these arguments."""
        for p, x in zip(self.parameters, args):
            if error := misfit(f"{self.name}(): {p.name!r}", p, x):
                return error
        arrays = [(p, x) for p, x in zip(self.parameters, args) if isinstance(x, np.ndarray)]
        for p, x in arrays:
            others = [q.name for q, y in arrays if q is not p and np.may_share_memory(x, y)]
            if p.is_written and others:
                return ValueError(
                    f"{self.name}(): {p.name!r} is written to, and shares memory with {', '.join(map(repr, others))}"
                )
        return ValueError(f"{self.name}(): an array that is written to has elements that share memory")

    # --- errors

    def _error(self, cause: Cause) -> Exception:
        if cause.name == "IndexError" or not is_exception(cause.name):
            text = f"{cause.reason} ({cause.at.file}:{cause.at.line})"
            return IndexError(text) if cause.name else ExportError(f"{self.name}: {text}")
        known: type[Exception] = getattr(builtins, cause.name)
        return known(cause.reason) if cause.reason else known()

    def _with_errors(self, args: Sequence[Any], left: int) -> tuple[Any]:
        """The result where floating-point errors happened: each that np.errstate reports is raised, or warned of."""
        for name, how in np.geterr().items():
            if how == "ignore":
                continue
            found = self._native.call(*args, *self.outside, FP_ERRORS[name])
            if type(found) is not tuple:
                message = f"{WORDS_OF_ERRORS[name]} in {self.name}"
                if how == "raise":
                    raise FloatingPointError(message)
                warnings.warn(message, RuntimeWarning, stacklevel=3)
        found = self._native.call(*args, *self.outside, 0)
        if type(found) is not tuple:
            raise self._error(self.causes[found or left])
        return found

    # --- files

    def save(self, path: str | Path) -> None:
        """Write the program to a file, which `load_exported` reads.

        The file is text: a line of JSON and the program. It holds no code of Python's, nothing pickled, and no machine code.
        """
        Path(path).write_text(self.as_text(), encoding="utf-8")

    def as_text(self) -> str:
        """What `save` writes."""
        said: dict[str, Any] = {
            "file": MAGIC,
            "format": FORMAT,
            "npcompile": own_version(),
            "name": self.name,
            "doc": self.doc,
            "dynamic": self.dynamic,
            "exact": self.is_exact,
            "parameters": [
                [p.name, in_words(p.kind), len(p.shape) if isinstance(p.kind, Memref) else None, list(p.shape)]
                for p in self.parameters
            ],
            "causes": [[each.name, each.reason, each.at.file, each.at.line] for each in self.causes],
            "outside": [[in_words(type_of(x)), list(x.shape), base64.b64encode(x.tobytes()).decode()] for x in self.outside],
        }
        return json.dumps({**said, "sha256": digest(said, self.program)}) + "\n" + self.program


def load_exported(path: str | Path) -> Exported:
    """Read a program that `Exported.save` wrote.

    Parameters
    ----------
    path
        Of the file.

    Returns
    -------
    Exported
        Callable as the one that was saved. It is compiled for this machine in the first call.

    Raises
    ------
    ExportError
        Where the file is no exported program, of another format, damaged, or its program breaks a rule of the loop IR.
    OSError
        Where it cannot be read.

    Examples
    --------
    >>> import os, tempfile
    >>> from npcompile import export
    >>> def mean(x):
    ...     total = 0.0
    ...     for i in range(x.size):
    ...         total += x[i]
    ...     return total / x.size
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     export(mean, np.ones(3)).save(os.path.join(folder, "mean.npc"))
    ...     load_exported(os.path.join(folder, "mean.npc"))(np.arange(5.0))
    np.float64(2.0)
    """
    return read_exported(Path(path).read_text(encoding="utf-8", errors="replace"), str(path))


def read_exported(text: str, path: str = "the text") -> Exported:
    """The program that `Exported.as_text` wrote. Raises ExportError."""
    first, _, program = text.partition("\n")
    try:
        said = json.loads(first)
    except ValueError as error:
        raise ExportError(f"{path} is not an exported program") from error
    if not isinstance(said, dict) or said.get("file") != MAGIC:
        raise ExportError(f"{path} is not an exported program")
    if said.get("format") != FORMAT:
        made = f"{path} has the format {said.get('format')}, of npcompile {said.get('npcompile')}"
        raise ExportError(f"{made}; npcompile {own_version()} reads the format {FORMAT}: export the function again")
    if said.pop("sha256", "") != digest(said, program):
        raise ExportError(f"{path} was changed or cut off after it was saved")
    outside = [np.frombuffer(base64.b64decode(data), dtype).reshape(shape) for dtype, shape, data in said["outside"]]
    causes = tuple(Cause(exception, text, Place(file, line)) for exception, text, file, line in said["causes"])
    read = Exported(said["name"], said["doc"], (), program, causes, tuple(outside), said["dynamic"], said["exact"])
    parameters = parameters_of(read.parsed(), [(name, tuple(shape)) for name, _, _, shape in said["parameters"]])
    return Exported(read.name, read.doc, parameters, program, causes, read.outside, read.dynamic, read.is_exact)


def parameters_of(program: Program, known: Sequence[tuple[str, tuple[int, ...]]]) -> tuple[Parameter, ...]:
    """What a program takes: the names and the sizes are known."""
    written = written_params(program, len(known))
    kinds = [program.types[param.value] for param in program.params]
    return tuple(Parameter(name, kind, shape, w) for (name, shape), kind, w in zip(known, kinds, written))


def misfit(where: str, p: Parameter, x: Any) -> Exception | None:
    """Why an argument is not what a program takes."""
    found, wanted = type_of(x), p.kind
    if isinstance(wanted, Scalar) or not isinstance(found, Memref):
        if found == wanted:
            return None
        if isinstance(x, np.ndarray):
            given = f"an array of {x.dtype} with {x.ndim} axes"
        else:
            given = kind_in_words(found) if isinstance(found, Scalar) else f"a {type(x).__name__}"
        return TypeError(f"{where} is {given}, where {kind_in_words(wanted)} is needed")
    assert isinstance(wanted, Memref), wanted
    if (found.element, found.rank) != (wanted.element, wanted.rank):
        return TypeError(f"{where} is {kind_in_words(found)}, where {kind_in_words(wanted)} is needed")
    if wanted.contiguous and not found.contiguous:
        return ValueError(f"{where} is not in C order, which the example was: give np.ascontiguousarray({p.name})")
    if p.is_written and not found.writeable:
        return ValueError(f"{where} is written to, and the array is read-only")
    return None


def in_words(kind: Type | None) -> str:
    """The dtype."""
    assert isinstance(kind, Memref | Scalar), kind
    return dtype_in_words(kind.element if isinstance(kind, Memref) else kind.kind)


def digest(said: dict[str, Any], program: str) -> str:
    return hashlib.sha256((json.dumps(said, sort_keys=True) + program).encode()).hexdigest()


def own_version() -> str:
    try:
        return importlib.metadata.version("npcompile")
    except importlib.metadata.PackageNotFoundError:  # run from its sources
        return "not installed"
