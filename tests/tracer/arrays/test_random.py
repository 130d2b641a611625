"""Random numbers in compiled functions are NumPy's: the same stream, and the generators' states afterwards."""

from __future__ import annotations

import copy
import threading
import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import npcompile as npc
from npcompile.compiler import compiled_function
from npcompile.tracer.random_state import Memory, Repetition, is_same_state, place_of_normal, state_of
from tests.tracer.harness import compare_any

BIT_GENERATORS = [np.random.MT19937, np.random.PCG64, np.random.PCG64DXSM, np.random.Philox, np.random.SFC64]
V = np.array([0.5, 1.5, 2.5])

# (method, arguments, keywords), of both kinds of generators.
SHARED: list[tuple[str, tuple, dict[str, Any]]] = [
    *((name, arguments, {}) for name, *more in [
        ("standard_normal",), ("standard_exponential",), ("standard_cauchy",), ("random",),
        ("normal",), ("normal", 1.0, 2.0), ("normal", V, 0.5), ("uniform",), ("uniform", -1.0, V), ("exponential", V),
        ("standard_gamma", 0.7), ("standard_gamma", V), ("gamma", 2.0, 3.0), ("beta", 0.4, V), ("chisquare", 3), ("f", 2.0, 5.0),
        ("gumbel", 1.0, V), ("laplace", 0.0, 2.0), ("logistic", V), ("lognormal", 0.0, 0.5), ("noncentral_chisquare", 3.0, V),
        ("noncentral_f", 3.0, 5.0, 1.0), ("pareto", V), ("power", 2.0), ("rayleigh", V), ("standard_t", 4.0),
        ("triangular", -1.0, 0.5, 2.0), ("vonmises", 0.5, V), ("wald", V, 2.0), ("weibull", 1.5),
        ("binomial", 10, 0.3), ("binomial", 10, V / 3), ("geometric", 0.2), ("hypergeometric", 5, 6, 7), ("logseries", 0.6),
        ("negative_binomial", 5, 0.5), ("poisson", 3.0), ("poisson", V), ("zipf", 2.5),
        ("multinomial", 20, [0.2, 0.3, 0.5]), ("dirichlet", (1.0, 2.0, 3.0)),
    ] for arguments in [tuple(more)]),
]  # fmt: skip
SIZES: list[dict[str, Any]] = [
    {},
    {"size": 3},
    {"size": (2, 3)},
    {"size": (0, 3)},
    {"size": [4, 3]},
    {"size": ()},
    {"size": None},
]
OF_GENERATOR: list[tuple[str, tuple, dict[str, Any]]] = [
    *(("random", (), k) for k in [{"size": 4, "dtype": np.float32}, {"dtype": np.float32}, {"size": (2, 2), "dtype": "f8"}]),
    ("standard_normal", ((3, 2), np.float32), {}),
    ("standard_exponential", (5,), {"method": "inv"}),
    ("standard_exponential", (5, "f4"), {}),
    ("standard_gamma", (V, (2, 3)), {"dtype": np.float32}),
    *(("integers", a, k) for a in [(10,), (-3, 5), (np.array([5, 10, 200]),)]
      for k in [{}, {"size": 3}, {"size": (2, 3), "dtype": np.int16}, {"dtype": np.uint8, "endpoint": True}]),
    ("integers", (0, 2), {"size": 5, "dtype": bool}),
    ("integers", (-(2**63), 2**63), {"size": 5}),
    *(("choice", a, k) for a in [(10,), ([3, 1, 4, 1, 5],), (np.arange(12.0).reshape(4, 3),)]
      for k in [{}, {"size": 3}, {"size": (2, 2)}, {"size": 3, "replace": False}, {"size": 2, "replace": False, "shuffle": 0}]),
    ("choice", (3, 4), {"p": [0.1, 0.2, 0.7]}),
    ("choice", (V, 4), {"p": np.array([0.1, 0.2, 0.7])}),
    ("choice", (np.arange(6).reshape(2, 3), 2), {"axis": 1}),
    *(("permutation", (x,), {}) for x in (7, V, [1, 2, 3], np.arange(12).reshape(4, 3))),
    ("permutation", (np.arange(12).reshape(4, 3),), {"axis": 1}),
    ("permuted", (np.arange(12).reshape(4, 3),), {"axis": 1}),
    ("permuted", (V,), {}),
    ("multivariate_hypergeometric", ([3, 4, 5], 6), {"size": 3}),
    ("multivariate_normal", ([0.0, 1.0], [[2.0, 0.5], [0.5, 1.0]], 4), {}),
    ("bytes", (5,), {}),
]  # fmt: skip
OF_RANDOM_STATE: list[tuple[str, tuple, dict[str, Any]]] = [
    *(("rand", a, {}) for a in [(), (3,), (2, 3)]),
    *(("randn", a, {}) for a in [(), (3,), (2, 3)]),
    *(("randint", a, k) for a in [(10,), (-3, 5)] for k in [{}, {"size": 3}, {"size": (2, 3), "dtype": np.int16}]),
    ("random_sample", (4,), {}),
    ("tomaxint", (4,), {}),
    ("choice", (10, 4, False), {}),
    ("choice", (V, (2, 2)), {"p": [0.1, 0.2, 0.7]}),
    ("choice", (V,), {}),
    ("permutation", (7,), {}),
    ("permutation", (np.arange(12).reshape(4, 3),), {}),
    ("multivariate_normal", ([0.0, 1.0], [[2.0, 0.5], [0.5, 1.0]], 4), {}),
]
WITH_SIZES = [(name, a, k) for name, a, _ in SHARED for k in SIZES]


def outcome(call: Any) -> Any:
    try:
        return call()
    except (ValueError, TypeError) as error:
        return type(error), str(error)


def same(function: Any, ours: Any, theirs: Any, *arguments: Any, rounds: int = 2, fullgraph: bool = False) -> Any:
    """Call `function` plain and compiled, with generators of the same state: everything is the same, the states too."""
    compiled = npc.compile(function, fullgraph=fullgraph)
    for _ in range(rounds):
        found = outcome(lambda: compiled(ours, *copy.deepcopy(arguments)))
        wanted = outcome(lambda: function(theirs, *copy.deepcopy(arguments)))
        if isinstance(wanted, bytes):
            assert found == wanted
        else:
            compare_any(found, wanted, 0)
        assert is_same_state(state_of(ours), state_of(theirs))
        compare_any(ours.random(), theirs.random(), 0)  # draws that are not captured, in between
    return compiled


def id_of(case: tuple) -> str:
    name, arguments, keywords = case
    return f"{name}-{arguments}-{keywords}".replace("\n", "")


@pytest.mark.parametrize("case", WITH_SIZES + OF_GENERATOR, ids=id_of)
def test_methods_of_generators(case):
    name, arguments, keywords = case

    def draw(rng, *arguments):
        return getattr(rng, name)(*arguments, **keywords)

    def constant(rng):
        return getattr(rng, name)(*arguments, **keywords)

    for function, given_ in ((draw, arguments), (constant, ())):
        same(function, np.random.default_rng(3), np.random.default_rng(3), *given_)


@pytest.mark.parametrize("case", WITH_SIZES + OF_RANDOM_STATE, ids=id_of)
def test_methods_of_random_states(case):
    name, arguments, keywords = case

    def draw(rng, *arguments):
        return getattr(rng, name)(*arguments, **keywords)

    same(draw, np.random.RandomState(3), np.random.RandomState(3), *arguments)


@pytest.mark.parametrize("kind", BIT_GENERATORS)
@pytest.mark.parametrize("owner", [np.random.Generator, np.random.RandomState])
def test_every_bit_generator(kind, owner):
    def draw(rng, n):
        x = rng.standard_normal((n, 2)) * rng.uniform(1, 2, n)[:, None]
        return x.sum(0), rng.permutation(n), rng.random_sample(3) if hasattr(rng, "random_sample") else rng.random(3)

    compiled = same(draw, owner(kind(7)), owner(kind(7)), 5)
    assert len(compiled_function(compiled).graphs) >= 1


def test_a_program_with_draws_is_one_graph():
    def walk(rng, x, n):
        for _ in range(3):
            x = x + 0.1 * rng.normal(0.0, 1.0, x.shape)
        noise = rng.standard_normal(n)
        return x, noise, np.sqrt(rng.random((n, 2))), rng.uniform() * x, rng.integers(0, n)

    compiled = same(walk, np.random.default_rng(1), np.random.default_rng(1), np.zeros((4, 2)), 6, fullgraph=True)
    known = compiled_function(compiled)
    assert len(known.graphs) == 1
    ours, theirs = np.random.default_rng(2), np.random.default_rng(2)
    for n in (7, 8, 9, 30):
        compare_any(compiled(ours, np.zeros((4, 2)), n), walk(theirs, np.zeros((4, 2)), n), 0)
    assert len(known.graphs) == 1, "for all sizes"


@pytest.fixture
def global_state():
    state = np.random.get_state()
    yield
    np.random.set_state(state)


def test_functions_of_the_module(global_state):
    def draw(n):
        x = np.random.rand(n, 2) + np.random.randn(n, 2)
        np.random.shuffle(x)
        return (
            x,
            np.random.random(3),
            np.random.choice(5, 3),
            np.random.permutation(n),
            np.random.normal(size=2),
            np.random.ranf(2),
        )

    compiled = npc.compile(draw)
    for _ in range(3):
        state = np.random.get_state()
        wanted, after = draw(5), np.random.get_state(legacy=False)
        np.random.set_state(state)
        compare_any(compiled(5), wanted, 0)
        assert is_same_state(np.random.get_state(legacy=False), after)


def test_the_generator_of_the_module(global_state):
    def draw():
        return np.random.mtrand._rand.normal(size=3) * 2, np.random.get_bit_generator() is None

    compiled = npc.compile(draw)
    np.random.seed(3)
    found = compiled()
    np.random.seed(3)
    compare_any(found, draw(), 0)


def test_seeds_given_in_the_function(global_state):
    def make(n, seed):
        a, b = np.random.default_rng(seed), np.random.RandomState(11)
        c = np.random.Generator(np.random.PCG64DXSM(5))
        np.random.seed(seed)
        return a.random(n), b.randn(n), c.normal(size=n), np.random.rand(n), np.random.default_rng(a) is a

    compiled = npc.compile(make, fullgraph=True)
    for seed in (0, 0, 1, 2):
        compare_any(compiled(4, seed), make(4, seed), 0)


def test_a_generator_made_in_the_function_leaves_it():
    def make(seed):
        rng = np.random.default_rng(seed)
        return rng.random(2), rng

    numbers, rng = npc.compile(make)(3)
    wanted, theirs = make(3)
    compare_any((numbers, rng.random(3)), (wanted, theirs.random(3)), 0)


def test_entropy_of_the_system():
    def make():
        return np.random.default_rng().random(4)

    compiled = npc.compile(make)
    assert not np.array_equal(compiled(), compiled())


class Model:
    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.draw = self.rng.normal

    def step(self, x):
        return x + self.rng.normal(size=x.shape) * self.draw(1.0, 0.1)


def test_generators_of_objects_and_bound_methods():
    compiled = npc.compile(lambda model, x: model.step(x))
    ours, theirs = Model(2), Model(2)
    for _ in range(3):
        compare_any(compiled(ours, np.ones(3)), theirs.step(np.ones(3)), 0)


def test_one_generator_under_two_names():
    def draw(a, b):
        return a.random(2), b.normal(size=2), a.random(2)

    ours, theirs = np.random.default_rng(2), np.random.default_rng(2)
    compiled = npc.compile(draw)
    for _ in range(2):
        compare_any(compiled(ours, ours), draw(theirs, theirs), 0)
    copies = copy.deepcopy(ours), copy.deepcopy(theirs)
    compare_any(compiled(ours, copies[0]), draw(theirs, copies[1]), 0)


def test_out_is_written():
    def fill(rng, out):
        view = out[1:]
        result = rng.random(out=out)
        y = out * 2
        again = rng.standard_normal(out=view)
        rng.random(None, np.float64, view)
        return result is out, y, again.shape, rng.permuted(out, out=out)[2]

    same(fill, np.random.default_rng(1), np.random.default_rng(1), np.zeros((4, 3)), rounds=3)


@pytest.mark.parametrize("out", [np.zeros((3, 4)).T, np.zeros(4, np.float32), np.zeros(8)[::2]])
def test_out_that_numpy_refuses_or_that_is_strided(out):
    def fill(rng, out):
        return rng.random(out=out)

    same(fill, np.random.default_rng(1), np.random.default_rng(1), out)


def test_shuffle_changes_arrays_in_place():
    def shuffled(rng, x, m):
        row = m[1]
        rng.shuffle(x)
        rng.shuffle(m)
        y = m * 2
        rng.shuffle(y, axis=1)
        return x.sum(), row.copy(), y, x[:2]

    compiled = npc.compile(shuffled, fullgraph=True)
    ours, theirs = np.random.default_rng(2), np.random.default_rng(2)
    for _ in range(3):
        x, m = np.arange(10), np.arange(12.0).reshape(4, 3)
        u, v = x.copy(), m.copy()
        compare_any((compiled(ours, x, m), x, m), (shuffled(theirs, u, v), u, v), 0)


def test_drawn_arrays_are_the_users():
    def make(rng):
        x = rng.random((3, 4))
        y = x.T
        x[0] = 7
        x += 1
        z = rng.normal(size=3)
        return x, y, y.base is x, z, z

    found = npc.compile(make)(np.random.default_rng(1))
    wanted = make(np.random.default_rng(1))
    compare_any(found, wanted, 0)
    assert found[1].base is found[0] and found[3] is found[4] and found[3].base is None and found[3].flags.writeable


def test_arguments_that_the_program_computes_end_the_graph():
    def draw(rng, x):
        scale = x * x + 0.5  # to the bit what NumPy's is
        return rng.normal(x * 2, scale), rng.poisson(scale, (2, 3))

    same(draw, np.random.default_rng(1), np.random.default_rng(1), V)


def test_what_was_drawn_decides():
    def decide(rng, x):
        total = 0.0
        for _ in range(8):
            if rng.random() < 0.5:
                total += x.sum()
            else:
                total -= rng.normal()
            if rng.integers(3) == 1:
                break
        return total, rng.random()

    same(decide, np.random.default_rng(5), np.random.default_rng(5), V, rounds=6)


@pytest.mark.parametrize("n", [np.int64(5), np.int32(3), np.array(4), True, 0, 2.5, [], [3], (1, 2), np.arange(3.0)])
def test_sizes_and_lengths_of_any_kind(n):
    for draw in (
        lambda rng, n: rng.random(n),
        lambda rng, n: rng.normal(size=n),
        lambda rng, n: rng.permutation(n),
        lambda rng, n: rng.choice(n, 2),
        lambda rng, n: rng.choice(4, n),
        lambda rng, n: rng.poisson(n),
    ):
        compiled, ours, theirs = npc.compile(draw), np.random.default_rng(5), np.random.default_rng(5)
        for value in (n, n, type(n)(2) if isinstance(n, np.generic) else n):
            found, wanted = ([*map(str, (outcome(lambda: f(rng, value)),))] for f, rng in ((compiled, ours), (draw, theirs)))
            assert found == wanted
            assert is_same_state(state_of(ours), state_of(theirs))


@pytest.mark.parametrize("layout", [np.asfortranarray, np.ascontiguousarray, lambda x: x[:, ::-1], lambda x: x[::2]])
def test_parameters_in_any_layout(layout):
    def draw(rng, mean, scale):
        x, y = rng.normal(mean, scale), rng.permuted(mean, axis=0)
        z, w = rng.permutation(mean), rng.choice(mean, 3)
        rng.shuffle(mean)
        return x, y, z, w, rng.poisson(mean[1:]), x.strides, y.strides, z.strides, w.strides, mean

    same(draw, np.random.default_rng(5), np.random.default_rng(5), layout(np.arange(1, 13.0).reshape(4, 3)), 2.0, rounds=3)


def test_integers_of_python():
    def draw(rng, x):
        i, j = rng.poisson(2.0), rng.binomial(5, 0.5)
        y = x + rng.random(3)
        return i, y[min(i, 2)], i + j * 2**62, i is j, f"{j}", [x for _ in range(j)], (i > 2, bool(j)), rng.bytes(3), {i: 1}

    same(draw, np.random.default_rng(5), np.random.default_rng(5), V, rounds=5)


def test_hierarchies_of_draws():
    def draw(rng, n):
        rate = rng.gamma(2.0, 1.0, n)
        return rng.poisson(rate), rng.normal(rate, 2.0), rng.choice(rate, 3), rng.permutation(rate)

    same(draw, np.random.default_rng(5), np.random.default_rng(5), 6, rounds=3)


def test_long_loops_draw_in_turn():
    def chain(rng, x):
        accepted = 0
        for k in range(60):
            proposal = x + rng.normal(0, 0.5, x.shape)
            if np.log(rng.random()) < (x * x - proposal * proposal).sum():
                x, accepted = proposal, accepted + k
        return x, accepted

    same(chain, np.random.default_rng(5), np.random.default_rng(5), V)


# --- what fails draws once


def test_an_index_out_of_bounds_draws_once():
    def pick(rng, x, i):
        noise = rng.random(3)
        return (x[i] + noise).sum() + rng.normal()

    compiled = npc.compile(pick)
    ours, theirs = np.random.default_rng(5), np.random.default_rng(5)
    for i in (np.array([0, 1, 2]), np.array([0, 1, 9]), np.array([2, 1, 1])):
        for rng, function in ((ours, compiled), (theirs, pick)):
            try:
                function(rng, V, i)
            except IndexError:
                assert i[2] == 9
        assert is_same_state(state_of(ours), state_of(theirs))


@pytest.mark.parametrize("kind", BIT_GENERATORS)
@pytest.mark.parametrize("owner", [np.random.Generator, np.random.RandomState])
def test_floating_point_errors_draw_once(owner, kind):
    def divide(rng, x):
        return rng.standard_normal(3) / x

    compiled = npc.compile(divide)
    ours, theirs = owner(kind(5)), owner(kind(5))
    for x in (V, V * 0, V, V - 0.5):
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            result = compiled(ours, x)
        with np.errstate(all="ignore"):
            compare_any(result, divide(theirs, x), 0)
        assert is_same_state(state_of(ours), state_of(theirs))
        assert len(found) == (0 in x) and all(w.filename == __file__ for w in found)


def test_arguments_that_are_refused_draw_nothing():
    def draw(rng, scale, n):
        return rng.random(2), rng.normal(0, scale, n)

    compiled = npc.compile(draw)
    ours, theirs = np.random.default_rng(5), np.random.default_rng(5)
    for scale, n in ((1.0, 3), (2.0, 3), (-1.0, 3), (1.5, 4), (1.0, -1), (1.0, 5)):
        compare_any(outcome(lambda: compiled(ours, scale, n)), outcome(lambda: draw(theirs, scale, n)), 0)
        assert is_same_state(state_of(ours), state_of(theirs))


def test_what_another_thread_drew_is_not_drawn_again():
    rng, theirs = np.random.default_rng(5), np.random.default_rng(5)
    before = state_of(rng)
    rng.random(3)
    rng.random()  # by another thread
    with Repetition((rng, before)):
        rng.random(3)
    theirs.random(4)
    assert is_same_state(state_of(rng), state_of(theirs))
    before = state_of(rng)
    rng.random(3)
    with Repetition((rng, before)):
        rng.random(3)
    assert is_same_state(state_of(rng), state_of(theirs))


def test_the_memory_of_a_state_is_the_state():
    assert place_of_normal() is not None
    for generator in (np.random.RandomState(5), np.random.Generator(np.random.MT19937(5))):
        for _ in range(3):
            generator.standard_normal(3)
            assert is_same_state(Memory(generator).state(), state_of(generator))


def test_threads_share_a_generator():
    """Numbers are given to one thread each, whatever is drawn again after errors."""

    def draw(rng, x):
        return rng.integers(0, 2**62, 4) + np.zeros(4, int), 1 / x

    compiled, rng = npc.compile(draw), np.random.default_rng(5)
    compiled(rng, V)
    results: list[Any] = []

    def work(k):
        with np.errstate(all="ignore"):
            results.extend(compiled(rng, V * ((j + k) % 3))[0] for j in range(50))

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    numbers = np.concatenate(results)
    assert len(numbers) == 4 * 50 * 4 and len(np.unique(numbers)) == len(numbers)


# --- transforms


def test_gradients_take_what_was_drawn_as_constant():
    def loss(w, rng):
        return ((w * rng.standard_normal(3)) ** 2).sum()

    ours, theirs = np.random.default_rng(5), np.random.default_rng(5)
    gradient = npc.grad(loss)
    for _ in range(3):
        z = theirs.standard_normal(3)
        np.testing.assert_allclose(gradient(V, ours), 2 * V * z * z, rtol=1e-14)
        assert is_same_state(state_of(ours), state_of(theirs))


def test_gradients_of_what_no_graph_draws(global_state):
    def by_chance(w, rng):
        items = [1.0, 2.0, 3.0]
        rng.shuffle(items)
        y = w * items[0] + rng.normal(items, 1.0)
        return y.sum() if rng.random() < 0.5 else (2 * y).sum() * np.random.poisson(3.0)

    ours, theirs = np.random.default_rng(5), np.random.default_rng(5)
    for k in range(4):
        w = npc.tensor(V, requires_grad=True)
        np.random.seed(k)
        by_chance(w, theirs).backward()
        np.random.seed(k)
        np.testing.assert_allclose(npc.grad(by_chance)(V, ours), w.grad.numpy())
        assert is_same_state(state_of(ours), state_of(theirs))


def test_gradients_that_meet_errors_draw_once():
    def loss(w, rng):
        return np.log(w * rng.random(3)).sum()

    ours, theirs = np.random.default_rng(5), np.random.default_rng(5)
    gradient = npc.grad(loss)
    for w in (V, V * 0, V):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            gradient(w, ours)
        theirs.random(3)
        assert is_same_state(state_of(ours), state_of(theirs))


def test_every_example_of_a_batch_draws_its_own():
    def noisy(x, rng):
        return x + rng.random(2)

    ours, theirs = np.random.default_rng(5), np.random.default_rng(5)
    x = np.arange(6.0).reshape(3, 2)
    found = npc.vmap(noisy, in_axes=(0, None))(x, ours)
    compare_any(np.asarray(found), np.stack([noisy(row, theirs) for row in x]), 0)


def test_tensors(global_state):
    def step(w):
        return (w * npc.randn(3) + npc.rand(3)).sum()

    compiled = npc.compile(step)
    for _ in range(2):
        results = []
        for function in (compiled, step):
            np.random.seed(4)
            w = npc.tensor(V, requires_grad=True)
            loss = function(w)
            loss.backward()
            results.append((loss.item(), w.grad.numpy()))
        np.testing.assert_allclose(*[r[0] for r in results], rtol=1e-14)
        np.testing.assert_allclose(*[r[1] for r in results], rtol=1e-14)


# --- any program


DRAWS = [
    *("random({n})", "normal(0, 2, ({n}, 2)).sum(1)", "integers(0, {n}, {n})", "permutation({n})", "choice(x, {n})"),
    *("permutation(x)[:{n}]", "random()", "exponential(x[:{n}])", "poisson(2.0, {n})", "uniform(-1, 1, {n})"),
]
DRAW = st.tuples(st.sampled_from(DRAWS), st.sampled_from("ab"), st.booleans())


@given(
    st.lists(st.tuples(st.sampled_from(DRAWS), st.sampled_from("ab"), st.booleans()), min_size=1, max_size=5), st.integers(1, 3)
)
@settings(max_examples=25, deadline=None)
def test_programs(draws, n):
    lines = ["def program(a, b, x, n):", "    total = x.copy()"]
    for text, owner, breaks in draws:
        lines.append(f"    y = {owner}.{text.format(n='n')}")
        lines.append("    total[:n] = total[:n] * 0.5 + y")
        if breaks:
            lines.append("    npc.graph_break()")
    lines.append("    return total")
    scope: dict[str, Any] = {"np": np, "npc": npc}
    exec("\n".join(lines), scope)
    compiled = npc.compile(scope["program"])
    ours, theirs = ([np.random.default_rng(1), np.random.default_rng(2)] for _ in "ab")
    for size in (n, n, n + 1):
        compare_any(compiled(*ours, V + 1, min(size, 3)), scope["program"](*theirs, V + 1, min(size, 3)), 8)
        assert all(is_same_state(state_of(a), state_of(b)) for a, b in zip(ours, theirs))
