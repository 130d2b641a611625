"""The programs, in the order of the report."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np

from benchmarks.training.program import Data, Parameters, Program


def chain_loss(p, y):
    x = p["x"]
    return np.mean(np.tanh(x * y) * np.sin(x) + np.exp(-x * x))


def torch_chain_loss(p: Any, y: Any) -> Any:
    import torch

    x = p["x"]
    return torch.mean(torch.tanh(x * y) * torch.sin(x) + torch.exp(-x * x))


def chain(name: str, size: int, dtype: type, relative_error: float) -> Program:
    return Program(
        f"chain {name}",
        f"loss and gradient, mean(tanh(x*y)*sin(x) + exp(-x*x)), {size:,} {name}",
        chain_loss,
        torch_chain_loss,
        lambda rng: {"x": rng.standard_normal(size).astype(dtype)},
        lambda rng: (rng.standard_normal(size).astype(dtype),),
        forward_bound=3,
        relative_error=relative_error,
    )


def norm_loss(p, x, y):
    centered = x - np.mean(x, axis=-1, keepdims=True)
    variance = np.mean(centered * centered, axis=-1, keepdims=True)
    normal = centered / np.sqrt(variance + 1e-5) * p["gain"] + p["bias"]
    return np.mean((normal - y) ** 2)


def torch_norm_loss(p: Any, x: Any, y: Any) -> Any:
    from torch.nn import functional

    return functional.mse_loss(functional.layer_norm(x, x.shape[-1:], p["gain"], p["bias"], 1e-5), y)


NORM = Program(
    "layer norm",
    "training step of a layer norm, 4096x512 float32, gradient of x too",
    lambda p, y: norm_loss(p, p["x"], y),
    lambda p, y: torch_norm_loss(p, p["x"], y),
    lambda rng: {
        "x": rng.standard_normal((4096, 512), dtype=np.float32),
        "gain": np.ones(512, np.float32),
        "bias": np.zeros(512, np.float32),
    },
    lambda rng: (rng.standard_normal((4096, 512), dtype=np.float32),),
    rate=1e-3,
    relative_error=1e-4,
)


def logistic_loss(p, x, y):
    z = x @ p["w"] + p["b"]
    return np.mean(np.logaddexp(0, z) - y * z)


def torch_logistic_loss(p: Any, x: Any, y: Any) -> Any:
    from torch.nn import functional

    return functional.binary_cross_entropy_with_logits(x @ p["w"] + p["b"], y)


LOGISTIC = Program(
    "logistic",
    "training step of logistic regression, 10,000x100 float64",
    logistic_loss,
    torch_logistic_loss,
    lambda rng: {"w": np.zeros(100), "b": np.zeros(1)},
    lambda rng: (rng.standard_normal((10_000, 100)), (rng.uniform(size=10_000) < 0.5).astype(np.float64)),
    rate=1e-3,
)


def mlp_loss(p, x, labels):
    x = np.maximum(x @ p["w1"] + p["b1"], 0)
    x = np.maximum(x @ p["w2"] + p["b2"], 0)
    z = x @ p["w3"] + p["b3"]
    z = z - np.max(z, axis=1, keepdims=True)
    return np.mean(np.log(np.sum(np.exp(z), axis=1)) - z[np.arange(len(labels)), labels])


def torch_mlp_loss(p: Any, x: Any, labels: Any) -> Any:
    from torch.nn import functional

    x = functional.relu(functional.linear(x, p["w1"].T, p["b1"]))
    x = functional.relu(functional.linear(x, p["w2"].T, p["b2"]))
    return functional.cross_entropy(functional.linear(x, p["w3"].T, p["b3"]), labels)


def mlp_parameters(rng: np.random.Generator) -> Parameters:
    sizes = (784, 512, 512, 10)
    made: Parameters = {}
    for k, (m, n) in enumerate(pairwise(sizes), 1):
        made[f"w{k}"] = rng.standard_normal((m, n), dtype=np.float32) / np.float32(math.sqrt(m))
        made[f"b{k}"] = np.zeros(n, np.float32)
    return made


def mlp_data(rng: np.random.Generator) -> Data:
    return rng.standard_normal((256, 784), dtype=np.float32), rng.integers(0, 10, 256)


MLP = Program(
    "mlp",
    "training step of a perceptron, batch 256, 784-512-512-10, float32",
    mlp_loss,
    torch_mlp_loss,
    mlp_parameters,
    mlp_data,
    rate=1e-3,
    torch_bound=1.2,
    relative_error=1e-4,
)


def attention_loss(p, x, y):
    batch, tokens, width = x.shape
    q, k, v = ((x @ p[name]).reshape(batch, tokens, 8, width // 8).transpose(0, 2, 1, 3) for name in ("q", "k", "v"))
    scores = q @ k.transpose(0, 1, 3, 2) / math.sqrt(width // 8)
    weights = np.exp(scores - np.max(scores, axis=-1, keepdims=True))
    weights = weights / np.sum(weights, axis=-1, keepdims=True)
    mixed = (weights @ v).transpose(0, 2, 1, 3).reshape(batch, tokens, width)
    return norm_loss(p, x + mixed @ p["out"], y)


def torch_attention_loss(p: Any, x: Any, y: Any) -> Any:
    from torch.nn import functional

    batch, tokens, width = x.shape
    q, k, v = ((x @ p[name]).view(batch, tokens, 8, width // 8).transpose(1, 2) for name in ("q", "k", "v"))
    mixed = functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(batch, tokens, width)
    return torch_norm_loss(p, x + mixed @ p["out"], y)


def attention_parameters(rng: np.random.Generator) -> Parameters:
    square = {k: rng.standard_normal((256, 256), dtype=np.float32) / np.float32(16) for k in ("q", "k", "v", "out")}
    return {**square, "gain": np.ones(256, np.float32), "bias": np.zeros(256, np.float32)}


def attention_data(rng: np.random.Generator) -> Data:
    return rng.standard_normal((8, 128, 256), dtype=np.float32), rng.standard_normal((8, 128, 256), dtype=np.float32)


ATTENTION = Program(
    "attention",
    "training step of an attention block, batch 8, 128 tokens, 256 wide, 8 heads, float32",
    attention_loss,
    torch_attention_loss,
    attention_parameters,
    attention_data,
    rate=1e-3,
    torch_bound=1.2,
    relative_error=1e-3,
)

PROGRAMS = (chain("float64", 4_000_000, np.float64, 1e-9), chain("float32", 1_000_000, np.float32, 1e-4),
            NORM, LOGISTIC, MLP, ATTENTION)  # fmt: skip
