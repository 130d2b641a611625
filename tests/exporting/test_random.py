"""Random functions, exported: the CPU's programs and C99 give Python's results, errors, and arguments.

`python -m tests.exporting.test_random N` runs N of them; `... N FIRST typed` those over arrays of any dtypes, `... arrays` those
of statements about whole arrays.
"""

from __future__ import annotations

import copy
import subprocess
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import npcompile as npc
from npcompile.backends.c99 import in_wheels, wheel
from npcompile.backends.c99.project import Project
from npcompile.backends.cpu.compiler import candidates
from tests.exporting.functions import same
from tests.loop_ir import generate, test_random_arrays
from tests.loop_ir.generate import TYPED

STRICT = ("-std=c99", "-pedantic", "-Wall", "-Werror", "-O1", "-fPIC", "-shared", "-ffp-contract=off")
ARRAYS = "arrays "  # seeds of functions with statements about whole arrays


def random_function(seed: str) -> tuple[Callable[..., Any], str]:
    return (test_random_arrays if seed.startswith(ARRAYS) else generate).random_function(seed)


def random_cases(seed: str) -> list[tuple[Any, ...]]:
    if seed.startswith(ARRAYS):
        return [test_random_arrays.random_arguments(f"{seed} {k}") for k in range(5)]
    return generate.random_cases(seed)


def near(a: Any, b: Any) -> bool:
    """Equal but for the last bits: of products of vectors and matrices, which BLAS has its own of."""
    if isinstance(a, tuple) and type(a) is type(b):
        return len(a) == len(b) and all(map(near, a, b))
    if isinstance(a, np.ndarray) and type(a) is type(b):
        return (a.dtype, a.shape, a.strides) == (b.dtype, b.shape, b.strides) and np.allclose(a, b, 1e-9, 0, equal_nan=True)
    return type(a) is type(b) and bool(np.isclose(a, b, 1e-9, 0, equal_nan=True))


def function_of_c(exported: npc.Exported, folder: Path) -> Callable[..., Any]:
    """What a wheel would have, of one library."""
    of = exported._described("f")
    made = wheel.Wheel(Project(of, tells=True), "1.0")
    source, path = folder / "f.c", folder / "f.so"
    source.write_text(made.source())
    command = [*next(candidates()), *STRICT, str(source), "-o", str(path), "-lm"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    names: dict[str, Any] = {}
    lines = made.module([]).partition("_function =")[0].split("\n")
    exec("\n".join(line for line in lines if "import" not in line), names)
    return in_wheels.Function(str(path), "f", names["PARAMETERS"], names["RESULTS"], names["FORMS"], names["ERRORS"])


def happened(f: Callable[..., Any], arguments: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]]:
    """The result, or the error, and the arguments after it."""
    try:
        return f(*arguments), arguments
    except Exception as error:
        return error, arguments


def check(
    f: Callable[..., Any], python: Callable[..., Any], arguments: tuple[Any, ...], alike: Callable[..., bool] = same
) -> str:
    """What came of a call."""
    with np.errstate(all="ignore"):
        ours, after = happened(f, copy.deepcopy(arguments))
        theirs, wanted = happened(python, copy.deepcopy(arguments))
    if not isinstance(ours, Exception):
        assert alike(ours, theirs), (ours, theirs)
        assert alike(after, wanted), (after, wanted)
        return "result"
    assert same(after, copy.deepcopy(arguments)), (after, arguments)
    if isinstance(ours, npc.ExportError | in_wheels.ExportError):
        return "left to Python"
    if isinstance(ours, ValueError) and "shares memory" in str(ours):
        return "shared memory"
    assert type(ours) is type(theirs), (repr(ours), repr(theirs))
    return "error"


def agrees(seed: str, in_c: bool) -> Counter[str]:
    """Check one function."""
    function, _ = random_function(seed)
    cases, found = random_cases(seed), Counter[str]()
    try:
        exported = npc.export(function, *cases[0])
        with tempfile.TemporaryDirectory() as folder:
            compiled = function_of_c(exported, Path(folder)) if in_c else exported
            for arguments in cases:
                try:
                    found[check(compiled, function, arguments, near if seed.startswith(ARRAYS) else same)] += 1
                except (TypeError, ValueError) as error:
                    found[str(error)] += 1
    except npc.ExportError as error:
        return Counter([str(error).partition(" (")[0].partition(": ")[2]])
    except npc.backends.loop_ir.target.Unsupported as error:  # type: ignore[attr-defined]
        return Counter([error.reason])
    return found


@pytest.mark.parametrize("seed", [*map(str, range(12)), *(f"{TYPED}{k}" for k in range(6)), *(f"{ARRAYS}{k}" for k in range(6))])
@pytest.mark.parametrize("in_c", [False, True])
def test_random_functions_agree(seed: str, in_c: bool) -> None:
    if in_c and not any(candidates()):
        pytest.skip("there is no compiler")
    agrees(seed, in_c)


def main(count: int, first: int, prefix: str) -> int:
    found, wrong = Counter[str](), 0
    for k in range(first, first + count):
        for in_c in (False, True):
            try:
                found += agrees(f"{prefix}{k}", in_c)
            except Exception:
                wrong += 1
                print(f"seed {prefix}{k}, in C: {in_c}\n{random_function(f'{prefix}{k}')[1]}\n{traceback.format_exc()}")
    for what, times in found.most_common():
        print(f"{times:6} {what}")
    return wrong


if __name__ == "__main__":
    arguments = sys.argv[1:]
    first = int(arguments[1]) if len(arguments) > 1 else 0
    prefix = next((each for each in (TYPED, ARRAYS) if each.strip() in arguments), "")
    sys.exit(main(int(arguments[0]), first, prefix) > 0)
