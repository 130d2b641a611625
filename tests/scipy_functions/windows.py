"""scipy.signal.windows: arrays made from a length."""

from tests.scipy_functions.corpus import call, sample

W = "scipy.signal.windows."

# Odd, even, periodic, another length, the two lengths that are answered at once, and one that is refused.
LENGTHS = (call(51), call(50), call(50, sym=False), call(33, False), call(1), call(0), call(-1))

for _name in "barthann bartlett blackman blackmanharris bohman boxcar cosine flattop hamming hann nuttall parzen triang".split():
    sample(W + _name, *LENGTHS)

sample(W + "tukey", call(51), call(51, 0.25), call(40, alpha=0.5, sym=False), call(30, 0.0), call(30, 1.0), call(1))
sample(W + "exponential", call(51), call(51, tau=3.0), call(50, None, 2.0, False), call(40, 5.0, 2.0, sym=False), call(9, 1.0))
sample(W + "gaussian", call(51, 7), call(51, std=3.5), call(50, 7.0, sym=False), call(1, 2), call(0, 2))
sample(W + "general_cosine", call(51, [0.5, 0.5]), call(40, (0.4, 0.3, 0.3), sym=False), call(1, [1.0]), call(30, [0.1, 0.9]))
sample(W + "general_gaussian", call(51, 1.5, 7), call(50, p=1, sig=7.0), call(50, 0.5, 3.0, sym=False), call(1, 1.0, 1.0))
sample(W + "general_hamming", call(51, 0.54), call(50, alpha=0.7), call(50, 0.6, sym=False), call(1, 0.5))
sample(W + "taylor", call(51), call(50, nbar=3, sll=25), call(50, 4, 30, False), call(40, norm=False, sym=False), call(1))
sample(W + "chebwin", call(51, 100), call(50, 60), call(50, at=80.0, sym=False), call(1, 60), call(21, 40), ulp=4096)
sample(W + "kaiser", call(51, 14), call(50, beta=8.6), call(50, 5.0, sym=False), call(1, 2), call(0, 2))
sample(W + "lanczos", *LENGTHS)
sample(
    W + "get_window",
    call("hann", 51),
    call("boxcar", 20, fftbins=False),
    call(("tukey", 0.3), 30),
    call(("gaussian", 3.0), 30),
    call("no window", 30),
)
