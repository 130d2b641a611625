"""NumPy's own tests, which its wheel ships, pass when their calls go through the shim."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# module -> tests left out, and the least number of calls that the shim must have captured
MODULES = {
    "numpy.lib.tests.test_shape_base": ("", 150),
    "numpy.lib.tests.test_twodim_base": ("", 40),
    "numpy.lib.tests.test_stride_tricks": ("", 60),
    "numpy.lib.tests.test_arraypad": ("", 140),
    "numpy._core.tests.test_shape_base": ("huge_list", 200),  # a list of 2**31 elements
    "numpy.linalg.tests.test_linalg": ("", 10_000),
    "numpy.fft.tests.test_pocketfft": ("", 3_000),
}


@pytest.mark.parametrize("module", MODULES)
def test_numpy_module(module: str, tmp_path: Path) -> None:
    left_out, least = MODULES[module]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.shim.through_shim", "-p", "no:cacheprovider", "-W", "ignore"]
    command += ["-k", f"not {left_out}"] if left_out else []
    # Outside this project, so that its pytest settings do not apply.
    run = subprocess.run(
        [*command, "--pyargs", module],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert run.returncode == 0, run.stdout[-3000:]
    found = re.search(r"captured calls: (\d+)", run.stdout)
    assert found and int(found[1]) >= least, run.stdout[-500:]
