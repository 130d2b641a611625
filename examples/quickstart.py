"""Seven NumPy functions, compiled as they are: the answers are checked, the times compared, and what was captured is shown.

python examples/quickstart.py [--quick]
"""

import argparse
import contextlib
import io
import statistics
import sys
import time

import numpy as np

import npcompile as npc


def expression(x, y):
    return np.sin(x) * np.exp(-y * y) + np.tanh(x * y)


def product_sum(X, Y):
    return np.sum(X[:, :, None] * Y[:, None, :], axis=(-2, -1))


def softmax(x):
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def distances(X, Y):
    return np.sqrt(((X[:, None, :] - Y[None, :, :]) ** 2).sum(axis=-1))


def stencil(u):
    v = u.copy()
    v[1:-1, 1:-1] = 0.25 * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:])
    return v


def newton(a):
    """Square roots by Newton's method, until they stand still."""
    x = a
    for i in range(50):
        x = 0.5 * (x + a / x)
        if np.abs(x * x - a).max() < 1e-12 * a.max():
            break
    return x, i


def chatty(x):
    """A print in the middle: the graph ends before it and goes on after it."""
    centred = x - x.mean()
    print("standard deviation:", round(float(centred.std()), 2))
    return np.tanh(centred) * centred


def make_inputs(quick):
    rng = np.random.default_rng(0)
    scale = 20 if quick else 1
    n, rows, points, side = 4_000_000 // scale, 2000 // scale, 1000 // scale, 2000 // scale
    return {
        expression: (rng.standard_normal(n), rng.standard_normal(n)),
        product_sum: (rng.random((rows, 64)), rng.random((rows, 64))),
        softmax: (rng.standard_normal((rows, 1000)),),
        distances: (rng.standard_normal((points, 8)), rng.standard_normal((points, 8))),
        stencil: (rng.standard_normal((side, side)),),
        newton: (rng.uniform(1, 9, n),),
        chatty: (rng.standard_normal(n),),
    }


def quietly(function, inputs):
    """The result, without what it prints."""
    with contextlib.redirect_stdout(io.StringIO()):
        return function(*inputs)


def assert_same(name, got, expected):
    """Type, dtype, shape and values of each result are NumPy's."""
    if isinstance(expected, tuple):
        assert type(got) is tuple and len(got) == len(expected), name
        for one, other in zip(got, expected):
            assert_same(name, one, other)
        return
    assert type(got) is type(expected), f"{name}: {type(got)} instead of {type(expected)}"
    if isinstance(expected, int):
        assert got == expected, f"{name}: {got} instead of {expected}"
        return
    assert got.dtype == expected.dtype and got.shape == expected.shape, f"{name}: {got.dtype}{got.shape}"
    np.testing.assert_allclose(got, expected, rtol=1e-12, atol=1e-13, err_msg=name)


def measure(functions, inputs, repetitions):
    """Median seconds of each function, called in turn."""
    seconds = [[] for _ in functions]
    for _ in range(repetitions):
        for function, samples in zip(functions, seconds):
            began = time.perf_counter()
            quietly(function, inputs)
            samples.append(time.perf_counter() - began)
    return [statistics.median(samples) for samples in seconds]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small inputs, few repetitions")
    quick = parser.parse_args().quick

    inputs = make_inputs(quick)
    titles = f"{'first call':>11} {'NumPy':>11} {'npcompile':>11} {'faster':>8} {'graphs':>7} {'breaks':>7} {'kernels':>8}"
    print(f"{'function':<12} {titles}")
    for function, arguments in inputs.items():
        compiled = npc.compile(function)
        expected = quietly(function, arguments)
        began = time.perf_counter()
        answer = quietly(compiled, arguments)
        first = time.perf_counter() - began
        assert_same(function.__name__, answer, expected)
        assert_same(function.__name__, quietly(compiled, arguments), expected)
        theirs, ours = measure((function, compiled), arguments, 3 if quick else 11)
        figures = f"{first * 1e3:>8.1f} ms {theirs * 1e3:>8.2f} ms {ours * 1e3:>8.2f} ms {theirs / ours:>7.1f}x"
        seen = quietly(npc.explain(function), arguments)
        captured = f"{len(seen.graphs):>7} {len(seen.breaks):>7} {len(seen.kernels):>8}"
        print(f"{function.__name__:<12} {figures} {captured}", flush=True)

    print("\nEvery answer has NumPy's type, dtype, shape and values.")
    for function in (expression, chatty):
        print(f"\nWhat was captured of {function.__name__}:\n")
        print(npc.explain(function)(*inputs[function]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
