"""scipy.spatial: distances of two vectors, and vectors of distances."""

import numpy as np

from tests.scipy_functions.corpus import call, data, mask, sample, signal

D = "scipy.spatial.distance."
u, v, w = signal(6), signal(6, seed=1), data(6)
p, q = signal(9), signal(9, seed=1)
a, b = mask(8), mask(8, seed=1)

PAIRS = (
    call(u, v),
    call([1, 2, 3], [1.5, 0.0, -2.0]),
    call(u, v, w),
    call(p, q),
    call(u.astype(np.float32), v.astype(np.float32)),
    call(np.arange(6), np.arange(6)[::-1]),
    call(u, p),
)
for _name in ("braycurtis", "canberra", "chebyshev", "cityblock", "correlation", "cosine", "euclidean", "sqeuclidean"):
    sample(D + _name, *PAIRS, ulp=1024)

sample(D + "minkowski", call(u, v), call(u, v, 3), call(u, v, p=1.5, w=w), call(p, q, 2), call(u, v, np.inf), call(u, v, -1))
sample(D + "seuclidean", call(u, v, w), call([1, 0, 0], [0, 1, 0], [0.1, 0.1, 0.1]), call(p, q, data(9)), call(u, v, p), ulp=1024)
sample(D + "mahalanobis", call(u, v, np.eye(6)), call(p, q, np.diag(data(9))), call([1, 0, 0], [0, 1, 0], np.eye(3)), ulp=1024)
sample(
    D + "jensenshannon", call(data(5), data(5, seed=1)), call(data(4, 3), data(4, 3, seed=1), axis=1), call(data(7), data(7), 2.0)
)

BOOLEAN_PAIRS = (call(a, b), call([1, 0, 1], [0, 1, 1]), call(a, b, data(8)), call(mask(5), mask(5, seed=1)), call(a, mask(5)))
for _name in ("dice", "hamming", "jaccard", "rogerstanimoto", "russellrao", "sokalsneath", "yule"):
    sample(D + _name, *BOOLEAN_PAIRS)

_square = np.abs(np.subtract.outer(data(5), data(5)))
sample(
    D + "is_valid_dm", call(_square), call(data(4, 4)), call(_square, tol=1e-3), call(data(3, 4)), call(data(3, 4), throw=True)
)
sample(D + "is_valid_y", call(data(6)), call(data(7)), call(data(7), throw=True), call(data(2, 3)), call(data(10)))
sample(D + "num_obs_dm", call(_square), call(data(4, 4)), call(np.zeros((3, 3))))
sample(D + "num_obs_y", call(data(6)), call(data(10)), call(data(7)))
sample(D + "squareform", call(data(6)), call(_square), call(data(10)), call(data(4, 4)), call(data(7)))

S = "scipy.spatial."
sample(
    S + "minkowski_distance",
    call(data(4, 3), data(4, 3, seed=1)),
    call([[0, 0]], [[1, 1]], 1),
    call(data(5, 2), data(5, 2), np.inf),
)
sample(
    S + "minkowski_distance_p",
    call(data(4, 3), data(4, 3, seed=1)),
    call([[0, 0]], [[1, 1]], 1),
    call(data(5, 2), data(5, 2), 3.0),
)
sample(S + "distance_matrix", call(data(4, 3), data(5, 3)), call([[0, 0]], [[1, 1]], 1), call(data(6, 3), data(2, 3), p=3))
sample(
    S + "geometric_slerp",
    call(np.array([1.0, 0.0]), np.array([0.0, 1.0]), np.linspace(0, 1, 5)),
    call([1.0, 0, 0], [0, 0, 1.0], 0.5),
    call(np.array([1.0, 0.0]), np.array([0.0, 1.0]), np.linspace(0, 1, 9)),
    call(np.array([1.0, 0.0]), np.array([0.0, 2.0]), 0.5),
)
