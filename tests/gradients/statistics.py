"""Programs of statistics and finance."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.gradients.program import Program, positive, positive_definite, spread


def least_squares(w: Any, x: Any, y: Any) -> Any:
    residual = x @ w - y
    return 0.5 * np.sum(residual**2)


def ridge(w: Any, x: Any, y: Any, strength: Any) -> Any:
    return np.mean((np.dot(x, w) - y) ** 2) + strength * np.dot(w, w)


def logistic_regression(w: Any, b: Any, x: Any, y: Any) -> Any:
    logits = x @ w + b
    return np.mean(np.logaddexp(0, logits) - y * logits)


def softmax_regression(w: Any, x: Any, labels: Any) -> Any:
    logits = x @ w
    top = logits.max(axis=1, keepdims=True)
    normalizer = np.log(np.exp(logits - top).sum(axis=1)) + top[:, 0]
    return (normalizer - logits[np.arange(len(labels)), labels]).mean()


def poisson_regression(w: Any, x: Any, counts: Any) -> Any:
    rate = np.exp(x @ w)
    return np.sum(rate - counts * np.log(rate))


def gaussian_mixture(weights: Any, means: Any, log_scales: Any, x: Any) -> Any:
    z = (x[:, None, :] - means) * np.exp(-log_scales)
    log_density = -0.5 * np.sum(z**2, axis=-1) - log_scales.sum(-1) - 0.5 * x.shape[1] * np.log(2 * np.pi)
    mixed = log_density + weights - np.log(np.exp(weights).sum())
    return log_sum_exp(mixed).sum()


def log_sum_exp(x: Any) -> Any:
    top = np.max(x, axis=1, keepdims=True)
    return np.squeeze(top, 1) + np.log(np.sum(np.exp(x - top), axis=1))


def marginal_likelihood(log_parameters: Any, x: Any, y: Any) -> Any:
    """Of a Gaussian process with a squared exponential kernel."""
    amplitude, length, noise = np.exp(log_parameters)
    distance = (x[:, None] - x[None, :]) / length
    kernel = amplitude * np.exp(-0.5 * distance**2) + noise * np.eye(len(x))
    root = np.linalg.cholesky(kernel)
    half = np.linalg.solve(root, y)
    return 0.5 * half @ half + np.log(np.diag(root)).sum() + 0.5 * len(x) * np.log(2 * np.pi)


def mahalanobis(x: Any, mean: Any, covariance: Any) -> Any:
    centered = x - mean
    return np.sqrt(centered @ np.linalg.solve(covariance, centered))


def normal_log_density(x: Any, mean: Any, covariance: Any) -> Any:
    _, log_determinant = np.linalg.slogdet(covariance)
    d = x - mean
    return -0.5 * (np.einsum("ni,ij,nj->", d, np.linalg.inv(covariance), d) + len(x) * log_determinant)


def huber(w: Any, x: Any, y: Any) -> Any:
    error = np.abs(x @ w - y)
    return np.where(error < 1.0, 0.5 * error**2, error - 0.5).sum()


def pinball(w: Any, y: Any) -> Any:
    """Quantile regression; some residuals are exactly zero."""
    residual = y - w
    return np.mean(np.maximum(0.9 * residual, -0.1 * residual))


def moments(x: Any) -> Any:
    z = (x - x.mean(axis=0)) / x.std(axis=0)
    return np.mean(z**3) + np.var(x, ddof=1) + np.std(x, axis=1).sum()


def covariances(x: Any) -> Any:
    return np.sum(np.cov(x) ** 2) + np.cov(x[0], x[1])[0, 1]


def correlations(x: Any) -> Any:
    return np.corrcoef(x)[0, 1:].sum()


def wasserstein(x: Any, y: Any) -> Any:
    return np.mean(np.abs(np.sort(x) - np.sort(y)))


def ranks(x: Any) -> Any:
    order = np.argsort(x)
    return np.sum(x[order] * np.arange(len(x)))


def trimmed(x: Any) -> Any:
    return np.median(x) + np.quantile(x, 0.3) + np.percentile(x, 80) + np.sort(x)[2:-2].mean()


def kalman_step(state: Any, covariance: Any, observed: Any) -> Any:
    move = np.array([[1.0, 0.1], [0.0, 1.0]])
    look = np.array([[1.0, 0.0]])
    log_likelihood = 0.0
    for y in observed:
        state = move @ state
        covariance = move @ covariance @ move.T + 0.01 * np.eye(2)
        innovation = y - look @ state
        spread_of = look @ covariance @ look.T + 0.1
        gain = covariance @ look.T @ np.linalg.inv(spread_of)
        state = state + gain @ innovation
        covariance = (np.eye(2) - gain @ look) @ covariance
        log_likelihood = log_likelihood - 0.5 * np.sum(innovation**2 / spread_of[0, 0]) - 0.5 * np.log(spread_of[0, 0])
    return log_likelihood


def normal_cdf(x: Any) -> Any:
    """Abramowitz and Stegun 26.2.17."""
    t = 1 / (1 + 0.2316419 * np.abs(x))
    tail = np.exp(-x * x / 2) / np.sqrt(2 * np.pi)
    tail = tail * t * (0.319381530 + t * (-0.356563782 + t * (1.781477937 + t * (-1.821255978 + t * 1.330274429))))
    return np.where(x > 0, 1 - tail, tail)


def black_scholes(price: Any, strike: Any, years: Any, rate: Any, volatility: Any) -> Any:
    deviation = volatility * np.sqrt(years)
    d1 = (np.log(price / strike) + (rate + volatility**2 / 2) * years) / deviation
    call = price * normal_cdf(d1) - strike * np.exp(-rate * years) * normal_cdf(d1 - deviation)
    return call.sum()


def drawdown(returns: Any) -> Any:
    wealth = np.cumprod(1 + returns)
    peak = np.maximum.accumulate(wealth)
    return np.max(1 - wealth / peak)


def portfolio(weights: Any, returns: Any) -> Any:
    shares = np.exp(weights) / np.exp(weights).sum()
    gained = returns @ shares
    return -gained.mean() / gained.std(ddof=1) + 0.1 * np.sum(np.abs(np.diff(shares)))


def entropy(logits: Any) -> Any:
    p = np.exp(logits - logits.max())
    p /= p.sum()
    return -np.sum(np.where(p > 1e-3, p * np.log(p), 0.0))


def autoregression(coefficients: Any, series: Any) -> Any:
    loss = 0.0
    for t in range(2, len(series)):
        guess = coefficients[0] * series[t - 1] + coefficients[1] * series[t - 2]
        loss += (series[t] - guess) ** 2
    return loss / len(series)


def exponential_average(decay: Any, series: Any) -> Any:
    level = series[0]
    total = 0.0
    for value in series[1:]:
        total += (value - level) ** 2
        level = decay * level + (1 - decay) * value
    return total


def design(rng: np.random.Generator, count: int = 7, features: int = 3) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return rng.normal(size=features), rng.normal(size=(count, features)), rng.normal(size=count)


PROGRAMS = [
    Program(least_squares, design, (0, 1, 2)),
    Program(ridge, lambda rng: (*design(rng), np.float64(0.3)), (0, 3)),
    Program(logistic_regression, lambda r: (r.normal(size=3), r.normal(), r.normal(size=(7, 3)), r.integers(0, 2, 7)), (0, 1, 2)),
    Program(softmax_regression, lambda r: (r.normal(size=(3, 4)), r.normal(size=(7, 3)), r.integers(0, 4, 7)), (0, 1)),
    Program(poisson_regression, lambda r: (r.normal(size=3), r.normal(size=(7, 3)), r.integers(0, 5, 7))),
    Program(
        gaussian_mixture,
        lambda r: (r.normal(size=3), r.normal(size=(3, 2)), r.normal(size=(3, 2)), r.normal(size=(6, 2))),
        (0, 1, 2, 3),
    ),
    Program(marginal_likelihood, lambda r: (r.normal(size=3) * 0.3, np.sort(r.normal(size=6)), r.normal(size=6)), (0, 1, 2)),
    Program(mahalanobis, lambda r: (r.normal(size=3), r.normal(size=3), positive_definite(r, 3)), (0, 1, 2)),
    Program(normal_log_density, lambda r: (r.normal(size=(5, 3)), r.normal(size=3), positive_definite(r, 3)), (0, 1, 2)),
    Program(huber, lambda r: (*design(r)[:2], 3 * r.normal(size=7)), (0, 1)),
    Program(pinball, lambda r: (np.array([1.0, 2.0, 3.0, 4.0]), np.array([1.0, 2.5, 3.0, 2.0])), (0, 1), has_differences=False),
    Program(moments, lambda r: (r.normal(size=(4, 5)),)),
    Program(covariances, lambda r: (r.normal(size=(3, 6)),)),
    Program(correlations, lambda r: (r.normal(size=(3, 6)),)),
    Program(wasserstein, lambda r: (spread(r, 9), spread(r, 9) + 0.3), (0, 1)),
    Program(ranks, lambda r: (spread(r, 9),)),
    Program(trimmed, lambda r: (spread(r, 11),)),
    Program(kalman_step, lambda r: (r.normal(size=2), positive_definite(r, 2), r.normal(size=4)), (0, 1, 2)),
    Program(
        black_scholes,
        lambda r: (positive(r, 4) * 50, positive(r, 4) * 50, positive(r, 4), r.uniform(0, 0.1), positive(r, 4) / 4),
        (0, 1, 2, 3, 4),
    ),
    Program(drawdown, lambda r: (spread(r, 9) * 0.1,)),
    Program(portfolio, lambda r: (r.normal(size=4), r.normal(size=(8, 4))), (0, 1)),
    Program(entropy, lambda r: (2 * r.normal(size=6),)),
    Program(autoregression, lambda r: (r.normal(size=2), r.normal(size=8)), (0, 1)),
    Program(exponential_average, lambda r: (r.uniform(0.1, 0.9), r.normal(size=7)), (0, 1)),
]
