"""What NumPy and its libraries run as a whole, between the kernels; and the parts of results that are several arrays."""

from npcompile.tensor_core.meta import TensorMeta, TupleMeta
from npcompile.tensor_core.op import row


@row("extern", eager=lambda x, *, index: x[index])
def item(x: TensorMeta, *, index):
    """One of the results of an op that has several."""
    assert isinstance(x, TupleMeta)
    return x.items[index]
