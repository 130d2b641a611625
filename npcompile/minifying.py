"""`npcompile.minify`: a call that goes wrong when it is compiled, as a script that can be read and sent."""

from __future__ import annotations

import ast
import contextlib
import copy
import inspect
import io
import itertools
import linecache
import sys
import types
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from time import perf_counter
from typing import Any

import numpy as np

from npcompile.backends.background import never_giving_up
from npcompile.backends.registry import _BACKENDS
from npcompile.checking import Answer, answer_of, differing_errors
from npcompile.checking import difference as differing_values
from npcompile.compiler import compile as compiled_as
from npcompile.compiler import compiled_function, compiled_with, options_of
from npcompile.devices import placed
from npcompile.scripts import Fault, NotWritable, Script, functions_of, memory_of
from npcompile.settings import config
from npcompile.shrinking import simpler_functions, smallest
from npcompile.switch import compiling
from npcompile.tracer.entry import plain_function
from npcompile.tracer.variant import Options

SECONDS = 60.0  # for the search
PATIENCE = 2.0  # seconds that plain Python may take for a candidate: what leaves out a statement may never end
SMALL = (0, 1, 2, 3)  # sizes and numbers that are tried first
FILE = "<npcompile minify>"
DEFAULTS: dict[str, Any] = {
    name: p.default for name, p in inspect.signature(compiled_as).parameters.items() if name != "function"
}
numbers = itertools.count()


class TooLong(BaseException):
    """A candidate does not end. No handler of the user's is for it."""


def usual_options() -> Options:
    """Those of `npcompile.compile(function)`."""
    return options_of(**{name: DEFAULTS[name] for name in inspect.signature(options_of).parameters})


def minify(function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> str:
    """A script, as short as can be found, that shows how a compiled call differs from plain Python.

    Statements, expressions, arguments, elements of arrays and functions that are called are left out, or made simpler, while the
    compiled call still goes wrong in the same way: it returns something else, changes its arguments to something else, raises
    what plain Python does not, or does not raise. Mistakes of npcompile that it would hide, with a warning, count as raised.

    Parameters
    ----------
    function
        A Python function, plain or compiled; its options are kept. It is called many times, on copies of the arguments, with
        parts left out: not for functions that write files.
    *args, **kwargs
        Arguments that it goes wrong with. They stay as they are.

    Returns
    -------
    str
        A script that needs no other file. It prints the result of the plain function, then of the compiled one, with arguments
        where these differ; or it ends with the error that compiling raises.

    Raises
    ------
    TypeError
        `function` is not a Python function.
    ValueError
        The call does not differ by more than rounding, or plain Python differs from itself; or a script cannot hold it: there is
        no source, no text for a value, or the call does not differ when it is written down.

    Notes
    -----
    The search ends after a minute, with what it has by then. What ends the process, in C, ends it here too.

    Examples
    --------
    >>> import numpy as np, npcompile as npc
    >>> npc.minify(lambda x: x + 1, np.ones(3))
    Traceback (most recent call last):
        ...
    ValueError: <lambda> does the same compiled as in plain Python with these arguments: there is nothing to show
    """
    known = compiled_function(function)
    user = plain_function(function)
    if not isinstance(user, types.FunctionType):
        raise TypeError(f"npcompile.minify takes a Python function, not {type(function).__qualname__}: {function!r}")
    options = usual_options() if known is None else known.options
    fault = fault_of(user, options, args, kwargs)
    if fault is None:
        raise ValueError(
            f"{user.__qualname__} does the same compiled as in plain Python with these arguments: there is nothing to show"
        )
    try:
        script = script_of(user, options, args, kwargs)
        found = fault_of_script(script, options)
    except NotWritable as error:
        raise ValueError(f"minify cannot write down {user.__qualname__}: {error}") from None
    if found is None:
        raise ValueError(
            f"{user.__qualname__} differs ({fault.text}), but not as a script of its own: it may depend on memory that arguments "
            f"share, or on calls before.\n{script.text}"
        )
    kind = found.kind

    def fails(candidate: Script) -> bool:
        try:
            met = fault_of_script(candidate, options)
        except (NotWritable, SyntaxError):
            return False
        return met is not None and met.kind == kind

    made = smallest(script, simpler_scripts, fails, SECONDS)
    return replace(made, fault=fault_of_script(made, options)).text


# --- does a call go wrong?


def fault_of(user: types.FunctionType, options: Options, args: Any, kwargs: Any) -> Fault | None:
    """What differs. None where nothing does, or where plain Python differs from itself."""

    def answer(call: Callable[..., Any]) -> Answer:
        given, named = copied(tuple(args)), copied(dict(kwargs))
        state = np.random.get_state()
        try:
            found = answer_of(partial(call, **named), given)
        finally:
            np.random.set_state(state)
        return Answer(found.result, found.error, (*given, *named.values()))

    changes = {"internal_errors": "raise", "tiers": "always", "check": 0, "compile": "first call", "stance": "default"}
    with contextlib.ExitStack() as within:
        for each in (contextlib.redirect_stdout(io.StringIO()), config.patch(**changes), compiling(), never_giving_up()):
            within.enter_context(each)
        within.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore")
        with ending(user):
            theirs, again = answer(user), answer(user)
        if difference(theirs, again):
            return None
        ours = answer(compiled_with(replace(options, falls_back=False), user))
    text = difference(ours, theirs)
    if not text:
        return None
    mine, other = ("" if each.error is None else type(each.error).__name__ for each in (ours, theirs))
    return Fault(text, mine, other, repr((ours.result, ours.arguments)) != repr((theirs.result, theirs.arguments)))


def copied(value: Any) -> Any:
    """A copy in which arrays lie in memory as they did."""
    if isinstance(value, tuple | list) and type(value) in (tuple, list):
        return type(value)(map(copied, value))
    if type(value) is dict:
        return {key: copied(x) for key, x in value.items()}
    if type(value) is not np.ndarray or value.dtype.hasobject:
        return copy.deepcopy(value)
    if value.flags.forc:
        made = value.copy(order="K")
    else:
        flat, offset = memory_of(value)
        made = np.ndarray(value.shape, value.dtype, flat, offset, value.strides)  # type: ignore[call-overload]
    made.flags.writeable = value.flags.writeable
    return made


def difference(ours: Answer, theirs: Answer) -> str:
    found = differing_errors(ours.error, theirs.error) or differing_values("the result", ours.result, theirs.result)
    for k, (mine, other) in enumerate(zip(ours.arguments, theirs.arguments)):
        found = found or differing_values(f"argument {k} afterwards", mine, other)
    return found


@contextlib.contextmanager
def ending(user: types.FunctionType) -> Iterator[None]:
    """Raise TooLong in what goes on for too long, if it is a candidate."""
    if not user.__code__.co_filename.startswith(FILE):
        yield
        return
    end, before = perf_counter() + PATIENCE, sys.gettrace()

    def look(frame: Any, event: str, argument: Any) -> Any:
        if perf_counter() > end:
            raise TooLong
        return look

    sys.settrace(look)
    try:
        yield
    finally:
        sys.settrace(before)


def fault_of_script(script: Script, options: Options) -> Fault | None:
    """Raises NotWritable, and SyntaxError where it is no program."""
    text, filename = script.definitions, f"{FILE[:-1]} {next(numbers)}>"
    linecache.cache[filename] = (len(text), None, text.splitlines(True), filename)
    scope: dict[str, Any] = {"__name__": "__main__"}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            code = compile(text, filename, "exec")
            try:
                exec(code, scope)
            except Exception:  # noqa: BLE001  (what is left out was needed, by a default or a class)
                return None
        assert script.text  # raises where an argument has no text
        return fault_of(scope[script.name], options, [*script.positional.values()], script.keywords)
    except TooLong:
        return None
    finally:
        linecache.cache.pop(filename, None)


# --- scripts


def script_of(user: types.FunctionType, options: Options, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Script:
    """Raises NotWritable."""
    sources, outside = functions_of(user, plain_function)
    names = [name for name, p in inspect.signature(user).parameters.items() if p.kind < inspect.Parameter.VAR_POSITIONAL]
    names += [f"argument_{k}" for k in range(len(names), len(args))]
    return Script(sources, outside, dict(zip(names, args)), dict(kwargs), options_text(options))


def options_text(options: Options) -> str:
    """The options of `compile` that are not its own defaults. Raises NotWritable."""
    found = next((name for name, backend in _BACKENDS.items() if placed(backend) is options.backend), None)
    if found is None:
        raise NotWritable("its backend has no name: give it one by npcompile.register_backend")
    chosen = {"backend": found} | {name: getattr(options, name) for name in ("fullgraph", "dynamic", "mode", "accuracy")}
    return ", ".join(f"{name}={value!r}" for name, value in chosen.items() if value != DEFAULTS[name])


def simpler_scripts(script: Script) -> Iterator[Script]:
    """Smaller arrays first: then each further question takes less time."""
    yield from with_smaller_arrays(script)
    yield from with_fewer_arguments(script)
    *helpers, last = script.needed
    for name in (last, *helpers):
        for source in simpler_functions(script.functions[name]):
            yield replace(script, functions={**script.functions, name: source})
    for name, value in (script.positional | script.keywords).items():
        for simpler in simpler_values(value):
            yield with_value(script, name, simpler)


def with_value(script: Script, name: str, value: Any) -> Script:
    if name in script.positional:
        return replace(script, positional={**script.positional, name: value})
    return replace(script, keywords={**script.keywords, name: value})


def with_smaller_arrays(script: Script) -> Iterator[Script]:
    """One size is another, in all arrays, then in one alone."""
    values = script.positional | script.keywords
    arrays = {name: value for name, value in values.items() if isinstance(value, np.ndarray)}
    sizes = sorted({n for array in arrays.values() for n in array.shape}, reverse=True)
    for names in (arrays, *([name] for name in arrays if len(arrays) > 1)):
        for size in sizes:
            for smaller in smaller_numbers(size):
                made = script
                for name in names:
                    made = with_value(made, name, cut(arrays[name], size, smaller))
                yield made


def smaller_numbers(number: int) -> Iterator[int]:
    yield from (n for n in dict.fromkeys((*SMALL, number // 2, number - 1)) if n < number)


def cut(array: np.ndarray, size: int, smaller: int) -> np.ndarray:
    part = array[tuple(slice(smaller) if n == size else slice(None) for n in array.shape)]
    return np.array(part, order="K") if array.flags.forc else part


def with_fewer_arguments(script: Script) -> Iterator[Script]:
    """Without parameters that nothing reads."""
    source = script.functions[script.name]
    tree = ast.parse(source)
    [function] = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    read = {node.id for node in ast.walk(function) if isinstance(node, ast.Name)}
    places: list[tuple[list[ast.arg], list[Any]]] = [
        (function.args.args, function.args.defaults),
        (function.args.kwonlyargs, function.args.kw_defaults),
    ]
    for parameters, defaults in places:
        for k, parameter in reversed([*enumerate(parameters)]):
            if parameter.arg in read:
                continue
            at = k - len(parameters) + len(defaults)
            kept = parameters[:], defaults[:]
            del parameters[k]
            if at >= 0:
                del defaults[at]
            positional, keywords = (
                {name: value for name, value in each.items() if name != parameter.arg}
                for each in (script.positional, script.keywords)
            )
            functions = {**script.functions, script.name: ast.unparse(tree)}
            yield replace(script, functions=functions, positional=positional, keywords=keywords)
            parameters[:], defaults[:] = kept


def simpler_values(value: Any) -> Iterator[Any]:
    match value:
        case np.ndarray():
            if not (value.flags.c_contiguous and value.flags.writeable):
                yield np.array(value, order="C")
            if value.ndim > 1 and len(value):
                yield np.array(value[0], order="C")
            for simple in (np.ones_like(value, order="C"), np.arange(value.size, dtype=value.dtype).reshape(value.shape)):
                if complexity(simple) < complexity(value):
                    yield simple
            if value.dtype.kind in "fc" and (rounded := np.round(value, 1)).tobytes() != value.tobytes():
                yield rounded
        case bool():
            return
        case int():
            yield from smaller_numbers(value)
        case float() if value not in (0.0, 1.0):
            yield 1.0
        case list():
            yield from (value[:k] + value[k + 1 :] for k in reversed(range(len(value))))
        case tuple():
            for k in reversed(range(len(value))):
                yield value[:k] + value[k + 1 :]
        case dict():
            for name in value:
                yield {key: x for key, x in value.items() if key != name}


def complexity(array: np.ndarray) -> int:
    """0 for ones, 1 for whole numbers in order, 2 for others."""
    if np.array_equal(array, np.ones_like(array)):
        return 0
    return 2 - np.array_equal(array.ravel(), np.arange(array.size))
