"""`compile`: the decorator, and what is known of every function it made."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, ParamSpec, TypeVar, overload

from npcompile.backends import native_profiling, progress
from npcompile.backends.registry import Backend, abilities_of, find_backend, release_memory
from npcompile.devices import before_first_use, placed
from npcompile.remembered import forget_programs_of_loops
from npcompile.settings import ACCURACIES, after_change, config
from npcompile.tensor_core.user_warnings import warn_once
from npcompile.tracer.bytecode.callees import calling_compiled
from npcompile.tracer.bytecode.decode import forget_decoded, only_moves
from npcompile.tracer.bytecode.versions import WHY_UNKNOWN
from npcompile.tracer.entry import compiled_function, plain_function, wrapped_behind
from npcompile.tracer.faults import text_of_fault, warn_of_fault
from npcompile.tracer.function import ALIVE, CompiledFunction
from npcompile.tracer.python import allowed
from npcompile.tracer.resume import is_user_function
from npcompile.tracer.static_arguments import named
from npcompile.tracer.values import Transform
from npcompile.tracer.variant import GraphBreakError, Options

P = ParamSpec("P")
R = TypeVar("R")

MODES = ("default", "reduce-overhead", "max-autotune")
_INSPECTS_ITSELF = (
    "locals",
    "vars",
    "eval",
    "exec",
    "globals",
    "dir",
    "_getframe",
    "currentframe",
    "breakpoint",
    "set_trace",
)
METHODS: dict[str, Callable[[types.FunctionType], Any]] = {}  # that compiled functions get: name -> what makes it
_GENERATOR_FLAGS = 0x20 | 0x80 | 0x200  # generator, coroutine, async generator


@overload
def compile(function: Callable[P, R], /) -> Callable[P, R]: ...


@overload
def compile(
    function: Callable[P, R],
    /,
    *,
    backend: str | Backend = "cpu",
    fullgraph: bool = False,
    dynamic: bool | None = None,
    mode: str = "default",
    accuracy: str | None = None,
    static_argnames: str | Iterable[str] = (),
    static_argnums: int | Iterable[int] = (),
) -> Callable[P, R]: ...


@overload
def compile(
    *,
    backend: str | Backend = "cpu",
    fullgraph: bool = False,
    dynamic: bool | None = None,
    mode: str = "default",
    accuracy: str | None = None,
    static_argnames: str | Iterable[str] = (),
    static_argnums: int | Iterable[int] = (),
) -> Callable[[Callable[P, R]], Callable[P, R]]: ...


def compile(
    function: Any = None,
    /,
    *,
    backend: str | Backend = "cpu",
    fullgraph: bool = False,
    dynamic: bool | None = None,
    mode: str = "default",
    accuracy: str | None = None,
    static_argnames: str | Iterable[str] = (),
    static_argnums: int | Iterable[int] = (),
) -> Any:
    """A function that does what `function` does, with its NumPy work captured, fused and run in parallel.

    On versions of Python whose bytecode is unknown, and on free-threaded builds, it is `function` itself, with one warning.
    The result has the same signature, and gives NumPy's answer: type, dtype, shape, memory order, views, mutated
    arguments and exceptions. Nothing is compiled before the first call; then once for each combination of types,
    dtypes and numbers of dimensions (a second size of an array makes that size variable).

    Called with arrays or Tensors that are on a CUDA device (CuPy's arrays are), it runs there and its results stay there;
    arrays of no dimensions stand for NumPy's scalars. RuntimeError when arrays of two devices meet. Where the graph breaks,
    the part that runs in Python sees copies on the host, and what it changes is written back.

    Parameters
    ----------
    function
        A Python function, a method, or an object with `__call__`: its attributes are read anew at each call, and
        Tensors among them are inputs of the program. Of a `functools.partial`, `lru_cache` object, `staticmethod` or
        `classmethod` the same is made of what is compiled of its function, with a cache of its own. What has no Python code,
        such as ufuncs and built-in functions, is returned as it is. The code and defaults of a function are those that it has
        now; what it calls and reads may change in every way. Generators, coroutines and functions that inspect themselves
        (`locals()`, frames) run as they are, with the plain functions that they call by name compiled.
    backend
        "cpu" (generated C), "cuda" (generated Triton), "eager" (the captured graph run by NumPy), a name given to
        `register_backend`, or a callable `(graph, example_inputs) -> callable`, which gets the arrays of the call.
    fullgraph
        Raise GraphBreakError, naming reason, line and hint, instead of running parts of the function in Python. A function with
        loops that runs wholly as one native program has no such part; Python runs it where NumPy or Python would raise or warn.
    dynamic
        None: a size becomes variable when a second one is seen. True: sizes are variable from the start. False: never.
    mode
        "default". On a CUDA device "reduce-overhead" repeats a program's launches as one CUDA graph, whose memory is used
        again for results that nobody holds any more; a program that waits for the host, or calls a library for more
        than products of matrices, runs as by default. "max-autotune" tries tiles, warps and stages of each kernel when
        it first runs, and remembers the best on disk: sums may round differently than by default. On the CPU all three
        mean the same.
    accuracy
        "numpy": as accurate as NumPy, with other last bits in the operations that `explain(f).inexact` lists. "bitwise": NumPy's
        bits in everything, on the CPU alone: functions and products are computed by NumPy's own code, between and in kernels
        (docs/accuracy.md). "fast" allows generated Triton the hardware's division, roots and exponentials of float32 and
        float16, subnormal numbers taken for zero, and products and sums rounded at once. What that costs is in
        docs/architecture/devices.md. It changes nothing on the CPU. None: what `config.accuracy` says.
    static_argnames, static_argnums
        Parameters, by name or by number (`self` is 0, -1 the last), whose values are constants of the program. There is one
        program for each value that they are called with, up to `config.recompile_limit`. Numbers in tuples and in attributes of
        hashable objects are constants too. Calls raise TypeError where such an argument cannot be hashed. Loops that run as one
        compiled program take their numbers as arguments in any case.

    Raises
    ------
    TypeError
        `function` is a class, or nothing that can be called; `static_argnames` are no strings, or `static_argnums` no integers.
    ValueError
        Unknown backend, mode or accuracy, or one that the backend does not have; a static parameter that `function` lacks.

    Examples
    --------
    >>> import numpy as np
    >>> @compile
    ... def f(x):
    ...     return np.sum(x * x + 1)
    >>> f(np.arange(3.0))
    np.float64(8.0)
    """
    options = options_of(backend=backend, fullgraph=fullgraph, dynamic=dynamic, mode=mode, accuracy=accuracy)
    if static := (*given_as("static_argnames", static_argnames, str), *given_as("static_argnums", static_argnums, int)):
        options = replace(options, static=static)
    return functools.partial(compiled_with, options) if function is None else compiled_with(options, function)


def options_of(
    *, backend: str | Backend, fullgraph: bool = False, dynamic: bool | None, mode: str, accuracy: str | None
) -> Options:
    """What `compile` is asked for. ValueError for an unknown backend, mode or accuracy."""
    if accuracy is not None and accuracy not in ACCURACIES:
        raise ValueError(f"unknown accuracy {accuracy!r}: choose one of {', '.join(ACCURACIES)}")
    if mode not in MODES:
        raise ValueError(f"unknown mode {mode!r}: choose one of {', '.join(MODES)}")
    found = find_backend(backend)
    abilities = abilities_of(found)
    if accuracy == "bitwise" and not abilities.is_bitwise:
        raise ValueError(f"accuracy='bitwise' is possible on the CPU alone, and the backend is {backend!r}")
    return Options(placed(found), fullgraph, dynamic, mode, accuracy, not (abilities.is_own and isinstance(backend, str)))


def given_as(what: str, given: Any, kind: type) -> tuple[Any, ...]:
    """One name or number, or several. TypeError for anything else."""
    found = given if isinstance(given, Iterable) and not isinstance(given, str) else (given,)
    found = tuple(found)
    if not all(isinstance(each, kind) and not isinstance(each, bool) for each in found):
        raise TypeError(f"{what} is {kind.__name__} or several of them, not {given!r}")
    return found


def compiled_with(options: Options, function: Any) -> Any:
    """What `compile` makes of a callable of any kind."""
    inside = inside_of(function)
    function = wrapped_behind(function) or function
    if isinstance(function, Transform) and callable(function):
        function = caller(function)
    elif is_object_with_call(function):
        function = function.__call__
    if type(function) in PARTS:
        return PARTS[type(function)](function, functools.partial(compiled_with, options))
    if callable(function) and not isinstance(function, (type, types.FunctionType)):  # a ufunc, for one: there is no Python in it
        return function
    function = plain_function(function)
    if not isinstance(function, types.FunctionType):
        raise TypeError(f"npcompile.compile takes a function, not {type(function).__qualname__}: {function!r}")
    if hasattr(function, "__npcompile_disabled__"):
        return function
    if options.static:
        of = inside if isinstance(inside, types.FunctionType) else function
        options = replace(options, static=named(options.static, of, function.__code__))
    return make_entry(function, options)


def inside_of(function: Any) -> Any:
    """What a function that is made of another hands its arguments on to; None for functions that are not."""
    if not isinstance(function, Transform):
        return None if wrapped_behind(function) is None else function.__wrapped__
    while isinstance(function, Transform):
        function = function.function
    return function


def is_object_with_call(function: Any) -> bool:
    """Is it an object of a class whose `__call__` is written in Python?"""
    return callable(function) and not isinstance(function, type) and isinstance(function.__call__, types.MethodType)


def of_cache(cached: Any, compiled: Callable[[Any], Any]) -> Any:
    """Another cache of the same size: what this one has kept was not computed by what is compiled."""
    return functools.lru_cache(**cached.cache_parameters())(compiled(cached.__wrapped__))


# Callables that are made of a function -> the same made of what is compiled of it.
PARTS: dict[type, Callable[[Any, Callable[[Any], Any]], Any]] = {
    types.MethodType: lambda method, compiled: types.MethodType(compiled(method.__func__), method.__self__),
    functools.partial: lambda partial, compiled: functools.partial(compiled(partial.func), *partial.args, **partial.keywords),
    functools._lru_cache_wrapper: of_cache,
    staticmethod: lambda method, compiled: staticmethod(compiled(method.__func__)),
    classmethod: lambda method, compiled: classmethod(compiled(method.__func__)),
}


def make_entry(function: types.FunctionType, options: Options, is_switched: bool = True) -> types.FunctionType:
    if WHY_UNKNOWN:
        warn_once(WHY_UNKNOWN)
        return function
    try:
        return new_entry(function, options, is_switched)
    except Exception as error:
        if config.internal_errors == "raise" or options.fullgraph and not options.falls_back:
            raise
        doing, instead = f"reading the code of {function.__qualname__}", "The function will run uncompiled."
        fault = GraphBreakError(text_of_fault(error, doing)) if options.falls_back else None
        if fault is None:
            warn_of_fault(error, doing, instead)
    if fault is not None:
        try:
            raise fault
        finally:
            del fault
    return function


def new_entry(function: types.FunctionType, options: Options, is_switched: bool = True) -> types.FunctionType:
    disabled = getattr(function, "__npcompile_disabled__", None)
    if disabled == "all":
        return function
    if disabled == "itself" or why_not_captured(function.__code__):
        if options.when_hot:  # of a package, whose functions are compiled where they are kept
            return function
        entry = calling_compiled(function, Callees(replace(options.of_callees, fullgraph=False)))
        if entry is not function:
            entry.__npcompile_original__ = function  # type: ignore[attr-defined]
        return entry
    if options.when_hot and only_moves(function.__code__):
        return function
    entry = CompiledFunction(function, options, make_entry, is_switched).entry
    for name, made in METHODS.items():
        setattr(entry, name, made(entry))
    return entry


def captured(function: types.FunctionType) -> types.FunctionType:
    """A function compiled as one graph, whose plain form does something else: it is compiled always, or the caller falls back."""
    options = Options(placed(find_backend("cpu")), fullgraph=True, falls_back=True)
    return make_entry(function, options, is_switched=False)


@dataclass(slots=True, eq=False)
class Callees:
    """The compiled functions that a function calls which is not compiled itself."""

    options: Options
    made: dict[tuple[Any, ...], types.FunctionType] = field(default_factory=dict)

    def __reduce__(self) -> tuple[Any, ...]:
        return Callees, (self.options,)  # a constant of code, which cloudpickle pickles

    def __call__(self, function: Any) -> Any:
        """`function`, or what is compiled of it if it is one of the user's."""
        if not isinstance(function, types.FunctionType):
            return function
        key = function, function.__code__, id(function.__defaults__), id(function.__kwdefaults__)  # of which there are copies
        known = self.made.get(key)
        if known is None:
            known = self.made[key] = make_entry(function, self.options) if is_user_function(function) else function
        return known


def why_not_captured(code: types.CodeType) -> str:
    """Why a function runs as plain Python always; the empty text where it can be captured."""
    if code.co_name == "__getattribute__":  # isinstance calls it too, so it would be called to find out how to run it
        return "__getattribute__ is not captured: looking at an object calls it"
    if code.co_flags & _GENERATOR_FLAGS:
        return "generators and coroutines are not captured"
    reader = next((name for name in _INSPECTS_ITSELF if name in code.co_names), None)
    return f"{reader} is not captured: it reads the frame of the function" if reader else ""


def caller(function: Callable[..., Any]) -> types.FunctionType:
    """A Python function that calls `function`, which may be any object that the tracer knows how to call."""

    def call(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    assert isinstance(call, types.FunctionType)
    name = f"{getattr(function, 'kind', 'call')}_{getattr(function, '__name__', 'function')}"
    call.__name__ = call.__qualname__ = name
    call.__code__ = call.__code__.replace(co_name=name, co_qualname=name)
    return call


def original(function: Callable[..., Any]) -> Callable[..., Any]:
    """The user's function behind a compiled one: what is made of it compiles as a whole."""
    if not callable(function):
        raise TypeError(f"a function is needed, not {type(function).__qualname__}: {function!r}")
    known = compiled_function(function)
    return function if known is None else known.user


def all_compiled() -> list[CompiledFunction]:
    """What is compiled for every function of this process."""
    return [compiled for known in ALIVE.valuerefs() if (compiled := known()) is not None and compiled.is_current]


def reset() -> None:
    """Forget everything compiled in this process, and return the memory of freed arrays to the system.

    The disk cache stays. Functions compile again when called. May be called at any time, by handlers of signals and other threads
    too: a call of a compiled function that is under way goes on with the programs that it has.
    """
    for compiled in all_compiled():
        compiled.renew()
    forget_programs_of_loops()
    forget_decoded()
    release_memory()


before_first_use.append(reset)


def enter_anew() -> None:
    """`config.check`, `config.tiers` and `config.fallback_random` hold for functions that are compiled already."""
    for compiled in all_compiled():
        compiled.current.be(compiled, compiled)


def show_progress_as_set() -> None:
    progress.SETTING.is_wanted = config.progress


def profile_as_set() -> None:
    native_profiling.PROFILERS.are_told = config.native_profiling


profile_as_set()
after_change["native_profiling"] = [profile_as_set]
after_change["accuracy"] = after_change["check_nan"] = [reset]
after_change["progress"] = [show_progress_as_set]
after_change["check"] = after_change["tiers"] = after_change["fallback_random"] = [enter_anew]


@overload
def disable(function: Callable[P, R], /, *, recursive: bool = True) -> Callable[P, R]: ...


@overload
def disable(*, recursive: bool = True) -> Callable[[Callable[P, R]], Callable[P, R]]: ...


def disable(function: Any = None, /, *, recursive: bool = True) -> Any:
    """Mark a function to be called as it is, never captured or compiled. Usable as a decorator, with or without options.

    Parameters
    ----------
    function
        A Python function or method, compiled or not.
    recursive
        False: the function itself runs as it is, and functions that it calls are compiled where a compiled function called
        it. True: so do they, but for those that were given to `compile` themselves.

    Returns
    -------
    function
        The plain function. The graph of a compiled function that calls it breaks there, and resumes after the call.
    """
    if function is None:
        return functools.partial(disable, recursive=recursive)
    original: Any = getattr(function, "__npcompile_original__", function)
    marked = getattr(original, "__func__", original)  # of a method
    marked.__npcompile_break__ = (f"{marked.__qualname__} is marked with npcompile.disable", "")
    marked.__npcompile_disabled__ = "all" if recursive else "itself"
    return original


def allow_in_graph(function: Callable[P, R]) -> Callable[P, R]:
    """Let captured programs call a function as one node of their graph. Usable as a decorator.

    For functions that cannot be captured (of a library's C code, say) and would break the graph. It is the user's word that
    the function has no effects, writes to none of its arguments and gives new arrays. Its results are NumPy's arrays or
    scalars, or a tuple or list of them; their dtypes and shapes depend on those of the arrays given alone, and are found by
    a call with arrays of ones. Where a call gives others, or raises, that part of the program runs in Python. Numbers
    among the arguments are constants of the program. There is no derivative.

    Programs compiled before do not change: see `reset`. `disallow_in_graph` is the opposite, and each replaces the other.

    >>> import numpy as np
    >>> @allow_in_graph
    ... def smooth(x):
    ...     return np.array([sum(x[max(k - 1, 0) : k + 2]) for k in range(len(x))])
    """
    allowed.allow(original(function))
    return function


def disallow_in_graph(function: Callable[P, R]) -> Callable[P, R]:
    """End the graph before each call of a function, which then runs as it is. Usable as a decorator.

    For NumPy's functions and others that are captured otherwise; `disable` says the same of a Python function of one's own.
    Programs compiled before do not change: see `reset`.
    """
    allowed.disallow(original(function))
    return function


def graph_break() -> None:
    """End the captured graph here; it resumes on the next line. Does nothing in code that is not compiled."""


graph_break.__npcompile_break__ = ("npcompile.graph_break()", "")  # type: ignore[attr-defined]


def run_only(function: Callable[P, R]) -> Callable[P, R]:
    """Use what is compiled already and compile nothing new: other arguments run uncompiled. `reset` ends that."""
    compiled = compiled_function(function)
    if compiled is None and WHY_UNKNOWN:
        return function
    if compiled is None:
        raise TypeError(f"npcompile.run_only takes a function returned by npcompile.compile, not {function!r}")
    compiled.freeze()
    return function
