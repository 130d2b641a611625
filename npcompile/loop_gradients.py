"""Derivatives of functions with loops over numbers: one program for both (docs/architecture/loop-ir-passes.md).

A program is for arguments of some types, and while the names that the function reads stand for what they stood for. What no
program is for, and what one has left, has no result here: the caller takes the way that all functions can go.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import CodeType, FunctionType
from typing import Any, TypeAlias

import numpy as np

from npcompile import trees
from npcompile.backends.loop_ir import target
from npcompile.backends.loop_ir.native import CompileGradient, Native, Taken, said_of
from npcompile.backends.passes import Pass
from npcompile.logs import log
from npcompile.loop_questions import Question
from npcompile.settings import config
from npcompile.switch import may_compile
from npcompile.tensor_core.events import COUNTS, stretch
from npcompile.tensor_core.graph import Location
from npcompile.tensor_core.loop_ir.activity import written_params
from npcompile.tensor_core.loop_ir.adjoint import gradient, is_floating
from npcompile.tensor_core.loop_ir.buffers import use_buffers
from npcompile.tensor_core.loop_ir.forms import walk
from npcompile.tensor_core.loop_ir.forward import forward
from npcompile.tensor_core.loop_ir.no_derivative import NoDerivative
from npcompile.tensor_core.loop_ir.ops import Policy, Program, Return
from npcompile.tensor_core.loop_ir.pipeline import Ran, differentiable, run_passes
from npcompile.tensor_core.loop_ir.states import Tagged, TupleOf, Use
from npcompile.tensor_core.loop_ir.types import F32, F64, FLOAT, Memref, Object, Type, type_of
from npcompile.tensor_core.loop_ir.verifier import Stage, stage_of, verify
from npcompile.tracer.bytecode.analysis import analyse
from npcompile.tracer.control_calls import names_loop, reached
from npcompile.tracer.entry import plain_function
from npcompile.tracer.faults import is_fault, warn_of_fault
from npcompile.tracer.loop_ir.abstract import Unsupported
from npcompile.tracer.loop_ir.arguments import held_by, is_named
from npcompile.tracer.loop_ir.front_end import Traced, trace
from npcompile.tracer.loop_ir.sources import Same, Source
from npcompile.tracer.profitability import why_better_as_graph

MOST_LEAVES = 64  # of arguments that are trees
PLAIN = frozenset((np.ndarray, np.float64, np.float32, np.int64, np.bool_, float, int, bool))  # arguments that are no trees
MOST_ABORTS = 16  # one after another, before a program is not tried any more
Key: TypeAlias = "tuple[CodeType, tuple[Type | type | CodeType | trees.TreeDef | None, ...]]"


@dataclass(slots=True)
class Version:
    """A native program, and what it stands on."""

    native: Native
    program: Program  # of the gradient
    key: Key
    guards: tuple[Same, ...]
    inputs: tuple[Source, ...]  # its last arguments
    passes: tuple[Pass, ...]
    seconds: dict[str, float]
    form: trees.TreeDef | None  # of arguments that are trees
    gives_pythons: bool = False  # is what is differentiated a number of Python's, where the program gives NumPy's?
    functions: dict[int, Given] = field(default_factory=dict)  # those among the leaves, by number: they are no arguments of it
    rounded: frozenset[int] = frozenset()  # which of its results are float32: the program computes gradients in float64
    aborts: int = 0  # since it last had a result

    def holds(self, function: FunctionType) -> bool:
        return function.__code__ is self.key[0] and all(guard.holds() for guard in self.guards)

    def numbers_of(self, leaves: Sequence[Any]) -> Sequence[Any] | None:
        """The leaves that are arguments of it. None where functions among them are others."""
        if not self.functions:
            return leaves
        if not all(known.is_same(leaves[k]) for k, known in self.functions.items()):
            return None
        return [x for k, x in enumerate(leaves) if k not in self.functions]

    def __call__(self, args: Sequence[Any], tangents: Sequence[Any] = ()) -> Any:
        if self.inputs or tangents:
            return self.native.call(*args, *[source.read() for source in self.inputs], *tangents)
        return self.native.call(*args)


@dataclass(slots=True)
class LoopGradients:
    """The programs of one function, for one question."""

    asked: Question
    compile: CompileGradient
    versions: list[Version] = field(default_factory=list)
    reasons: dict[Key, str] = field(default_factory=dict)  # why there is none
    left: set[CodeType] = field(default_factory=set)  # of which there is none, whatever the arguments
    lock: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, function: FunctionType, args: Sequence[Any], tangents: Sequence[Any] = ()) -> tuple[Any, ...] | None:
        """(value, gradient of each of `argnums`), or None.

        `tangents`: of the leaves of the arguments that are moved. Then a pair: what there is without, and its tangent.
        """
        for version in self.versions:  # first, as a call of one that is known takes a microsecond
            if version.form is None and version.holds(function) and (found := version(args, tangents)) is not False:
                return self.ended(version, found)
        if function.__code__ in self.left:
            return None
        if PLAIN.issuperset(map(type, args)):
            return self.of_new(function, args, args, None, tangents)
        leaves, form = trees.flatten(tuple(args))
        found = self.of_leaves(function, args, leaves, form, tangents)
        if found is None or self.asked.argnums is None:
            return found
        if self.asked.moved is None:
            return self.as_trees(form, found)
        return tuple(self.as_trees(form, each) for each in found)

    def of_leaves(
        self, function: FunctionType, args: Sequence[Any], leaves: Sequence[Any], form: trees.TreeDef, tangents: Sequence[Any]
    ) -> tuple[Any, ...] | None:
        """The same, with a gradient for each leaf."""
        for version in self.versions:
            if version.form != form or not version.holds(function) or (given := version.numbers_of(leaves)) is None:
                continue
            if (found := version(given, tangents)) is not False:
                return self.ended(version, found)
        return self.of_new(function, args, leaves, form, tangents)

    def of_new(
        self,
        function: FunctionType,
        args: Sequence[Any],
        leaves: Sequence[Any],
        form: trees.TreeDef | None,
        tangents: Sequence[Any],
    ) -> tuple[Any, ...] | None:
        """The same by a program that is made for these arguments."""
        made = self.new(function, args, leaves, form)
        given = None if made is None else made.numbers_of(leaves)
        if made is None or given is None or (found := made(given, tangents)) is False:
            return None
        return self.ended(made, found)

    def as_trees(self, form: trees.TreeDef, found: tuple[Any, ...]) -> tuple[Any, ...]:
        """The value, and the gradient of each of `argnums`, of those of their leaves."""
        rest = iter(found[1:])
        parts = [form.children[k][1] for k in self.asked.numbers]
        return (found[0], *(each.unflatten([next(rest) for _ in range(each.size)]) for each in parts))

    def ended(self, version: Version, found: Any) -> tuple[Any, ...] | None:
        if found is not True:
            version.aborts = 0
            if version.rounded:
                found = tuple(single(x) if k in version.rounded else x for k, x in enumerate(found))
            return (float(found[0]), *found[1:]) if version.gives_pythons else found  # type: ignore[no-any-return]
        version.aborts += 1
        if version.aborts == MOST_ABORTS:
            self.versions = [each for each in self.versions if each is not version]
            self.left.add(version.key[0])
            self.reasons[version.key] = "its calls end where Python goes on"
        return None

    def new(
        self, function: FunctionType, args: Sequence[Any], leaves: Sequence[Any], form: trees.TreeDef | None
    ) -> Version | None:
        """A program for arguments that none is for. None where there is none, or the program that there is refused them."""
        key = (function.__code__, (form, *(type_of(x) or code_of(x) or type(x) for x in leaves)))
        if key in self.reasons or not may_compile():
            return None
        with self.lock:
            if len(self.versions) >= config.recompile_limit:
                return None
            if any(each.key == key and each.holds(function) for each in self.versions):
                return None  # memory is shared, or another thread was here
            try:
                at = Location(function.__code__.co_filename, function.__code__.co_firstlineno)
                with stretch("capture", function.__qualname__, at, function.__code__):
                    made = self.made(function, args, leaves, key)
            except (Unsupported, NoDerivative, target.Unsupported) as error:
                self.decline(function, key, str(error))
                return None
            except Exception as error:
                if config.internal_errors == "raise" or not is_fault(error):
                    raise
                warn_of_fault(error, f"differentiating the loops of {function.__qualname__}", "Eager Tensors do it.")
                self.decline(function, key, repr(error))
                return None
            self.versions = [*self.versions, made]
            return made

    def decline(self, function: FunctionType, key: Key, reason: str) -> None:
        self.reasons[key] = reason
        log("graph_breaks", lambda: f"{function.__qualname__}: its gradient is no native loop: {reason}")

    def made(self, function: FunctionType, args: Sequence[Any], leaves: Sequence[Any], key: Key) -> Version:
        """Raises Unsupported, of the front end or a backend, or NoDerivative."""
        if not has_loops(function):
            self.left.add(key[0])
            raise Unsupported("no loop")
        form = key[1][0]
        assert form is None or isinstance(form, trees.TreeDef)
        if len(leaves) > MOST_LEAVES:
            raise Unsupported("many arguments")
        if any(isinstance(type_of(x), Object) for x in leaves):
            raise Unsupported("an argument that is not a number or array")
        orders = [places_of(numbers, form, len(args)) for numbers in (self.asked.numbers, self.asked.moved or ())]
        numbers = {n for order in orders for n in order}
        functions = functions_among(leaves)
        if not numbers.isdisjoint(functions):
            raise Unsupported("a gradient with respect to what is not floating-point")
        # What a derivative is taken of is NumPy's: so are the results of eager Tensors.
        given: Any = [np.float64(x) if k in numbers and type(x) is float else x for k, x in enumerate(leaves)]
        given = given if form is None else form.unflatten(given)
        leaves, orders = (
            [x for k, x in enumerate(leaves) if k not in functions],
            [[n - sum(k < n for k in functions) for n in order] for order in orders],
        )
        began, gives_pythons = time.perf_counter(), False
        try:
            made = differentiated(function, given, self.asked, orders, merges=False)
        except NoDerivative:
            made = differentiated(function, given, self.asked, orders, merges=True)  # control flow is simpler with fewer types
            gives_pythons = returned(function, given) == {FLOAT}
            if gives_pythons and self.asked.moved is not None:
                raise
        inputs = made.traced.inputs
        given = [*leaves, *(source.read() for source in inputs)]
        if why := why_better_as_graph(made.traced, given):
            raise Unsupported(why)
        given += [leaves[k] for k in orders[1]]
        written = written_params(made.program, len(given))
        taken = [Taken(type_of(x), is_written) for x, is_written in zip(given, written, strict=True)]  # type: ignore[arg-type]
        if self.asked.moved is not None and any(written):
            raise Unsupported("a function that writes into its arguments")  # it may be called several times
        rounded = {k for k, n in enumerate(orders[0], 1) if element_of(leaves[n]) == np.float32}
        if rounded and self.asked.moved is not None:
            raise Unsupported("second derivatives of float32")
        if made.is_single and not self.asked.has_aux:
            rounded.add(0)
        capture = time.perf_counter() - began
        native = self.compile(made.program, taken, made.zeros)
        COUNTS["loop_programs"] += 1
        seconds = {"capture": capture, "compile": native.seconds}
        return Version(
            native,
            made.program,
            key,
            made.traced.guards,
            inputs,
            said_of(made.ran),
            seconds,
            form,
            gives_pythons,
            functions,
            frozenset(rounded),
        )


@dataclass(frozen=True, slots=True)
class Given:
    """A function among the leaves of arguments."""

    function: Any
    code: CodeType | None

    def is_same(self, x: Any) -> bool:
        """Is it that function, or one that is made anew of the same code?"""
        if x is self.function or self.code is None or not isinstance(x, FunctionType):
            return x is self.function and code_of(x) is self.code
        is_alike = code_of(x) == self.code and x.__globals__ is self.function.__globals__
        return is_alike and not (x.__closure__ or x.__defaults__ or x.__kwdefaults__)


def functions_among(leaves: Sequence[Any]) -> dict[int, Given]:
    """By number. Raises Unsupported for those that hold values."""
    found = {k: x for k, x in enumerate(leaves) if isinstance(x, FunctionType) or is_named(x)}
    if any(isinstance(x, FunctionType) and not is_named(x) and any(held_by(x)) for x in found.values()):
        raise Unsupported("an argument that is a function with variables of functions around, or defaults")
    return {k: Given(x, code_of(x)) for k, x in found.items()}


def code_of(x: Any) -> CodeType | None:
    """That of a function of Python's, as it is compiled from."""
    return plain_function(x).__code__ if isinstance(x, FunctionType) else None


def places_of(argnums: Sequence[int], form: trees.TreeDef | None, count: int) -> list[int]:
    """The numbers of the leaves of arguments, in the order of `argnums`. Raises Unsupported where these are misused."""
    places = [k % count for k in argnums if -count <= k < count]
    if len(set(places)) < len(argnums):
        raise Unsupported("argnums that name one argument twice, or none")
    return [n for k in places for n in leaves_of(form, k)]


def leaves_of(form: trees.TreeDef | None, k: int) -> range:
    """The numbers of the leaves of argument `k`."""
    if form is None:
        return range(k, k + 1)
    sizes = [child.size for _, child in form.children]
    return range(sum(sizes[:k]), sum(sizes[: k + 1]))


def has_loops(function: FunctionType) -> bool:
    """Are there loops in it, or in functions that its names stand for?"""
    return any(analyse(each.__code__).loop_headers or names_loop(each) for each in reached(function))


@dataclass(slots=True)
class Differentiated:
    """The program of derivatives of a function."""

    traced: Traced
    program: Program
    zeros: list[int]  # its last params are arrays of zeros, as large as the arguments of these numbers
    ran: list[Ran]
    is_single: bool  # is the result float32, where it is no number of Python's?


def differentiated(
    function: FunctionType, given: Sequence[Any], asked: Question, orders: Sequence[list[int]], merges: bool
) -> Differentiated:
    """What the front end makes of a function, its derivatives, and what passes do to these."""
    (order, moved), traced = orders, trace(function, given, Policy.ABORT, merges)
    program = traced.program
    kinds = [program.types[param.value] for param in program.params]
    if not all(is_floating(kinds[k]) for k in (*order, *moved)):
        raise Unsupported("a gradient with respect to what is not floating-point")
    results = kinds_of_result(program, asked.has_aux)
    if F32 in results and F64 in results:
        raise NoDerivative("a result that is of float32 or of float64")
    differentiable(program)
    if stage_of(program) is not Stage.STRUCTURED:
        raise NoDerivative("a loop that is entered at several places")
    zeros: list[int] = []
    if asked.argnums is not None:
        if use_buffers(program):
            verify(program)  # a mistake there would be read as numbers
        program = gradient(program, order, asked.has_aux)
        zeros = [k for k, kind in enumerate(kinds) if k in order and isinstance(kind, Memref)]
    if asked.moved is not None:
        own, all_of_them = len(kinds), len(program.params)
        forward(program, [*moved, *range(own, all_of_them)])
        params = program.params  # the tangents that are given stand before the arrays of zeros
        given_here = params[all_of_them : all_of_them + len(moved)]
        program.params = [*params[:own], *given_here, *params[own:all_of_them], *params[all_of_them + len(moved) :]]
        zeros = zeros * 2
    ran = run_passes(program)
    return Differentiated(traced, program, zeros, ran, F32 in results)


def single(x: Any) -> Any:
    """The same in float32, but Python's number as it is."""
    return x.astype(np.float32) if isinstance(x, np.ndarray | np.generic) else x


def element_of(x: Any) -> np.dtype | None:
    return getattr(x, "dtype", None)


def kinds_of_result(program: Program, has_aux: bool) -> set[Type | None]:
    """What the first number of the result may be. None: something else."""
    found: set[Type | None] = set()
    for op in walk(program.body):
        if isinstance(op, Return):
            recipe = op.value.items[0] if has_aux and isinstance(op.value, TupleOf) and op.value.items else op.value
            found.add(program.types[recipe.value] if isinstance(recipe, Use | Tagged) else None)
    return found


def returned(function: FunctionType, given: Sequence[Any]) -> set[Type | None]:
    """The types of the numbers that the function returns; None for what is none."""
    program = trace(function, given, Policy.ABORT).program
    recipes = [op.value for op in walk(program.body) if isinstance(op, Return)]
    return {program.types[each.value] if isinstance(each, Use) else None for each in recipes}
