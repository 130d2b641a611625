"""Many drawn calls of each captured form: `python -m tests.shim.keywords 500 --seed 7 add ndarray.sum`.

Call `i` of an entry and a seed is the same in every run.
"""

from __future__ import annotations

import argparse
import collections
import random
import sys
import time

from tests.shim.keywords.calls import draw_call, entries
from tests.shim.keywords.outcomes import check_call


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.shim.keywords", description=__doc__)
    parser.add_argument("calls", type=int, help="how many of each")
    parser.add_argument("names", nargs="*", help="entries: all, unless given")
    parser.add_argument("--seed", default="0")
    parser.add_argument("--show", type=int, default=3, help="how many differences of an entry to show")
    given = parser.parse_args()
    start, different, captured = time.perf_counter(), collections.Counter(), collections.Counter()
    for name in given.names or entries():
        for i in range(given.calls):
            draw = random.Random(f"{given.seed} {name} {i}")
            call = draw_call(entries()[name], draw.randint)
            symbolic, other = draw.random() < 0.4, draw.choice([1, -1, 2, 5])
            try:
                captured[name] += check_call(call, symbolic, other)
            except AssertionError as difference:
                different[name] += 1
                if different[name] <= given.show:
                    print(f"--- {i}{' symbolic' if symbolic else ''}: {call}\n    {str(difference)[:500]}", flush=True)
    never = [name for name in given.names or entries() if not captured[name]]
    seconds = time.perf_counter() - start
    count = len(given.names or entries())
    print(f"{count} entries, {sum(captured.values())} of {given.calls * count} captured, {seconds:.0f} s")
    print(f"never captured: {never}\ndifferent: {dict(different)}")
    return int(bool(different))


if __name__ == "__main__":
    sys.exit(main())
