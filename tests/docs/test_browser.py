"""The page that `explain` writes, opened by a browser without a network."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import npcompile as npc

BROWSER = shutil.which("chromium") or shutil.which("google-chrome")
OPTIONS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--host-resolver-rules=MAP * ~NOTFOUND")


def noisy_sum(x):
    total = 0.0
    for i in range(x.size):
        total = total + x[i] * x[i]
    print("total", total)
    return np.sqrt(x + total)


@pytest.mark.skipif(BROWSER is None, reason="no chromium or google-chrome is installed: a system package, not one of PyPI's")
def test_it_opens(tmp_path: Path) -> None:
    page, picture = tmp_path / "page.html", tmp_path / "page.png"
    npc.explain(noisy_sum)(np.ones(100)).html(page)
    command = [str(BROWSER), *OPTIONS, f"--user-data-dir={tmp_path}", f"--screenshot={picture}", "--dump-dom", page.as_uri()]
    opened = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout
    assert "print is not captured" in opened
    assert '<td class="parallel"><pre>        total = total + x[i] * x[i]</pre></td>' in opened
    assert '<td class="break"><pre>    print("total", total)</pre></td>' in opened
    first = noisy_sum.__code__.co_firstlineno
    assert f"compiled loop (line {first})" in opened and f"Python (line {first + 4})" in opened
    assert "graph 0 drawn" in opened and "<rect" in opened
    assert picture.read_bytes()[:4] == b"\x89PNG"
