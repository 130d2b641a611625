"""Random numbers with `config.fallback_random = False`: of the right distribution, and a function of the seed alone."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats
from threadpoolctl import threadpool_limits

import npcompile as npc
from npcompile.compiler import compiled_function
from npcompile.tracer.random_state import is_same_state, state_of
from tests.backends import BACKENDS

COUNT = 20_000


@pytest.fixture(autouse=True)
def counted():
    with npc.config.patch(fallback_random=False):
        yield


def numbers_of(function, *arguments, rng=None, **options):
    """What the compiled function gives, which must have computed its random numbers in its graph."""
    compiled = npc.compile(function, **options)
    found = compiled(np.random.default_rng(5) if rng is None else rng, *arguments)
    known = compiled_function(compiled)
    nodes = {n.op for graph, _ in known.graphs for n in graph.nodes}
    assert nodes & {"philox_low", "philox_high"}, "NumPy has drawn"
    return found


CONTINUOUS = [
    ("random", {}, scipy.stats.uniform()),
    ("uniform", {"low": -1.5, "high": 2.0}, scipy.stats.uniform(-1.5, 3.5)),
    ("standard_normal", {}, scipy.stats.norm()),
    ("normal", {"loc": 2.0, "scale": 3.0}, scipy.stats.norm(2, 3)),
    ("lognormal", {"mean": 0.5, "sigma": 0.7}, scipy.stats.lognorm(0.7, scale=np.exp(0.5))),
    ("standard_exponential", {}, scipy.stats.expon()),
    ("exponential", {"scale": 2.5}, scipy.stats.expon(scale=2.5)),
    ("standard_cauchy", {}, scipy.stats.cauchy()),
    ("laplace", {"loc": 1.0, "scale": 2.0}, scipy.stats.laplace(1, 2)),
    ("gumbel", {"loc": 1.0, "scale": 2.0}, scipy.stats.gumbel_r(1, 2)),
    ("logistic", {"loc": 1.0, "scale": 2.0}, scipy.stats.logistic(1, 2)),
    ("rayleigh", {"scale": 2.0}, scipy.stats.rayleigh(scale=2)),
    ("weibull", {"a": 1.7}, scipy.stats.weibull_min(1.7)),
    ("pareto", {"a": 3.0}, scipy.stats.lomax(3)),
    ("power", {"a": 2.5}, scipy.stats.powerlaw(2.5)),
    ("triangular", {"left": -1.0, "mode": 0.5, "right": 4.0}, scipy.stats.triang(0.3, -1, 5)),
]


@pytest.mark.parametrize(("name", "parameters", "distribution"), CONTINUOUS, ids=[c[0] for c in CONTINUOUS])
@pytest.mark.parametrize("backend", BACKENDS)
def test_continuous_distributions(name, parameters, distribution, backend):
    def draw(rng):
        return getattr(rng, name)(size=(COUNT // 4, 4), **parameters)

    x = numbers_of(draw, backend=backend)
    assert x.dtype == np.float64 and x.shape == (COUNT // 4, 4) and np.isfinite(x).all()
    assert scipy.stats.kstest(x.ravel(), distribution.cdf).pvalue > 1e-3
    for lag in (1, 4):  # neighbours along both axes do not know of each other
        ranks = scipy.stats.rankdata(x.ravel())
        assert abs(np.corrcoef(ranks[lag:], ranks[:-lag])[0, 1]) < 4 / np.sqrt(COUNT)


@pytest.mark.parametrize("name", ["random", "standard_normal", "standard_exponential"])
def test_float32(name):
    x = numbers_of(lambda rng: getattr(rng, name)((COUNT,), np.float32))
    cdf = {"random": scipy.stats.uniform, "standard_normal": scipy.stats.norm, "standard_exponential": scipy.stats.expon}[
        name
    ].cdf
    assert x.dtype == np.float32
    assert scipy.stats.kstest(x, cdf).pvalue > 1e-3


@pytest.mark.parametrize("name", ["rand", "randn", "random_sample", "standard_normal", "uniform", "exponential"])
def test_legacy_functions(name):
    cdf = {"randn": scipy.stats.norm, "standard_normal": scipy.stats.norm, "exponential": scipy.stats.expon}
    x = numbers_of(lambda rng: getattr(rng, name)(COUNT) if name[:4] == "rand" and name != "random_sample"
                   else getattr(rng, name)(size=COUNT), rng=np.random.RandomState(3))  # fmt: skip
    assert scipy.stats.kstest(x, cdf.get(name, scipy.stats.uniform).cdf).pvalue > 1e-3


INTEGERS = [
    ((10,), {}), ((-5, 8), {"dtype": np.int8}), ((0, 255), {"dtype": np.uint8, "endpoint": True}), ((7, 8), {}),
    ((-(2**40), -(2**40) + 11), {}), ((2**32,), {}), ((2**63 - 4, 2**63 - 1), {"endpoint": True}),
]  # fmt: skip


@pytest.mark.parametrize(("bounds", "keywords"), INTEGERS)
def test_integers(bounds, keywords):
    x = numbers_of(lambda rng: rng.integers(*bounds, size=COUNT, **keywords))
    low, high = (0, *bounds) if len(bounds) == 1 else bounds
    count = high - low + keywords.get("endpoint", False)
    assert x.dtype == keywords.get("dtype", np.int64)
    numbers = x.astype(object) - low
    assert min(numbers) >= 0 and max(numbers) < count
    cells = min(count, 11)
    found = np.bincount([int(k) * cells // count for k in numbers], minlength=cells)
    wanted = np.bincount([k * cells // count for k in range(count)]) if count < 10**6 else np.ones(cells)
    assert cells == 1 or scipy.stats.chisquare(found, wanted * COUNT / wanted.sum()).pvalue > 1e-3


def test_permutations_and_choices():
    def draw(rng, x, n):
        y = x.copy()
        rng.shuffle(y)
        return rng.permutation(n), y, rng.permutation(x, axis=1), rng.choice(n, 5, replace=False), rng.choice(x, (2, 2), axis=1)

    x = np.arange(24).reshape(8, 3)
    rng = np.random.default_rng(5)
    seen = set()
    for _ in range(20):
        order, rows, columns, few, picked = numbers_of(draw, x, 50, rng=rng)
        np.testing.assert_array_equal(np.sort(order), np.arange(50))
        np.testing.assert_array_equal(rows[np.argsort(rows[:, 0])], x)
        np.testing.assert_array_equal(columns[:, np.argsort(columns[0])], x)
        assert len(set(few)) == 5 and set(few) <= set(range(50)) and few.dtype == np.int64
        assert picked.shape == (8, 2, 2) and set(picked[0].ravel()) <= {0, 1, 2}
        seen.add(tuple(order))
    assert len(seen) == 20


def test_every_permutation_is_alike_likely():
    counts: dict[tuple[int, ...], int] = {}
    compiled, rng = npc.compile(lambda rng: rng.permutation(3)), np.random.default_rng(5)
    for _ in range(3000):
        order = tuple(compiled(rng))
        counts[order] = counts.get(order, 0) + 1
    assert len(counts) == 6 and scipy.stats.chisquare(list(counts.values())).pvalue > 1e-3


def many(rng, n):
    return rng.random((n, 3)), rng.standard_normal(n), rng.integers(0, 1000, n), rng.random(n, np.float32)


def test_a_seed_gives_the_same_again_and_each_call_others():
    compiled = npc.compile(many)
    rng = np.random.default_rng(5)
    first, second = compiled(rng, 100), compiled(rng, 100)
    again = compiled(np.random.default_rng(5), 100)
    for x, y, z in zip(first, second, again):
        np.testing.assert_array_equal(x, z)
        assert (x != y).mean() > 0.9
    assert not np.isin(first[0], first[3]).any() and not np.isin(first[0][:, 0], first[0][:, 1]).any()
    other = np.random.default_rng(5)
    other.bit_generator.random_raw(2)
    assert is_same_state(state_of(rng), state_of(other)), "a program takes one number, whatever it draws"


@pytest.mark.parametrize("n", [5, 100_000])
def test_neither_threads_nor_backends_change_numbers(n):
    def draw(rng, n):
        return rng.random((n, 3)), rng.integers(0, 1000, n), rng.random(n, np.float32), (rng.random(n) * 7).astype(int) + 1

    results = [npc.compile(draw, backend=b)(np.random.default_rng(5), n) for b in ("eager", "cpu")]
    with threadpool_limits(1):
        results.append(npc.compile(draw)(np.random.default_rng(5), n))
    for other in results[1:]:
        for x, y in zip(results[0], other):
            np.testing.assert_array_equal(x, y)


def test_a_larger_array_begins_with_the_same_numbers():
    draw = npc.compile(lambda rng, n: rng.random((n, 4)))
    small, large = draw(np.random.default_rng(5), 10), draw(np.random.default_rng(5), 1000)
    np.testing.assert_array_equal(small, large[:10])


def test_sizes_are_symbolic_and_all_is_one_kernel():
    def noisy(rng, x):
        return np.tanh(x + 0.1 * rng.normal(0, 2, x.shape)) * (rng.random(x.shape) < 0.5)

    compiled = npc.compile(noisy)
    rng = np.random.default_rng(5)
    for n in (3, 4, 5, 60):
        compiled(rng, np.ones((n, 2)))
    known = compiled_function(compiled)
    assert len(known.graphs) == 2
    assert all(len(made.kernels) == 1 for _, made in known.graphs)


def test_arrays_as_locations():
    def noisy(rng, x):
        return rng.normal(np.sin(x), 0.5), rng.laplace(x[0], 2.0, size=x.shape), rng.lognormal(x[:, :1] * 0)

    def without(rng):
        return rng.normal(0.0, 0.5, (3, 4)), rng.laplace(0.0, 2.0, (3, 4)), rng.lognormal(0.0, 1.0, (3, 1))

    x = np.arange(12.0).reshape(3, 4)
    for found, wanted, location in zip(numbers_of(noisy, x), numbers_of(without), (np.sin(x), x[0], 0)):
        np.testing.assert_allclose(found, wanted + location, rtol=1e-14, atol=1e-14)


def test_generators_of_the_function_itself():
    def make(seed):
        a, b = np.random.default_rng(seed), np.random.default_rng(seed + 1)
        return a.random(50), b.random(50), a.random(50)

    compiled = npc.compile(make)
    first, other = compiled(3), compiled(4)
    assert len(np.unique(np.concatenate(first))) == 150
    np.testing.assert_array_equal(first[1], other[0])
    np.testing.assert_array_equal(first[0], compiled(3)[0])


def test_the_setting_is_asked_at_each_call():
    compiled = npc.compile(lambda rng: rng.random(4))
    mine = compiled(np.random.default_rng(5))
    npc.config.fallback_random = True
    np.testing.assert_array_equal(compiled(np.random.default_rng(5)), np.random.default_rng(5).random(4))
    npc.config.fallback_random = False
    np.testing.assert_array_equal(compiled(np.random.default_rng(5)), mine)


STAY = [
    lambda rng: (rng.gamma(2.0, 1.0, 4), rng.poisson(3.0, 4), rng.beta(1.0, 2.0, 4), rng.binomial(5, 0.3, 4)),
    lambda rng: (rng.random(), rng.normal(), rng.integers(10), rng.choice(5)),
    lambda rng: (rng.normal(0.0, np.ones(3)), rng.uniform(0, np.ones(3)), rng.choice(3, 5, p=[0.2, 0.3, 0.5])),
    lambda rng: (rng.normal(1.0, 0.0, 3), rng.uniform(1.0, 1.0, 3), rng.normal(np.float32(2), 1.0), rng.random(())),
    lambda rng: (rng.integers(0, 2**40, 5), rng.multinomial(5, [0.5, 0.5], 3), rng.integers(0, 2, 5, bool)),
]


@pytest.mark.parametrize("function", STAY)
def test_all_else_stays_numpys(function):
    for found, wanted in zip(npc.compile(function)(np.random.default_rng(5)), function(np.random.default_rng(5))):
        np.testing.assert_array_equal(found, wanted)
        assert type(found) is type(wanted)


REFUSED = [
    (lambda rng, scale, n: rng.normal(0.0, scale, n), [(-1.0, 3), (1.0, -2), (np.nan, 3)]),
    (lambda rng, low, n: rng.uniform(low, 4.0, n), [(5.0, 3), (4.0, 3), (np.nan, 3), (-np.inf, 3)]),
    (lambda rng, mode, n: rng.triangular(1.0, mode, 4.0, n), [(5.0, 3), (0.5, 3), (np.nan, 3)]),
    (lambda rng, high, n: rng.integers(-3, high, n, np.int8), [(129, 3), (-3, 2), (2**40, 3)]),
    (lambda rng, low, n: rng.integers(low, 30, n, np.uint8), [(-1, 3), (30, 2)]),
    (lambda rng, n, k: rng.choice(n, k, replace=False), [(3, 5), (0, 2), (-2, 1)]),
    (lambda rng, scale, n: rng.normal(np.zeros(3), scale, n), [(2.0, 4), (-1.0, 3), (2.0, 2)]),
]


@pytest.mark.parametrize(("draw", "scale", "n"), [(draw, *case) for draw, cases in REFUSED for case in cases])
def test_what_numpy_refuses_is_refused(draw, scale, n):
    compiled = npc.compile(draw)
    compiled(np.random.default_rng(5), type(scale)(2), 3 if draw is not REFUSED[5][0] else 1)
    try:
        wanted = draw(np.random.default_rng(5), scale, n)
    except (ValueError, OverflowError) as error:
        with pytest.raises(type(error), match=str(error).replace("(", ".").replace(")", ".")):
            compiled(np.random.default_rng(5), scale, n)
    else:
        np.testing.assert_array_equal(compiled(np.random.default_rng(5), scale, n), wanted)


def test_gradients_take_numbers_as_constants():
    def loss(w, rng):
        return ((w * rng.standard_normal(3)) ** 2).sum()

    value, gradient = npc.value_and_grad(loss)(np.array([1.0, 2.0, 3.0]), np.random.default_rng(5))
    z = numbers_of(lambda rng: rng.standard_normal(3))
    np.testing.assert_allclose(value, ((np.array([1.0, 2.0, 3.0]) * z) ** 2).sum(), rtol=1e-14)
    np.testing.assert_allclose(gradient, 2 * np.array([1.0, 2.0, 3.0]) * z * z, rtol=1e-14)


def test_examples_of_a_batch_have_numbers_of_their_own():
    def noisy(x, rng):
        return x + rng.random(4), rng.standard_normal()

    def drawn(x, rng):
        return x * 0 + rng.random(4)

    x = np.zeros((5, 4))
    found = npc.vmap(drawn, in_axes=(0, None))(x, np.random.default_rng(5))
    assert len(np.unique(found)) == 20
    np.testing.assert_array_equal(found, npc.vmap(drawn, in_axes=(0, None))(x, np.random.default_rng(5)))
    nested = npc.vmap(npc.vmap(drawn, in_axes=(0, None)), in_axes=(0, None))(np.zeros((3, 5, 4)), np.random.default_rng(5))
    assert nested.shape == (3, 5, 4) and len(np.unique(nested)) == 60
    both = npc.vmap(noisy, in_axes=(0, None))(x, np.random.default_rng(5))
    assert len(np.unique(both[1])) == 5, "what NumPy draws is drawn for each example"


def test_a_program_that_fails_has_drawn_what_numpy_has():
    def pick(rng, x, i):
        y = rng.random(3) + 1
        return x[i] + y + rng.random(3)

    compiled, rng = npc.compile(pick), np.random.default_rng(5)
    compiled(rng, np.ones(3), np.array([0, 1, 2]))
    other = np.random.default_rng(5)
    other.bit_generator.random_raw()
    with pytest.raises(IndexError):
        compiled(rng, np.ones(3), np.array([0, 1, 9]))
    other.random(3)
    assert is_same_state(state_of(rng), state_of(other))
