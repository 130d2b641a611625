"""The CPU backend: one generated C translation unit per graph. The compiler is imported with the first graph."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from npcompile.backends.loop_ir.native import Callback, CType, Native, Parameter, Resuming, Taken
from npcompile.backends.registry import Abilities, CompiledGraph, register_backend
from npcompile.backends.together import Steps
from npcompile.tensor_core.costs import Costs
from npcompile.tensor_core.graph import Graph
from npcompile.tensor_core.loop_ir.ops import Program


def compile_cpu(graph: Graph, example_inputs: Sequence[Any] = ()) -> CompiledGraph:
    """Compile `graph` to machine code: see `backend.compile_cpu`. Raises NoCompiler."""
    from npcompile.backends.cpu import backend  # here: importing npcompile stays quick

    return backend.compile_cpu(graph, example_inputs)


def compiling(graph: Graph) -> Steps[CompiledGraph]:
    """The same in steps."""
    from npcompile.backends.cpu import backend

    return backend.compiling(graph)


def begin() -> None:
    """What the first graph needs of this machine is made beside what the caller does next: see `loader.begin`."""
    from npcompile.backends.cpu import loader

    loader.begin()


def release_memory() -> None:
    """Return to the system the memory that is kept of freed arrays. Loads nothing where no graph was compiled."""
    if loader := sys.modules.get("npcompile.backends.cpu.loader"):
        loader.release_memory()


def compile_gradient(program: Program, arguments: Sequence[Taken], order: Sequence[int], tells: bool = False) -> Native:
    """The native function of a gradient of loops: see `loop_ir.native.compile_native`. Raises Unsupported."""
    from npcompile.backends.cpu.loop_ir.native import compile_native

    return compile_native(program, arguments, order, tells)


def compile_callback(program: Program, parameters: Sequence[Parameter], result: CType, outside: Sequence[object]) -> Callback:
    """The function of C of a program of the loop IR: see `loop_ir.callback.compile_callback`. Raises Unsupported."""
    from npcompile.backends.cpu.loop_ir import callback

    return callback.compile_callback(program, parameters, result, outside)


def loop_unit(program: Program) -> Resuming:
    """The unit of a program of the loop IR that Python may go on with: see `loop_ir.program.unit_of`. Raises Unsupported."""
    from npcompile.backends.cpu.loop_ir.program import unit_of

    return unit_of(program)


def costs(graph: Graph) -> Costs:
    """What a graph computes and moves: see `graph_costs.costs`."""
    from npcompile.backends.cpu import graph_costs

    return graph_costs.costs(graph)


def register() -> None:
    abilities = Abilities(
        is_own=True,
        has_loops=True,
        begin=begin,
        compiling=compiling,
        release_memory=release_memory,
        compile_gradient=compile_gradient,
        compile_callback=compile_callback,
        costs=costs,
        loop_unit=loop_unit,
    )
    register_backend("cpu", compile_cpu, abilities)
