"""Instructions without a handler, and why. Those of functions end the graph: CPython runs them, in the user's own code."""

from __future__ import annotations

from typing import Final, NamedTuple


class Declined(NamedTuple):
    reason: str
    where: str  # function, generator (coroutines too), namespace (modules and bodies of classes), or interpreter


WHY: Final = {
    Declined("a variable of an outer function is deleted", "function"): ("DELETE_DEREF",),
    Declined("a template string is made", "function"): ("BUILD_INTERPOLATION", "BUILD_TEMPLATE"),
    Declined("generators and coroutines run as they are", "generator"): (
        *("GET_AWAITABLE", "GET_AITER", "GET_ANEXT", "END_ASYNC_FOR", "BEFORE_ASYNC_WITH", "ASYNC_GEN_WRAP", "LOAD_SPECIAL"),
    ),
    Declined("variables looked up by name: not in functions", "namespace"): (
        *("LOAD_NAME", "STORE_NAME", "DELETE_NAME", "LOAD_LOCALS", "LOAD_CLASSDEREF", "LOAD_FROM_DICT_OR_DEREF"),
        *("LOAD_FROM_DICT_OR_GLOBALS", "SETUP_ANNOTATIONS", "IMPORT_STAR", "PRINT_EXPR"),
    ),
    Declined("not in code: the interpreter's own", "interpreter"): (
        *("RESERVED", "INTERPRETER_EXIT", "EXIT_INIT_CHECK", "ENTER_EXECUTOR", "TRACE_RECORD", "INSTRUMENTED_*"),
        # Steps of the compiler, before it knows where jumps go and which variables are cells.
        *(
            "JUMP_IF_TRUE",
            "JUMP_IF_FALSE",
            "ANNOTATIONS_PLACEHOLDER",
            "POP_BLOCK",
            "SETUP_CLEANUP",
            "SETUP_FINALLY",
            "SETUP_WITH",
            "STORE_FAST_MAYBE_NULL",
            "LOAD_SUPER_METHOD",
        ),
        *("LOAD_ZERO_SUPER_ATTR", "LOAD_ZERO_SUPER_METHOD"),
    ),
}
DECLINED: Final = {name: declined for declined, names in WHY.items() for name in names}


def why_declined(opname: str) -> Declined | None:
    """Why an instruction has no handler; None for one that nobody has looked at."""
    return DECLINED.get("INSTRUMENTED_*" if opname.startswith("INSTRUMENTED_") else opname)
