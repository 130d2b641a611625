"""How a program grows: statement by statement, each tried by running the program so far with NumPy.

What every variable is where the next line goes is then known, so that most drawn statements make sense. Statements that
raise are dropped.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tests.fuzz import user_code
from tests.fuzz.programs import NAMESPACE, Program, define
from tests.limits import TooLong, time_limit

ELEMENTS_LIMIT = 3000

Draw = Callable[[int, int], int]  # an integer between two, the first where it does not matter


class Rejected(Exception):
    """A drawn statement makes no sense where it stands."""


@dataclass
class Writer:
    """The program so far, and what its variables are at the place where the next line goes."""

    draw: Draw
    parameters: list[str] = field(default_factory=list)
    arguments: list[str] = field(default_factory=list)
    body: list[str] = field(default_factory=list)
    sizes: tuple[tuple[int, int, int], ...] = ()
    indent: int = 0
    env: dict[str, Any] = field(default_factory=dict)
    is_exact: bool = True
    breaks: bool = True
    names: int = 0
    statements: Sequence[Any] = ()  # what blocks hold
    loops: int = 0  # enclosing loops of the same function
    iterated: int = 0  # enclosing loops over a list: nothing grows inside, so that they end

    # --- choices

    def pick(self, choices: Sequence[Any]) -> Any:
        if not choices:
            raise Rejected
        return choices[self.integer(0, len(choices) - 1)]

    def integer(self, low: int, high: int) -> int:
        return self.draw(low, high)

    def chance(self, one_in: int) -> bool:
        return self.integer(1, one_in) == one_in

    def name(self) -> str:
        self.names += 1
        return f"v{self.names}"

    def arrays(self, test: Callable[[Any], bool] = lambda x: True) -> list[str]:
        return [n for n, v in self.env.items() if is_numeric(v) and test(v)]

    def array(self, test: Callable[[Any], bool] = lambda x: True) -> str:
        found = self.arrays(test)
        if not found:
            raise Rejected
        return self.pick(found[::-1])  # the latest is simplest: it makes long chains

    def numbers(self, *kinds: type) -> list[str]:
        return [n for n, v in self.env.items() if type(v) in (kinds or (int, float))]

    def value(self, expression: str) -> Any:
        """What an expression gives where the program stands."""
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                return eval(expression, {**NAMESPACE, **{k: opened(v) for k, v in self.env.items()}})
            except Exception as error:
                raise Rejected from error

    # --- growing

    def probe(self, lines: Sequence[str], round: int = 0) -> dict[str, Any] | None:
        """The local variables after the program so far and these lines; None when execution does not come there."""
        here = "    " * self.indent
        body = [*self.body, *(here + line for line in lines), f"{here}return '<probe>', locals()"]
        program = Program(tuple(self.parameters), tuple(body), tuple(self.arguments), self.sizes, True, None)
        function = define(program.source, "program", "<probe>")
        make = define(program.arguments_source, "arguments", "<probe arguments>")
        user_code.reset()
        screen = contextlib.redirect_stdout(user_code.Screen())  # type: ignore[type-var]
        with np.errstate(all="ignore"), warnings.catch_warnings(), screen, time_limit(0.5):
            warnings.simplefilter("ignore")
            result = function(*make(*self.sizes[round], round))
        return result[1] if isinstance(result, tuple) and result[:1] == ("<probe>",) else None

    def add(self, lines: Sequence[str]) -> bool:
        """Append lines that run; False when they raise or make something that programs should not hold."""
        try:
            env = self.probe(lines)
        except (Exception, TooLong):
            return False
        if env is not None:
            try:
                if not all(is_fair(v, self.env.get(k)) for k, v in env.items()):
                    return False
            except RecursionError:  # a container in itself
                return False
            self.env = env
        self.body += ["    " * self.indent + line for line in lines]
        return True


def is_numeric(value: Any) -> bool:
    """A plain array or scalar of numbers."""
    return (type(value) is np.ndarray or isinstance(value, np.generic)) and value.dtype.kind in "biufc"


def opened(value: Any) -> Any:
    """A copy that an expression under trial may change."""
    if isinstance(value, np.ndarray):
        return value.copy()
    return list(value) if isinstance(value, list) else value


def is_fair(value: Any, before: Any) -> bool:
    if value is before:
        return True
    if isinstance(value, (list, tuple)):
        return len(value) < 20 and all(is_fair(v, None) for v in value)
    if isinstance(value, dict):
        return len(value) < 20 and all(is_fair(v, None) for v in value.values())
    if isinstance(value, np.ndarray):
        return value.size <= ELEMENTS_LIMIT and value.ndim <= 5 and value.dtype.char not in "gG"
    if isinstance(value, (int, float)):
        return abs(value) < 1e6
    return True


def is_dyadic(value: Any) -> bool:
    """Are sums of these numbers exact in their type, in any order?"""
    x = np.asarray(value)
    if x.dtype.kind == "c":
        return is_dyadic(x.real) and is_dyadic(x.imag)
    if x.dtype.kind != "f":
        return True
    with np.errstate(all="ignore"):
        wide = x.astype(np.float64)
        if not np.isfinite(wide).all():
            return False
        bits = np.finfo(x.dtype).nmant
        return any((np.abs(wide * 2**s % 1).sum() == 0) and np.abs(wide * 2**s).sum() < 2 ** (bits - 3) for s in (0, 2, 6, 12))


def kind(value: Any) -> str:
    return np.asarray(value).dtype.kind
