"""A graph break at every instruction of every sample function in turn changes nothing."""

import pytest

import npcompile as npc
from npcompile.compiler import compiled_function
from npcompile.tracer.capture import Break
from tests.tracer import test_breaks, test_functions, test_handled_exceptions, test_with
from tests.tracer.harness import Sample, clone, run, same_outcome

SAMPLES = {
    f"{module.__name__.rpartition('.')[2]}.{name}": test.sample
    for module in (test_functions, test_breaks, test_handled_exceptions, test_with)
    for name, test in vars(module).items()
    if hasattr(test, "sample")
}


@pytest.mark.filterwarnings("ignore:.*was compiled 8 times:RuntimeWarning", "ignore:The 'generic' unit:DeprecationWarning")
@pytest.mark.parametrize("name", SAMPLES)
def test_break_at_every_instruction(name):
    sample: Sample = SAMPLES[name]
    count = len(compiled_function(npc.compile(sample.function, backend="eager")).program.instructions)
    given = sample.arguments(0)
    theirs = run(sample.function, sample.function, clone(given))
    for index in range(count):
        compiled = npc.compile(sample.function, backend="eager")
        known = compiled_function(compiled)
        known.stops[index] = Break("forced", "", known.program.location(index))
        for _ in range(2):
            try:
                same_outcome(run(compiled, sample.function, clone(given)), theirs, ulp=64)
            except BaseException as error:
                instruction = known.program.instructions[index]
                error.add_note(f"with a break at instruction {index}, {instruction.opname}, line {instruction.line}")
                raise
