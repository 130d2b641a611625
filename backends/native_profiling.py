"""What `perf`, debuggers and py-spy are told of compiled code: the user's lines, and the names of the user's functions.

Who prints C says before statements which line they are of, by `line_of`; `profiled` puts the function's name into the names of a
unit's functions. The loader then compiles the unit with line tables. Where none of this is asked for, none of it is in the text.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Final

FOR_PROFILERS: Final = "/* For profilers, with lines of "  # begins a unit
FLAGS: Final = ("-g1", "-fno-omit-frame-pointer")  # for all of the unit's frames to be found, those of callers too
OWN_FILE: Final = "npcompile.c"  # of what is of no line of the user's
KEYWORDS: Final = ("if", "for", "while", "switch", "else")
ENTRY: Final = "npc_run"  # of a unit
ENTRY_HEAD: Final = "PyObject* npc_run(PyObject* self, PyObject* const* args, int64_t nargs)"


@dataclass(slots=True)
class Profilers:
    """`npcompile.config.native_profiling`."""

    are_told: bool = False


PROFILERS = Profilers()


@cache
def line_of(file: str, line: int) -> str:
    r"""The directive that says which line of the user's the next statements are of.

    >>> line_of("a\\b.py", 3)
    '#line 3 "a\\\\b.py"'
    """
    escaped = file.replace("\\", "\\\\").replace('"', '\\"')
    return f'#line {line} "{escaped}"'


class Told(str):
    """A line of C that knows the directive of the user's line that it is of. Passes over lines of C so find no directives."""

    __slots__ = ("of",)
    of: str

    def __add__(self, more: str) -> Told:
        return told(str(self) + more, self.of)


def told(text: str, of: str) -> Told:
    made = Told(text)
    made.of = of
    return made


def like(line: str, text: str) -> str:
    """A text that takes the place of a line."""
    return told(text, line.of) if isinstance(line, Told) else text


def first_told(lines: Iterable[str]) -> str:
    return next((line for line in lines if isinstance(line, Told)), "")


def with_directives(lines: Iterable[str]) -> Iterator[str]:
    """The lines, with directives where those begin that know another one. The head of a function tells of all that is in it."""
    of = ""
    for line in lines:
        is_new, is_head = isinstance(line, Told) and line.of != of, begins_function(line)
        of = line.of if isinstance(line, Told) else "" if is_head else of
        yield from [line, of] if is_new and is_head else [of, line] if is_new else [line]


def label_of(function: str) -> str:
    """What is put at the end of names in C.

    >>> label_of("<lambda>")
    '_lambda_'
    """
    return "".join(c if c.isascii() and c.isalnum() else "_" for c in function)


def profiled(source: str, function: str, *names: str) -> str:
    """A unit that has functions of these names: with the name of the user's function at the end, where it is asked for."""
    if not PROFILERS.are_told:
        return source
    renamed = "".join(f"#define {name} {name}_{label_of(function)}\n" for name in names)
    if ENTRY in names:  # which keeps its name, and only calls
        call = f"return {ENTRY}_{label_of(function)}(self, args, nargs);"
        renamed += f"NPC_NOT_INLINED {ENTRY_HEAD};\n"
        source += f"#undef {ENTRY}\n{ENTRY_HEAD} {{ {call} }}\n"
    return f"{FOR_PROFILERS}{function} */\n{renamed}{source}"


def begins_function(line: str) -> bool:
    first = line.partition(" ")[0]
    return line.endswith(") {") and first.isidentifier() and first not in KEYWORDS


def is_directive(line: str) -> bool:
    return line.lstrip().startswith("#line ")


def with_lines(text: str) -> str:
    """The unit with a directive before each line of C, for which alone it holds.

    Those of the printers hold until the next one, or the head of the next function.
    """
    if FOR_PROFILERS not in text:
        return text
    found: list[str] = []
    of, is_continued = "", False
    for line in text.split("\n"):
        if is_directive(line):
            of = line.strip()
            continue
        if of and begins_function(line):
            of = ""
            found.append(f'#line {len(found) + 2} "{OWN_FILE}"')
        if of and not is_continued and not line.lstrip().startswith("#"):
            found.append(of)
        found.append(line)
        is_continued = line.endswith("\\")
    return "\n".join(found)
