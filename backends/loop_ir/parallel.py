"""Loops that run on several threads: their iterations are a function of its own, which is given what it reads in a struct."""

from __future__ import annotations

from collections.abc import Iterator

from npcompile.backends.loop_ir.c_text import CText, c
from npcompile.tensor_core.loop_ir.forms import defined, inner, results, uses, walk
from npcompile.tensor_core.loop_ir.ops import For, LoopKind, Poll, Program


def defined_in(op: For) -> list[int]:
    """The values of an iteration."""
    return [op.index, *(value for each in walk(op.body) for value in (*results(each), *inner(each)))]


def read_from_outside(op: For) -> list[int]:
    inside = walk(op.body)
    own = defined(inside) | {op.index}
    return [value for value in dict.fromkeys(value for each in inside for value in uses(each)) if value not in own]


def function_head(number: int, given: list[tuple[CText, CText]]) -> Iterator[CText]:
    """Types and names of what it is given -> the struct, and the function's first lines."""
    yield c("struct npc_given_{} {{ npc_i64 start; int gave_up;", number)
    for kind, name in given:
        yield c("  {} {};", kind, name)
    yield c("}};")
    yield c("static void npc_iterations_{}(void* context, int64_t begin, int64_t end, int thread) {{", number)
    yield c("  struct npc_given_{}* const given = context;", number)
    for kind, name in given:
        yield c("  const {} {} = given->{};", kind, name, name)


def iterations(index: CText) -> Iterator[CText]:
    """The loop's head. No iteration is begun after one was given up."""
    yield c("  for ({} = given->start + begin; {} < given->start + end; ++{}) {{", index, index, index)
    yield c("  if (__atomic_load_n(&given->gave_up, __ATOMIC_RELAXED)) return;")


def call(number: int, op: For, names: list[CText], start: CText, stop: CText) -> Iterator[CText]:
    """Run them all. What follows where a handler of signals has raised is the caller's."""
    yield c("  struct npc_given_{} given_{} = {{ {}, 0", number, number, start)
    for name in names:
        yield c("    , {}", name)
    yield c("  }};")
    yield c(
        "  const int stopped_{} = rt->parallel(npc_iterations_{}, &given_{}, {} - {}, 1);", number, number, number, stop, start
    )


def polls(op: For) -> list[Poll]:
    return [each for each in walk(op.body) if isinstance(each, Poll)]


def names_of(program: Program) -> list[str]:
    """The functions of a unit for a program on the CPU."""
    loops = (each for each in walk(program.body) if isinstance(each, For) and each.kind is LoopKind.PARALLEL)
    return ["npc_loop", *(f"npc_iterations_{number}" for number, _ in enumerate(loops))]
