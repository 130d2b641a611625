"""When native loops look for the floating-point errors of statements over arrays: once for several that can all be done again.

Processors give their flags when all arithmetic before is done: two looks take as long as a statement about ten numbers. So flags
are not looked at before a statement where nothing since the last look can have set them. Nor are they after a statement that
makes a new array, or number, when the next one does so too: whichever of them noted an error, Python goes on before the first.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Set

from npcompile.backends.cpu.loops.side_exits import GOTO

FORGET = "npc_forget();"  # before a statement that may note errors
IS_NEW = " /* of what is new */"
LOOK = re.compile(rf"if \(UNLIKELY\(npc_noted\(\)\)\) goto (\w+);({re.escape(IS_NEW)})?")
FLOATS = ("double", "float", "npc_z8", "npc_z16")
DEFINED = re.compile(rf"(?:{'|'.join(FLOATS)}) (\w+) =")
CALLED = re.compile(r"(\w+)\(")
WORD = re.compile(r"[A-Za-z_]\w*")
OF_INTEGERS = {"npc_bound", "npc_count", "npc_max", "npc_min", "npc_mod", "npc_near_mod", "INT64_C", ""}
TEXT = r"([\w\s+*<>=!?:|&(),-]*)"  # of expressions that read no memory
# Lines that change nothing. What stands for TEXT sets no flags if it is about integers.
STILL = re.compile(
    r"NPC_COMPUTED\(.*\);|if \(npc_room\(.*\)\) goto failed\d*;|switch \(part\d+\(.*\)\) \{.*\}"
    r"|(?:double|float|int64_t) t\d+ = 0;"
    r"|const \w+\*? t\d+ = (?:\w+|\(\((?:npc_array|\w+)\*\)\w+\)(?:->data|\[[\w *]*\]));"
    rf"|const (?:int64_t|char\*) t\d+ = {TEXT};|if \(UNLIKELY\({TEXT}\)\) goto \w+;"
)
COPY = re.compile(r"\w+ = \w+;")
IN_PROGRAM = "{{ if (npc_noted()) {{ rt->pardon(); goto {}; }} goto {}; }}"  # in place of MemoryError an error from before
IN_CHUNK = "goto {};"  # which leaves no exception


def look(exit_name: str, *, is_new: bool) -> str:
    """Behind a statement that may have noted errors: leave before it. `is_new`: it has written only what it made itself."""
    return f"if (UNLIKELY(npc_noted())) goto {exit_name};" + IS_NEW * is_new


def with_fewer_looks(lines: Iterable[str], floats: Set[str], failing: str) -> list[str]:
    """The lines of a function. `floats`: variables that hold no integers, beside those that the lines define. `failing`: what is
    done where there is no memory, although statements before are to be done again; the first `{}` stands for their way out, the
    second for the one where memory is lacking."""
    known = list(lines)
    floats |= {name for line in known for name in DEFINED.findall(line)}
    made: list[str] = []
    is_clean = False  # have no flags been set since the last look?
    pending: tuple[int, str] | None = None  # the line of the last look and its way out, if all since then can be done again
    for k, line in enumerate(known):
        if line == FORGET:
            if is_clean:
                continue
            pending = None
        elif found := LOOK.fullmatch(line):
            exit_name, is_new = found[1], bool(found[2])
            if pending is not None and is_new:
                at, exit_name = pending
                made[at:] = [leaving_earlier(text, exit_name, failing) for text in made[at + 1 :]]
                line = look(exit_name, is_new=True)
            is_clean, pending = True, (len(made), exit_name) if is_new else None
        elif not is_still(line, floats) or line.startswith("switch") and not LOOK.fullmatch((known[k + 1 :] or [""])[0]):
            is_clean, pending = is_clean and COPY.fullmatch(line) is not None, None
        made.append(line)
    return made


def is_still(line: str, floats: Set[str]) -> bool:
    """Does it set no flags, and change nothing that a way out before it hands over?"""
    if (found := STILL.fullmatch(line)) is None:
        return False
    text = found[1] or found[2] or ""
    return floats.isdisjoint(WORD.findall(text)) and OF_INTEGERS.issuperset(CALLED.findall(text))


def leaving_earlier(line: str, exit_name: str, failing: str) -> str:
    """A line after a look that is left out: errors that were noted come before what it leaves for."""
    return GOTO.sub(lambda found: (failing if found[1].startswith("failed") else "goto {};").format(exit_name, found[1]), line)
