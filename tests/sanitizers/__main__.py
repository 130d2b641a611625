"""Generated code and the CPU runtime under GCC's sanitizers: `python -m tests.sanitizers 200 --seed 3`.

200 random programs of each kind and the table of kernels run with AddressSanitizer and UndefinedBehaviorSanitizer; with
`--tsan` with ThreadSanitizer. `--pytest tests/cpu` runs tests instead. The first report ends a run; its program is the
last one that was named, and `--level 3` compiles as users do.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from tests.sanitizers.environment import LIBRARIES, library_of, run


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.sanitizers", description=__doc__)
    parser.add_argument("count", type=int, nargs="?", default=20)
    parser.add_argument("--seed", default="0")
    parser.add_argument("--only", nargs="+", help="kinds of programs")
    parser.add_argument("--tsan", action="store_true")
    parser.add_argument("--level", type=int, default=0, help="of optimisation")
    parser.add_argument("--folder", type=Path, help="keeps what is compiled, for the next run")
    parser.add_argument("--pytest", nargs=argparse.REMAINDER)
    given = parser.parse_args()
    kind = "thread" if given.tsan else "address"
    if library_of(kind) is None:
        parser.error(f"the GCC of this machine has no {LIBRARIES[kind]}")
    command = ["-m", "tests.sanitizers.programs", str(given.count), "--seed", given.seed]
    command += ["--only", *given.only] if given.only else []
    if given.pytest:
        command = ["-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", *given.pytest]
    with tempfile.TemporaryDirectory() as folder:
        return run(kind, given.folder or Path(folder), *command, level=given.level)


if __name__ == "__main__":
    sys.exit(main())
