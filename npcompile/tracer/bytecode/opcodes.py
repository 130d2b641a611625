"""The names of instructions, one for each meaning: what CPython's own names stand for.

They are CPython's names, https://docs.python.org/3/library/dis.html, with these meanings on every version:

- `LOAD_FAST` loads a local, or the cell of a variable that is one; `LOAD_CONST` any constant, `argval`.
- `LOAD_METHOD` is the attribute that is called next, with a NULL or its object beside it; `LOAD_ATTR` is none of these.
- `CALL` and `CALL_KW` have `arg` arguments, of which the last ones have the names `argval`. These are not on the stack.
- `CALL_FUNCTION_EX` finds a dict on top of the positional arguments where `arg` is 1.
- `MAKE_FUNCTION` takes all parts of a function: 1 defaults, 2 keyword defaults, 4 annotations, 16 what makes these, 8 cells.
- `JUMP` goes anywhere, `JUMP_BACKWARD` to the next iteration of a loop. `POP_JUMP_IF_*` take any object and go anywhere.
- `FOR_ITER` jumps without the iterator. `END_FOR` is never reached.
- `BEFORE_WITH` leaves what `__exit__` is and what `__enter__` gives.
- `FORMAT_VALUE` formats: `arg` & 3 is a conversion, `arg` & 4 says that the format is on top of the stack.
"""

from __future__ import annotations

import dis
import opcode as opcode_tables
from typing import Any, Final

SAME: Final = {
    "LOAD_FAST_CHECK": "LOAD_FAST",
    "LOAD_FAST_BORROW": "LOAD_FAST",
    "LOAD_CLOSURE": "LOAD_FAST",
    "LOAD_SMALL_INT": "LOAD_CONST",
    "LOAD_COMMON_CONSTANT": "LOAD_CONST",
    "LOAD_ASSERTION_ERROR": "LOAD_CONST",
    "JUMP_FORWARD": "JUMP",
    "JUMP_NO_INTERRUPT": "JUMP",
    "JUMP_BACKWARD_NO_INTERRUPT": "JUMP",
    "POP_ITER": "POP_TOP",
    "NOT_TAKEN": "NOP",
    "PRECALL": "CALL",
    "SET_FUNCTION_ATTRIBUTE": "MAKE_FUNCTION",
    "FORMAT_SIMPLE": "FORMAT_VALUE",
    "FORMAT_WITH_SPEC": "FORMAT_VALUE",
    **{
        f"POP_JUMP_{way}_IF_{what}": f"POP_JUMP_IF_{what}"
        for way in ("FORWARD", "BACKWARD")
        for what in ("TRUE", "FALSE", "NONE", "NOT_NONE")
    },
}
# Instructions that do what two do, each with a variable.
HALVES: Final = {
    "LOAD_FAST_LOAD_FAST": ("LOAD_FAST", "LOAD_FAST"),
    "LOAD_FAST_BORROW_LOAD_FAST_BORROW": ("LOAD_FAST", "LOAD_FAST"),
    "STORE_FAST_LOAD_FAST": ("STORE_FAST", "LOAD_FAST"),
    "STORE_FAST_STORE_FAST": ("STORE_FAST", "STORE_FAST"),
}
# Those of 3.11 that leave the value where they jump: a copy of it is asked, and popped where they do not.
OR_POP: Final = {
    "JUMP_IF_TRUE_OR_POP": ("POP_JUMP_IF_TRUE", "POP_JUMP_FORWARD_IF_TRUE"),
    "JUMP_IF_FALSE_OR_POP": ("POP_JUMP_IF_FALSE", "POP_JUMP_FORWARD_IF_FALSE"),
}
# After COPY: is this function still the built-in one? If so, a loop inlined after the question replaces the call at its target.
IDENTITY_CHECK: Final = ("LOAD_COMMON_CONSTANT", "IS_OP", "POP_JUMP_IF_FALSE")
INTRINSICS: Final = {
    "INTRINSIC_STOPITERATION_ERROR": "STOPITERATION_ERROR",
    "INTRINSIC_UNARY_POSITIVE": "UNARY_POSITIVE",
    "INTRINSIC_LIST_TO_TUPLE": "LIST_TO_TUPLE",
    "INTRINSIC_PREP_RERAISE_STAR": "PREP_RERAISE_STAR",
}
NAMES_OF_INTRINSICS: Final = {
    "CALL_INTRINSIC_1": tuple(vars(opcode_tables).get("_intrinsic_1_descs", ())),
    "CALL_INTRINSIC_2": tuple(vars(opcode_tables).get("_intrinsic_2_descs", ())),
}
COMMON_CONSTANTS: Final[tuple[Any, ...]] = tuple(vars(dis).get("_common_constants", ()))
ASKS_TRUTH: Final = ("POP_JUMP_IF_TRUE", "POP_JUMP_IF_FALSE", "UNARY_NOT")
CONDITIONAL: Final = frozenset(f"POP_JUMP_IF_{what}" for what in ("TRUE", "FALSE", "NONE", "NOT_NONE"))
NO_FALL_THROUGH: Final = frozenset(["RETURN_VALUE", "RETURN_CONST", "RAISE_VARARGS", "RERAISE", "JUMP", "JUMP_BACKWARD"])
# Their argument is a place in the stack, counted from the top once so many values are taken.
ARGUMENT_IS_PLACE: Final = {
    **dict.fromkeys(("COPY", "SWAP"), 0),
    **dict.fromkeys(("LIST_APPEND", "LIST_EXTEND", "SET_ADD", "SET_UPDATE", "DICT_MERGE", "DICT_UPDATE"), 1),
    "MAP_ADD": 2,
}


def is_jump(name: str) -> bool:
    return name in CONDITIONAL or name in ("JUMP", "JUMP_BACKWARD", "FOR_ITER", "SEND", "END_ASYNC_FOR")
