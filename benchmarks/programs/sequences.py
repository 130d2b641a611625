"""Sequences and recurrences: Fourier transform, dynamic programming, shortest paths, checksums, smoothing."""

from __future__ import annotations

import numpy as np

from benchmarks.case import Function
from benchmarks.programs.program import BY_ELEMENTS, UNROLLED, Program
from benchmarks.sides import renamed


def checksum_table() -> np.ndarray:
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = np.where(table & 1, (table >> 1) ^ np.uint32(0xEDB88320), table >> 1).astype(np.uint32)
    return table


TABLE = checksum_table()


def fourier(x):
    """Fourier transform by recursion: radix 2 down to products with a matrix."""
    n = x.shape[0]
    if n <= 16:
        k = np.arange(n)
        return np.exp(-2j * np.pi * k[:, None] * k / n) @ x
    even, odd = fourier(x[::2]), fourier(x[1::2])
    turned = np.exp(-2j * np.pi * np.arange(n // 2) / n) * odd
    return np.concatenate((even + turned, even - turned))


def edit_distance(a, b):
    """Edit distance of two sequences, cell by cell."""
    n, m = a.size, b.size
    D = np.zeros((n + 1, m + 1), np.int64)
    D[:, 0] = np.arange(n + 1)
    D[0] = np.arange(m + 1)
    for i in range(1, n + 1):
        for j in range(1, m + 1):
            changed = D[i - 1, j - 1] + (a[i - 1] != b[j - 1])
            D[i, j] = min(changed, D[i - 1, j] + 1, D[i, j - 1] + 1)
    return D[n, m]


def time_warping(a, b):
    """Dynamic time warping of two series, cell by cell."""
    n, m = a.size, b.size
    D = np.full((n + 1, m + 1), np.inf)
    D[0, 0] = 0
    for i in range(1, n + 1):
        for j in range(1, m + 1):
            D[i, j] = abs(a[i - 1] - b[j - 1]) + min(D[i - 1, j - 1], D[i - 1, j], D[i, j - 1])
    return D[n, m]


def viterbi(log_start, log_move, log_seen):
    """Most probable states of a hidden Markov model."""
    steps, states = log_seen.shape
    back = np.zeros((steps, states), np.int64)
    score = log_start + log_seen[0]
    for t in range(1, steps):
        paths = score[:, None] + log_move
        back[t] = paths.argmax(axis=0)
        score = paths.max(axis=0) + log_seen[t]
    best = np.zeros(steps, np.int64)
    best[-1] = score.argmax()
    for t in range(steps - 1, 0, -1):
        best[t - 1] = back[t, best[t]]
    return best, score.max()


def floyd_warshall(D):
    """Shortest paths of all pairs, in place."""
    for k in range(D.shape[0]):
        D[:] = np.minimum(D, D[:, k, None] + D[k])


def crc32(data):
    """CRC-32 of bytes by a table."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = (crc >> 8) ^ int(TABLE[(crc ^ int(byte)) & 0xFF])
    return crc ^ 0xFFFFFFFF


def smoothing(x, alpha):
    """Exponential smoothing, element by element."""
    out = np.empty_like(x)
    s = x[0]
    for i in range(x.size):
        s = alpha * x[i] + (1 - alpha) * s
        out[i] = s
    return out


def scan_by_doubling(x):
    """Prefix sums by doubling: whole-array steps whose stride is a power of 2."""
    x = x.copy()
    shift = 1
    while shift < x.size:
        x[shift:] = x[shift:] + x[:-shift]
        shift *= 2
    return x


def sieve(n):
    """Sieve of Eratosthenes with slices."""
    prime = np.ones(n + 1, np.bool_)
    prime[:2] = False
    for p in range(2, int(n**0.5) + 1):
        if prime[p]:
            prime[p * p :: p] = False
    return np.nonzero(prime)[0]


def fourier_numba() -> Function:
    import numba

    own = renamed(fourier)
    own.__globals__["fourier"] = numba.njit(own)  # as its decorator would bind the name
    return own


def edit_distance_jax() -> Function:
    import jax.numpy as jnp
    from jax import lax

    def distance(a, b):
        places = jnp.arange(b.size + 1)

        def row(before, entry):
            letter, i = entry
            changed = before[:-1] + (letter != b)
            least = jnp.concatenate((i[None], jnp.minimum(changed, before[1:] + 1)))
            return lax.cummin(least - places) + places, None  # insertions: a running minimum

        return lax.scan(row, places, (a, jnp.arange(1, a.size + 1)))[0][-1]

    return distance


def time_warping_jax() -> Function:
    import jax.numpy as jnp
    from jax import lax

    def distance(a, b):
        first = jnp.full(b.size + 1, jnp.inf).at[0].set(0)

        def row(before, value):
            def cell(left, entry):
                other, corner, above = entry
                here = jnp.abs(value - other) + jnp.minimum(jnp.minimum(corner, above), left)
                return here, here

            _, cells = lax.scan(cell, jnp.inf, (b, before[:-1], before[1:]))
            return jnp.concatenate((jnp.full(1, jnp.inf), cells)), None

        return lax.scan(row, first, a)[0][-1]

    return distance


def viterbi_numba() -> Function:
    def loops(log_start, log_move, log_seen):
        steps, states = log_seen.shape
        back = np.zeros((steps, states), np.int64)
        score = log_start + log_seen[0]
        for t in range(1, steps):
            new = np.empty(states)
            for j in range(states):
                paths = score + log_move[:, j]
                back[t, j] = paths.argmax()
                new[j] = paths.max() + log_seen[t, j]
            score = new
        best = np.zeros(steps, np.int64)
        best[-1] = score.argmax()
        for t in range(steps - 1, 0, -1):
            best[t - 1] = back[t, best[t]]
        return best, score.max()

    return loops


def viterbi_jax() -> Function:
    import jax.numpy as jnp
    from jax import lax

    def decode(log_start, log_move, log_seen):
        def forward(score, seen):
            paths = score[:, None] + log_move
            return paths.max(axis=0) + seen, paths.argmax(axis=0)

        def backward(state, pointers):
            return pointers[state], pointers[state]

        score, back = lax.scan(forward, log_start + log_seen[0], log_seen[1:])
        last = score.argmax()
        _, states = lax.scan(backward, last, back, reverse=True)
        return jnp.concatenate((states, last[None])), score.max()

    return decode


def floyd_warshall_jax() -> Function:
    import jax.numpy as jnp
    from jax import lax

    return lambda D: lax.fori_loop(0, D.shape[0], lambda k, D: jnp.minimum(D, D[:, k, None] + D[k]), D)


def floyd_warshall_numba() -> Function:
    import numba

    def loops(D):
        n = D.shape[0]
        for k in range(n):
            for i in numba.prange(n):
                for j in range(n):
                    D[i, j] = min(D[i, j], D[i, k] + D[k, j])

    return loops


def crc32_numba() -> Function:
    def loop(data):
        crc = np.uint32(0xFFFFFFFF)
        for byte in data:
            crc = np.uint32((crc >> np.uint32(8)) ^ TABLE[np.uint8(crc & np.uint32(0xFF)) ^ byte])
        return crc ^ np.uint32(0xFFFFFFFF)

    return loop


def crc32_jax() -> Function:
    import jax.numpy as jnp
    from jax import lax

    def check(data):
        table = jnp.asarray(TABLE)

        def step(i, crc):
            return (crc >> 8) ^ table[(crc ^ data[i]) & 0xFF]

        return lax.fori_loop(0, data.size, step, jnp.uint32(0xFFFFFFFF)) ^ jnp.uint32(0xFFFFFFFF)

    return check


def smoothing_jax() -> Function:
    from jax import lax

    def smooth(x, alpha):
        def step(s, value):
            s = alpha * value + (1 - alpha) * s
            return s, s

        return lax.scan(step, x[0], x)[1]

    return smooth


def scan_by_doubling_jax() -> Function:
    def scan(x):
        shift = 1
        while shift < x.size:
            x = x.at[shift:].add(x[:-shift])
            shift *= 2
        return x

    return scan


def series(rng, n):
    return np.cumsum(rng.standard_normal(n)), np.cumsum(rng.standard_normal(n))


def letters(rng, n):
    return rng.integers(0, 4, n), rng.integers(0, 4, n)


def markov(rng, steps, states):
    return np.log(rng.random(states)), np.log(rng.random((states, states))), np.log(rng.random((steps, states)))


PROGRAMS = (
    Program(
        fourier,
        lambda rng, n: (rng.standard_normal(n) + 1j * rng.standard_normal(n),),
        ((32,), (4096,), (2**17,)),
        {"numba": fourier_numba, "torch": "unrolls the recursion: minutes of compilation"},
        is_loop=True,
    ),
    Program(
        edit_distance,
        letters,
        ((18,), (150,), (800,)),
        {"jax": edit_distance_jax, "torch": BY_ELEMENTS},
        is_loop=True,
    ),
    Program(
        time_warping,
        series,
        ((18,), (150,), (800,)),
        {"jax": time_warping_jax, "torch": BY_ELEMENTS},
        is_loop=True,
    ),
    Program(
        viterbi,
        markov,
        ((20, 3), (1000, 16), (10_000, 64)),
        {"numba": viterbi_numba, "jax": viterbi_jax, "torch": UNROLLED},
        is_loop=True,
    ),
    Program(
        floyd_warshall,
        lambda rng, n: (rng.random((n, n)),),
        ((18,), (100,), (500,)),
        {"numba": floyd_warshall_numba, "jax": floyd_warshall_jax, "torch": UNROLLED},
        mutates=(0,),
        is_loop=True,
    ),
    Program(
        crc32,
        lambda rng, n: (rng.integers(0, 256, n, dtype=np.uint8),),
        ((20,), (30_000,), (1_000_000,)),
        {"numba": crc32_numba, "jax": crc32_jax, "torch": BY_ELEMENTS},
        is_loop=True,
    ),
    Program(
        smoothing,
        lambda rng, n: (rng.standard_normal(n), 0.1),
        ((20,), (30_000,), (1_000_000,)),
        {"jax": smoothing_jax, "torch": BY_ELEMENTS},
        is_loop=True,
    ),
    Program(
        scan_by_doubling,
        lambda rng, n: (rng.standard_normal(n),),
        ((10,), (100_000,), (2_000_000,)),
        {"jax": scan_by_doubling_jax},
        is_loop=True,
    ),
    Program(
        sieve,
        lambda rng, n: (n,),
        ((50,), (1_000_000,), (40_000_000,)),
        {"jax": "the number of primes is data", "torch": UNROLLED},
        is_loop=True,
    ),
)
