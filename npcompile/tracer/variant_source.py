"""The generated program of one variant: readable Python that runs the graph and hands over what is live."""

from __future__ import annotations

import keyword
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from npcompile.backends.registry import CompiledGraph, FloatingPointSignal, may_not_return
from npcompile.tensor_core.array import Array, Storage
from npcompile.tensor_core.float_errors import may_report
from npcompile.tensor_core.graph import Graph, Node, subgraphs, topological
from npcompile.tensor_core.meta import TupleMeta
from npcompile.tensor_core.op import OPS
from npcompile.tensor_core.ops.numpy_calls import LEAST
from npcompile.tensor_core.source import Source
from npcompile.tensor_core.transforms.reverse import depending
from npcompile.tensor_core.transforms.stand_in import made_of_stand_ins
from npcompile.tracer.arrays.backward import attach_backward
from npcompile.tracer.arrays.lost import message_of, remember_lost
from npcompile.tracer.branch_merge import require_unseen
from npcompile.tracer.host_fallback import as_numpy
from npcompile.tracer.identity_set import remember_scalar
from npcompile.tracer.python.effects import Effect
from npcompile.tracer.python.iteration import is_as_made
from npcompile.tracer.random_state import Repetition, restore
from npcompile.tracer.restarts import BegunIterator, Break
from npcompile.tracer.value_texts import INLINE_CONSTANTS, ValueTexts, is_unchanged
from npcompile.tracer.values import (
    NULL,
    UNASSIGNED,
    ArrayFlat,
    Cell,
    Constant,
    ExceptionValue,
    Iterator,
    Mapping,
    Sequence,
    SetValue,
    TensorValue,
    children,
)


@dataclass(slots=True, eq=False)
class Emitter(ValueTexts):
    """Writes the program's lines."""

    made: list[Storage] = field(default_factory=list)  # fresh storages
    saved: list[str] = field(default_factory=list)  # variables of what the backward graph needs

    def forget(self) -> None:
        """Let go of the values of this call."""
        for held in (self.names, self.kept, self.tensors, self.made):
            held.clear()

    # --- the graph

    def graph_of(self, values: Iterable[Any], name: str) -> Graph | None:
        """The graph that computes what `values` need and what is written to outside arrays; None when nothing is."""
        for storage in self.capture.draws.storages:
            if storage.is_written or self.capture.place is not None:
                storage.source = None  # what is handed over is a result of the graph, and not what was drawn
        unfinished = next((g for g in self.capture.begun if not g.is_exhausted), None)
        if unfinished is not None:
            raise BegunIterator(unfinished.made_at)
        fresh: dict[int, Storage] = {}
        seen: set[int] = set()
        pending = list(values)
        require_unseen(self.capture, pending)
        pending.reverse()  # results come in the order of what holds them, whose tuple is then that of the graph
        while pending:
            value = pending.pop()
            if id(value) in seen:
                continue
            seen.add(id(value))
            self.kept.append(value)
            if isinstance(value, ArrayFlat) and value.begun is not None:
                raise BegunIterator(value.begun)
            if isinstance(value, ExceptionValue):
                self.require_unraised(value)
            if isinstance(value, TensorValue) and value.array.storage.source is None:
                self.tensors.setdefault(id(value.array.storage), value)
            if isinstance(value, Array):
                if value.storage.source is None:
                    fresh.setdefault(id(value.storage), value.storage)
            elif isinstance(value, Iterator) and not is_as_made(value):
                raise BegunIterator(value.made_at)
            elif not (isinstance(value, (Sequence, Mapping, SetValue, Cell)) and is_unchanged(value)):
                pending.extend([*children(value)][::-1])
        storages = list(fresh.values())
        writes = [(s.original.params["index"], s.node) for s in self.written()]
        nodes = [s.node for s in storages]
        measured = self.capture.builder.measured
        unused = self.unused_that_may_raise([*nodes, *(node for _, node in writes), *measured.values()])
        if not storages and not writes and not unused and not measured:
            return None
        metas = [*(s.meta for s in storages), *(n.meta for n in unused)]
        graph = self.capture.builder.finish([*nodes, *unused], metas, writes, name)
        self.made = storages
        self.storages = {id(s): f"t{k}" for k, s in enumerate(storages)} | {id(n): f"unused_{k}" for k, n in enumerate(unused)}
        originals = [s.original for s in self.written()]
        return replace(graph, restored=frozenset(n.params["index"] for n in originals if self.is_read(n, nodes)))

    def is_read(self, original: Node, outputs: list[Node]) -> bool:
        """Does the program, run again, need what was in this input? Not where it is overwritten unseen."""
        contents = {original}  # with some of the old contents in them
        for node in self.capture.builder.made:
            if contents.isdisjoint(node.inputs):
                continue
            others = node.inputs[1:]
            is_overwritten = node.op == "slice_update" or (node.op == "scatter" and node.params["mode"] == "set")
            if not is_overwritten or not contents.isdisjoint(others):
                return True
            contents.add(node)
        return not contents.isdisjoint(outputs)

    def unused_that_may_raise(self, results: list[Node]) -> list[Node]:
        """Nodes that nothing uses and that raise, or report a floating-point error, for some data: NumPy would."""
        made = self.capture.builder.made
        used = set(topological(results)) | made_of_stand_ins(made)
        unused: dict[Node, None] = {}
        for node in reversed(made):
            if node not in used and (OPS[node.op].raises or self.reports_errors(node)):
                unused[node] = None
                used.update(topological([node]))
        # One of the results stands for an op that has several.
        return [self.capture.builder.apply("item", n, index=0) if isinstance(n.meta, TupleMeta) else n for n in unused]

    def reports_errors(self, node: Node) -> bool:
        """Not for the values that gradients did without, nor on a device, which has no flags to tell of errors."""
        capture = self.capture
        if node not in capture.builder.loud or capture.place is not None or capture.goes_through_gradients:
            return False
        return may_report(node)

    def written(self) -> list[Storage]:
        """Outside arrays that the program has changed."""
        arrays = (array for _, array in self.capture.by_identity.values())
        return [a.storage for a in arrays if a.storage.is_written]

    def errors_of(self, graph: Graph) -> list[type[Exception]]:
        """Exceptions of the graph after which NumPy runs the same part of the program, as if nothing had happened yet."""
        errors: list[type[Exception]] = [FloatingPointSignal] if graph.checks else []
        errors += sorted(raised_in(graph), key=lambda e: e.__name__)
        if self.capture.place is None and (errors or not self.capture.draws.generators):  # a device says itself what it has
            # Of one that writes to an argument the graph says whether that was yet to come when memory was lacking.
            errors.append(FloatingPointSignal if graph.writes else MemoryError)
        return list(dict.fromkeys(errors))

    def asked_before(self, graph: Graph) -> list[str]:
        """What has to be true before the graph is called, apart from the guards."""
        if graph.checks and {index for index, _ in graph.writes} - graph.restored:
            # An error that ends the program may leave these arguments as they were, which is not known afterwards.
            return [f"not {self.name_constant(may_not_return)}()"]
        return []

    def arguments_of(self, graph: Graph) -> list[str]:
        return [*map(str, self.capture.builder.arguments), *graph.symbols]

    def least_of(self, graph: Graph, compiled: CompiledGraph) -> list[str]:
        """The name of the result that says whether all sizes that the graph counts are LEAST at least, if it counts some."""
        return [f"measured_{len(graph.measured)}"] if compiled.counted else []

    def names_of_results(self, graph: Graph, compiled: CompiledGraph) -> list[str]:
        measured = [name for name, _ in graph.measured if name not in compiled.counted]
        return [*self.storages.values(), *self.saved, *self.least_of(graph, compiled), *measured]

    def call_graph(self, graph: Graph, compiled: CompiledGraph, function: str, native: str, point: str) -> None:
        """Call `compiled.quickest`, by the name `function`.

        `native` runs the same part of the program with NumPy: for errors, which it reports. `point` is where the program begins.
        """
        arguments = self.arguments_of(graph)
        least = self.least_of(graph, compiled)
        results = compiled.targets(self.names_of_results(graph, compiled))
        comment = f"  # {', '.join(map(str, graph.metas))}" if graph.metas else ""
        call = [f"{results}{function}({', '.join(arguments)}){comment}", *(f"holds = {enough(name)}" for name in least)]
        expected = self.errors_of(graph)
        has_name = {FloatingPointSignal, *(e for e in expected if e.__module__ == "builtins")}
        errors = [e.__name__ if e in has_name else self.name_constant(e) for e in expected]
        self.lines += [line for asked in self.asked_before(graph) for line in (f"if not ({asked}):", f"    return {native}")]
        drawn_again = self.draw(native, bool(errors))
        if errors:
            # It is as if nothing had happened yet: NumPy runs the same part, and reports at the user's line. Not as part of
            # the handler: what is raised then has no context of ours.
            tried, known = [f"    {line}" for line in call], f"({', '.join(errors)},)"
            handler = [f"except {known}:"]
            if self.capture.place is None:
                assumed = self.capture.assumed
                told = f"{known}, {self.name_constant(tuple(assumed))}" if assumed else known
                handler = ["except Exception:", f"    if not {point}.may_run_again({told}):", "        raise"]
            self.lines += ["try:", *tried, *handler, *drawn_again, "    holds = False"]
        else:
            self.lines += call
        if errors or least:
            self.lines += ["if not holds:", f"    return {native}"]

    def draw(self, native: str, may_fail: bool = False) -> list[str]:
        """Draw the program's random numbers. What is done before `native` draws them again, when what follows has failed."""
        draws = self.capture.draws
        saved = ", ".join(f"({source}, state_{k})" for k, source in enumerate(draws.generators))
        if may_fail or draws.may_raise:
            self.lines += [f"state_{k} = {text}" for k, text in enumerate(draws.generators.values())]
        if draws.may_raise:
            again = [f"    {self.name_constant(restore)}({saved})"] if saved else []
            self.lines += ["try:", *(f"    {line}" for line in draws.lines), "except Exception:", *again, "    holds = False"]
            self.lines += ["if not holds:", f"    return {native}"]
        else:
            self.lines += draws.lines
        if not saved or not draws.lines:
            return []
        return [f"    with {self.name_constant(Repetition)}({saved}):", *(f"        {t}" for t in draws.lines)]

    def place_results(self, is_end: bool) -> None:
        """What a device computed: scalars are known for scalars, and at the end what is NumPy's goes to the host."""
        place = self.capture.place
        if place is None:
            return
        for storage in self.made:
            name = self.storages[id(storage)]
            if is_end and not place.gives_arrays and id(storage) not in self.tensors:
                self.lines.append(f"{name} = {self.name_constant(as_numpy)}({name}, {storage.meta.boxed})")
            elif not storage.meta.boxed:
                self.lines.append(f"{self.name_constant(remember_scalar)}({name})")

    def do_effects(self, effects: Iterable[Effect], live: Iterable[Any]) -> None:
        """Change objects from outside. What the program goes on with is read before: its expressions mean what was there."""
        effects = list(effects)
        for value in live if effects else ():
            if value is None or value is NULL or value is UNASSIGNED:
                continue
            known = self.text(value)
            if not known.isidentifier() and not (isinstance(value, Constant) and type(value.value) in INLINE_CONSTANTS):
                self.variable(value, known)
        for effect in effects:
            self.lines.append(effect.text.format(*map(self.text, effect.values)))

    def write_cells(self, cells: Iterable[Cell]) -> None:
        for cell in cells:
            if cell.is_written and cell.source is not None:
                self.lines.append(f"{cell.source}.cell_contents = {self.text(cell.content)}")

    def attach(self, program: str, results: list[int], leaves: list[str], kept: list[str], symbols: list[str]) -> None:
        """Make the Tensors that have a gradient, of the storages with the ids `results`.

        `kept` are the Tensors whose contents the gradients need.
        """
        names = [f"tensor_{k}" for k in range(len(results))]
        outputs = [self.storages[key] for key in results]
        attach, given = (
            self.name_constant(attach_backward),
            (outputs, leaves, kept, [*map(str, self.capture.builder.arguments)], self.saved, symbols),
        )
        arguments = ", ".join(f"({''.join(f'{part}, ' for part in parts)})" for parts in given)
        self.lines.append(f"{', '.join(names)}, = {attach}({program}, {arguments})")
        self.names |= zip(results, names)

    def count_writes(self) -> None:
        """Tensors know how often their memory was written."""
        owners = [self.capture.tensor_of(storage) for storage in self.written()]
        self.lines += [f"{owner}._wrote()" for owner in owners if owner is not None]

    def write_gradients(self, gradients: dict[Source, Any]) -> None:
        for source, value in gradients.items():
            self.lines.append(f"{source}.grad = {self.text(value)}")

    def remember_lost(self, reason: Break, live: list[Any]) -> None:
        """Arrays that leave the graph at a break have lost their gradient, which is said when somebody asks for it."""
        leaves = self.capture.uses_of_leaves()
        if not leaves:
            return
        for value in live:
            if isinstance(value, Array) and id(value.storage) not in self.tensors:
                is_reached = value.storage.node in depending(topological([value.storage.node]), leaves)
                if is_reached:
                    message = self.name_constant(message_of(reason))
                    self.lines.append(f"{self.name_constant(remember_lost)}({self.text(value)}, {message})")


def enough(least: str) -> str:
    """Is the least of the sizes that data decides one that the graph is for?"""
    return f"{least} >= {LEAST}"


def raised_in(graph: Graph) -> set[type[Exception]]:
    """What the operations of a graph raise for some data, those of the graphs in it too."""
    inside = [raised_in(part) for node in graph.nodes for part in subgraphs(node).values()]
    return {e for node in graph.nodes for e in OPS[node.op].raises}.union(*inside)


def parameter_name(local: str, slot: int) -> str:
    """What a local of the user's is called in the generated program."""
    return f"v_{local}" if local.isidentifier() and not keyword.iskeyword(local) else f"v_{slot}"
