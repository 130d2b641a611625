"""NumPy's own tests pass when each test function is compiled: decorating a function never changes what it does.

Some modules run each time, on the eager backend or as generated C; NPCOMPILE_NUMPY_TESTS=all runs all of them:
`NPCOMPILE_NUMPY_TESTS=all python -m pytest tests/numpy_compiled`.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.numpy_compiled.modules import MODULES, ON_CPU

ROOT = Path(__file__).resolve().parents[2]
TAKES_ALL = os.environ.get("NPCOMPILE_NUMPY_TESTS") == "all"
RUNS = [("eager", name) for name, module in MODULES.items() if TAKES_ALL or module.is_quick and name not in ON_CPU]
RUNS += [("cpu", name) for name in ON_CPU]


@pytest.mark.parametrize(("backend", "name"), RUNS)
def test_what_fails_is_listed(backend: str, name: str, tmp_path: Path) -> None:
    module = MODULES[name]
    left_out = " and ".join(f"not {test}" for test in module.left_out)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-rf",
        "--tb=short",
        "--assert=plain",
        "-W",
        "ignore",
        "-k",
        left_out,
        "--pyargs",
        name,
    ]
    command += ["-p", "tests.numpy_compiled.compiled_tests", "-p", "no:cacheprovider", f"--npcompile-backend={backend}"]
    # Outside this project, so that its pytest settings do not apply.
    run = subprocess.run(
        command,
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=3600 if TAKES_ALL else 600,
        check=False,
    )
    failed = {re.sub(r"\[.*", "", test) for test in re.findall(r"^FAILED \S*?::(\S+)", run.stdout, re.MULTILINE)}
    assert run.returncode in (0, 1) and not failed - module.fails.keys(), run.stdout[-5000:]
    if np.__version__.startswith("2.4."):  # those of other versions may differ
        assert failed == module.fails.keys(), f"pass now, so they leave the list: {module.fails.keys() - failed}"
    found = re.search(r"compiled tests: (\d+), graphs: (\d+)", run.stdout)
    assert found and int(found[2]) >= module.graphs, run.stdout[-500:]
