"""numpy.fft: every function, length, norm, dtype and memory order against NumPy."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest
from numpy.fft import _pocketfft

from npcompile.numpy_shim.registry import FUNCTIONS
from npcompile.tensor_core import Decline
from tests.backends import HOST_BACKENDS
from tests.shim.harness import Capture, check
from tests.shim.layouts import LAYOUTS
from tests.tracer.harness import check as check_program

TRANSFORMS = {"fft": (False, True), "ifft": (False, False), "rfft": (True, True), "irfft": (True, False)}
NORMS = [None, "backward", "ortho", "forward"]


def agrees(a: Any, n: int, axis: int, kind: str, norm: str | None, **keywords: Any) -> bool:
    return check(_pocketfft._raw_fft, a, n, axis, *TRANSFORMS[kind], norm, **keywords)


@pytest.mark.parametrize("layout", [name for name, x in LAYOUTS.items() if np.ndim(x)])
@pytest.mark.parametrize("kind", TRANSFORMS)
def test_layouts(kind: str, layout: str) -> None:
    x = LAYOUTS[layout]
    for axis in range(-x.ndim, x.ndim):
        n = x.shape[axis]
        is_refused = kind == "rfft" and x.dtype.kind == "c"
        for length in {n, n + 3, max(n - 1, 1), 1, 8} - {0}:
            assert agrees(x, length, axis, kind, None, must_capture=not is_refused) != is_refused


@pytest.mark.parametrize("kind", TRANSFORMS)
@pytest.mark.parametrize("dtype", "?bBhHiIlLfdFD")
def test_dtypes(dtype: str, kind: str) -> None:
    x = (np.arange(30).reshape(5, 6) % 7 - 3 * (dtype not in "?BHIL")).astype(dtype)
    if kind == "rfft" and dtype in "FD":
        return
    for norm in NORMS:
        for n in (6, 7, 3):
            assert agrees(x, n, 1, kind, norm)


@pytest.mark.parametrize("kind", TRANSFORMS)
def test_out(kind: str) -> None:
    x = np.linspace(-1, 1, 24).reshape(4, 6).astype("d" if kind == "rfft" else "D")
    length = {"rfft": 4}.get(kind, 6)
    for dtype in "fdFD":
        out = np.ones((4, length), dtype).T.copy().T
        is_refused = kind != "irfft" and dtype in "fd"  # complex numbers into real ones
        assert agrees(x, 6, 1, kind, "ortho", out=out, must_capture=not is_refused) != is_refused
    assert not agrees(x, 6, 1, kind, None, out=np.ones((4, length + 1), "D"), must_capture=False)


@pytest.mark.parametrize(
    "arguments",
    [
        (np.ones((2, 0)), 0, 1, "fft", None),
        (np.ones(3), -2, 0, "fft", None),
        (np.ones(3), 2.5, 0, "fft", None),
        (np.ones(3), 3, 1, "fft", None),
        (np.ones(3), 3, 0, "fft", "backwards"),
        (np.ones(3, "e"), 3, 0, "irfft", None),
        (np.ones(3, "g"), 3, 0, "fft", None),
    ],
)
def test_declined(arguments: tuple[Any, ...]) -> None:
    a, n, axis, kind, norm = arguments
    capture = Capture()
    with pytest.raises(Decline):
        FUNCTIONS[_pocketfft._raw_fft](capture.builder, capture.wrap(a), n, axis, *TRANSFORMS[kind], norm)


# --- what users call: NumPy's own Python on top


on_the_host = functools.partial(check_program, backends=HOST_BACKENDS)  # another library's transforms round differently


@on_the_host(graphs=1, breaks=0)
def test_one_axis(x):
    f = np.fft
    spectrum = f.rfft(x, axis=0)
    return (
        f.fft(x), f.ifft(x * 1j, axis=0), f.fft(x, 8), f.fft(x, n=2, norm="ortho"), spectrum, f.irfft(spectrum, axis=0),
        f.irfft(spectrum, 5, 0), f.hfft(x), f.hfft(x, 7, norm="forward"), f.ihfft(x, axis=0),
    )  # fmt: skip


@on_the_host(np.arange(24.0).reshape(2, 3, 4), graphs=1, breaks=0)
def test_several_axes(x):
    f = np.fft
    return (
        f.fft2(x), f.ifft2(x), f.fftn(x), f.ifftn(x, norm="ortho"), f.fftn(x, axes=(0, 2)), f.fftn(x, s=(3, 5), axes=(0, 1)),
        f.rfft2(x), f.rfftn(x), f.irfft2(x), f.irfftn(x), f.rfftn(x, s=(2, -1), axes=(1, 2)), f.irfftn(x, s=(5,), axes=(0,)),
    )  # fmt: skip


@on_the_host(np.arange(24.0).reshape(2, 3, 4), graphs=1, breaks=0)
def test_frequencies_and_shifts(x):
    n = x.shape[2]
    return np.fft.fftfreq(n), np.fft.rfftfreq(n, 0.1), np.fft.fftshift(x), np.fft.ifftshift(x, axes=1), np.fft.fftfreq(n, d=2.0)


@on_the_host(np.arange(7), graphs=1, breaks=0)
def test_out_argument(x):
    out = np.empty(7, complex)
    result = np.fft.fft(x, out=out)
    return result is out, out * 2


@on_the_host(lambda round: np.arange(7.0 + 2 * round), rounds=4, graphs=2)
def test_other_sizes(x):
    return np.fft.irfft(np.fft.rfft(np.sin(x))), np.fft.fft(x, x.size + 3), np.fft.fft(x - x.mean()) * 2


@on_the_host(np.linspace(0, 3, 64), graphs=1, breaks=0)
def test_low_pass(x):
    spectrum = np.fft.rfft(np.sin(x) + 0.1 * np.cos(40 * x))
    spectrum[np.fft.rfftfreq(x.size) > 0.1] = 0
    return np.fft.irfft(spectrum, x.size)


@on_the_host(np.ones(3), graphs=0)
def test_wrong_length(x):
    return np.fft.fft(x, 0)


@on_the_host(np.ones((3, 2)), graphs=0)
def test_wrong_axis(x):
    return np.fft.fft(x, axis=2)
