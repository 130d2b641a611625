"""What each instruction does, a row each: who asks whether one sets a variable, jumps or calls asks here, and names none.

Names are those of `opcodes`. `Instruction.traits` is the row; one that has no row has no traits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

Access = Literal["", "read", "write", "delete", "take"]  # take: read where it may be unbound, and leave it so
Place = Literal["", "local", "cell", "global", "attribute", "super", "element", "slice"]
Flow = Literal[
    "", "start", "goto", "if true", "if false", "if none", "if not none", "next", "loop end", "return", "yield", "raise"
]
Operator = Literal["", "binary", "unary", "not", "truth", "compare", "is", "in"]
Call = Literal["", "positional", "keywords", "spread"]  # spread: of a tuple and a dict
Stack = Literal["", "nothing", "null", "drop", "copy", "swap", "iterator", "manager"]  # manager: that of `with` is entered
Defines = Literal["", "function", "class", "import", "cells", "generator"]
ENDS: Final = ("goto", "return", "raise")


@dataclass(frozen=True, slots=True)
class Traits:
    """An instruction's, whatever its argument is. A text that does not apply is empty."""

    access: Access = ""
    place: Place = ""  # what is accessed; the name of a variable or attribute is `argval`
    flow: Flow = ""  # where it goes on; `if true` and the like: it jumps then
    operator: Operator = ""  # its sign is `argval`, of a unary one `sign`
    sign: str = ""
    call: Call = ""
    builds: type | None = None  # of so many values as `arg` says
    stack: Stack = ""
    defines: Defines = ""
    is_constant: bool = False
    takes: int | None = None  # values at the top of the stack; None: it depends
    gives: int | None = None  # values in place of these; None: it depends
    # Where dis counts otherwise: of a call it counts arguments as gone too early, of a generator not what is left to be dropped,
    # and hidden slots of the stack.
    change: Callable[[int], int] | None = None  # of the stack's depth, by `arg`
    renews: Callable[[int], int] | None = None  # slots at the top that a NULL may be in before, or among what it pushes, by `arg`
    may_be_entered: bool = True

    @property
    def ends_block(self) -> bool:
        """Does nothing come from here to the instruction after it?"""
        return self.flow in ENDS

    @property
    def is_branch(self) -> bool:
        """Does it ask an object whether to jump?"""
        return self.flow.startswith("if ")

    @property
    def is_of_truth(self) -> bool:
        """Does it ask the truth of an object whether to jump?"""
        return self.flow in ("if true", "if false")

    @property
    def uses_globals(self) -> bool:
        """Does it matter which globals the function has?"""
        return self.place == "global" or self.defines in ("function", "class", "import")

    def reads(self, place: Place) -> bool:
        return self.access == "read" and self.place == place

    def writes(self, place: Place) -> bool:
        return self.access == "write" and self.place == place


def of_a_call(arg: int) -> int:
    return -arg - 1


def with_arguments(arg: int) -> int:
    return arg + 2


NO_TRAITS: Final = Traits()
BUILDS: Final[dict[str, type]] = {
    "BUILD_TUPLE": tuple,
    "BUILD_LIST": list,
    "BUILD_SET": set,
    "BUILD_MAP": dict,
    "BUILD_CONST_KEY_MAP": dict,
    "BUILD_SLICE": slice,
    "BUILD_STRING": str,
}
TRAITS: Final[dict[str, Traits]] = {
    "LOAD_CONST": Traits(is_constant=True, gives=1),
    # Variables
    "LOAD_FAST": Traits("read", "local", takes=0),
    "LOAD_FAST_AND_CLEAR": Traits("take", "local", takes=0),
    "STORE_FAST": Traits("write", "local", gives=0),
    "DELETE_FAST": Traits("delete", "local", gives=0),
    "LOAD_DEREF": Traits("read", "cell", gives=1),
    "LOAD_CLASSDEREF": Traits("read", "cell"),
    "LOAD_FROM_DICT_OR_DEREF": Traits("read", "cell"),
    "STORE_DEREF": Traits("write", "cell"),
    "DELETE_DEREF": Traits("delete", "cell"),
    "LOAD_GLOBAL": Traits("read", "global", takes=0),
    "LOAD_NAME": Traits("read", "global"),
    "LOAD_FROM_DICT_OR_GLOBALS": Traits("read", "global"),
    "STORE_GLOBAL": Traits("write", "global"),
    "STORE_NAME": Traits("write", "global"),
    "DELETE_GLOBAL": Traits("delete", "global"),
    "DELETE_NAME": Traits("delete", "global"),
    # Parts of objects
    "LOAD_ATTR": Traits("read", "attribute", takes=1, renews=lambda arg: 1),
    "LOAD_METHOD": Traits("read", "attribute", takes=1, renews=lambda arg: 1),
    "LOAD_SUPER_ATTR": Traits("read", "super", renews=lambda arg: 3),
    "STORE_ATTR": Traits("write", "attribute", gives=0),
    "DELETE_ATTR": Traits("delete", "attribute"),
    "BINARY_SUBSCR": Traits("read", "element", gives=1),
    "STORE_SUBSCR": Traits("write", "element", gives=0),
    "DELETE_SUBSCR": Traits("delete", "element"),
    "BINARY_SLICE": Traits("read", "slice", gives=1),
    "STORE_SLICE": Traits("write", "slice", gives=0),
    "UNPACK_SEQUENCE": Traits(takes=1),
    # Operators
    "BINARY_OP": Traits(operator="binary", gives=1),
    "UNARY_NEGATIVE": Traits(operator="unary", sign="-", gives=1),
    "UNARY_POSITIVE": Traits(operator="unary", sign="+"),
    "UNARY_INVERT": Traits(operator="unary", sign="~", gives=1),
    "UNARY_NOT": Traits(operator="not", gives=1),
    "TO_BOOL": Traits(operator="truth"),
    "COMPARE_OP": Traits(operator="compare", gives=1),
    "IS_OP": Traits(operator="is", gives=1),
    "CONTAINS_OP": Traits(operator="in"),
    # Calls, and what is made
    "CALL": Traits(call="positional", gives=1, change=of_a_call, renews=with_arguments),
    "CALL_KW": Traits(call="keywords", gives=1, change=of_a_call, renews=with_arguments),
    "CALL_FUNCTION_EX": Traits(call="spread", renews=lambda arg: 3 + arg),
    **{name: Traits(builds=kind, gives=1 if kind in (tuple, list, slice) else None) for name, kind in BUILDS.items()},
    "MAKE_FUNCTION": Traits(defines="function"),
    "LOAD_BUILD_CLASS": Traits(defines="class"),
    **dict.fromkeys(("IMPORT_NAME", "IMPORT_FROM", "IMPORT_STAR"), Traits(defines="import")),
    # The stack
    "NOP": Traits(stack="nothing", change=lambda arg: 0),
    "PUSH_NULL": Traits(stack="null", gives=1),
    "POP_TOP": Traits(stack="drop", gives=0, change=lambda arg: -1),
    "COPY": Traits(stack="copy"),
    "SWAP": Traits(stack="swap"),
    "GET_ITER": Traits(stack="iterator", change=lambda arg: 0),
    "GET_YIELD_FROM_ITER": Traits(change=lambda arg: 0),
    "BEFORE_WITH": Traits(stack="manager", change=lambda arg: 1),
    # Where it goes on
    "RESUME": Traits(flow="start"),
    **dict.fromkeys(("COPY_FREE_VARS", "MAKE_CELL"), Traits(defines="cells", may_be_entered=False)),
    "RETURN_GENERATOR": Traits(defines="generator", change=lambda arg: 1, may_be_entered=False),
    **dict.fromkeys(("JUMP", "JUMP_BACKWARD"), Traits(flow="goto", gives=0)),
    "POP_JUMP_IF_TRUE": Traits(flow="if true"),
    "POP_JUMP_IF_FALSE": Traits(flow="if false"),
    "POP_JUMP_IF_NONE": Traits(flow="if none"),
    "POP_JUMP_IF_NOT_NONE": Traits(flow="if not none"),
    "FOR_ITER": Traits(flow="next"),
    "END_FOR": Traits(flow="loop end", may_be_entered=False),
    "END_SEND": Traits(change=lambda arg: -1),
    "RETURN_VALUE": Traits(flow="return", gives=0),
    "YIELD_VALUE": Traits(flow="yield"),
    **dict.fromkeys(("RAISE_VARARGS", "RERAISE"), Traits(flow="raise")),
}
