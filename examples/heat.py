"""Heat flows through a plate: an explicit scheme in whole-array NumPy, and frames for an animation.

python examples/heat.py [--quick] [--animation heat.gif]
"""

import argparse

import numpy as np
from timing import show

import npcompile as npc


def spread(u, steps, rate):
    """`u` after so many time steps. The borders keep their temperature."""
    u = u.copy()
    for _ in range(steps):
        inner = u[1:-1, 1:-1]
        around = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]
        u[1:-1, 1:-1] = inner + rate * (around - 4.0 * inner)
    return u


def plate(size):
    u = np.zeros((size, size))
    u[0] = 1.0
    u[size // 3 : size // 2, size // 4 : size // 2] = 2.0
    return u


def film(function, size, frames, steps):
    pictures = [plate(size)]
    for _ in range(frames):
        pictures.append(function(pictures[-1], steps, 0.2))
    return pictures


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a small plate")
    parser.add_argument("--animation", default="", help="file to write it to; needs matplotlib and Pillow")
    given = parser.parse_args()
    size, frames, steps = (40, 3, 10) if given.quick else (512, 20, 100)
    compiled = npc.compile(spread)
    print(f"{frames} frames of {steps} steps:")
    expected = show("NumPy", film, spread, size, frames, steps)
    show("compiled, first time", film, compiled, size, frames, steps)
    pictures = show("compiled", film, compiled, size, frames, steps, times=5)
    assert np.array_equal(pictures, expected)
    print(f"Mean temperature: {pictures[0].mean():.4f} before, {pictures[-1].mean():.4f} after.")
    if given.animation:
        import matplotlib.pyplot as plt
        from matplotlib.animation import ArtistAnimation

        figure = plt.figure()
        images = [[plt.imshow(u, vmin=0, vmax=2, cmap="inferno", animated=True)] for u in pictures]
        ArtistAnimation(figure, images, interval=80).save(given.animation)


if __name__ == "__main__":
    main()
