"""Derivatives of matrix factorizations and equations.

Rules take and give cotangents in the convention of `transforms/reverse.py`: transposes without conjugation. Where a
factorization holds a conjugate transpose, it is easier to think with the conjugates of cotangents: for a real loss
dL = Re tr(G^H dA). Such rules begin and end with `conj`. Formulas: M. Giles, "Collected matrix derivative results for
forward and reverse mode algorithmic differentiation", 2008.

The derivative with respect to a Hermitian matrix (cholesky, eigh, eigvalsh) is the Hermitian one: both triangles share
what NumPy reads from one of them.
"""

from __future__ import annotations

from typing import Any

from npcompile.tensor_core.decline import Decline
from npcompile.tensor_core.dim import Size, same

Value = Any  # tensor_core.transforms.value.Value
Parts = Any  # what a rule gives for each input: see tensor_core/op.py


# --- matrices


def transpose(x: Value) -> Value:
    return x.permute((*range(x.ndim - 2), x.ndim - 1, x.ndim - 2))


def conj(x: Value) -> Value:
    return x.conjugate() if x.dtype.kind == "c" else x


def adjoint(x: Value) -> Value:
    return conj(transpose(x))


def matmul(a: Value, b: Value) -> Value:
    stack = tuple(range(a.ndim - 2))
    i, j, k = a.ndim - 2, a.ndim - 1, a.ndim
    return a.op("einsum", b, inputs=((*stack, i, j), (*stack, j, k)), output=(*stack, i, k))


def in_rows(v: Value, x: Value) -> Value:
    """out[..., i, j] = v[..., j], of x's shape and dtype."""
    return v.cast(x.dtype).reshape((*v.shape[:-1], 1, v.shape[-1])).broadcast_to(x.shape)


def in_columns(v: Value, x: Value) -> Value:
    """out[..., i, j] = v[..., i], of x's shape and dtype."""
    return v.cast(x.dtype).reshape((*v.shape, 1)).broadcast_to(x.shape)


def over_matrices(v: Value, x: Value) -> Value:
    """out[..., i, j] = v[...], of x's shape and dtype."""
    return v.cast(x.dtype).reshape((*v.shape, 1, 1)).broadcast_to(x.shape)


def position(x: Value, axis: int) -> Value:
    return x.of(x.builder.apply("index", shape=x.shape, axis=x.ndim + axis))


def is_diagonal(x: Value) -> Value:
    return position(x, -2).equals(position(x, -1))


def diagonal(x: Value) -> Value:
    """x[..., i, i] of square matrices."""
    return is_diagonal(x).where(x, 0).sum([x.ndim - 1])


def lower(x: Value) -> Value:
    return (position(x, -2) >= position(x, -1)).where(x, 0)


def upper(x: Value) -> Value:
    return (position(x, -2) <= position(x, -1)).where(x, 0)


def hermitian(x: Value) -> Value:
    return (x + adjoint(x)) * 0.5


def columns(x: Value, start: Size, count: Size) -> Value:
    """x[..., :, start : start + count]"""
    shape = (*x.shape[:-1], count)
    return x.op("slice", start=(*(0 for _ in x.shape[:-1]), start), step=(1,) * x.ndim, shape=shape)


def rows(x: Value, count: Size) -> Value:
    """x[..., :count, :]"""
    return transpose(columns(transpose(x), 0, count))


def solved(a: Value, b: Value) -> Value:
    return a.op("solve", b)


def items(x: Value, count: int) -> list[Value]:
    return [x.op("item", index=k) for k in range(count)]


def is_longer(m: Size, n: Size) -> bool:
    return not same(m, n) and bool(m > n)


# --- equations and determinants


def solve(g: Value, x: Value, a: Value, b: Value) -> Parts:
    gb = solved(transpose(a), g)
    return lambda: -matmul(gb, transpose(x)), gb


def lstsq(g: Any, out: Any, a: Value, b: Value, *, rcond: float | None) -> Parts:
    """Of x = a^+ b and of |b - a x|^2, where the rank does not change (Golub and Pereyra, 1973)."""
    gx, gr, _, gs = g

    def least(matrix: Value, right: Value) -> Value:
        return matrix.op("lstsq", right, rcond=rcond).op("item", index=0)

    x = out[0]
    m, n = a.shape[-2:]
    rest = b - matmul(a, x)
    ga, gb = a.zeros(), b.zeros()
    if gx is not None:
        wanted = conj(gx)
        solution = least(adjoint(a), wanted)
        ga, gb = -matmul(solution, adjoint(x)), solution
        if is_longer(m, n):
            ga = ga + matmul(rest, adjoint(least(a, solution)))
        if is_longer(n, m):
            outside = wanted - least(a, matmul(a, wanted))
            ga = ga + matmul(least(adjoint(a), x), adjoint(outside))
    if gr is not None and is_longer(m, n):
        change = rest * in_rows(gr, rest) * 2
        ga, gb = ga - matmul(change, adjoint(x)), gb + change
    if gs is not None:
        u, _, vh = items(a.op("svd", full_matrices=False), 3)
        ga = ga + conj(of_singular_values(gs, u, vh))
    return conj(ga), conj(gb)


def inv(g: Value, x: Value, a: Value) -> Parts:
    return -matmul(matmul(transpose(x), g), transpose(x))


def det(g: Value, out: Value, a: Value) -> Parts:
    cofactors = a.op("cofactor")
    return over_matrices(g, cofactors) * cofactors


def cofactor(g: Value, out: Value, a: Value) -> Parts:
    """Only where det(a) is not 0: (<g, C> C - C g^T C) / det(a)."""
    inner = over_matrices((g * out).sum([g.ndim - 2, g.ndim - 1]), out)
    determinant = over_matrices(a.op("det"), out)
    return (inner * out - matmul(matmul(out, transpose(g)), out)) / determinant


def slogdet(g: Any, out: Any, a: Value) -> Parts:
    """With t = tr(a^-1 da): d logabsdet = Re t, d sign = sign * i Im t."""
    factor = g[1].cast(a.dtype) if g[1] is not None else None
    if a.dtype.kind == "c" and g[0] is not None:
        turn = (g[0] * out[0]).imag().cast(a.dtype) * 1j
        factor = turn if factor is None else factor + turn
    if factor is None:
        return None
    inverse = transpose(a.op("inv"))
    return over_matrices(factor, inverse) * inverse


# --- factorizations


def cholesky(g: Value, out: Value, a: Value, *, upper: bool) -> Parts:
    factor, cotangent = (adjoint(out), transpose(g)) if upper else (out, conj(g))
    middle = lower(matmul(adjoint(factor), cotangent))
    middle = is_diagonal(middle).where(middle * 0.5, middle)
    right = solved(adjoint(factor), adjoint(solved(adjoint(factor), middle)))  # the adjoint of L^-H middle L^-1
    return conj(hermitian(right))


def qr(g: Any, out: Any, a: Value, *, mode: str) -> Parts:
    m, n = a.shape[-2:]
    if mode == "r":
        gq, gr = None, conj(g)
        q, r = items(a.op("qr", mode="reduced"), 2)
    else:
        gq, gr = (None if part is None else conj(part) for part in g)
        q, r = out
    if mode == "complete" and is_longer(m, n):
        if gq is not None:
            raise Decline(
                "the complete Q of a tall matrix has columns that the matrix does not determine: no gradient",
                'Use np.linalg.qr(x, mode="reduced").',
            )
        q, r = items(a.op("qr", mode="reduced"), 2)  # the same reflections
        gr = rows(gr, n)
    if not is_longer(n, m):
        return conj(qr_of_tall(q, r, gq, gr))
    # R = [R1 R2] of a = [a1 a2]: Q and R1 come from a1 alone, and R2 = Q^H a2.
    rest = columns(a, m, n - m)
    first = None if gr is None else columns(gr, 0, m)
    if gr is None:
        last = rest.zeros()
    else:
        gr_rest = columns(gr, m, n - m)
        last = matmul(q, gr_rest)
        through = matmul(rest, adjoint(gr_rest))
        gq = through if gq is None else gq + through
    first = qr_of_tall(q, columns(r, 0, m), gq, first)
    return conj(first.op("concatenate", last, axis=a.ndim - 1))


def qr_of_tall(q: Value, r: Value, gq: Value | None, gr: Value | None) -> Value:
    """For as many rows as columns, or more: (gQ + Q H) R^-H, H Hermitian from the upper triangle of gR R^H - Q^H gQ.

    LAPACK makes the diagonal of R real.
    """
    known = gr if gr is not None else r.zeros()
    mixed = matmul(known, adjoint(r))
    if gq is not None:
        mixed = mixed - matmul(adjoint(q), gq)
    above = upper(mixed)
    both = above + adjoint(above)
    inner = matmul(q, is_diagonal(both).where(both * 0.5, both))
    if gq is not None:
        inner = inner + gq
    return adjoint(solved(r, adjoint(inner)))


def eigh(g: Any, out: Any, a: Value, *, uplo: str) -> Parts:
    """Eigenvectors of equal eigenvalues have no derivative: infinities and NaN. Complex ones keep <v, dv> = 0."""
    gw, gv = g
    w, v = out
    if gv is None:
        return of_eigenvalues(gw, v)
    gaps = in_rows(w, v) - in_columns(w, v)
    inner = matmul(adjoint(v), conj(gv))
    inner = is_diagonal(inner).where(0 if gw is None else in_rows(gw, inner), inner / is_diagonal(gaps).where(1, gaps))
    return conj(hermitian(matmul(matmul(v, inner), adjoint(v))))


def eigvalsh(g: Value, out: Value, a: Value, *, uplo: str) -> Parts:
    return of_eigenvalues(g, a.op("eigh", uplo=uplo).op("item", index=1))


def of_eigenvalues(gw: Value, v: Value) -> Value:
    return conj(matmul(v * in_rows(gw, v), adjoint(v)))


def eig(g: Any, out: Any, a: Value) -> Parts:
    """Eigenvectors have length 1, and a phase that is free. Those of equal eigenvalues have no derivative."""
    gw, gv = g
    w, v = out
    inner = v.zeros() if gw is None else conj(in_rows(gw, v))
    if gv is not None:
        gaps = conj(in_rows(w, v) - in_columns(w, v))
        turned = matmul(adjoint(v), conj(gv))
        lengthening = in_rows(diagonal(turned).real(), v)
        turned = turned - matmul(adjoint(v), v * lengthening)
        inner = is_diagonal(gaps).where(inner, turned / is_diagonal(gaps).where(1, gaps))
    else:
        inner = is_diagonal(inner).where(inner, 0)
    return conj(solved(adjoint(v), matmul(inner, adjoint(v))))


def eigvals(g: Value, out: Value, a: Value) -> Parts:
    pair = a.op("eig")
    return eig((g, None), items(pair, 2), a)


def svdvals(g: Value, out: Value, a: Value) -> Parts:
    u, _, vh = items(a.op("svd", full_matrices=False), 3)
    return of_singular_values(g, u, vh)


def of_singular_values(gs: Value, u: Value, vh: Value) -> Value:
    return conj(matmul(u * in_rows(gs, u), vh))


def svd(g: Any, out: Any, a: Value, *, full_matrices: bool) -> Parts:
    """Singular vectors of equal singular values, or (not square) of 0, have no derivative: infinities and NaN.

    Complex ones: the phase of a pair of vectors is free, and the derivative is along no change of U's.
    """
    gu, gs, gvh = g
    u, s, vh = out
    m, n = a.shape[-2:]
    if full_matrices and not same(m, n) and m != n:
        if (gu is not None and is_longer(m, n)) or (gvh is not None and is_longer(n, m)):
            raise Decline(
                "full U and V^H have vectors that the matrix does not determine: no gradient", "Use full_matrices=False."
            )
        u, s, vh = items(a.op("svd", full_matrices=False), 3)  # the same vectors, by the same steps, but for the others
    if gu is None and gvh is None:
        return of_singular_values(gs, u, vh)
    inner = between_singular_vectors(gu, gs, gvh, u, s, vh)
    if gu is not None and is_longer(m, n):
        scaled = conj(gu) / in_rows(s, u)
        outside = scaled - matmul(u, matmul(adjoint(u), scaled))
        return conj(matmul(matmul(u, inner) + outside, vh))
    if gvh is not None and is_longer(n, m):
        scaled = conj(gvh) / in_columns(s, vh)
        outside = scaled - matmul(matmul(scaled, adjoint(vh)), vh)
        return conj(matmul(u, matmul(inner, vh) + outside))
    return conj(matmul(matmul(u, inner), vh))


def between_singular_vectors(gu: Any, gs: Any, gvh: Any, u: Value, s: Value, vh: Value) -> Value:
    """U^H gA V, as far as U and V span it."""
    turned_u = None if gu is None else skew(matmul(adjoint(u), conj(gu)))
    turned_v = None if gvh is None else skew(matmul(vh, transpose(gvh)))
    square = next(x for x in (turned_u, turned_v) if x is not None)
    across, down = in_rows(s, square), in_columns(s, square)
    total = square.zeros()
    if turned_u is not None:
        total = total + turned_u * across
    if turned_v is not None:
        total = total + down * turned_v
    gaps = (across - down) * (across + down)
    on_diagonal = total.zeros() if gs is None else in_rows(gs, total)
    if square.dtype.kind == "c" and turned_u is not None:
        on_diagonal = on_diagonal + turned_u / (across * 2)
    return is_diagonal(total).where(on_diagonal, total / is_diagonal(gaps).where(1, gaps))


def skew(x: Value) -> Value:
    return x - adjoint(x)
