"""Sizes that are computed from others when the program is called, in kernels: minima, remainders, ends of slices."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import npcompile as npc
from npcompile.compiler import compiled_function
from tests.cuda.there import There, there  # noqa: F401  (a fixture)

PROGRAMS: dict[str, Callable[..., Any]] = {
    "first ten": lambda x: x[:10] * 2,
    "without ten": lambda x: x[10:] - x[:-10],
    "middle": lambda x: x[2:-2] * x[4:],
    "backwards": lambda x: x[9:2:-1] + 1,
    "remainder": lambda x: x[len(x) % 3 :].sum() + np.ones(len(x) % 5),
    "least": lambda x: (x * min(len(x), 10)).sum() + np.arange(min(len(x), 20)) * abs(len(x) - 9),
    "comparison": lambda x: x * (len(x) > 9) + (len(x) == 12),
    "columns": lambda x: x[: len(x) // 2 * 2].reshape(-1, 2).sum(axis=1),
    "branch": lambda x: (x if x.sum() > 8 else x * 2)[: len(x) // 2] + 1,
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_sizes_of_sizes(name: str, there: There) -> None:  # noqa: F811
    function = PROGRAMS[name]
    compiled = npc.compile(function, dynamic=True)
    for n in (12, 7, 30, 5):
        x = np.linspace(0.5, 2.0, n)
        np.testing.assert_allclose(there.get(compiled(there.put(x))), function(x), rtol=1e-12)
    assert len(compiled_function(compiled).graphs) == 1


TEXTS_OF_SIZES = """
import numpy as np
from npcompile.tensor_core import Builder, TensorMeta
from tests.cuda.corpus import plans_of
builder = Builder()
shape = tuple(builder.env.symbol(name, 10, at_least=2) for name in ("rows", "m", "columns"))
x = builder.input(TensorMeta(shape, np.dtype("f8")))
graph = builder.finish([builder.apply("sin", x), builder.apply("reduce", x, reducer="add", axes=(0, 1, 2))])
print([(program.text, program.parameters) for plan in plans_of(graph) for program in plan.programs])
"""


def test_texts_are_the_same_in_every_process() -> None:
    """Else nothing that a process before has compiled is found again."""
    made = set()
    for seed in ("0", "1", "2"):
        environment = os.environ | {"PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)}
        made.add(subprocess.run([sys.executable, "-c", TEXTS_OF_SIZES], check=True, capture_output=True, env=environment).stdout)
    assert len(made) == 1 and b"size_columns" in made.pop()
