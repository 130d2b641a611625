"""The price of an Asian call option by Monte Carlo, with its Greeks by gradients.

python examples/options.py [--quick]
"""

import argparse

import numpy as np
from timing import show

import npcompile as npc


def price(spot, volatility, rate, strike, years, draws):
    """What the option is worth today: its payoff is how far the mean price is above the strike. `draws`: paths x steps."""
    step = years / draws.shape[1]
    moves = (rate - 0.5 * volatility**2) * step + volatility * np.sqrt(step) * draws
    paths = spot * np.exp(np.cumsum(moves, axis=1))
    payoff = np.maximum(paths.mean(axis=1) - strike, 0.0)
    return np.exp(-rate * years) * payoff.mean()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few paths")
    given = parser.parse_args()
    draws = np.random.default_rng(0).standard_normal((1_000 if given.quick else 50_000, 64))
    market = (100.0, 0.2, 0.03, 100.0, 1.0, draws)

    compiled = npc.compile(price)
    greeks = npc.compile(npc.value_and_grad(price, argnums=(0, 1, 2)))
    expected = show("NumPy", price, *market)
    show("compiled, first call", compiled, *market)
    show("compiled", compiled, *market, times=9)
    show("with Greeks, first call", greeks, *market)
    value, (delta, vega, rho) = show("with Greeks", greeks, *market, times=9)
    assert np.isclose(value, expected)
    up, down = price(100.01, *market[1:]), price(99.99, *market[1:])
    assert np.isclose(delta, (up - down) / 0.02, rtol=1e-3)
    print(f"price {value:.3f}, delta {delta:.3f}, vega {vega:.2f}, rho {rho:.2f}")


if __name__ == "__main__":
    main()
