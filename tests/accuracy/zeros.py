"""Which of two zeros a minimum is, in NumPy by instruction set, and here: `python -m tests.accuracy.zeros`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import npcompile as npc

DISPATCHED: list[str] = np._core._multiarray_umath.__cpu_dispatch__  # type: ignore[attr-defined]
FORMS: dict[str, Callable[[Any], Any]] = {
    "vectors": lambda x: x.min(),
    "with gaps": lambda x: np.repeat(x, 2)[::2].min(),
    "columns": lambda x: np.stack([x, x], 1).min(0)[0],
}


def vectors() -> Iterator[np.ndarray]:
    """Vectors of 2 to 199 zeros of both signs and ones."""
    rng = np.random.default_rng(0)
    for dtype in (np.float32, np.float64):
        for length in range(2, 200):
            for share in (0.02, 0.1, 0.3, 0.9) * 10:
                x = np.where(rng.random(length) < 0.5, 0.0, -0.0).astype(dtype)
                x[rng.random(length) > share] = 1
                if len({*np.signbit(x[x == 0])}) == 2:
                    yield x


def signs(function: Callable[[Any], Any]) -> list[bool]:
    return [bool(np.signbit(function(x))) for x in vectors()]


def numpys_without(features: list[str]) -> dict[str, list[bool]]:
    """What NumPy gives without these instructions."""
    environment = {**os.environ, "NPY_DISABLE_CPU_FEATURES": " ".join(features)}
    command = [sys.executable, "-m", __spec__.name, "signs"]
    return json.loads(subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout)


def main() -> None:
    if sys.argv[1:]:
        print(json.dumps({name: signs(function) for name, function in FORMS.items()}))
        return
    npc.config.tiers = "always"
    with_all = numpys_without([])
    wide = [name for name in DISPATCHED if "512" in name or name == "X86_V4"]
    others = {"NumPy without AVX-512": numpys_without(wide), "NumPy without AVX2": numpys_without(DISPATCHED)}
    others["npcompile"] = {name: signs(npc.compile(function)) for name, function in FORMS.items()}
    for title, other in others.items():
        shares = {name: np.mean(np.not_equal(with_all[name], other[name])) for name in FORMS}
        print(f"{title}: another sign than NumPy in", ", ".join(f"{share:.2f} of {name}" for name, share in shares.items()))


if __name__ == "__main__":
    main()
