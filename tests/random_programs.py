"""How random programs are run: many by a command, a fixed few in a test."""

from __future__ import annotations

import argparse
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import npcompile as npc
from tests.limits import TooLong

Draw = Callable[[int, int], int]  # an integer from `low` to `high`
Check = Callable[[Any, str], None]  # of a program on a backend: raises where it differs


@dataclass(frozen=True)
class Program:
    """A function `f`, as text."""

    text: str
    arguments: str = ""

    def __str__(self) -> str:
        return self.text

    @property
    def function(self) -> Callable:
        names: dict[str, Any] = {"np": np, "npc": npc, "GLOBAL": 0.75}
        exec(compile(self.text, "<random program>", "exec"), names)
        return names["f"]


class Choices:
    """What a random program is made of, one of several each time."""

    def __init__(self, draw: Draw):
        self.draw = draw

    def pick(self, options: Sequence[Any]) -> Any:
        return options[self.draw(0, len(options) - 1)]

    def weighted(self, *options: tuple[int, Callable[[], str]]) -> str:
        """What one of the functions gives. Each has as many chances as the number before it."""
        left = self.draw(0, sum(chances for chances, _ in options) - 1)
        return next(make for chances, make in options if (left := left - chances) < 0)()


def run_many(command: str, description: str | None, draw_program: Callable[[Draw], Any], check: Check) -> int:
    """`python -m COMMAND PROGRAMS`: what differs is printed. 1 if something does."""
    parser = argparse.ArgumentParser(prog=f"python -m {command}", description=description)
    parser.add_argument("programs", type=int)
    parser.add_argument("--seed", default="0")
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--backend", default="eager")
    options = parser.parse_args()
    different = 0
    npc.config.internal_errors = "raise"
    for i in range(options.first, options.first + options.programs):
        program = draw_program(random.Random(f"{options.seed} {i}").randint)
        try:
            check(program, options.backend)
        except (Exception, TooLong) as error:
            different += 1
            print(f"--- {i}: {type(error).__name__}: {str(error)[:300]}\n{program}{program.arguments}", flush=True)
    print(f"{options.programs} programs, {different} different")
    return int(different > 0)


def check_examples(draw_program: Callable[[Draw], Any], check: Check, backend: str, count: int) -> None:
    """The same programs every time; hypothesis finds the smallest that differs."""

    @st.composite
    def programs(draw: st.DrawFn) -> Any:
        return draw_program(lambda low, high: draw(st.integers(low, high)))

    @settings(max_examples=count, derandomize=True, database=None, deadline=None, suppress_health_check=list(HealthCheck))
    @given(programs())
    def agrees(program: Any) -> None:
        check(program, backend)

    agrees()
