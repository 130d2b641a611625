"""A test whose package is missing is skipped on a user's machine, and fails in CI, where a skip would hide that it never runs."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("triton", "nvidia.cuda_nvrtc", "pandas", "jax")
FILES = ("tests/cuda/test_forms.py", "tests/loop_ir/test_cuda_text.py", "tests/tracer/calls/test_one_odd_call.py")
SINGLE = (
    "tests/ops/test_one_row.py::test_it_is_printed_for_a_device[of all]",
    "tests/ops/test_one_row.py::test_it_is_in_loops_of_a_device",
    "tests/gradients/test_programs.py::test_gradient_is_that_of_jax[statistics-ridge]",
)


@pytest.mark.parametrize("ci", [False, True])
def test_without_its_package(ci: bool, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(f"import sys; sys.modules.update(dict.fromkeys({PACKAGES}))")
    environment = {name: value for name, value in os.environ.items() if name not in ("CI", "PYTEST_ADDOPTS")}
    environment |= {"PYTHONPATH": os.pathsep.join((str(tmp_path), str(ROOT)))} | ({"CI": "true"} if ci else {})
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--continue-on-collection-errors", *FILES, *SINGLE]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300, check=False)
    said = {what: int(count) for count, what in re.findall(r"(\d+) (\w+)", done.stdout.splitlines()[-1].partition(" in ")[0])}
    assert said == ({"failed": len(SINGLE), "errors": len(FILES)} if ci else {"skipped": len(FILES) + len(SINGLE)}), done.stdout
    assert bool(done.returncode) == ci
