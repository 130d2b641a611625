"""Test functions of optimizers, sums over grids, functions of scipy.special in Python, frequencies, units."""

import numpy as np

from tests.scipy_functions.corpus import call, data, sample, signal

OPT, INT, SPECIAL, FFT = "scipy.optimize.", "scipy.integrate.", "scipy.special.", "scipy.fft."

POINTS = (call(signal(5)), call([1.0, 1.0, 1.0]), call(signal(9)), call(np.arange(5)), call(signal(5, dtype=np.float32)))
sample(OPT + "rosen", *POINTS, call(signal(4, 3)), ulp=256)
sample(OPT + "rosen_der", *POINTS, ulp=256)
sample(OPT + "rosen_hess", *POINTS, ulp=256)
sample(
    OPT + "rosen_hess_prod",
    call(signal(5), signal(5, seed=1)),
    call([1, 2, 3], [1, 0, 1]),
    call(signal(9), signal(9, seed=1)),
    ulp=256,
)
sample(OPT + "approx_fprime", call(signal(3), np.sum), call(signal(4), np.sum, 1e-6), ulp=2**30)

sample(
    INT + "trapezoid",
    call(data(9)),
    call(data(9), data(9, seed=1)),
    call(data(4, 5), dx=0.5, axis=0),
    call([1, 2, 3]),
    call(data(12)),
    ulp=256,
)
sample(
    INT + "cumulative_trapezoid",
    call(data(9)),
    call(data(4, 5), dx=0.5, axis=0, initial=0),
    call(data(12)),
    call([1, 2, 3]),
    ulp=256,
)
sample(
    INT + "simpson", call(data(9)), call(data(8)), call(data(9), x=np.sort(data(9))), call(data(4, 5), dx=0.5, axis=0), ulp=4096
)
sample(
    INT + "cumulative_simpson",
    call(data(9)),
    call(data(4, 5), dx=0.5, axis=0, initial=0),
    call(data(12)),
    call(data(9), x=np.arange(9.0)),
    ulp=4096,
)
sample(INT + "romb", call(data(9)), call(data(5), dx=0.5), call(data(3, 9), axis=1), call(data(8)), ulp=4096)
sample(INT + "newton_cotes", call(2), call(4), call(3, 1), call([0.0, 0.5, 2.0]), ulp=4096)
sample(INT + "fixed_quad", call(np.sin, 0.0, 1.0), call(np.exp, 0.0, 2.0, n=4), call(np.sin, 0, np.inf), ulp=4096)

sample(
    SPECIAL + "logsumexp",
    call(signal(5)),
    call(signal(3, 4), axis=1),
    call(signal(3, 4), 0, keepdims=True),
    call(signal(5), b=data(5)),
    call(signal(9)),
    ulp=4096,
)
sample(
    SPECIAL + "softmax",
    call(signal(5)),
    call(signal(3, 4), axis=1),
    call([1, 2, 3]),
    call(signal(9)),
    call(signal(5, dtype=np.float32)),
    ulp=4096,
)
sample(
    SPECIAL + "log_softmax",
    call(signal(5)),
    call(signal(3, 4), axis=1),
    call([1, 2, 3]),
    call(signal(9)),
    call(signal(5, dtype=np.float32)),
    ulp=4096,
)
sample(SPECIAL + "multigammaln", call(3.5, 2), call(data(4) + 3, 3), call(0.1, 3))
sample(SPECIAL + "diric", call(np.linspace(-6, 6, 25), 7), call(signal(9), 4), call([0.0, 1.0], 3), call(0.5, 2), ulp=1024)
sample(SPECIAL + "perm", call(10, 3), call(data(4), 2), call(10, 3, exact=True), call([3, 4], [1, 2]))
sample(
    SPECIAL + "comb", call(10, 3), call(data(4), 2), call(10, 3, exact=True), call([3, 4], [1, 2]), call(4, 2, repetition=True)
)
sample(SPECIAL + "factorial", call(5), call([1, 2, 3]), call(5, exact=True), call(np.arange(4), exact=True))
sample(SPECIAL + "polygamma", call(1, data(4)), call([0, 1], 2.0), call(2, 1.5))
sample(SPECIAL + "h1vp", call(1, data(3)), call(0, 1.5, 2))
sample(SPECIAL + "jvp", call(1, data(3)), call(0, 1.5, 2))
sample(SPECIAL + "bernoulli", call(4), call(9), call(1))
sample(SPECIAL + "zeta", call(2), call(data(3) + 1), call(2.0, 3.0))
sample(SPECIAL + "lmbda", call(1, 2.0), call(2, 3.5))

sample(FFT + "fftfreq", call(8), call(9, 0.5), call(5, d=2.0), call(1))
sample(FFT + "rfftfreq", call(8), call(9, 0.5), call(5, d=2.0), call(1))
sample(FFT + "fftshift", call(data(8)), call(data(3, 4)), call(data(3, 4), axes=1), call(data(9)))
sample(FFT + "ifftshift", call(data(8)), call(data(3, 4)), call(data(3, 4), axes=(0, 1)), call(data(9)))
sample(FFT + "fhtoffset", call(0.1, 1.0), call(0.1, mu=0.5, initial=0.2))

P = "scipy.interpolate."
sample(P + "lagrange", call([0.0, 1.0, 2.0], [1.0, 3.0, 2.0]), call(np.arange(4.0), data(4)), ulp=4096)
sample(P + "pade", call([1.0, 1.0, 0.5, 1 / 6, 1 / 24, 1 / 120], 2), call(data(5), 1), ulp=4096)
sample(P + "approximate_taylor_polynomial", call(np.exp, 0.3, 3, 1.0), call(np.exp, 0.5, 4, 1.0, 6), ulp=2**30)
_grid = (np.arange(4.0), np.arange(5.0))
sample(
    P + "interpn",
    call(_grid, data(4, 5), [1.5, 2.5]),
    call(_grid, data(4, 5), np.array([[0.5, 3.5], [2.2, 1.1]]), "nearest"),
    ulp=256,
)
sample(
    P + "barycentric_interpolate",
    call([0.0, 1.0, 2.0], [1.0, 3.0, 2.0], 0.5),
    call(np.arange(4.0), data(4), data(3) / 4),
    ulp=4096,
)
sample(P + "krogh_interpolate", call([0.0, 1.0, 2.0], [1.0, 3.0, 2.0], 0.5), call(np.arange(4.0), data(4), data(3) / 4), ulp=4096)

C = "scipy.constants."
sample(
    C + "convert_temperature",
    call(data(4), "C", "K"),
    call([32.0, 212], "Fahrenheit", "Celsius"),
    call(5.0, "K", "R"),
    call(1.0, "X", "K"),
)
sample(C + "lambda2nu", call(data(4)), call(5.0), call([1, 2]), call(data(7)))
sample(C + "nu2lambda", call(data(4)), call(5.0), call([1, 2]), call(data(7)))
