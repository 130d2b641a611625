"""Images: blurs, edges, convolutions by loops and by strides, pooling, colours."""

from __future__ import annotations

import numpy as np

from benchmarks.case import Function
from benchmarks.programs.program import Program

WEIGHTS = (0.0625, 0.25, 0.375, 0.25, 0.0625)


def blur(image):
    """Binomial blur of five points, rows then columns."""
    p = np.pad(image, 2, mode="edge")
    p = WEIGHTS[0] * (p[:-4] + p[4:]) + WEIGHTS[1] * (p[1:-3] + p[3:-1]) + WEIGHTS[2] * p[2:-2]
    return WEIGHTS[0] * (p[:, :-4] + p[:, 4:]) + WEIGHTS[1] * (p[:, 1:-3] + p[:, 3:-1]) + WEIGHTS[2] * p[:, 2:-2]


def sobel(image):
    """Magnitude of Sobel's gradient."""
    x = image[:-2, 2:] - image[:-2, :-2] + 2 * (image[1:-1, 2:] - image[1:-1, :-2]) + image[2:, 2:] - image[2:, :-2]
    y = image[2:, :-2] - image[:-2, :-2] + 2 * (image[2:, 1:-1] - image[:-2, 1:-1]) + image[2:, 2:] - image[:-2, 2:]
    return np.sqrt(x * x + y * y)


def convolution(image, kernel):
    """Convolution by a loop over the kernel's elements."""
    a, b = kernel.shape
    n, m = image.shape[0] - a + 1, image.shape[1] - b + 1
    out = np.zeros((n, m))
    for i in range(a):
        for j in range(b):
            out += kernel[i, j] * image[i : i + n, j : j + m]
    return out


def convolution_by_elements(image, kernel):
    """Convolution by a loop over the image's elements."""
    a, b = kernel.shape
    n, m = image.shape[0] - a + 1, image.shape[1] - b + 1
    out = np.empty((n, m))
    for i in range(n):
        for j in range(m):
            out[i, j] = np.sum(image[i : i + a, j : j + b] * kernel)
    return out


def convolution_by_strides(image, kernel):
    """Convolution by a window view and einsum."""
    windows = np.lib.stride_tricks.sliding_window_view(image, kernel.shape)
    return np.einsum("ijkl,kl->ij", windows, kernel)


def layer_convolution(images, kernels):
    """A network's convolution: images (n, h, w, c), kernels (k, k, c, d), float32."""
    k = kernels.shape[0]
    n, h, w, _ = images.shape
    out = np.zeros((n, h - k + 1, w - k + 1, kernels.shape[3]), np.float32)
    for i in range(k):
        for j in range(k):
            out += images[:, i : i + h - k + 1, j : j + w - k + 1, :] @ kernels[i, j]
    return np.maximum(out, 0)


def pooling(images):
    """Largest of each 2 x 2 window, mean of these over the channels, float32."""
    n, h, w, c = images.shape
    return images.reshape(n, h // 2, 2, w // 2, 2, c).max(axis=(2, 4)).mean(axis=-1)


def grey(image):
    """Colours to grey, contrast, back to bytes."""
    g = image[..., 0] * 0.299 + image[..., 1] * 0.587 + image[..., 2] * 0.114
    low, high = g.min(), g.max()
    return np.clip((g - low) / (high - low) * 255 + 0.5, 0, 255).astype(np.uint8)


def convolution_by_strides_torch() -> Function:
    import torch

    @torch.compile
    def convolve(image, kernel):
        windows = torch.from_numpy(image).unfold(0, kernel.shape[0], 1).unfold(1, kernel.shape[1], 1)
        return torch.einsum("ijkl,kl->ij", windows, torch.from_numpy(kernel)).numpy()

    return convolve


def blur_numba() -> Function:
    def padded(image):
        n, m = image.shape
        p = np.empty((n + 4, m + 4))
        p[2:-2, 2:-2] = image
        p[2:-2, :2], p[2:-2, -2:] = image[:, :1], image[:, -1:]
        p[:2], p[-2:] = p[2:3], p[-3:-2]
        p = WEIGHTS[0] * (p[:-4] + p[4:]) + WEIGHTS[1] * (p[1:-3] + p[3:-1]) + WEIGHTS[2] * p[2:-2]
        return WEIGHTS[0] * (p[:, :-4] + p[:, 4:]) + WEIGHTS[1] * (p[:, 1:-3] + p[:, 3:-1]) + WEIGHTS[2] * p[:, 2:-2]

    return padded


def convolution_numba() -> Function:
    import numba

    def loops(image, kernel):
        a, b = kernel.shape
        n, m = image.shape[0] - a + 1, image.shape[1] - b + 1
        out = np.zeros((n, m))
        for i in numba.prange(n):
            for k in range(a):
                for j in range(m):
                    for l in range(b):  # noqa: E741
                        out[i, j] += kernel[k, l] * image[i + k, j + l]
        return out

    return loops


def convolution_jax() -> Function:
    from jax import lax

    def convolve(image, kernel):
        return lax.conv_general_dilated(image[None, None], kernel[None, None], (1, 1), "VALID")[0, 0]

    return convolve


def layer_convolution_jax() -> Function:
    import jax.numpy as jnp
    from jax import lax

    def convolve(images, kernels):
        out = lax.conv_general_dilated(images, kernels, (1, 1), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC"))
        return jnp.maximum(out, 0)

    return convolve


def layer_convolution_numba() -> Function:
    import numba

    def loops(images, kernels):
        k, _, c, d = kernels.shape
        n, h, w, _ = images.shape
        out = np.zeros((n, h - k + 1, w - k + 1, d), np.float32)
        for row in numba.prange(n * (h - k + 1)):
            b, y = row // (h - k + 1), row % (h - k + 1)
            for x in range(w - k + 1):
                for i in range(k):
                    for j in range(k):
                        for a in range(c):
                            for o in range(d):
                                out[b, y, x, o] += images[b, y + i, x + j, a] * kernels[i, j, a, o]
        return np.maximum(out, 0)

    return loops


def pooling_numba() -> Function:
    import numba

    def loops(images):
        n, h, w, c = images.shape
        out = np.empty((n, h // 2, w // 2), np.float32)
        for row in numba.prange(n * (h // 2)):
            b, y = row // (h // 2), row % (h // 2)
            for x in range(w // 2):
                total = np.float32(0)
                for a in range(c):
                    total += images[b, 2 * y : 2 * y + 2, 2 * x : 2 * x + 2, a].max()
                out[b, y, x] = total / np.float32(c)
        return out

    return loops


def picture(rng, n):
    return (rng.random((n, n)),)


def filtered(rng, n, k):
    return rng.random((n, n)), rng.random((k, k))


PROGRAMS = (
    Program(blur, picture, ((8,), (400,), (2500,)), {"numba": blur_numba}),
    Program(sobel, picture, ((8,), (400,), (2500,))),
    Program(
        convolution,
        filtered,
        ((8, 3), (250, 7), (1200, 9)),
        {"numba": convolution_numba, "jax": convolution_jax},
        is_loop=True,
    ),
    Program(
        convolution_by_elements,
        filtered,
        ((6, 3), (64, 5), (300, 5)),
        {"jax": convolution_jax, "torch": "no loop over single elements"},
        is_loop=True,
    ),
    Program(
        convolution_by_strides,
        filtered,
        ((8, 3), (250, 7), (1200, 9)),
        {"numba": convolution_numba, "jax": convolution_jax, "torch": convolution_by_strides_torch},
    ),
    Program(
        layer_convolution,
        lambda rng, n, h, c, d: (
            rng.standard_normal((n, h, h, c), dtype=np.float32),
            rng.standard_normal((3, 3, c, d), dtype=np.float32),
        ),
        ((1, 5, 2, 2), (4, 32, 8, 16), (8, 128, 16, 32)),
        {"numba": layer_convolution_numba, "jax": layer_convolution_jax},
        relative_error=1e-5,
        is_loop=True,
    ),
    Program(
        pooling,
        lambda rng, n, h, c: (rng.standard_normal((n, h, h, c), dtype=np.float32),),
        ((1, 4, 2), (4, 64, 16), (16, 224, 32)),
        {"numba": pooling_numba},
        relative_error=1e-6,
    ),
    Program(
        grey,
        lambda rng, n: (rng.integers(0, 256, (n, n, 3), dtype=np.uint8),),
        ((6,), (400,), (2500,)),
        unlike=2e-3,  # sums that are halves by a rounding error
    ),
)
