"""scipy.signal: waveforms, filters' coefficients and parameters, what is done to signals."""

import numpy as np

from tests.scipy_functions.corpus import call, data, sample, signal

G = "scipy.signal."
t = np.linspace(0, 1, 50)
s = np.linspace(-1, 2, 33)

sample(
    G + "sawtooth",
    call(t),
    call(6 * t, 0.5),
    call(s, width=0.25),
    call([0.0, 1.0, 7.0]),
    call(t.astype(np.float32)),
    call(t, 2.0),
)
sample(G + "square", call(t), call(6 * t, 0.3), call(s, duty=0.25), call([0.0, 1.0, 7.0]), call(6 * t, 0.5 + 0.3 * np.sin(t)))
sample(
    G + "gausspulse",
    call(t),
    call(s, fc=5, retquad=True, retenv=True),
    call("cutoff", fc=5),
    call(t, fc=-1),
    call(s, 8.0, 0.4),
    ulp=4096,
)
sample(
    G + "chirp",
    call(t, 6, 1, 10),
    call(t, 1.0, 2.0, 5.0, "quadratic"),
    call(s, 1, 2, 9, method="logarithmic", phi=30),
    call(t, 1, 2, 3, "no"),
    ulp=1024,
)
sample(G + "unit_impulse", call(8), call(7, 2), call((3, 3), "mid"), call((3, 4), (1, 2), dtype=int), call(9))
sample(G + "sweep_poly", call(t, np.poly1d([0.025, -0.36, 1.25, 2.0])), call(s, [1.0, 2.0], phi=10), ulp=1024)
sample(
    G + "detrend",
    call(signal(20)),
    call(signal(4, 9), type="constant"),
    call(signal(4, 9), 0, "linear"),
    call(signal(33)),
    ulp=4096,
)
sample(
    G + "hilbert",
    call(signal(20)),
    call(signal(21)),
    call(signal(20), 32),
    call(signal(3, 8), axis=0),
    call(signal(16, dtype=complex)),
    ulp=4096,
)
sample(G + "kaiser_atten", call(211, 0.0375), call(100, 0.1), call(64, width=0.2))
sample(G + "kaiser_beta", call(65), call(40.0), call(10))
sample(G + "kaiserord", call(65, 0.0375), call(40.0, 0.1), call(5, 0.1))
sample(
    G + "firwin", call(11, 0.3), call(12, [0.2, 0.6], pass_zero=False), call(11, 0.3, window="blackman"), call(15, 0.3), ulp=1024
)
sample(G + "savgol_coeffs", call(5, 2), call(7, 3, deriv=1), call(5, 2, use="dot"), call(9, 2, pos=2), call(4, 5), ulp=4096)
sample(G + "tf2zpk", call([1.0, 2.0], [1.0, 3.0, 2.0]), call(data(3), data(4)), call([1.0], [2.0, 1.0]), ulp=1024)
sample(G + "zpk2tf", call([0.5], [0.2, 0.3], 2.0), call(data(2), data(3), 1.0), call([], [1 + 1j, 1 - 1j], 3), ulp=256)
sample(
    G + "normalize", call([1.0, 2.0], [2.0, 3.0, 2.0]), call([0.0, 1.0], [4.0, 1.0]), call([1, 2], [0, 0]), call(data(3), data(5))
)
sample(G + "lp2lp", call([1.0], [1.0, 1.0, 1.0], 2.0), call(data(2), data(4), 3.0), call([1, 2], [1, 3, 1], 2), ulp=256)
sample(G + "lp2hp", call([1.0], [1.0, 1.0, 1.0], 2.0), call(data(2), data(4), 3.0), call([1, 2], [1, 3, 1], 2), ulp=256)
sample(G + "lp2bp", call([1.0], [1.0, 1.0, 1.0], 2.0, 0.5), call(data(2), data(4), 3.0), ulp=256)
sample(G + "lp2bs", call([1.0], [1.0, 1.0, 1.0], 2.0, 0.5), call(data(2), data(4), 3.0), ulp=256)
sample(G + "bilinear", call([1.0], [1.0, 1.0], 2.0), call([1.0, 2.0], [1.0, 1.0, 3.0], 10.0), call(data(3), data(4)), ulp=1024)
sample(G + "bilinear_zpk", call([0.5], [0.2, 0.3], 2.0, 10.0), call(data(2), data(3), 1.0, 5), ulp=256)
sample(G + "lp2lp_zpk", call([0.5], [0.2, 0.3], 2.0, 10.0), call(data(2), data(3), 1.0), ulp=256)
sample(G + "buttap", call(4), call(5), call(0), call(-1))
sample(G + "cheb1ap", call(4, 1.0), call(5, 0.5), call(0, 1.0), ulp=256)
sample(G + "cheb2ap", call(4, 20.0), call(5, 40.0), call(0, 20.0), ulp=256)
sample(G + "freqs", call([1.0, 2.0], [1.0, 3.0, 2.0], [0.1, 1.0, 10.0]), call(data(2), data(3), data(9)), ulp=4096)
sample(G + "freqz", call([1.0, 0.5], 1, 16), call(data(3), data(2), data(9)), call(data(4), worN=32, whole=True), ulp=4096)
sample(G + "group_delay", call(([1.0, 0.5], [1.0]), 16), call((data(3), data(2)), data(9)), ulp=4096)
sample(G + "correlation_lags", call(5, 4), call(7, 3, "same"), call(7, 3, mode="valid"), call(7, 3, "other"))
sample(G + "unique_roots", call([0, 1.3, 1.31, 2.8, 1.25, 2.2, 10.3]), call(data(4), 0.5, "min"), call([1.0, 1.0]))
sample(G + "vectorstrength", call(data(9), 2.0), call(data(9), [2.0, 3.0]), call(data(12), 1.5), call(data(4), -1.0), ulp=1024)
sample(
    G + "argrelmax",
    call(signal(20)),
    call(signal(4, 9), axis=1),
    call(signal(20), order=2),
    call(signal(33)),
    call(signal(9), order=0),
)
sample(G + "argrelmin", call(signal(20)), call(signal(4, 9), axis=1), call(signal(20), mode="wrap"), call(signal(33)))
sample(G + "periodogram", call(signal(20)), call(signal(32), 2.0, "hann"), call(signal(3, 16), scaling="spectrum"), ulp=4096)
sample(G + "welch", call(signal(64), nperseg=16), call(signal(128), 2.0, nperseg=32), ulp=4096)
sample(G + "residue", call([1.0, 2.0], [1.0, 3.0, 2.0]), call([5, 3, -2, 7], [-4, 0, 8, 3]), ulp=4096)
sample(G + "invres", call([-1.0, 2.0], [-1.0, -2.0], []), call(data(2), [0.5, 0.5], [1.0]), ulp=4096)
sample(G + "resample", call(signal(20), 10), call(signal(20), 30), call(signal(3, 8), 4, axis=1), ulp=4096)
sample(G + "tf2ss", call([1.0, 3.0, 3.0], [1.0, 2.0, 1.0]), call(data(2), data(4)), call([2.0], [1.0]))
sample(G + "abcd_normalize", call(data(2, 2), data(2, 1), data(1, 2), data(1, 1)), call(data(3, 3), data(3, 1), data(1, 3)))
sample(G + "wiener", call(signal(9)), call(signal(5, 6), 3), call(signal(12), 5, 0.5), ulp=4096)
sample(G + "minimum_phase", call(data(9)), call(data(11), "hilbert"), ulp=2**30)
