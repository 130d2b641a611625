"""Many random loops: `python -m tests.native_loops 1000 --seed 3 --backend cpu`. `--first i 1` is program i alone."""

import sys

from tests.native_loops.agreement import check
from tests.native_loops.random.generate import draw_program
from tests.random_programs import run_many

if __name__ == "__main__":
    sys.exit(run_many("tests.native_loops", __doc__, draw_program, check))
