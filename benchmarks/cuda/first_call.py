"""What a process pays for its first kernels: `python -m benchmarks.cuda.first_call` in a new process prints seconds.

The arrays are on the device before the clock starts: making CUDA's context is the driver's time, and every library's.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time

from benchmarks.processes import ROOT


def main() -> None:
    import cupy
    import numpy as np

    import npcompile as npc

    x = cupy.arange(1000, dtype=np.float32)
    stream = cupy.cuda.get_current_stream()
    stream.synchronize()
    seconds = []
    for function in (
        lambda x: np.maximum(x + 1, 0) * 2,
        lambda x: np.sqrt(x + 3) - x,
        lambda x: np.exp(-x) * x + 7,
    ):
        compiled = npc.compile(function)
        began = time.perf_counter()
        compiled(x)
        stream.synchronize()
        seconds.append(time.perf_counter() - began)
    print(json.dumps(seconds))


def in_new_processes() -> list[tuple[str, list[float]]]:
    """Seconds of three first calls: with an empty disk cache, then with what the first process left there."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "NPCOMPILE_CACHE_DIR": folder, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])}
        command = [sys.executable, "-m", "benchmarks.cuda.first_call"]
        found = []
        environment.pop("PYTHONDONTWRITEBYTECODE", None)  # of installed packages Python has compiled modules
        subprocess.run(
            command, env=environment | {"NPCOMPILE_CACHE_DIR": folder + "/other"}, cwd=ROOT, check=True, stdout=subprocess.DEVNULL
        )
        for name in ("empty disk cache", "from the disk cache"):
            done = subprocess.run(command, env=environment, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
            found.append((name, json.loads(done.stdout)))
        return found


if __name__ == "__main__":
    main()
