"""`npcompile.counters`: what happened in this process, in numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from npcompile.tensor_core.events import BREAKS, COUNTS


def counters(since: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """What npcompile has done in this process, of all functions and threads: a new dict, whose keys stay what they are.

    Parameters
    ----------
    since
        What an earlier call gave: only what happened after that is counted. None: all since npcompile was imported.

    Returns
    -------
    dict
        ==================== ========================================================================================
        key                  number of
        ==================== ========================================================================================
        functions            functions whose code was read, each at its first call; again after `reset`
        captures             attempts to make a program of a function, or of what follows a graph break in it
        capture_seconds      seconds of these, with all that they waited for, C compilers too
        variants             programs that were made and kept, each for other kinds of arguments
        recompiles           captures at places that had a program, which did not fit
        graphs               graphs that were compiled
        kernels              kernels in these graphs
        loop_programs        programs of loops that were compiled from bytecode
        units_compiled       libraries that the C compiler made
        c_compiler_seconds   seconds of its processes, which may run at the same time
        units_from_disk      libraries that were found in the cache on disk
        units_in_memory      libraries that were there already when something else needed the same
        side_exits           times that a loop's program was left for Python, at a line that it has no form for
        steps_aside          decisions that a function runs as it is, for some or all kinds of arguments
        breaks               a dict: why graphs ended before their function did -> how many graphs
        ==================== ========================================================================================

    Raises
    ------
    ValueError
        `since` has other keys than `counters()` gives.

    Notes
    -----
    Calls of what is compiled are not counted, so counting costs them nothing. In a forked process numbers go on from those of its
    parent.

    Examples
    --------
    >>> import numpy as np, npcompile as npc
    >>> before = npc.counters()
    >>> npc.compile(lambda x: np.exp(x) + 1)(np.zeros(3))
    array([2., 2., 2.])
    >>> npc.counters(since=before)["graphs"]
    1
    """
    found: dict[str, Any] = {**COUNTS, "breaks": dict(BREAKS)}
    if since is None:
        return found
    if not isinstance(since, Mapping) or since.keys() != found.keys():
        raise ValueError(f"counters(since=...) takes what counters() gave before, not {since!r}")
    grown = {reason: number - since["breaks"].get(reason, 0) for reason, number in BREAKS.items()}
    numbers: dict[str, Any] = {name: number - since[name] for name, number in COUNTS.items()}
    return {**numbers, "breaks": {reason: number for reason, number in grown.items() if number}}
