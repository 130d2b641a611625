"""What NumPy and its libraries run as a whole, between the kernels; and the parts of results that are several arrays."""

import numpy as np

from npcompile.tensor_core.meta import TensorMeta, TupleMeta
from npcompile.tensor_core.op import Silent, row


@row(
    "movement",
    eager=lambda out, *args, rule, read=0: out,
    vjp=lambda g, out, result, *args, rule, read=0: (None, *rule(g, *args[len(args) - read :]), *[None] * read),
)
def custom_gradient(out: TensorMeta, *args: TensorMeta, rule, read=0):
    """`out`, which was computed from `args`; its derivatives with respect to these are `rule(g)`, not those of what
    computed it. `rule` is a function of the cotangent that gives a Value, or None, for each of `args`. The last `read` of
    these are what it reads: it is given them too, and nothing for them."""
    return out


@row("extern", eager=lambda x, *, index: x[index], silent=Silent.ALWAYS)
def item(x: TensorMeta, *, index):
    """One of the results of an op that has several."""
    assert isinstance(x, TupleMeta)
    return x.items[index]


def eager_call(*args, function, metas):
    """Checked, as what follows was compiled for results of these metas."""
    made = function(*args)
    parts = made if isinstance(made, (tuple, list)) else (made,)
    found = [(np.shape(p), np.asarray(p).dtype, isinstance(p, np.ndarray)) for p in parts]
    if found != [(m.shape, m.dtype, m.boxed) for m in metas]:
        raise Unexpected
    return tuple(np.array(p, order="C") for p in parts)


@row("extern", eager=eager_call, raises=(Exception,))
def call(*args: TensorMeta, function, metas):
    """A Python function of arrays, which gives one or several of `metas` and has no effects."""
    return TupleMeta.of(*metas)


class Unexpected(Exception):
    """What a program assumed of its data does not hold."""


def eager_require_none(x):
    if x.any():
        raise Unexpected
    return np.asarray(x)


@row("extern", eager=eager_require_none, raises=(Unexpected,), stacks=True, silent=Silent.ALWAYS)
def require_none(x: TensorMeta):
    """x, booleans that are all false. Raises Unexpected if one is true."""
    return x
