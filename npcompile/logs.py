"""What the compiler is doing, for those who want to watch: `set_logs` and the environment variable NPCOMPILE_LOGS."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import logging

TOPICS = ("graph_code", "graph_breaks", "guards", "recompiles", "output_code", "loops")


@cache
def _handler() -> logging.Handler:
    import logging  # 2 ms, for those who watch

    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("[%(name)s] %(message)s"))
    return handler


def set_logs(
    *,
    graph_code: bool = False,
    graph_breaks: bool = False,
    guards: bool = False,
    recompiles: bool = False,
    output_code: bool = False,
    loops: bool = False,
) -> None:
    """Choose what is written to standard error while functions are compiled; what is not named is silent.

    `graph_code`: each captured graph. `graph_breaks`: why a graph ended, where, and what to do. `guards`: what each
    compiled program assumes. `recompiles`: each further compilation of the same place. `output_code`: generated C.
    `loops`: why a loop is not a native program of its own; else what was done to it, and what was not, and why.

    The environment variable NPCOMPILE_LOGS=graph_breaks,recompiles does the same from outside.

    >>> set_logs(graph_breaks=True)
    >>> set_logs()
    """
    import logging

    chosen = dict(zip(TOPICS, (graph_code, graph_breaks, guards, recompiles, output_code, loops)))
    for topic, is_wanted in chosen.items():
        logger = logging.getLogger(f"npcompile.{topic}")
        logger.setLevel(logging.INFO if is_wanted else logging.WARNING)
        if is_wanted and _handler() not in logger.handlers:
            logger.addHandler(_handler())


def set_logs_from_environment() -> None:
    """Read NPCOMPILE_LOGS. ValueError names the topics when one is unknown."""
    wanted = [t for t in os.environ.get("NPCOMPILE_LOGS", "").replace(" ", "").split(",") if t]
    unknown = [t for t in wanted if t not in TOPICS]
    if unknown:
        raise ValueError(f"NPCOMPILE_LOGS names {', '.join(unknown)}; the topics are {', '.join(TOPICS)}")
    if wanted:
        set_logs(**dict.fromkeys(wanted, True))


def hint(message: str) -> None:
    """Tell users by the logger `npcompile.hints` what they may do: on standard error where the program sets up no logging."""
    import logging

    logging.getLogger("npcompile.hints").warning(message)


def log(topic: str, message: Callable[[], str]) -> None:
    """Write a message, which is made only when somebody watches its topic."""
    logging = sys.modules.get("logging")  # nobody has set a level or a handler before its import
    if logging is None:
        return
    logger = logging.getLogger(f"npcompile.{topic}")
    if logger.isEnabledFor(logging.INFO):
        logger.info(message())
