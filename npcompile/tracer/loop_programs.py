"""How a native program, of a function or of a loop, becomes a variant, which has no graph."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from npcompile.backends.background import NotYet
from npcompile.backends.entering import FastPath
from npcompile.logs import log
from npcompile.tensor_core.events import stretch
from npcompile.tensor_core.source import Object
from npcompile.tracer.argument_kinds import MOST_REFUSALS, are_usual
from npcompile.tracer.bytecode.tracebacks import uncounted
from npcompile.tracer.compiled import Compiled
from npcompile.tracer.fast_paths import NoFastPath, Steps
from npcompile.tracer.point import Point
from npcompile.tracer.variant import Variant, names_in
from npcompile.tracer.written_loops import LoopCall, NotNative, TooLarge
from npcompile.tracer.written_loops import Program as LoopProgram


def native_program(
    function: Compiled[Point], point: Point, state: tuple[Any, ...], short_loops: frozenset[int] = frozenset()
) -> Variant | None:
    """A variant that runs what begins at the Point as one native program of the host, where it has that form."""
    index = point.layout.index
    if point.place is not None:
        return None
    began = time.perf_counter()

    def refuse(refused: NotNative, values: tuple[Any, ...], is_usual: bool) -> None:  # what is kept for later holds no values
        why = str(refused)
        log("loops", lambda: f"{function.code.co_qualname} at {point.location}: no native program: {why}")
        if is_usual and not isinstance(refused, TooLarge):
            function.refusals.add(index, values)

    try:
        with stretch("write loop", function.code.co_qualname, point.location):
            program = written_loop(function, point, state, short_loops)
    except NotNative as refused:
        refuse(refused, state, are_usual(state))
        return None
    taken = time.perf_counter() - began

    def compiled_variant() -> Variant:
        compiled = program.compile(function.namespace)
        function.objects[id(compiled.quickest)] = Object(program.name, compiled.quickest)
        for each in compiled.passes:
            log("loops", partial("{} at {}: {}".format, function.code.co_qualname, point.location, each))
        log("output_code", lambda: compiled.generated)
        seconds = {"capture": taken, **compiled.seconds}
        asked = program.conditions(function.name_constant, function.namespace)
        made = Variant(program.guards, asked, program.lines, None, compiled, None, seconds)
        made.fast_path = fast_path_of_loop(function, point, program.call, made)
        return made

    def later(state: tuple[Any, ...]) -> Variant:
        try:
            return compiled_variant()
        except NotNative as refused:
            refuse(refused, state, True)
            function.refusals.add(index, state, MOST_REFUSALS)  # else the compiler would be asked for it again
            return function.capture(point, state)

    try:
        return compiled_variant()
    except NotNative as refused:
        refuse(refused, state, are_usual(state))
        return None
    except NotYet as waiting:
        waiting.goes_on = later
        raise


def fast_path_of_loop(function: Compiled[Point], point: Point, call: LoopCall | None, variant: Variant) -> FastPath | None:
    """The call of a loop that is all that a variant does where it returns; None for other variants."""
    names, compiled = point.parameters, variant.compiled
    given = {name for asked in variant.conditions for name in asked.gives()}
    if call is None or compiled is None or not point.is_start or given & names_in(call.after):
        return None
    try:
        steps = Steps(names, function.namespace)
        steps.ask([*map(str, variant.conditions), *call.asked])
        steps.values["found"] = steps.run(compiled.quickest, call.arguments)
        steps.follow(["return found"])
    except NoFastPath:
        return None
    last = f"return {point.native_name}({', '.join(names)})"
    return steps.path(on_exit=Continuation(function, (*call.after, last), ("found", *names)))


@dataclass(eq=False)
class Continuation:
    """What a variant does after its first call, as a function that is made when it is first called."""

    function: Compiled[Point]
    lines: tuple[str, ...]
    parameters: tuple[str, ...]
    made: Callable[..., Any] | None = None

    @uncounted
    def __call__(self, *state: Any) -> Any:
        if self.made is None:
            text = "\n    ".join([f"def go_on({', '.join(self.parameters)}):", *self.lines])
            self.made = self.function.execute(f"{text}\n", f"after loop {next(self.function.numbers)}")
        return self.made(*state)


def written_loop(function: Compiled[Point], point: Point, state: tuple[Any, ...], short_loops: frozenset[int]) -> LoopProgram:
    """What begins at the Point as a program of the loop IR where that has it, else of the compiler of text. Raises NotNative."""
    from npcompile.tracer.loop_ir.whole_function import whole_function  # here: functions without loops do not need these
    from npcompile.tracer.native.loops import NativeLoop

    if (made := whole_function(function, point, state)) is not None:
        return made
    loop = NativeLoop.at(function, point, state)
    try:
        return loop.write(short_loops)
    finally:
        loop.forget()
