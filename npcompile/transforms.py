"""Functions made from functions: gradients, Jacobians, directional derivatives, batches.

Calling a transformed function captures the function it was made of, transforms the graph and compiles it. Within a
compiled function the same happens in its own graph, so transforms compose with each other and with `compile`.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from operator import index
from types import FunctionType, NoneType
from typing import TYPE_CHECKING, Any, ParamSpec, SupportsIndex, TypeVar

from npcompile import trees
from npcompile.backends.registry import FloatingPointSignal
from npcompile.call_arguments import all_arguments, copied, positions, signature
from npcompile.compiler import caller, captured, compiled_function, original
from npcompile.devices import loop_gradients
from npcompile.eager_transforms import DERIVATIVES, EAGER, NotPossible, examples, is_nested
from npcompile.logs import log
from npcompile.loop_questions import Asking, asking_of
from npcompile.remembered import OF_OTHERS, Made, made_for
from npcompile.settings import config
from npcompile.switch import is_plain_now
from npcompile.tensor_core.graph import Location
from npcompile.tensor_core.ops.extern import Unexpected
from npcompile.tensor_core.tensor import no_grad
from npcompile.tensor_core.user_warnings import warn_once, warn_user
from npcompile.tracer.arrays.transformed import transforms
from npcompile.tracer.bytecode.tracebacks import hide_frames
from npcompile.tracer.bytecode.versions import WHY_UNKNOWN
from npcompile.tracer.entry import as_found
from npcompile.tracer.restarts import Break
from npcompile.tracer.values import Transform
from npcompile.tracer.variant import GraphBreakError, break_error

if TYPE_CHECKING:
    from npcompile.loop_gradients import Version

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(eq=False)
class TransformedFunction(Transform):
    """What the functions below return: call it as the function it was made of."""

    _made: Made = field(init=False, repr=False)
    _asking: Asking | None = field(init=False, repr=False)

    def __post_init__(self) -> None:
        functools.update_wrapper(self, self.function, updated=())
        self._made = made_for(self.kind, self.given, self.options)
        inner = self._given if isinstance(self._given, TransformedFunction) else None
        self._asking = asking_of(self.kind, self.options, None if inner is None else (inner.kind, inner.options))

    def __getstate__(self) -> tuple[Any, ...]:
        return self.kind, as_found(self.given), self.options

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.__init__(*state)  # type: ignore[misc]

    @property  # type: ignore[misc, override]
    def function(self) -> Any:
        """The user's, as it is now: another's code may have been put in the place of a compiled one's, and that goes with it."""
        return original(self._given)

    @function.setter
    def function(self, given: Any) -> None:
        original(given)  # a function?
        self._given = given

    @property
    def given(self) -> Any:
        return self._given

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return self._call(args, kwargs)
        except BaseException:
            hide_frames()
            raise

    def _call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if self.kind in DERIVATIVES and is_nested():  # what is recorded here needs derivatives itself
            return self._eagerly(args, kwargs)
        if WHY_UNKNOWN:
            warn_once(WHY_UNKNOWN)
            return self._without_capture(GraphBreakError(WHY_UNKNOWN, Break(WHY_UNKNOWN, "", Location("", 0))), args, kwargs)
        if self._asking is not None and (made := self._by_loops(args, kwargs)) is not None:
            return made
        if self._made.eager and signature(args) in self._made.eager:
            return self._eagerly(args, kwargs)
        try:
            entry = self._made.entry
            if entry is None:
                entry = self._made.entry = self._compile()
            return entry(*args, **kwargs)
        except GraphBreakError as error:
            declined = error.with_traceback(None)
        return self._without_capture(declined, args, kwargs)  # not in the handler: what is raised there has a context

    def _by_loops(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The result by a native program of the function's loops, or None."""
        asking, compile_gradient = self._asking, loop_gradients()
        assert asking is not None
        of_loops = self._given if asking.is_nested else self
        function = of_loops.function if isinstance(of_loops, TransformedFunction) else None
        if not isinstance(function, FunctionType) or is_plain_now() or compile_gradient is None or config.check_nan:
            return None
        given, question = asking.of_function(args), asking.question(args)
        if kwargs or len(given) != function.__code__.co_argcount:
            given = all_arguments(function, given, kwargs)
        loops = self._made.loops
        if loops is None or loops.asked != question:
            from npcompile.loop_gradients import LoopGradients  # here: who takes no gradient needs nothing of it

            known = OF_OTHERS.setdefault(function, {})
            loops = self._made.loops = known.setdefault(question, LoopGradients(question, compile_gradient))
        return asking(loops, function, given, args)

    def _of_loops(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Version] | None:
        """The result by a native program that is made for it alone, and that program, if there is one."""
        compile_gradient = loop_gradients()
        if self._asking is None or compile_gradient is None:
            return None
        from npcompile.loop_gradients import LoopGradients

        fresh = TransformedFunction(self.kind, self.given, self.options)
        loops = LoopGradients(self._asking.question(args), compile_gradient)
        fresh._made = Made(loops=loops)
        result = fresh._by_loops(args, kwargs)
        return None if result is None or not loops.versions else (result, loops.versions[-1])

    def _compile(self) -> Callable[..., Any]:
        within = functools.update_wrapper(WithinEntry(self.kind, self.given, self.options, self), self.function, updated=())
        return captured(caller(within))

    def _without_capture(self, error: GraphBreakError, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The result on eager Tensors; else what the function raises by itself, or why there is none."""
        message = self._why(error)
        if error.why is not None and error.why.misuse is not None:  # no result elsewhere either
            self._raise_plainly(args, kwargs)
            raise break_error(message, error.why) from None
        try:
            result = EAGER[self.kind](self.function, self.options, args, kwargs)
        except NotPossible as found:
            if str(found).lower() not in message.lower():
                message += f" On eager Tensors: {found}."
        except GraphBreakError as found:
            message = str(found)
        except Exception as found:  # noqa: BLE001  (with Tensors in place of arrays it may be another error: asked below)
            message += f" On eager Tensors: {type(found).__name__}: {found}"
        else:
            self._made.eager.add(signature(args))
            self._tell(error, message)
            return result
        self._raise_plainly(args, kwargs)
        raise break_error(message, error.why) from None

    def _raise_plainly(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Raise what the function raises by itself, if anything."""
        try:  # noqa: SIM105  (`suppress` takes the user's groups of exceptions apart, since Python 3.12)
            self._run_plainly(args, kwargs)
        except NotPossible:
            pass

    def _eagerly(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        try:
            return EAGER[self.kind](self.function, self.options, args, kwargs)
        except NotPossible as found:
            why = Break(str(found), "", Location("", 0), misuse=found.misuse)
        raise break_error(self._message(why), why)

    def _why(self, error: GraphBreakError) -> str:
        return str(error) if error.why is None else self._message(error.why)

    def _message(self, why: Break) -> str:
        """For the user: what was called, and why there is no result."""
        code = getattr(self.function, "__code__", None)
        name = getattr(self.function, "__qualname__", repr(self.function))
        here = why.location if code is None else Location(code.co_filename, code.co_firstlineno)
        return f"npc.{PUBLIC_NAMES.get(self.kind, self.kind)} of {name}: {why.text(here)}"

    def _tell(self, error: GraphBreakError, message: str) -> None:
        """Once for each kind of arguments: that the function is slower than it could be, and why."""
        message = f"{message} It runs on eager Tensors, which is slower."
        log("graph_breaks", lambda: message)
        if error.why is None:
            warn_user(message)

    def _run_plainly(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Call the function on copies of its arguments: it raises its own errors, and warns on its own lines."""
        copies = copied((args, kwargs))
        for given, named in PLAIN_ARGUMENTS[self.kind](self.options, *copies):
            with no_grad():
                self.function(*given, **named)

    def _report(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The result of a program that met a floating-point error, or a branch that it did not expect."""
        if self.kind in ("plain", "checkpoint"):
            return self.function(*args, **kwargs)
        known = None if self._made.entry is None else compiled_function(self._made.entry)
        graphs = [] if known is None else [graph for graph, _ in known.graphs]
        may_raise = any(n.op == "require_none" for graph in graphs for n in graph.nodes)
        # What it writes beside the copies it would write twice, and random numbers it would draw twice.
        if may_raise or not (any(graph.writes for graph in graphs) or known is not None and known.is_random):
            self._run_plainly(args, kwargs)
        if self._made.unchecked is None:
            self._made.unchecked = TransformedFunction(self.kind, self.given, self.options | {"unchecked": True})
        return self._made.unchecked(*args, **kwargs)


# What the user called to get one of the other kinds.
PUBLIC_NAMES = {"pullback": "vjp", "plain": "vjp"}

# kind -> the calls of the function itself that a call of the transformed one stands for.
PLAIN_ARGUMENTS: dict[str, Callable[[dict[str, Any], Any, Any], Iterable[tuple[Sequence[Any], dict[str, Any]]]]] = {
    **dict.fromkeys(
        ("grad", "value_and_grad", "jacobian", "plain", "checkpoint", "custom_gradient"),
        lambda options, args, kwargs: [(args, kwargs)],
    ),
    "jvp": lambda options, args, kwargs: [(args[0], kwargs)],
    "pullback": lambda options, args, kwargs: [(args[1:], kwargs)],
    "vmap": lambda options, args, kwargs: examples(options["in_axes"], args, kwargs),
}


@dataclass(eq=False)
class WithinEntry(Transform):
    """What an entry calls. Captured, it is the transform; natively it is called when the compiled program has failed."""

    outer: TransformedFunction | None = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        outer, is_raised = self.outer, sys.exception() is not None
        assert outer is not None
        if "unchecked" not in self.options and isinstance(sys.exception(), (NoneType, FloatingPointSignal, Unexpected)):
            return outer._report(args, kwargs)
        outer._raise_plainly(args, kwargs)  # an index out of bounds, or a singular matrix: raised on the user's line
        if is_raised:
            raise  # noqa: PLE0704  (what called this handles it)
        return outer._eagerly(args, kwargs)  # it was in a branch that no example takes


Transform.outside = TransformedFunction


@transforms("grad")
def grad(function: Callable[P, Any], argnums: int | Sequence[int] = 0, has_aux: bool = False) -> Callable[P, Any]:
    """A function that returns the gradient of the scalar `function` with respect to its arguments `argnums`.

    Parameters
    ----------
    function
        Takes arrays, floats, or trees (tuples, lists, dicts) of them, and returns one real number (a 0-D array or NumPy
        scalar); with `has_aux` a pair of it and anything else.
    argnums
        Position of the argument, or positions, to differentiate with respect to. They hold floating-point or complex
        numbers.
    has_aux
        Return `(gradient, aux)`.

    Returns
    -------
    callable
        Gives for each argument in `argnums` what has its shape, dtype and tree: one for an integer, a tuple for several.
        The gradient with respect to complex z = x + iy is dL/dx - i dL/dy, as in JAX.

    Raises
    ------
    TypeError, ValueError
        Where `argnums` are no positions. When called, and then GraphBreakErrors too: for a result that is not one real number,
        numbers that are not floating-point, and positions of no arguments.
    GraphBreakError
        When called: the function cannot be captured as one graph, nor run on Tensors, or an op in it has no derivative
        (docs/gradients.md); the message names the line.

    Notes
    -----
    The function's floating-point errors are reported as NumPy reports them; those of its derivative are not. A function
    whose `if` or `while` data decides runs on eager Tensors (docs/gradients.md).

    Examples
    --------
    >>> import numpy as np
    >>> grad(lambda x: np.sum(np.sin(x)))(np.array([0.0, np.pi]))
    array([ 1., -1.])
    """
    return TransformedFunction("grad", function, {"argnums": positions(argnums), "has_aux": has_aux})


@transforms("value_and_grad")
def value_and_grad(
    function: Callable[P, R], argnums: int | Sequence[int] = 0, has_aux: bool = False
) -> Callable[P, tuple[R, Any]]:
    """As `grad`, but returns `(value, gradient)`; with `has_aux` `((value, aux), gradient)`.

    >>> import numpy as np
    >>> value_and_grad(lambda x: x @ x)(np.array([1.0, 2.0]))
    (np.float64(5.0), array([2., 4.]))
    """
    return TransformedFunction("value_and_grad", function, {"argnums": positions(argnums), "has_aux": has_aux})


@transforms("jacobian")
def jacobian(function: Callable[P, Any], argnums: int | Sequence[int] = 0) -> Callable[P, Any]:
    """A function that returns the derivative of every element of the result by every element of the arguments `argnums`.

    For a result of shape `m` and an argument of shape `n` the shape is `(*m, *n)`. Trees give trees of trees, the
    result's outside.

    >>> import numpy as np
    >>> jacobian(lambda x: x * x)(np.array([1.0, 2.0]))
    array([[2., 0.],
           [0., 4.]])
    """
    return TransformedFunction("jacobian", function, {"argnums": positions(argnums)})


def hessian(function: Callable[P, Any], argnums: int = 0) -> Callable[P, Any]:
    """A function that returns the second derivatives of the scalar `function`: the Jacobian of its gradient.

    >>> import numpy as np
    >>> hessian(lambda x: np.sum(x ** 3))(np.array([1.0, 2.0]))
    array([[ 6.,  0.],
           [ 0., 12.]])
    """
    return jacobian(grad(function, argnums), argnums)


@transforms("vmap")
def vmap(function: Callable[P, Any], in_axes: Any = 0, out_axes: Any = 0) -> Callable[P, Any]:
    """A function that does what `function` does for each item along an axis of its arguments, all at once.

    Parameters
    ----------
    function
        Takes and returns arrays or trees of them.
    in_axes
        The axis of each argument that counts the items, None for an argument that is the same for all: one for every
        argument, or a sequence with one per positional argument. For an argument that is a tree it may be a tree of axes
        like it, which may end earlier: an axis in the place of a container is that of all its leaves. That of keyword
        arguments is always 0.
    out_axes
        Where that axis is in the results: one for all, or a tree of axes like the result, which may end earlier. None for
        a result that is the same for all examples, and is given once.

    Raises
    ------
    TypeError
        Where an axis is no integer and not None.
    ValueError, GraphBreakError
        When called: sizes of mapped axes that differ, an axis that an array does not have, a tree of axes unlike the
        argument or the result.

    Notes
    -----
    Floating-point errors are reported as by a loop: where there are any, the function is called for each example.

    Examples
    --------
    >>> import numpy as np
    >>> vmap(np.dot)(np.eye(2), np.array([[1.0, 2.0], [3.0, 4.0]]))
    array([1., 4.])
    """
    given = tuple(in_axes) if isinstance(in_axes, (list, tuple)) else in_axes
    options = {"in_axes": axes(given, "in_axes"), "out_axes": axes(out_axes, "out_axes")}
    return TransformedFunction("vmap", function, options)


def axes(given: Any, name: str) -> Any:
    """The same tree of integers and None. TypeError where a leaf is something else."""
    if given is None:
        return None
    leaves, treedef = trees.flatten(given)
    for leaf in leaves:
        if not isinstance(leaf, SupportsIndex):
            raise TypeError(f"{name} takes integers and None, alone or in a tree, not {leaf!r}")
    return treedef.unflatten([index(leaf) for leaf in leaves])


def jvp(function: Callable[..., R], primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[R, Any]:
    """`function(*primals)`, and its derivative along `tangents`: arrays like the primals.

    >>> import numpy as np
    >>> jvp(np.sin, (np.float64(0.0),), (np.float64(2.0),))
    (np.float64(0.0), np.float64(2.0))
    """
    try:
        return _pushforward(function)(tuple(primals), tuple(tangents))
    except BaseException:
        hide_frames()
        raise


@transforms("jvp")
def _pushforward(function: Callable[..., Any]) -> Callable[..., Any]:
    return TransformedFunction("jvp", function, {})


def vjp(function: Callable[..., R], *primals: Any) -> tuple[R, Callable[[Any], tuple[Any, ...]]]:
    """`function(*primals)`, and a function from a cotangent, a tree like that result, to those of all primals, a tuple.

    >>> import numpy as np
    >>> value, pullback = vjp(np.sin, np.array([0.0, np.pi]))
    >>> pullback(np.array([1.0, 2.0]))
    (array([ 1., -2.]),)
    """
    pull = _pullback(function)

    # Without annotations: compiled code makes no functions that have some.
    def pullback(cotangent):  # type: ignore[no-untyped-def]
        """The gradients of the sum of the results times `cotangent`."""
        return pull(cotangent, *primals)

    try:
        return _plain(function)(*primals), pullback
    except BaseException:
        hide_frames()
        raise


@transforms("plain")
def _plain(function: Callable[..., Any]) -> Callable[..., Any]:
    return TransformedFunction("plain", function, {})


@transforms("pullback")
def _pullback(function: Callable[..., Any]) -> Callable[..., Any]:
    return TransformedFunction("pullback", function, {})


def custom_gradient(function: Callable[P, Any]) -> Callable[P, Any]:
    """Let a function say itself what its gradient is.

    Parameters
    ----------
    function
        Returns `(result, pullback)`: an array, and a function from its cotangent, an array like it, to those of the
        arguments, a tuple (or one, for one argument). Arguments are arrays or numbers.

    Returns
    -------
    callable
        Gives the result. Under transforms, and in `backward` of compiled programs, its derivative is the pullback's.

    Examples
    --------
    >>> import numpy as np
    >>> @custom_gradient
    ... def clipped(x):
    ...     return x, lambda g: np.clip(g, -1, 1)
    >>> grad(lambda x: np.sum(10 * clipped(x)))(np.zeros(2))
    array([1., 1.])
    """

    return _with_pullback(function)


@transforms("custom_gradient")
def _with_pullback(function: Callable[..., Any]) -> Callable[..., Any]:
    return TransformedFunction("custom_gradient", function, {})


def checkpoint(function: Callable[P, R]) -> Callable[P, R]:
    """A function of the same results and gradients, of which gradients save its arguments alone: they compute it again.

    Parameters
    ----------
    function
        Takes and returns trees of arrays, and anything else. In compiled code it should be pure, and its arrays come out
        as new ones.

    Notes
    -----
    Without this, gradients save what takes the fewest bytes, and compute again cheap arithmetic alone. With it nothing that
    `function` computes is saved, products and reductions neither, and it is compiled as a program of its own, whose memory
    is free when it is done, forwards and backwards. `explain` shows the bytes that are saved and computed again.

    >>> import numpy as np
    >>> grad(lambda x: np.sum(checkpoint(lambda y: np.sin(np.exp(y)))(x)))(np.zeros(1))
    array([0.54030231])
    """
    return _checkpointed(function)


@transforms("checkpoint")
def _checkpointed(function: Callable[..., Any]) -> Callable[..., Any]:
    return TransformedFunction("checkpoint", function, {})
