"""What a machine without a GPU, or without the extras, is told."""

from __future__ import annotations

import subprocess
import sys

import pytest

import npcompile as npc


def test_names_of_devices() -> None:
    with pytest.raises(ValueError, match="unknown device 'tpu'"), npc.device("tpu"):
        pass


def test_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cupy", None)
    with (
        pytest.raises(RuntimeError, match=r"needs CuPy and Triton.*pip install triton cupy-cuda12x"),
        npc.device("cuda"),
    ):
        pass


def test_the_backend_is_known_and_not_imported() -> None:
    program = (
        "import sys, npcompile; "
        "print('cuda' in npcompile.list_backends(), "
        "[m for m in sys.modules if m.split('.')[0] in ('cupy', 'triton') or m.startswith('npcompile.backends.cuda.')"
        " and m != 'npcompile.backends.cuda.cupy_arrays'])"  # which tells arrays of CuPy from others
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == ["True", "[]"]
