"""One side of the gate: `python worker.py CHECKOUT` makes calls with the npcompile of that checkout.

It answers the lines of standard input, in JSON: {"name", "size", "count"} by the seconds of a call, or by why there is none. The
programs are those of the checkout that this file is in, so that both sides run the same.
"""

from __future__ import annotations

import gc
import importlib
import json
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

CLOCKS = {"wall": time.perf_counter, "cpu": time.process_time}  # cpu: of all threads of the process


def main() -> None:
    checkout, clock = Path(sys.argv[1]), CLOCKS[sys.argv[2]]
    sys.path[0] = str(checkout)
    npcompile = importlib.import_module("npcompile")
    assert npcompile.__file__
    assert Path(npcompile.__file__).parent.samefile(checkout / "npcompile"), f"{npcompile.__file__} was imported"
    sys.path[0] = str(Path(__file__).resolve().parents[2])
    import numpy as np

    from benchmarks.measure import batch_seconds
    from benchmarks.programs.families import PROGRAMS
    from benchmarks.sides import npcompile_side

    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    made: dict[tuple[str, str], Callable[[], Any]] = {}
    for line in sys.stdin:
        asked = json.loads(line)
        program, size, count = PROGRAMS[asked["name"]], asked["size"], asked["count"]
        try:
            if (program.name, size) not in made:
                made.clear()  # one at a time: large arrays
                call = npcompile_side(program.case(size), program.arguments(size))
                assert call is not None
                made[program.name, size] = call
            gc.collect()
            gc.disable()
            answer = {"seconds": batch_seconds(made[program.name, size], count, clock)}
        except Exception as error:  # noqa: BLE001  (a checkout that cannot run the program)
            answer = {"error": f"{type(error).__name__}: {error}"}
        finally:
            gc.enable()
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
