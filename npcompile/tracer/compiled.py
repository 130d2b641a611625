"""What is asked of everything compiled for one function, whose class is above those that ask."""

from __future__ import annotations

import threading
import types
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from typing import Any, Protocol, TypeVar

from npcompile.backends.background import Job
from npcompile.backends.passes import Pass
from npcompile.backends.registry import CompiledGraph
from npcompile.tensor_core.graph import Graph
from npcompile.tensor_core.source import Object
from npcompile.tensor_core.transforms.partition import Split
from npcompile.tracer.argument_kinds import Refusals
from npcompile.tracer.bytecode.analysis import CodeFacts
from npcompile.tracer.bytecode.decode import Program
from npcompile.tracer.bytecode.layout import Layout
from npcompile.tracer.entry import Current
from npcompile.tracer.host_fallback import Place
from npcompile.tracer.profitability import Trial
from npcompile.tracer.restarts import Arms, Break
from npcompile.tracer.variant import Options, Variant

SomePoint = TypeVar("SomePoint")


class Compiled(Protocol[SomePoint]):
    """What Points, of the class `SomePoint`, and the ends of variants ask of the CompiledFunction that they belong to."""

    user: types.FunctionType
    entry: types.FunctionType
    options: Options
    python: types.FunctionType
    code: types.CodeType
    program: Program
    facts: CodeFacts
    namespace: dict[str, Any]
    objects: dict[int, Object]
    breaks: list[Break]
    graphs: list[tuple[Graph, CompiledGraph]]
    splits: tuple[Split, ...]
    aborting: dict[Any, int]
    declined: dict[Pass, None]
    refusals: Refusals
    points: dict[tuple[int, tuple[int, ...], Place | None], SomePoint]
    is_random: bool
    numbers: Iterator[int]
    lock: threading.RLock
    current: Current
    stops: dict[int, Break]
    arms: Arms
    compile_callee: Callable[[types.FunctionType, Options], types.FunctionType] | None
    has_our_names: bool
    compiling: Job[Any, Any] | None
    hops: int
    calls: int

    @property
    def are_native_asked(self) -> bool: ...
    @property
    def accuracy(self) -> str: ...
    @property
    def has_cells(self) -> bool: ...
    @property
    def is_current(self) -> bool: ...
    @property
    def hides_faults(self) -> bool: ...
    @property
    def goes_on(self) -> bool: ...
    @property
    def is_compiling(self) -> bool: ...
    @property
    def is_asked(self) -> bool: ...
    @property
    def trial(self) -> Trial: ...
    def call_of_user(self, values: Sequence[str]) -> str: ...
    def object_of(self, value: Any, prefix: str = "k_") -> Object: ...
    def name_constant(self, value: Any, prefix: str = "k_") -> str: ...
    def execute(self, source: str, name: str) -> types.FunctionType: ...
    def is_point(self, index: int, nulls: tuple[tuple[int, ...] | None, ...]) -> bool: ...
    def point_at(self, index: int, null_slots: tuple[int, ...], place: Place | None = None) -> SomePoint: ...
    def segment(
        self,
        layout: Layout,
        place: Place | None,
        is_on_device: bool = False,
        throws: bool = False,
        at_loops: bool = False,
        inside: Set[int] = frozenset(),
    ) -> Callable[..., Any]: ...
    def whole(self) -> Callable[..., Any]: ...
    def capture(self, point: SomePoint, state: tuple[Any, ...]) -> Variant: ...
    def raise_if_asked(self, error: Exception, what: str) -> None: ...
    def may_be_native(self, index: int, values: Iterable[Any]) -> bool: ...
    def stand_in(self, code: types.CodeType, namespace: dict[str, Any], defaults: tuple[Any, ...]) -> types.FunctionType: ...
    def stand_in_of(self, user: Any) -> Any: ...
    def compiled(self, user: types.FunctionType) -> types.FunctionType: ...
