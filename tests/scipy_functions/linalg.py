"""scipy.linalg: matrices with a name, and what is computed from matrices without LAPACK of SciPy's own."""

import numpy as np

from tests.scipy_functions.corpus import call, data, mask, sample, signal

L = "scipy.linalg."
LINKAGE = np.array([[0.0, 1, 0.5, 2], [2, 3, 0.6, 2], [4, 5, 0.9, 4]])

sample(L + "toeplitz", call(signal(6)), call(signal(5), signal(7)), call([1, 2, 3]), call(data(4), r=[1.0, 2.0]), call(signal(9)))
sample(L + "hankel", call(signal(6)), call(signal(5), signal(7)), call([1, 2, 3]), call(data(4), r=[1.0, 2.0]), call(signal(9)))
sample(L + "circulant", call(signal(6)), call([1, 2, 3]), call(signal(3, 4)), call(signal(9)), call(5.0))
sample(L + "companion", call(data(5)), call([1, 2, 3]), call(data(7)), call(data(2, 4)), call([0.0, 1.0]), call([1.0]))
sample(L + "hilbert", call(5), call(7), call(1), call(0))
sample(L + "invhilbert", call(5), call(3), call(5, exact=True), call(16))
sample(L + "pascal", call(5), call(4, kind="lower"), call(4, kind="upper", exact=False), call(6), call(4, kind="other"))
sample(L + "invpascal", call(5), call(4, kind="lower"), call(4, kind="upper", exact=False), call(6), call(4, kind="other"))
sample(L + "hadamard", call(8), call(4, dtype=float), call(16), call(1), call(6))
sample(L + "leslie", call(data(4), data(3)), call([0.1, 2.0, 1.0], [0.2, 0.8]), call(data(6), data(5)), call(data(4), data(4)))
sample(L + "block_diag", call(data(2, 3), data(4, 1)), call([[1, 2]], 3, data(2)), call(), call(data(3, 3)), call(data(2, 2, 2)))
sample(L + "helmert", call(5), call(5, full=True), call(8), call(1))
sample(L + "dft", call(5), call(8, scale="sqrtn"), call(8, "n"), call(3, scale="other"))
sample(L + "fiedler", call(signal(5)), call([1, 4, 12, 45, 77]), call(signal(8)), call(signal(1)), call(signal(2, 3)))
sample(L + "fiedler_companion", call(data(5)), call([1, -16, 86, -176, 105]), call(data(8)), call(data(2)), call([0, 1]))
sample(L + "convolution_matrix", call(data(4), 6), call([-1, 4, -2], 5, mode="same"), call(data(3), 5, "valid"), call(data(4), 0))
sample(L + "khatri_rao", call(data(3, 4), data(2, 4)), call(data(5, 2), data(3, 2)), call(data(3, 4), data(3, 3)))
sample(L + "orthogonal_procrustes", call(data(4, 3), data(4, 3, seed=1)), call(data(5, 2), data(5, 2, seed=1)), ulp=4096)
sample(L + "bandwidth", call(np.triu(data(4, 4))), call(np.tril(data(5, 5), 1)))
sample(
    L + "norm", call(signal(5)), call(signal(3, 4)), call(signal(3, 4), 1), call(signal(5), np.inf), call(signal(3, 4), axis=0)
)
sample(L + "issymmetric", call(np.eye(4)), call(data(4, 4)), call(data(3, 4)), call(np.eye(4), atol=1e-3))
sample(L + "diagsvd", call([1.0, 2.0, 3.0], 3, 4), call(data(3), 4, 3), call(data(2), 2, 2), call(data(2), 3, 3))
sample(L + "matmul_toeplitz", call(data(4), data(4, seed=1)), call((data(5), data(4)), data(4, 2)), ulp=4096)
sample("scipy.cluster.vq.whiten", call(data(5, 3)), call(data(7, 2)), call(np.ones((4, 2))), call(data(6, 3), check_finite=False))
sample("scipy.cluster.hierarchy.num_obs_linkage", call(LINKAGE), call(LINKAGE[:2]), call(data(4, 4)))
sample("scipy.ndimage.generate_binary_structure", call(2, 1), call(2, 2), call(3, 1), call(0, 1))
sample("scipy.ndimage.iterate_structure", call(mask(3, 3), 1), call(np.ones((3, 3), bool), 1))
sample("scipy.spatial.procrustes", call(data(4, 2), data(4, 2, seed=1)), call(data(6, 3), data(6, 3, seed=1)), ulp=4096)
