"""Every public name of NumPy's random numbers is drawn in the graph, or there is a reason why it ends one."""

from __future__ import annotations

import copy
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

import npcompile as npc
from npcompile.compiler import compiled_function
from npcompile.tracer.random_state import is_same_state, state_of
from tests.tracer.harness import check, compare_any

V = np.array([0.5, 1.5, 2.5])
COVARIANCE = [[2.0, 0.5], [0.5, 1.0]]
# Arguments beside `size`; names that are not here need none.
ARGUMENTS: dict[str, tuple[Any, ...]] = {
    "beta": (0.4, 0.6), "binomial": (10, 0.3), "bytes": (5,), "chisquare": (3,), "choice": (10,), "dirichlet": ((1.0, 2.0, 3.0),),
    "f": (2.0, 5.0), "gamma": (2.0,), "geometric": (0.2,), "hypergeometric": (5, 6, 7), "integers": (10,), "logseries": (0.6,),
    "multinomial": (20, [0.2, 0.3, 0.5]), "multivariate_hypergeometric": ([3, 4, 5], 6),
    "multivariate_normal": ([0.0, 1.0], COVARIANCE), "negative_binomial": (5, 0.5), "noncentral_chisquare": (3.0, 1.0),
    "noncentral_f": (3.0, 5.0, 1.0), "pareto": (2.0,), "permutation": (7,), "permuted": (V,), "poisson": (3.0,), "power": (2.0,),
    "rand": (4,), "randint": (10,), "randn": (4,), "random_integers": (10,), "shuffle": (V.copy(),), "spawn": (2,),
    "standard_gamma": (0.7,), "standard_t": (4.0,), "triangular": (-1.0, 0.5, 2.0), "vonmises": (0.5, 1.0), "wald": (1.0, 2.0),
    "weibull": (1.5,), "zipf": (2.5,), "seed": (3,), "set_state": (np.random.RandomState(1).get_state(),),
    "SFC64": (1,), "PCG64": (1,), "PCG64DXSM": (1,), "Philox": (1,), "MT19937": (1,), "RandomState": (1,), "default_rng": (1,),
    "Generator": (np.random.PCG64(1),), "SeedSequence": (1,),
}  # fmt: skip
WITHOUT_SIZE = {
    *("bytes", "permutation", "permuted", "shuffle", "spawn", "rand", "randn", "seed", "set_state", "get_state"),
    *("SFC64", "PCG64", "PCG64DXSM", "Philox", "MT19937", "RandomState", "default_rng", "Generator", "SeedSequence"),
}
ENDS_A_GRAPH = {
    "spawn": "gives generators of its own",
    "get_state": "the state is read that draws are still to advance",
    "set_state": "the state is set that is to be saved before the draws",
    "random_integers": "is deprecated, and says so on the user's line",
    "Generator": "of a bit generator from outside, whose state nobody saves",
    "SeedSequence": "is no generator",
}
ABSTRACT = {"BitGenerator"}


def names(owner: Any) -> list[str]:
    public = np.random.__all__ if owner is np.random else [n for n in dir(owner) if n[0] != "_"]
    return [n for n in public if callable(getattr(owner, n)) and n not in ABSTRACT]


def breaks_of(function: Any, owner: Any, state: Any) -> int:
    """How often the graph of `function(owner, x)` is broken. Its results, and the states of generators, are NumPy's."""
    compiled = npc.compile(function, backend="eager")
    ours, theirs = (owner if owner is np.random else copy.deepcopy(owner) for _ in range(2))
    for _ in range(2):
        before = state(ours)
        found, after = compiled(ours, V), state(ours)
        if owner is np.random:
            np.random.set_state(before)
        wanted = function(theirs, V)
        compare_any(found, wanted, 0)
        assert is_same_state(after, state(theirs))
    known = compiled_function(compiled)
    assert known is not None
    return len(known.breaks)


def check_name(owner: Any, name: str, state: Any = state_of) -> None:
    keywords = {} if name in WITHOUT_SIZE else {"size": 4}
    arguments = ARGUMENTS.get(name, ())

    if owner is np.random:

        def draw(_, x):
            return getattr(np.random, name)(*arguments, **keywords), x + 1
    else:

        def draw(generator, x):
            return getattr(generator, name)(*arguments, **keywords), x + 1

    breaks = breaks_of(draw, owner, state)
    assert bool(breaks) == (name in ENDS_A_GRAPH), ENDS_A_GRAPH.get(name)


@pytest.mark.parametrize("name", names(np.random.default_rng(0)))
def test_generator(name: str) -> None:
    check_name(np.random.default_rng(0), name)


@pytest.mark.filterwarnings("ignore:This function is deprecated")
@pytest.mark.parametrize("name", names(np.random.RandomState(0)))
def test_random_state(name: str) -> None:
    check_name(np.random.RandomState(0), name)


@pytest.mark.filterwarnings("ignore:This function is deprecated")
@pytest.mark.parametrize("name", names(np.random))
def test_function_of_the_module(name: str) -> None:
    before = np.random.get_state()
    np.random.seed(5)
    try:
        check_name(np.random, name, lambda _: np.random.get_state(legacy=False))
    finally:
        np.random.set_state(before)


@pytest.mark.parametrize("kind", [np.random.default_rng, np.random.RandomState])
@pytest.mark.parametrize("valid", ["warn", "ignore", "raise"])
@pytest.mark.parametrize("covariance", [COVARIANCE, [[1.0, 2.0], [2.0, 1.0]]])
def test_a_covariance_that_is_none_is_reported_on_the_users_line(kind: Any, valid: str, covariance: list[list[float]]) -> None:
    def draw(rng, mean, covariance):
        return rng.multivariate_normal(mean, covariance, 3, check_valid=valid) + 1

    arrays = np.zeros(2), np.array(covariance)
    ours, theirs = kind(1), kind(1)
    compiled = npc.compile(draw, backend="eager")
    compiled(kind(1), np.zeros(2), np.eye(2))
    with pytest.warns() if valid == "warn" and covariance is not COVARIANCE else nullcontext() as reported:
        found = outcome(compiled, ours, *arrays)
    with pytest.warns() if reported is not None else nullcontext() as expected:
        wanted = outcome(draw, theirs, *arrays)
    compare_any(found, wanted, 0)
    assert is_same_state(state_of(ours), state_of(theirs))
    if expected is not None:
        assert [(str(w.message), w.lineno) for w in reported] == [(str(w.message), w.lineno) for w in expected]


def outcome(function: Any, *arguments: Any) -> Any:
    try:
        return function(*arguments)
    except ValueError as error:
        return str(error)


@check(lambda round: round, lambda round: np.zeros(2 + round), lambda round: np.eye(2 + round), breaks=0)
def test_dimensions_of_normal_numbers(seed, mean, covariance):
    rng = np.random.default_rng(seed)
    return rng.multivariate_normal(mean, covariance, (3, 2)).sum(0)


@check()
def test_only_one_bit_generator_takes_another_seed(x):
    rng = np.random.RandomState(np.random.PCG64(0))
    state = rng.get_state(legacy=False)["state"]["state"]
    try:
        rng.seed(1234)
    except TypeError as error:
        return x + 1, str(error), state % 1000
