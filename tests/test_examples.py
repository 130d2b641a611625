"""The examples run, check their own answers, and say what they did."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


def test_quickstart(tmp_path: Path) -> None:
    environment = os.environ | {"PYTHONPATH": str(ROOT), "NPCOMPILE_CACHE_DIR": str(tmp_path / "cache")}
    command = [sys.executable, "-W", "error", str(ROOT / "examples/quickstart.py"), "--quick"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    rows = [line.split()[0] for line in lines[1:8]]
    assert rows == ["expression", "product_sum", "softmax", "distances", "stencil", "newton", "chatty"]
    assert "Every answer has NumPy's type, dtype, shape and values." in lines
    assert "What was captured of chatty:" in lines


@pytest.fixture(scope="module")
def warm_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of all other examples: the runtime is compiled once."""
    return tmp_path_factory.mktemp("cache")


def test_gradients(tmp_path: Path, warm_cache: Path) -> None:
    environment = os.environ | {"PYTHONPATH": str(ROOT), "NPCOMPILE_CACHE_DIR": str(warm_cache)}
    command = [sys.executable, "-W", "error", str(ROOT / "examples/gradients.py")]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == "All three took the same steps."


@pytest.mark.parametrize(
    "name, end",
    [
        ("mandelbrot", "23.0% of the pixels are in the set."),
        ("heat", "Mean temperature: 0.1125 before, 0.1639 after."),
        ("options", "price 5.661, delta 0.559, vega 24.48, rho 23.49"),
        ("kmeans", "2         165.0    70.1"),
        ("ode_fit", "parameters [1.131 0.406 0.099 0.397] of [1.1 0.4 0.1 0.4]"),
    ],
)
def test_jobs(name: str, end: str, tmp_path: Path, warm_cache: Path) -> None:
    """They compare their answers with plain Python's."""
    environment = os.environ | {"PYTHONPATH": str(ROOT), "NPCOMPILE_CACHE_DIR": str(warm_cache)}
    command = [sys.executable, "-W", "error", str(ROOT / f"examples/{name}.py"), "--quick"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == end
