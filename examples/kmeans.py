"""k-means clusters of the rows of a pandas table.

python examples/kmeans.py [--quick]
"""

import argparse

import numpy as np
import pandas as pd
from timing import show

import npcompile as npc


def k_means(points, centres, most):
    """Centres (clusters x columns) and the cluster of each point, after as many rounds as change something, or `most`."""
    labels = np.zeros(len(points), dtype=np.int64)
    for _ in range(most):
        distances = ((points[:, None, :] - centres[None, :, :]) ** 2).sum(axis=2)
        nearest = distances.argmin(axis=1)
        if (nearest == labels).all():
            break
        labels = nearest
        sums, counts = np.zeros_like(centres), np.zeros(len(centres))
        for i in range(len(points)):
            sums[labels[i]] += points[i]
            counts[labels[i]] += 1.0
        centres = sums / np.maximum(counts, 1.0)[:, None]
    return centres, labels


def table(rows):
    """Heights and weights of three kinds of people."""
    rng = np.random.default_rng(0)
    kinds = rng.integers(0, 3, rows)
    heights = np.take([150.0, 165.0, 185.0], kinds) + rng.normal(0, 4, rows)
    weights = np.take([50.0, 70.0, 95.0], kinds) + rng.normal(0, 5, rows)
    return pd.DataFrame({"height": heights, "weight": weights})


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a short table")
    given = parser.parse_args()
    people = table(500 if given.quick else 50_000)
    points = people.to_numpy()
    begin = points[:3].copy()
    compiled = npc.compile(k_means)
    expected = show("Python and NumPy", k_means, points, begin, 50)
    show("compiled, first call", compiled, points, begin, 50)
    centres, labels = show("compiled", compiled, points, begin, 50, times=9)
    assert np.array_equal(centres, expected[0])
    assert np.array_equal(labels, expected[1])
    people["cluster"] = labels
    print(people.groupby("cluster").mean().round(1))


if __name__ == "__main__":
    main()
