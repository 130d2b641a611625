"""Learning: distances, k-means, regression steps, networks, attention, row-wise normalisations."""

from __future__ import annotations

import itertools

import numpy as np

from benchmarks.case import Function
from benchmarks.cases.distances import numba_version as pairwise_distances_numba
from benchmarks.programs.program import UNROLLED, Program
from benchmarks.programs.steps import torch_steps


def pairwise_distances(X, Y):
    """Euclidean distances of all pairs, by broadcasting."""
    return np.sqrt(((X[:, None, :] - Y[None, :, :]) ** 2).sum(axis=-1))


def gaussian_kernel(X, Y):
    """Gaussian kernel matrix, distances by a product."""
    squares = (X * X).sum(axis=1)[:, None] + (Y * Y).sum(axis=1) - 2 * (X @ Y.T)
    return np.exp(-0.5 * np.maximum(squares, 0))


def k_means(points, centres, steps):
    """Lloyd's k-means: labels by broadcasting, means by a loop over the clusters."""
    for _ in range(steps):
        labels = ((points[:, None, :] - centres) ** 2).sum(axis=2).argmin(axis=1)
        moved = np.empty_like(centres)
        for k in range(centres.shape[0]):
            moved[k] = points[labels == k].mean(axis=0)
        centres = moved
    return centres, labels


def logistic_regression(X, y, w, steps):
    """Steps of gradient descent of logistic regression."""
    for _ in range(steps):
        p = 1 / (1 + np.exp(-(X @ w)))
        w = w - 0.1 / X.shape[0] * (X.T @ (p - y))
    return w


def softmax(x):
    """Softmax of each row."""
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def log_sum_exp(x):
    """Log-sum-exp of each row."""
    top = x.max(axis=1, keepdims=True)
    return top[:, 0] + np.log(np.exp(x - top).sum(axis=1))


def layer_norm(x, scale, shift):
    """Layer normalisation of each row, float32."""
    mean = x.mean(axis=1, keepdims=True)
    var = ((x - mean) ** 2).mean(axis=1, keepdims=True)
    return (x - mean) / np.sqrt(var + np.float32(1e-5)) * scale + shift


def perceptron(x, w1, b1, w2, b2, w3, b3):
    """Multilayer perceptron of three layers, float32."""
    h = np.maximum(x @ w1 + b1, 0)
    h = np.maximum(h @ w2 + b2, 0)
    return h @ w3 + b3


def attention(q, k, v):
    """Attention of several heads, float32."""
    scores = q @ k.transpose(0, 2, 1) / np.float32(np.sqrt(q.shape[-1]))
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return (e / e.sum(axis=-1, keepdims=True)) @ v


def adam(w, g, m, v, t):
    """A step of Adam, in place."""
    m *= 0.9
    m += 0.1 * g
    v *= 0.999
    v += 0.001 * g * g
    w -= 1e-3 * (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.999**t)) + 1e-8)


def k_means_numba() -> Function:
    import numba

    def loops(points, centres, steps):
        n, d = points.shape
        labels = np.empty(n, np.int64)
        for _ in range(steps):
            for i in numba.prange(n):
                least, nearest = np.inf, 0
                for k in range(centres.shape[0]):
                    total = 0.0
                    for j in range(d):
                        total += (points[i, j] - centres[k, j]) ** 2
                    if total < least:
                        least, nearest = total, k
                labels[i] = nearest
            sums, counts = np.zeros_like(centres), np.zeros(centres.shape[0])
            for i in range(n):
                counts[labels[i]] += 1
                for j in range(d):
                    sums[labels[i], j] += points[i, j]
            centres = sums / counts.reshape(-1, 1)
        return centres, labels

    return loops


def k_means_jax() -> Function:
    import jax
    import jax.numpy as jnp
    from jax import lax

    def iterate(points, centres, steps):
        def nearest(centres):
            return ((points[:, None, :] - centres) ** 2).sum(axis=2).argmin(axis=1)

        def step(_, state):
            labels = nearest(state[0])
            sums = jax.ops.segment_sum(points, labels, len(centres))
            counts = jax.ops.segment_sum(jnp.ones(len(points)), labels, len(centres))
            return sums / counts[:, None], labels

        return lax.fori_loop(0, steps, step, (centres, jnp.zeros(len(points), jnp.int64)))

    return iterate


def logistic_regression_jax() -> Function:
    import jax.numpy as jnp
    from jax import lax

    def descend(X, y, w, steps):
        def step(_, w):
            return w - 0.1 / X.shape[0] * (X.T @ (1 / (1 + jnp.exp(-(X @ w))) - y))

        return lax.fori_loop(0, steps, step, w)

    return descend


def logistic_regression_torch() -> Function:
    def step(X, y, w):
        p = 1 / (1 + np.exp(-(X @ w)))
        return X, y, w - 0.1 / X.shape[0] * (X.T @ (p - y))

    run = torch_steps(step)
    return lambda *arguments: run(*arguments)[2]


def softmax_numba() -> Function:
    import numba

    def loops(x):
        out = np.empty_like(x)
        for i in numba.prange(x.shape[0]):
            e = np.exp(x[i] - x[i].max())
            out[i] = e / e.sum()
        return out

    return loops


def log_sum_exp_numba() -> Function:
    import numba

    def loops(x):
        out = np.empty(x.shape[0])
        for i in numba.prange(x.shape[0]):
            top = x[i].max()
            out[i] = top + np.log(np.exp(x[i] - top).sum())
        return out

    return loops


def layer_norm_numba() -> Function:
    import numba

    def loops(x, scale, shift):
        out = np.empty_like(x)
        for i in numba.prange(x.shape[0]):
            centred = x[i] - x[i].mean()
            out[i] = centred / np.sqrt((centred * centred).mean() + np.float32(1e-5)) * scale + shift
        return out

    return loops


def attention_numba() -> Function:
    import numba

    def loops(q, k, v):
        out = np.empty_like(v)
        for h in numba.prange(q.shape[0]):
            scores = q[h] @ k[h].T / np.float32(np.sqrt(q.shape[-1]))
            for i in range(scores.shape[0]):
                e = np.exp(scores[i] - scores[i].max())
                scores[i] = e / e.sum()
            out[h] = scores @ v[h]
        return out

    return loops


def adam_jax() -> Function:
    import jax.numpy as jnp

    def step(w, g, m, v, t):
        m = 0.9 * m + 0.1 * g
        v = 0.999 * v + 0.001 * g * g
        return w - 1e-3 * (m / (1 - 0.9**t)) / (jnp.sqrt(v / (1 - 0.999**t)) + 1e-8), m, v

    return step


def float32(rng, *shape):
    return rng.standard_normal(shape, dtype=np.float32)


def clusters(rng, n, d, k, steps):
    centres = 8 * rng.standard_normal((k, d))
    return centres[np.arange(n) % k] + rng.standard_normal((n, d)), centres + rng.standard_normal((k, d)), steps


def regression(rng, n, d, steps):
    X = rng.standard_normal((n, d))
    return X, (X @ rng.standard_normal(d) > 0).astype(float), np.zeros(d), steps


def layers(rng, n, width):
    widths = (width, width, width, 10)
    weights = [float32(rng, a, b) / np.float32(np.sqrt(a)) for a, b in itertools.pairwise(widths)]
    w1, w2, w3 = weights
    return float32(rng, n, width), w1, float32(rng, width), w2, float32(rng, width), w3, float32(rng, 10)


def heads(rng, h, n, d):
    return tuple(float32(rng, h, n, d) for _ in range(3))


def rows(rng, n, m):
    return (rng.standard_normal((n, m)),)


PROGRAMS = (
    Program(
        pairwise_distances,
        lambda rng, n, d: (rng.standard_normal((n, d)), rng.standard_normal((n, d))),
        ((4, 3), (400, 8), (2500, 8)),
        {"numba": pairwise_distances_numba},
    ),
    Program(
        gaussian_kernel,
        lambda rng, n, d: (rng.standard_normal((n, d)), rng.standard_normal((n, d))),
        ((4, 3), (500, 16), (3000, 16)),
    ),
    Program(
        k_means,
        clusters,
        ((12, 2, 3, 2), (2000, 4, 8, 10), (50_000, 4, 16, 10)),
        {"numba": k_means_numba, "jax": k_means_jax, "torch": UNROLLED},
        relative_error=1e-9,
    ),
    Program(
        logistic_regression,
        regression,
        ((6, 3, 20), (2000, 20, 50), (50_000, 50, 50)),
        {"jax": logistic_regression_jax, "torch": logistic_regression_torch},
        relative_error=1e-9,
        is_loop=True,
    ),
    Program(softmax, rows, ((3, 4), (1000, 500), (4000, 4000)), {"numba": softmax_numba}),
    Program(log_sum_exp, rows, ((3, 4), (1000, 500), (4000, 4000)), {"numba": log_sum_exp_numba}),
    Program(
        layer_norm,
        lambda rng, n, m: (float32(rng, n, m), float32(rng, m), float32(rng, m)),
        ((3, 4), (1000, 512), (8000, 2048)),
        {"numba": layer_norm_numba},
        relative_error=1e-5,
    ),
    Program(perceptron, layers, ((3, 4), (256, 256), (4096, 1024)), relative_error=1e-5),
    Program(
        attention,
        heads,
        ((2, 4, 4), (8, 128, 32), (8, 1024, 64)),
        {"numba": attention_numba},
        relative_error=1e-5,
    ),
    Program(
        adam,
        lambda rng, n: (*(rng.standard_normal(n) for _ in range(3)), rng.random(n), 3),
        ((10,), (200_000,), (4_000_000,)),
        {"jax": adam_jax},
        mutates=(0, 2, 3),
    ),
)
