"""`debug_print` and `callback`: Python called from compiled programs, their loops, gradients and batches."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from npcompile.tensor_core.tensor import Tensor, asarray, is_grad_enabled
from npcompile.tracer.bytecode.tracebacks import hide_frames
from npcompile.tracer.python import allowed, printing
from npcompile.tracer.python.calls import BUILTINS
from npcompile.trees import flatten


def debug_print(fmt: str, /, *args: Any, **kwargs: Any) -> None:
    """Print `fmt.format(*args, **kwargs)`, and leave the program around it one graph.

    A `print` ends the graph. This prints the values that arrays have where it stands when the graph has run, in the order of the
    program: in functions called from there, in what `grad`, `jacobian`, `jvp` and `vmap` compile (once, as the function itself
    runs; under `vmap` for each example), and in iterations of Python's loops. In code that is not compiled it prints at once.

    Parameters
    ----------
    fmt
        As `str.format` takes it. In a graph a constant string.
    *args, **kwargs
        What it formats: arrays, Tensors (as their values), numbers, strings, and lists and tuples of these.

    Raises
    ------
    IndexError, KeyError, TypeError, ValueError
        As `str.format` does, on the line of the call.

    Notes
    -----
    The graph ends before it, and goes on after it, where the text is made by a class of the user's, and where the format raises.
    A loop that is compiled as a whole leaves there for Python, and goes on with the next iteration: `explain(f)(x)` says so.
    A loop or branch that would be a node of a graph (`npc.fori_loop`, a long loop that gradients go through) runs in Python.
    What `npc.checkpoint` computes again it prints again. What a program prints before a floating-point error that `np.errstate`
    raises is printed once. An error of `sys.stdout` itself comes when the graph has run.

    Examples
    --------
    >>> import numpy as np, npcompile as npc
    >>> @npc.compile(fullgraph=True)
    ... def f(x):
    ...     y = x * 2
    ...     npc.debug_print("the sum is {:.1f}, the shape {shape}", y.sum(), shape=y.shape)
    ...     return y + 1
    >>> f(np.ones(3))
    the sum is 6.0, the shape (3,)
    array([3., 3., 3.])
    """
    print(fmt.format(*map(value_of, args), **{name: value_of(x) for name, x in kwargs.items()}))


def value_of(x: Any) -> Any:
    """What stands for a Tensor outside of graphs."""
    if isinstance(x, Tensor):
        return x.detach().numpy()
    if type(x) in (tuple, list):
        return type(x)(map(value_of, x))
    return x


def callback(function: Callable[..., Any], result_like: Any, /, *args: Any, effects: bool = False, **kwargs: Any) -> Any:
    """Call a Python function from compiled code: `function(*args, **kwargs)`, with ndarrays for Tensors.

    Parameters
    ----------
    function
        What is called: of a library's C code, for one. It gets arrays and NumPy scalars, and must write to none of them.
    result_like
        Arrays and NumPy scalars that have the shapes and dtypes of the results, such as `np.empty(3)`; a tuple or list of them,
        or None for a function that returns None. Their contents are not read.
    *args, **kwargs
        What the function gets.
    effects
        False: the function has no effects. The program may call it again, or not at all where nobody needs the result. The call
        is a node of the graph, where all of `args` are arrays, constants, and tuples, lists and dicts of these.
        True: it is called once, here, in the order of the program. The graph ends before it and goes on after it.

    Returns
    -------
    result
        What the function returns: Tensors, if there are some among the arguments.

    Raises
    ------
    ValueError
        The results are others than `result_like` says.
    TypeError
        `result_like` holds what is no array, or an argument requires a gradient: `npc.custom_gradient` says what it is.
    Exception
        What the function raises comes out as it is.

    Examples
    --------
    >>> import math
    >>> import numpy as np, npcompile as npc
    >>> gamma = np.vectorize(math.gamma)
    >>> @npc.compile(fullgraph=True)
    ... def f(x):
    ...     return npc.callback(gamma, x, x + 1) * 2
    >>> f(np.array([1.0, 2.0, 3.0]))
    array([ 2.,  4., 12.])
    """
    form_wanted = None if result_like is None else flatten(result_like)
    leaves, form = flatten((args, kwargs))
    tensors = [x for x in leaves if isinstance(x, Tensor)]
    name = getattr(function, "__qualname__", repr(function))
    if is_grad_enabled() and any(x.requires_grad for x in tensors):
        raise TypeError(
            f"npc.callback of {name}: an argument requires a gradient, and nobody knows the derivative. Say it with "
            "npc.custom_gradient, or give x.detach()."
        )
    if form_wanted is not None:
        for x in form_wanted[0]:
            if not isinstance(x, (np.ndarray, np.generic, Tensor)):
                raise TypeError(f"npc.callback of {name}: result_like holds a {type(x).__qualname__}: give arrays of its shape")
    given_args, given_kwargs = form.unflatten([value_of(x) for x in leaves])
    try:
        made = function(*given_args, **given_kwargs)
    except BaseException:
        hide_frames()
        raise
    if form_wanted is None:
        if made is not None:
            raise ValueError(f"npc.callback of {name} returned {described(made)}, and result_like is None")
        return None
    wanted, found = [*map(described, form_wanted[0])], [*map(described, (parts := flatten(made))[0])]
    if wanted != found or str(form_wanted[1]) != str(parts[1]):
        raise ValueError(
            f"npc.callback of {name} returned {', '.join(found) or 'nothing'}, and result_like is {', '.join(wanted)}"
        )
    return parts[1].unflatten([asarray(x) for x in parts[0]]) if tensors else made


def described(x: Any) -> str:
    if isinstance(x, Tensor):
        x = x._data
    if not isinstance(x, (np.ndarray, np.generic)):
        return f"a {type(x).__qualname__}"
    return f"{x.dtype} of shape {x.shape}" if isinstance(x, np.ndarray) else f"a NumPy {x.dtype} scalar"


BUILTINS[debug_print] = functools.partial(printing.call_print, debug_print)
BUILTINS[callback] = allowed.call_callback
