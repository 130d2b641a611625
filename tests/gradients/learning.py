"""Programs of machine learning: layers written out in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.gradients.program import Program, positive, spread

Generator = np.random.Generator


def gelu(x: Any) -> Any:
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def relu(x: Any) -> Any:
    return np.maximum(x, 0)


def sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def softmax(x: Any) -> Any:
    e = np.exp(x - np.max(x, axis=-1, keepdims=True))
    return e / np.sum(e, axis=-1, keepdims=True)


def perceptron(x: Any, parameters: Any, activation: Any) -> Any:
    for w, b in parameters[:-1]:
        x = activation(x @ w + b)
    w, b = parameters[-1]
    return np.mean((x @ w + b) ** 2)


def perceptron_tanh(x: Any, w1: Any, b1: Any, w2: Any, b2: Any) -> Any:
    return perceptron(x, [(w1, b1), (w2, b2)], np.tanh)


def perceptron_relu(x: Any, w1: Any, b1: Any, w2: Any, b2: Any) -> Any:
    return perceptron(x, [(w1, b1), (w2, b2)], relu)


def perceptron_gelu(x: Any, w1: Any, b1: Any, w2: Any, b2: Any) -> Any:
    return perceptron(x, [(w1, b1), (w2, b2)], gelu)


def batch_norm(x: Any, scale: Any, shift: Any) -> Any:
    normal = (x - x.mean(axis=0)) / np.sqrt(x.var(axis=0) + 1e-5)
    return np.sum(np.sin(scale * normal + shift))


def layer_norm(x: Any, scale: Any, shift: Any) -> Any:
    mean = np.mean(x, axis=-1, keepdims=True)
    variance = np.mean((x - mean) ** 2, axis=-1, keepdims=True)
    return np.sum(np.tanh(scale * (x - mean) / np.sqrt(variance + 1e-5) + shift))


def attention(q: Any, k: Any, v: Any) -> Any:
    weights = softmax(q @ k.T / np.sqrt(q.shape[-1]))
    return np.sum((weights @ v) ** 2)


def causal_attention(q: Any, k: Any, v: Any) -> Any:
    scores = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
    scores = np.where(np.tril(np.ones(scores.shape, bool)), scores, -np.inf)
    return np.sum(np.cos(softmax(scores) @ v))


def multi_head_attention(x: Any, joint: Any, out: Any) -> Any:
    length, width = x.shape
    q, k, v = np.split(x @ joint, 3, axis=-1)
    q, k, v = (part.reshape(length, 2, width // 2).transpose(1, 0, 2) for part in (q, k, v))
    scores = np.einsum("hqd,hkd->hqk", q, k) / np.sqrt(width // 2)
    mixed = np.einsum("hqk,hkd->qhd", softmax(scores), v).reshape(length, width)
    return np.sum(np.sin(mixed @ out))


def normalized(x: Any) -> Any:
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)


def transformer_block(x: Any, joint: Any, out: Any, up: Any, down: Any) -> Any:
    q, k, v = np.split(normalized(x) @ joint, 3, axis=-1)
    x = x + softmax(q @ k.T / np.sqrt(q.shape[-1])) @ v @ out
    x = x + gelu(normalized(x) @ up) @ down
    return np.mean(x**2)


def convolution_1d(signal: Any, kernel: Any) -> Any:
    size = len(signal) - len(kernel) + 1
    out = sum(kernel[i] * signal[i : i + size] for i in range(len(kernel)))
    return np.sum(out**2)


def convolution_1d_strided(signal: Any, kernel: Any) -> Any:
    columns = np.stack([signal[:, i : i + 5 : 2] for i in range(kernel.shape[1])], axis=-1)
    return np.sum(np.tanh(np.einsum("ctk,ck->t", columns, kernel)))


def convolution_2d(image: Any, kernel: Any) -> Any:
    rows, columns = kernel.shape
    height, width = image.shape[0] - rows + 1, image.shape[1] - columns + 1
    out = np.zeros((height, width))
    for i in range(rows):
        for j in range(columns):
            out = out + kernel[i, j] * image[i : i + height, j : j + width]
    return np.sum(relu(out) * out)


def convolution_2d_channels(images: Any, kernel: Any) -> Any:
    padded = np.pad(images, ((0, 0), (1, 1), (1, 1)))
    patches = np.stack([padded[:, i : i + 4, j : j + 4] for i in range(3) for j in range(3)], axis=1)
    return np.sum(np.einsum("okp,kpxy->oxy", kernel, patches) ** 2)


def max_pooling(image: Any) -> Any:
    height, width = image.shape
    blocks = image.reshape(height // 2, 2, width // 2, 2)
    return np.sum(blocks.max(axis=(1, 3)) ** 2)


def embedding(table: Any, words: Any) -> Any:
    """Some words occur several times."""
    return np.sum(np.sin(table[words]).mean(axis=0) ** 2)


def recurrent(x: Any, w: Any, u: Any, start: Any) -> Any:
    state = start
    for item in x:
        state = np.tanh(item @ w + state @ u)
    return state @ state


def long_short_term_memory(x: Any, w: Any, u: Any) -> Any:
    n = u.shape[0]
    h, c = np.zeros(n), np.zeros(n)
    for t in range(x.shape[0]):
        gates = x[t] @ w + h @ u
        i, f, o = sigmoid(gates[:n]), sigmoid(gates[n : 2 * n]), sigmoid(gates[2 * n : 3 * n])
        c = f * c + i * np.tanh(gates[3 * n :])
        h = o * np.tanh(c)
    return np.sum(h**2)


def contrastive(a: Any, b: Any) -> Any:
    a = a / np.linalg.norm(a, axis=1, keepdims=True)
    b = b / np.linalg.norm(b, axis=1, keepdims=True)
    scores = a @ b.T / 0.1
    return -np.mean(np.diag(scores) - np.log(np.exp(scores).sum(axis=1)))


def dropout(x: Any, kept: Any) -> Any:
    return np.sum(np.where(kept, x / 0.8, 0) ** 3)


def matrix_factorization(users: Any, items: Any, rows: Any, columns: Any, ratings: Any) -> Any:
    guess = np.sum(users[rows] * items[columns], axis=1)
    return np.mean((guess - ratings) ** 2) + 0.1 * (np.sum(users**2) + np.sum(items**2))


def steps_of_descent(w: Any, x: Any, y: Any, rate: Any) -> Any:
    """The loss after some steps, whose gradient is written out: with respect to the step size as well."""
    for _ in range(5):
        w = w - rate * x.T @ (x @ w - y) / len(y)
    return np.mean((x @ w - y) ** 2)


def layers(rng: Generator) -> tuple[Any, ...]:
    return rng.normal(size=(6, 3)), rng.normal(size=(3, 5)), rng.normal(size=5), rng.normal(size=(5, 2)), rng.normal(size=2)


def matrices(*shapes: tuple[int, ...]) -> Any:
    return lambda rng: tuple(rng.normal(size=shape) * 0.7 for shape in shapes)


PROGRAMS = [
    Program(perceptron_tanh, layers, (0, 1, 2, 3, 4)),
    Program(perceptron_relu, layers, (0, 1, 2, 3, 4)),
    Program(perceptron_gelu, layers, (0, 1, 2, 3, 4)),
    Program(batch_norm, matrices((6, 3), (3,), (3,)), (0, 1, 2)),
    Program(layer_norm, matrices((4, 5), (5,), (5,)), (0, 1, 2)),
    Program(attention, matrices((4, 3), (5, 3), (5, 2)), (0, 1, 2)),
    Program(causal_attention, matrices((2, 4, 3), (2, 4, 3), (2, 4, 2)), (0, 1, 2)),
    Program(multi_head_attention, matrices((4, 6), (6, 18), (6, 3)), (0, 1, 2)),
    Program(transformer_block, matrices((4, 3), (3, 9), (3, 3), (3, 6), (6, 3)), (0, 1, 2, 3, 4)),
    Program(convolution_1d, matrices((9,), (3,)), (0, 1)),
    Program(convolution_1d_strided, matrices((2, 8), (2, 3)), (0, 1)),
    Program(convolution_2d, matrices((6, 5), (3, 2)), (0, 1)),
    Program(convolution_2d_channels, matrices((2, 4, 4), (3, 2, 9)), (0, 1)),
    Program(max_pooling, lambda r: (spread(r, 4, 6),)),
    Program(embedding, lambda r: (r.normal(size=(5, 3)), np.array([0, 3, 3, -1, 0, 3]))),
    Program(recurrent, matrices((4, 3), (3, 5), (5, 5), (5,)), (0, 1, 2, 3)),
    Program(long_short_term_memory, matrices((3, 2), (2, 12), (3, 12)), (0, 1, 2)),
    Program(contrastive, matrices((4, 3), (4, 3)), (0, 1)),
    Program(dropout, lambda r: (r.normal(size=(3, 4)), r.random((3, 4)) < 0.8)),
    Program(
        matrix_factorization,
        lambda r: (r.normal(size=(4, 3)), r.normal(size=(5, 3)), r.integers(0, 4, 9), r.integers(0, 5, 9), positive(r, 9)),
        (0, 1, 4),
    ),
    Program(steps_of_descent, lambda r: (r.normal(size=3), r.normal(size=(6, 3)), r.normal(size=6), r.uniform(0.1, 0.5)), (0, 3)),
]
