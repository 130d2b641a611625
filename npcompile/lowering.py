"""`f.lower(*args)`: what a compiled function becomes for some arguments, without running it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from types import FunctionType
from typing import Any

from npcompile.backends.registry import CompiledGraph
from npcompile.compiler import METHODS, compile, original
from npcompile.devices import compile_placed, graph_costs
from npcompile.exported import Exported, ExportError
from npcompile.exporting import examples, export
from npcompile.tensor_core.costs import Costs
from npcompile.tensor_core.graph import Graph
from npcompile.tensor_core.loop_ir.costs import costs_of_program
from npcompile.tracer.bytecode.analysis import analyse
from npcompile.tracer.variant import GraphBreakError


@dataclass(frozen=True, slots=True)
class MemoryAnalysis:
    """Bytes of memory, as `jax.stages.Compiled.memory_analysis` names them."""

    argument_size_in_bytes: int
    output_size_in_bytes: int
    temp_size_in_bytes: int  # of arrays that are neither, at most at once

    @property
    def peak_memory_in_bytes(self) -> int:
        return self.argument_size_in_bytes + self.output_size_in_bytes + self.temp_size_in_bytes


@dataclass(frozen=True, eq=False)
class Lowered:
    """A function for some arguments, captured and not yet compiled: see `lower`.

    uncounted: what `cost_analysis` knows nothing of: operations by their lines, and loops whose length only running tells, which
    are counted once.
    """

    name: str
    form: Graph | Exported
    function: Callable[..., Any] = field(repr=False)
    args: tuple[Any, ...] = field(repr=False)
    _costs: Costs = field(repr=False)

    def as_text(self) -> str:
        """The graph, or for functions with loops the program in the loop IR."""
        return self.form.program if isinstance(self.form, Exported) else str(self.form)

    @property
    def uncounted(self) -> tuple[str, ...]:
        return tuple(self._costs.uncounted)

    def cost_analysis(self) -> dict[str, float]:
        """How much there is to compute and to move, by the names of JAX.

        Returns
        -------
        dict
            "flops": operations on floating-point numbers and on elements of arrays, one each; a sum of products has two for each
            product. "transcendentals": functions such as exp, one each. "bytes accessed": what kernels read from arrays and write
            to them, or what a loop's iterations do.
        """
        found = self._costs
        return {
            "flops": float(found.flops),
            "transcendentals": float(found.transcendentals),
            "bytes accessed": float(found.bytes_accessed),
        }

    def memory_analysis(self) -> MemoryAnalysis:
        """Bytes of arrays: arguments, results, and what is in between."""
        return MemoryAnalysis(self._costs.arguments, self._costs.outputs, self._costs.temporaries)

    def compile(self) -> Compiled:
        """Compile it now. What is given is called with arguments of the same types and, where it is a graph, sizes.

        Raises
        ------
        NoCompiler
            Where there is no C compiler.
        """
        if isinstance(self.form, Exported):
            return Compiled(self, self.form, self.form.source)
        made: CompiledGraph = compile_placed(self.form, self.args)
        return Compiled(self, compile(self.function, fullgraph=True), made.generated)


@dataclass(frozen=True, eq=False)
class Compiled:
    """A function that is compiled for some arguments: `Lowered.compile` makes it."""

    lowered: Lowered
    function: Callable[..., Any] = field(repr=False)
    source: str = field(repr=False)

    def __call__(self, *args: Any) -> Any:
        """What the function gives."""
        return self.function(*args)

    def as_text(self) -> str:
        """The C that runs."""
        return self.source

    def cost_analysis(self) -> dict[str, float]:
        """As that of `Lowered`."""
        return self.lowered.cost_analysis()

    def memory_analysis(self) -> MemoryAnalysis:
        """As that of `Lowered`."""
        return self.lowered.memory_analysis()


class Captured(Exception):
    """A graph, in the place of what a backend would make of it: nothing runs."""

    def __init__(self, graph: Graph):
        super().__init__()
        self.graph = graph


def lower(f: Callable[..., Any], *args: Any) -> Lowered:
    """Capture a function for some arguments, to look at what there is to compute. Compiled functions have it as a method.

    Parameters
    ----------
    f
        A Python function, compiled or not, that is captured as a whole: as a graph, or where it has loops over numbers as a
        program of the loop IR.
    *args
        Its arguments. They are not changed, and nothing of the function runs.

    Returns
    -------
    Lowered
        With `as_text`, `cost_analysis`, `memory_analysis` and `compile`, as in JAX.

    Raises
    ------
    GraphBreakError
        Where the function is not captured as a whole: why, with its line.

    Examples
    --------
    >>> import numpy as np
    >>> lowered = lower(lambda a, b: np.exp(a @ b), np.ones((2, 3)), np.ones((3, 4)))
    >>> lowered.cost_analysis()
    {'flops': 48.0, 'transcendentals': 8.0, 'bytes accessed': 208.0}
    >>> lowered.memory_analysis().output_size_in_bytes
    64
    """
    function = original(f)
    if not isinstance(function, FunctionType):
        raise TypeError(f"lower takes a Python function, not {function!r}")
    reason = ""
    if analyse(function.__code__).loop_headers:
        try:
            exported = export(function, *args)
            given = (*examples(function, args)[1], *exported.outside)
            return Lowered(function.__name__, exported, function, args, costs_of_program(exported.parsed(), given))
        except (ExportError, TypeError) as error:  # loops that are written out in a graph, and arguments that are trees
            reason = f". Nor is it a program of loops: {error}"
    try:
        compile(function, backend=recording, fullgraph=True, dynamic=False)(*args)
    except Captured as found:
        return Lowered(function.__name__, found.graph, function, args, graph_costs(found.graph))
    except GraphBreakError as error:
        raise GraphBreakError(f"{error}{reason}") from None
    raise GraphBreakError(f"{function.__qualname__} has nothing to compile: no operation on arrays")


def recording(graph: Graph, example_inputs: Any) -> Any:
    raise Captured(graph)


@dataclass(frozen=True, slots=True, eq=False)
class LowerMethod:
    """`f.lower`. Not a bound method: joblib pickles one as an attribute of its function, which has none yet where it is read."""

    function: FunctionType

    def __call__(self, *args: Any) -> Lowered:
        return lower(self.function, *args)


METHODS["lower"] = LowerMethod
