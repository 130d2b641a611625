"""What the front end does not know of a call it refuses with a reason, and nothing else comes out of it."""

from __future__ import annotations

import functools
from contextlib import suppress
from itertools import cycle, product
from typing import Any

import numpy as np
import pytest

from npcompile.numpy_shim.registry import FUNCTIONS, METHODS
from npcompile.tensor_core.loop_ir.ops import Policy
from npcompile.tracer.loop_ir.abstract import Unsupported
from npcompile.tracer.loop_ir.calls import FUNCTIONS as OF_NUMBERS
from npcompile.tracer.loop_ir.front_end import trace

OPERANDS = ("x", "1.5", "2", "(2.0, 3.0)", "None")
GIVEN = [", ".join(each) for count in range(3) for each in product(OPERANDS, repeat=count)]
GIVEN += [", ".join([*OPERANDS, *OPERANDS][first : first + count]) for count in (3, 4) for first in range(len(OPERANDS))]
compiled = functools.cache(lambda text: compile(text, __file__, "exec"))  # functions differ by what F is
CALLED = [("F({})", named) for named in {**FUNCTIONS, **OF_NUMBERS}] + [(f"x.{name}({{}})", None) for name in METHODS]


@pytest.mark.parametrize("called, named", CALLED, ids=[getattr(named, "__name__", text[2:-4]) for text, named in CALLED])
def test_any_arguments(called: str, named: object) -> None:
    for given, policy in zip(GIVEN, cycle(Policy if CALLED.index((called, named)) % 2 else reversed(Policy))):
        namespace: dict[str, Any] = {"F": named}
        exec(compiled(f"def f(x):\n    return {called.format(given)}"), namespace)
        with suppress(Unsupported):  # then the function runs another way
            trace(namespace["f"], (np.ones(3),), policy)
