"""A graph break at every instruction of every sample function in turn changes nothing.

Here a few instructions of each function are chosen, others for each function and by each Python;
NPCOMPILE_FORCED_BREAKS=all takes all of them.
"""

import functools
import os
import random
import sys
from collections.abc import Callable
from typing import Any

import pytest

import npcompile as npc
from npcompile.compiler import compiled_function
from npcompile.tracer.bytecode.decode import decode
from npcompile.tracer.restarts import Break
from tests.tracer.breaks import test_breaks
from tests.tracer.bytecode.constructs import all_constructs
from tests.tracer.errors import test_handled_exceptions
from tests.tracer.harness import clone, run, same_outcome
from tests.tracer.python import test_functions, test_with

CHOSEN = os.environ.get("NPCOMPILE_FORCED_BREAKS", "5")  # instructions of each function
SAMPLES: dict[str, tuple[Callable[..., Any], Callable[[], list[Any]]]] = {  # function, and what makes its arguments
    f"{module.__name__.rpartition('.')[2]}.{name}": (sample.function, functools.partial(clone, sample.arguments(0)))
    for module in (test_functions, test_breaks, test_handled_exceptions, test_with)
    for name, test in vars(module).items()
    if (sample := getattr(test, "sample", None)) is not None
}
SAMPLES |= {name: (c.sample.function, functools.partial(c.arguments, 0)) for name, c in all_constructs().items()}


@pytest.mark.filterwarnings("ignore:.*was compiled .* times:RuntimeWarning", "ignore:The 'generic' unit:DeprecationWarning")
@pytest.mark.parametrize("name", SAMPLES)
def test_break_at_every_instruction(name):
    function, arguments = SAMPLES[name]
    whole = compiled_function(npc.compile(function, backend="eager"))
    program = decode(function.__code__)
    count = len(program.instructions) if whole is not None else 0
    theirs = run(function, function, arguments())
    indices = range(count)
    if CHOSEN != "all" and count > int(CHOSEN):
        indices = sorted(random.Random(f"{name} {sys.version_info[:2]}").sample(indices, int(CHOSEN)))
    for index in indices:
        compiled = npc.compile(function, backend="eager")
        known = compiled_function(compiled)
        known.stops[index] = Break("forced", "", program.location(index))
        for _ in range(2):
            try:
                same_outcome(run(compiled, function, arguments()), theirs, ulp=64)
            except BaseException as error:
                instruction = known.program.instructions[index]
                error.add_note(f"with a break at instruction {index}, {instruction.opname}, line {instruction.line}")
                raise
