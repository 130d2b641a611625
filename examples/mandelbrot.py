"""A picture of the Mandelbrot set: one loop over the pixels, written as the definition says it.

python examples/mandelbrot.py [--quick] [--picture mandelbrot.png]
"""

import argparse

import numpy as np
from timing import show

import npcompile as npc


def escape_times(centre, width, rows, columns, most):
    """For each pixel, after how many steps z * z + c is further than 2 from 0; `most` where it never is."""
    times = np.empty((rows, columns), dtype=np.int64)
    step = width / columns
    for i in range(rows):
        for j in range(columns):
            x = centre.real + step * (j - columns / 2)
            y = centre.imag + step * (i - rows / 2)
            a, b, n = 0.0, 0.0, 0
            while n < most and a * a + b * b <= 4.0:
                a, b = a * a - b * b + x, 2.0 * a * b + y
                n += 1
            times[i, j] = n
    return times


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a small picture")
    parser.add_argument("--picture", default="", help="file to write it to; needs matplotlib")
    given = parser.parse_args()
    rows, columns = (30, 40) if given.quick else (300, 400)
    compiled = npc.compile(escape_times)
    picture = (-0.6 + 0j, 3.0, rows, columns, 200)
    expected = show("plain Python", escape_times, *picture)
    show("compiled, first call", compiled, *picture)
    times = show("compiled", compiled, *picture, times=9)
    assert np.array_equal(times, expected)
    print(f"{(times == 200).mean():.1%} of the pixels are in the set.")
    if given.picture:
        import matplotlib.pyplot as plt

        plt.imsave(given.picture, np.log(times), cmap="magma")


if __name__ == "__main__":
    main()
