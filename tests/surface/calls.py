"""Calls of every public numeric name of NumPy: one expression a line, over the arrays of `tests.surface.arguments`.

The name that a line is of is the first one in it, or stands before a colon. A name may have several lines: other keywords,
other operands.
"""

from __future__ import annotations

import re

import numpy as np

MAIN = """
np.all(m) ; np.all(x, axis=1) ; np.all(x > 0, axis=0, keepdims=True)
np.allclose(x, y)
np.amax(x, axis=0)
np.amin(x, axis=1, keepdims=True)
np.angle(z) ; np.angle(z, deg=True)
np.any(m) ; np.any(x, axis=(0, 1))
np.append(v, w) ; np.append(x, y, axis=0)
np.apply_along_axis(lambda r: r - r[0], 1, x) ; np.apply_along_axis(np.sum, 0, x) ; np.apply_along_axis(np.diag, 1, c)
np.apply_over_axes(np.sum, c, [0, 2])
np.arange(6) ; np.arange(1.0, x.shape[0], 0.5)
np.argmax(x) ; np.argmax(x, axis=1)
np.argmin(x) ; np.argmin(x, axis=0, keepdims=True)
np.argpartition(v, 2)
np.argsort(v) ; np.argsort(x, axis=0, kind="stable")
np.argwhere(x > 0)
np.around(x, 1)
np.array(x) ; np.array([v, w]) ; np.array(x, order="F", ndmin=3)
np.array_equal(x, y) ; np.array_equal(x, x)
np.array_equiv(x, x[0])
np.array_split(v, 4)
np.asanyarray(x)
np.asarray(x) ; np.asarray(x, dtype=np.complex128)
np.asarray_chkfinite(x)
np.ascontiguousarray(x.T)
np.asfortranarray(x)
np.astype(x, np.float32)
np.atleast_1d(x) ; np.atleast_1d(x[0, 0], v)
np.atleast_2d(v)
np.atleast_3d(x)
np.average(x) ; np.average(x, axis=1, weights=x[0])
np.bartlett(n)
np.bincount(k) ; np.bincount(k, minlength=9) ; np.bincount(k, weights=v)
np.blackman(n)
np.block([[x, y], [y, x]])
np.broadcast_arrays(x, x[0])
np.broadcast_shapes((3, 1), x.shape)
np.broadcast_to(v, (2, 6))
np.can_cast(x.dtype, np.float64)
np.choose(k, (v, w, v)) ; np.choose(k, (v, w), mode="wrap")
np.clip(x, 1, 2) ; np.clip(x, y, None)
np.column_stack((v, w))
np.common_type(x, y)
np.compress(b, v) ; np.compress([True, False, True], x, axis=0)
np.concat((x, y), axis=1)
np.concatenate((x, y)) ; np.concatenate((x, y), axis=None)
np.convolve(v, w[:3]) ; np.convolve(v, w, mode="same")
np.copy(x) ; np.copy(x.T, order="C")
np.copyto(x, y) ; np.copyto(x, y, where=m)
np.corrcoef(x) ; np.corrcoef(v, w)
np.correlate(v, w) ; np.correlate(v, w[:3], mode="full")
np.count_nonzero(x) ; np.count_nonzero(m, axis=1)
np.cov(x) ; np.cov(v, w, ddof=0)
np.cross(x[:, :3], y[:, :3])
np.cumprod(v) ; np.cumprod(x, axis=1)
np.cumsum(v) ; np.cumsum(x, axis=0, dtype=np.complex128)
np.cumulative_prod(v, include_initial=True)
np.cumulative_sum(v)
np.delete(v, 2) ; np.delete(x, [0, 2], axis=1) ; np.delete(v, slice(1, 3))
np.diag(v) ; np.diag(x, 1)
np.diag_indices(3)
np.diag_indices_from(a)
np.diagflat(v)
np.diagonal(x) ; np.diagonal(c, 1, 1, 2)
np.diff(v) ; np.diff(x, 2, axis=0)
np.digitize(v, np.array([0.0, 1.0, 2.0])) ; np.digitize(x, np.array([2.0, 1.0]), right=True)
np.dot(a, a) ; np.dot(v, w) ; np.dot(x, x[0])
np.dsplit(c, 2)
np.dstack((x, y))
np.ediff1d(v)
np.einsum("ij,kj->ik", x, y) ; np.einsum("ii", a)
np.einsum_path("ij,jk->ik", a, a)
np.empty((2, 3)).shape
np.empty_like(x).shape
np.expand_dims(x, 1)
np.extract(m, x)
np.eye(3) ; np.eye(3, 4, 1, dtype=np.int8)
np.fill_diagonal(a, 2) ; np.fill_diagonal(x, v[0])
np.fix(x)
np.flatnonzero(x > 0)
np.flip(x) ; np.flip(x, 1)
np.fliplr(x)
np.flipud(x)
np.fromfunction(lambda i, j: i + j, (3, 4))
np.full((2, 3), 1.5) ; np.full((2, 2), v[0])
np.full_like(x, 2)
np.geomspace(1.0, 8.0, 4)
np.gradient(v) ; np.gradient(x, axis=0)
np.hamming(n)
np.hanning(n)
np.histogram(v) ; np.histogram(v, bins=4, range=(0.0, 3.0)) ; np.histogram(v, bins=[0.0, 1.0, 2.0])
np.histogram2d(v, w)
np.histogram_bin_edges(v, bins=3)
np.histogramdd((v, w), bins=3)
np.hsplit(x, 2)
np.hstack((x, y))
np.i0(v)
np.identity(3)
np.imag(z) ; np.imag(x)
np.indices((2, 3))
np.inner(v, w) ; np.inner(x, y)
np.insert(v, 2, 1) ; np.insert(x, 1, x[0], axis=0)
np.interp(v, np.array([0.0, 1.0, 2.0]), np.array([1.0, 0.5, 3.0]))
np.intersect1d(v, w)
np.isclose(x, y) ; np.isclose(x, y, equal_nan=True)
np.iscomplex(z)
np.iscomplexobj(x)
np.isdtype(x.dtype, "real floating")
np.isfortran(x)
np.isin(v, w) ; np.isin(k, [1, 2], invert=True)
np.isneginf(x)
np.isposinf(x)
np.isreal(z) ; np.isreal(x)
np.isrealobj(x)
np.isscalar(x) ; np.isscalar(v[0])
np.issubdtype(x.dtype, np.floating)
np.iterable(x)
np.ix_(k, [0, 1]) ; x[np.ix_([0, 2], [1, 3])]
np.kaiser(n, 8.0)
np.kron(x, a)
np.lexsort((v, w))
np.linspace(0.0, 1.0, 5) ; np.linspace(v[0], v[1], 4)
np.logspace(0.0, 1.0, 5)
np.mask_indices(3, np.triu)
np.matrix_transpose(c)
np.max(x) ; np.max(x, axis=0) ; np.max(x, initial=9, where=m)
np.mean(x) ; np.mean(x, axis=1) ; np.mean(x, axis=0, where=m)
np.median(x) ; np.median(x, axis=1)
np.meshgrid(v, w[:2]) ; np.meshgrid(v, w, indexing="ij", sparse=True)
np.min(x) ; np.min(x, axis=(0, 1))
np.min_scalar_type(x) ; np.min_scalar_type(300)
np.mintypecode(["d", "f"])
np.moveaxis(c, 0, -1)
np.nan_to_num(x) ; np.nan_to_num(x, nan=1.0, copy=False)
np.nanargmax(x, axis=1)
np.nanargmin(x)
np.nancumprod(v)
np.nancumsum(x, axis=0)
np.nanmax(x) ; np.nanmax(x, axis=0)
np.nanmean(x) ; np.nanmean(x, axis=0)
np.nanmedian(x) ; np.nanmedian(x, axis=1) ; np.nanmedian(c, axis=0)
np.nanmin(x, axis=1)
np.nanpercentile(x, 30) ; np.nanpercentile(x, [30, 60], axis=0)
np.nanprod(x)
np.nanquantile(x, 0.3) ; np.nanquantile(c, [0.3, 0.5], axis=1, keepdims=True)
np.nanstd(x, axis=0) ; np.nanstd(c, axis=(0, 2), ddof=1)
np.nansum(x) ; np.nansum(x, axis=1)
np.nanvar(x) ; np.nanvar(c, axis=0, keepdims=True)
np.ndim(x)
np.nonzero(x) ; np.nonzero(b)
np.ones((2, 3)) ; np.ones(x.shape, np.int32)
np.ones_like(x)
np.outer(v, w)
np.packbits(b) ; np.packbits(m, axis=1)
np.pad(x, 1) ; np.pad(v, (1, 2), mode="reflect") ; np.pad(x, 1, mode="edge")
np.partition(v, 2)
np.percentile(x, 30) ; np.percentile(x, [30, 60], axis=0)
np.permute_dims(c, (1, 2, 0))
np.piecewise(v, [v < 1, v >= 1], [-1, 1])
np.place(x, m, [1, 2])
np.poly(v[:3])
np.polyadd(v, w)
np.polyder(v)
np.polydiv(v, w[:3])
np.polyfit(v, w, 2)
np.polyint(v)
np.polymul(v, w)
np.polysub(v, w)
np.polyval(v, w)
np.prod(x) ; np.prod(x, axis=0)
np.promote_types(x.dtype, np.int8)
np.ptp(x) ; np.ptp(x, axis=1)
np.put(x, [0, 2], [1, 2]) ; np.put(v, k, w, mode="wrap")
np.put_along_axis(x, np.array([[0], [1], [2]]), 1, axis=1)
np.putmask(x, m, y)
np.quantile(x, 0.3) ; np.quantile(x, 0.3, axis=0, method="nearest")
np.ravel(x) ; np.ravel(x, order="F")
np.ravel_multi_index((k, k), (6, 6))
np.real(z) ; np.real(x)
np.real_if_close(x) ; np.real_if_close(z)
np.repeat(v, 2) ; np.repeat(x, [1, 2, 0], axis=0) ; np.repeat(v, k)
np.require(x, requirements="C")
np.reshape(x, (4, 3)) ; np.reshape(x, -1, order="F")
np.resize(v, (2, 5))
np.result_type(x, np.float32) ; np.result_type(x, 1)
np.roll(v, 2) ; np.roll(x, 1, axis=0)
np.rollaxis(c, 2)
np.roots(np.array([1.0, -3.0, 2.0])) ; np.roots(v)
np.rot90(x)
np.row_stack((v, w))
np.round(x) ; np.round(x, 1)
np.searchsorted(np.array([0.0, 1.0, 2.0]), v) ; np.searchsorted(k[:1], k, side="right")
np.select([v < 1, v > 2], [v, w], 7)
np.setdiff1d(v, w)
np.setxor1d(v, w)
np.shape(x)
np.sinc(x)
np.size(x) ; np.size(x, 1)
np.sort(v) ; np.sort(x, axis=0) ; np.sort(x, axis=None)
np.sort_complex(z)
np.split(v, 3) ; np.split(v, [1, 4])
np.squeeze(x[:1])
np.stack((x, y)) ; np.stack((x, y), axis=-1)
np.std(x) ; np.std(x, axis=0, ddof=1)
np.sum(x) ; np.sum(x, axis=0) ; np.sum(x, axis=(0, 1), keepdims=True) ; np.sum(c, axis=-1, where=c > 1)
np.swapaxes(c, 0, 2)
np.take(x, k) ; np.take(x, [0, 2], axis=1) ; np.take(v, k, mode="clip")
np.take_along_axis(x, np.array([[0], [1], [2]]), axis=1)
np.tensordot(x, y, axes=([0, 1], [0, 1])) ; np.tensordot(a, a, 1)
np.tile(v, 2) ; np.tile(x, (2, 1))
np.trace(a) ; np.trace(c, 1, 1, 2)
np.transpose(x) ; np.transpose(c, (1, 2, 0))
np.trapezoid(v) ; np.trapezoid(x, dx=0.5, axis=0)
np.tri(3, 4)
np.tril(x) ; np.tril(x, -1)
np.tril_indices(3)
np.tril_indices_from(a)
np.trim_zeros(v)
np.triu(x) ; np.triu(x, 1)
np.triu_indices(3, 1)
np.triu_indices_from(a)
np.union1d(v, w)
np.unique(v) ; np.unique(k) ; np.unique(v, return_index=True, return_inverse=True, return_counts=True)
np.unique_all(v)
np.unique_counts(v)
np.unique_inverse(v)
np.unique_values(v)
np.unpackbits(k.astype(np.uint8)) ; np.unpackbits(u)
np.unravel_index(k, (2, 3)) ; np.unravel_index(4, (2, 3))
np.unstack(x)
np.unwrap(v)
np.vander(v, 3)
np.var(x) ; np.var(x, axis=1, ddof=1)
np.vdot(v, w) ; np.vdot(z, z)
np.vsplit(x, 3)
np.vstack((v, w))
np.where(m, x, y) ; np.where(x > 0) ; np.where(m, x, 0)
np.zeros((2, 3)) ; np.zeros(x.shape, x.dtype, order="F")
np.zeros_like(x)
np.mgrid: np.mgrid[0:2, 0:3]
np.ogrid: np.ogrid[0:2, 0:3]
np.r_: np.r_[v, 0, w] ; np.r_[0:3]
np.c_: np.c_[v, w]
np.s_: x[np.s_[1:, ::2]]
np.index_exp: x[np.index_exp[1:]]
np.newaxis: v[:, np.newaxis]
np.finfo(np.float32).eps ; np.finfo(x.dtype).max
np.iinfo(np.int8).max
"""

METHODS = """
x.T
x.all() ; x.all(axis=0)
x.any() ; x.any(axis=1)
x.argmax() ; x.argmax(axis=0)
x.argmin(axis=1)
v.argpartition(2)
v.argsort()
x.astype(np.float32) ; x.astype(complex, order="F") ; x.astype(x.dtype, copy=False)
x.base
x.byteswap()
k.choose((v, w, v))
x.clip(1, 2)
v.compress(b)
z.conj()
z.conjugate()
x.copy() ; x.copy(order="F")
x.ctypes
v.cumprod()
x.cumsum(axis=0)
x.data.nbytes
x.device
x.diagonal()
a.dot(a)
x.dtype
x.dump
x.dumps()
x.fill(2)
x.flags.c_contiguous ; x.flags.writeable
x.flat[3] ; x.flat[1:6:2] ; np.sum(x.flat) ; list(x.flat)
x.flatten() ; x.flatten("F")
v.getfield(v.dtype, 0)
z.imag
x.item(0) ; x[0, 0].item() ; x.item(1, 2)
x.itemsize
c.mT
x.max() ; x.max(axis=0)
x.mean() ; x.mean(axis=1)
x.min(axis=1)
x.nbytes
x.ndim
x.nonzero()
v.partition(2)
x.prod()
x.put([0, 2], 1)
x.ravel()
z.real
v.repeat(2)
x.reshape(4, 3) ; x.reshape(-1)
v.resize((2, 2), refcheck=False)
x.round(1)
v.searchsorted(w)
v.setfield(1, v.dtype)
x.setflags(write=False)
x.shape
x.size
v.sort() ; x.sort(axis=0)
x.squeeze()
x.std(axis=0)
x.strides
x.sum() ; x.sum(axis=1)
x.swapaxes(0, 1)
x.take(k)
x.to_device("cpu") ; (x + 1).to_device("cpu", stream=None)
x.tobytes() ; x.T.tobytes()
x.tofile
x.tolist() ; x[0, 0].tolist()
a.trace()
x.transpose() ; c.transpose(2, 0, 1)
x.var()
x.view() ; v.view(np.int64) ; v.view(np.uint8) ; z.view(float) ; v.view(complex)
x.__getitem__: x[1] ; x[:, 1] ; x[1:, ::-1] ; x[[0, 2]] ; x[m] ; v[b] ; x[..., None] ; x[k % 3, 1]
"""

LINALG = """
np.linalg.cholesky(s) ; np.linalg.cholesky(s, upper=True)
np.linalg.cond(a) ; np.linalg.cond(a, 1)
np.linalg.cross(x[:, :3], y[:, :3])
np.linalg.det(a)
np.linalg.diagonal(a)
np.linalg.eig(a)
np.linalg.eigh(s)
np.linalg.eigvals(a)
np.linalg.eigvalsh(s)
np.linalg.inv(s)
np.linalg.lstsq(s, s[0])
np.linalg.matmul(a, a)
np.linalg.matrix_norm(a) ; np.linalg.matrix_norm(a, ord=2)
np.linalg.matrix_power(a, 3) ; np.linalg.matrix_power(s, -1)
np.linalg.matrix_rank(a)
np.linalg.matrix_transpose(x)
np.linalg.multi_dot((a, a, a))
np.linalg.norm(v) ; np.linalg.norm(x, axis=1) ; np.linalg.norm(a, "nuc")
np.linalg.outer(v, w)
np.linalg.pinv(a)
np.linalg.qr(x) ; np.linalg.qr(x, mode="raw")[1]
np.linalg.slogdet(a)
np.linalg.solve(s, a) ; np.linalg.solve(s, a[0])
np.linalg.svd(x, full_matrices=False)
np.linalg.svdvals(x)
np.linalg.tensordot(a, a, axes=1)
np.linalg.tensorinv(s, ind=1)
np.linalg.tensorsolve(s, s[0]) ; np.linalg.tensorsolve(s.reshape(3, 1, 3), s[:1], axes=(0,))
np.linalg.trace(a)
np.linalg.vecdot(x, y)
np.linalg.vector_norm(x) ; np.linalg.vector_norm(x, axis=0, ord=1)
"""

FFT = """
np.fft.fft(v) ; np.fft.fft(x, 8, axis=0, norm="ortho")
np.fft.fft2(x)
np.fft.fftfreq(n)
np.fft.fftn(c)
np.fft.fftshift(x)
np.fft.hfft(z)
np.fft.ifft(v)
np.fft.ifft2(x)
np.fft.ifftn(c)
np.fft.ifftshift(v)
np.fft.ihfft(v)
np.fft.irfft(z)
np.fft.irfft2(x)
np.fft.irfftn(x)
np.fft.rfft(v)
np.fft.rfft2(x)
np.fft.rfftn(c)
np.fft.rfftfreq(n)
"""

# Arguments of the draws, which np.random and Generator name alike.
DRAWS = """
beta(2.0, 3.0, 4) ; binomial(9, 0.5, 4) ; bytes(4) ; chisquare(2.0, 4) ; choice(5, 3) ; dirichlet([1.0, 2.0], 3)
exponential(2.0, 4) ; f(2.0, 3.0, 4) ; gamma(2.0, 1.0, 4) ; geometric(0.5, 4) ; gumbel(0.0, 1.0, 4)
hypergeometric(5, 4, 3, 4) ; laplace(0.0, 1.0, 4) ; logistic(0.0, 1.0, 4) ; lognormal(0.0, 1.0, 4) ; logseries(0.5, 4)
multinomial(5, [0.5, 0.5]) ; multivariate_normal([0.0, 0.0], np.eye(2)) ; negative_binomial(3, 0.5, 4)
noncentral_chisquare(2.0, 1.0, 4) ; noncentral_f(2.0, 3.0, 1.0, 4) ; normal(0.0, 1.0, (2, 3)) ; pareto(2.0, 4)
permutation(5) ; poisson(2.0, 4) ; power(2.0, 4) ; random(4) ; rayleigh(1.0, 4) ; shuffle(v) ; standard_cauchy(4)
standard_exponential(4) ; standard_gamma(2.0, 4) ; standard_normal(4) ; standard_t(3.0, 4) ; triangular(0.0, 1.0, 2.0, 4)
uniform(0.0, 1.0, 4) ; vonmises(0.0, 1.0, 4) ; wald(1.0, 1.0, 4) ; weibull(2.0, 4) ; zipf(2.0, 4)
"""
ONLY_LEGACY = """
get_state() ; rand(2, 3) ; randint(0, 9, 4) ; randn(2, 3) ; random_integers(1, 6, 4) ; random_sample(4) ; ranf(4)
sample(4) ; seed(3) ; set_state(np.random.get_state()) ; default_rng(3).random(4)
"""
ONLY_GENERATOR = """
integers(0, 9, 4) ; multivariate_hypergeometric([3, 4], 2) ; permuted(v) ; spawn(2) ; bit_generator
"""

UFUNC_METHODS = """
reduce: np.add.reduce(x) ; np.multiply.reduce(x, axis=1, keepdims=True) ; np.maximum.reduce(v, initial=0)
accumulate: np.add.accumulate(v) ; np.maximum.accumulate(x, axis=1)
reduceat: np.add.reduceat(v, [0, 2, 4])
outer: np.multiply.outer(v, w)
at: np.add.at(v, [0, 0, 2], 1) ; np.add.at(v, k, w)
out=: np.add(x, y, out=y) ; np.sin(x, y)
where=: np.add(x, y, out=y, where=m)
dtype=: np.add(x, y, dtype=np.complex128)
casting=: np.add(x, y, casting="unsafe")
order=: np.add(x, y, order="F")
signature=: np.add(x, y, signature="DD->D")
resolve_dtypes: np.add.resolve_dtypes((x.dtype, x.dtype, None))
nin: np.add.nin
types: np.add.types
"""

SEVERAL = re.compile(r"\s+;\s+")


def parse(text: str) -> dict[str, tuple[str, ...]]:
    """Name -> expressions, of the lines of a table."""
    calls: dict[str, tuple[str, ...]] = {}
    for line in text.strip().splitlines():
        named = re.match(r"([\w.]+=?): ", line)
        expressions = SEVERAL.split(line[named.end() :] if named else line)
        name = named[1] if named else first_name(line)
        assert name not in calls, f"{name} has two lines"
        calls[name] = tuple(expressions)
    return calls


def first_name(expression: str) -> str:
    found = re.match(r"np(\.\w+)+", expression)
    if found:
        whole = found[0]
        return ".".join(whole.split(".")[:2]) if whole.split(".")[1] not in ("linalg", "fft", "random") else whole
    return re.findall(r"\.(\w+)", expression)[0]


def of_draws(prefix: str, *texts: str) -> dict[str, tuple[str, ...]]:
    calls = [call for text in texts for call in SEVERAL.split(text.strip().replace("\n", " ; "))]
    return {f"{prefix}.{call.partition('(')[0]}": (f"{prefix}.{call}",) for call in calls}


SPECIAL = {"ldexp": "np.ldexp(v, k)", "isnat": "np.isnat(t)"}


def of_ufunc(name: str) -> tuple[str, ...]:
    """Operands that a ufunc takes: real ones, integers, or matrices."""
    ufunc = getattr(np, name)
    if ufunc.signature is not None:
        operands = {"matmul": "a, a", "vecdot": "x, y", "matvec": "a, a[0]", "vecmat": "a[0], a"}[name]
        return (f"np.{name}({operands})",)
    if name in SPECIAL:
        return (SPECIAL[name],)
    takes_floats = any(t.startswith("d" * ufunc.nin) for t in ufunc.types)
    operands = ", ".join(("xy" if takes_floats else "ij")[: ufunc.nin])
    return (f"np.{name}({operands})",)


def known(calls: dict[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    """Without the functions that this NumPy does not have."""
    return {name: e for name, e in calls.items() if not name.startswith("np.") or hasattr(np, name.split(".")[1])}


UFUNCS = {f"np.{n}": of_ufunc(n) for n in sorted(np.__all__) if isinstance(getattr(np, n), np.ufunc)}
SECTIONS: dict[str, dict[str, tuple[str, ...]]] = {
    "numpy: ufuncs": UFUNCS,
    "numpy: functions": known(parse(MAIN)),
    "ufuncs' methods and keywords": parse(UFUNC_METHODS),
    "ndarray": parse(METHODS),
    "numpy.linalg": parse(LINALG),
    "numpy.fft": parse(FFT),
    "numpy.random": of_draws("np.random", DRAWS, ONLY_LEGACY),
    "numpy.random.Generator": of_draws("g", DRAWS, ONLY_GENERATOR),
}
