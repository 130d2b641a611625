"""`NPCOMPILE_CHECK`: calls of compiled functions are compared with plain Python, which runs beside them in a forked process."""

from __future__ import annotations

import io
import os
import pickle
import warnings
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from npcompile.backends.nan_checks import NotFinite, require_finite
from npcompile.settings import config
from npcompile.switch import disabled
from npcompile.tensor_core.graph import Location
from npcompile.tensor_core.tensor import Tensor
from npcompile.tensor_core.user_warnings import GENERATED
from npcompile.trees import flatten

GO = b"g"
SHOWN = 60  # characters of a value


class CheckFailed(AssertionError):
    """A compiled call differs from plain Python by more than rounding: in what it returned, raised or changed."""


@dataclass(slots=True)
class Answer:
    """What a call did: its result or exception, and its arguments afterwards."""

    result: Any
    error: BaseException | None
    arguments: tuple[Any, ...]


@dataclass(eq=False)
class Checked:
    """What enters a compiled function while calls are checked."""

    function: Any  # the CompiledFunction
    enter: Callable[..., Any]
    due: float = field(default_factory=lambda: 1 - config.check)  # the call that makes it 1 is checked: the first is
    checks: int = 0  # calls that were compared

    def __call__(self, *state: Any) -> Any:
        share, self.due = self.due + config.check, (self.due + config.check) % 1
        if share < 1 or any(hasattr(value, "__cuda_array_interface__") for value in state):
            return self.enter(*state)
        plain = Beside(self.function, state)
        try:
            ours = answer_of(self.enter, state)
            # Python code between graphs may write files, and must not do so twice.
            is_whole = not self.function.breaks and len(self.function.points) == 1
            theirs = plain.answer() if is_whole and not is_ours(ours.error) else None
        finally:
            plain.end()
        if theirs is not None:
            self.checks += 1
            self.compare(ours, theirs)
        if ours.error is not None:
            try:
                raise ours.error
            finally:
                del ours
        return ours.result

    def compare(self, ours: Answer, theirs: Answer) -> None:
        found = differing_errors(ours.error, theirs.error) or difference("the result", ours.result, theirs.result)
        for name, ours_after, theirs_after in zip(self.function.parameters.names, ours.arguments, theirs.arguments):
            found = found or difference(f"the argument {name} afterwards", ours_after, theirs_after)
        if found:
            code = self.function.code
            raise CheckFailed(
                f"{code.co_qualname} ({code.co_filename}:{code.co_firstlineno}) does something else compiled than as plain "
                f"Python. {found}. Please report this with the function and its arguments; NPCOMPILE_DISABLE=1 runs it as it is."
            ) from ours.error


def is_ours(error: BaseException | None) -> bool:
    """An error that plain Python does not have, as that of a graph break with fullgraph=True."""
    return type(error).__module__.partition(".")[0] == __name__.partition(".")[0]


def answer_of(call: Callable[..., Any], state: tuple[Any, ...]) -> Answer:
    try:
        return Answer(call(*state), None, state)
    except Exception as error:  # noqa: BLE001  (compared, and raised again)
        return Answer(None, error, state)


class Beside:
    """A copy of this process, in which the plain function is called when `answer` asks: what it changes stays there."""

    def __init__(self, function: Any, state: tuple[Any, ...]):
        (reads_asked, self.asks), (self.hears, writes_answer) = os.pipe(), os.pipe()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of forks of processes with threads: the copy calls NumPy alone
            self.child = os.fork()
        if self.child == 0:
            try:
                os.close(self.asks)  # else the end of that pipe never comes
                os.close(self.hears)
                if os.read(reads_asked, 1) == GO:
                    silence()
                    with disabled(), warnings.catch_warnings():
                        warnings.simplefilter("ignore")
                        text = packed(answer_of(partial(function.parameters.call, function.python), state))
                    with open(writes_answer, "wb") as pipe:
                        pipe.write(text)
            finally:
                os._exit(0)  # nothing of the parent's is flushed or torn down
        os.close(reads_asked)
        os.close(writes_answer)

    def answer(self) -> Answer | None:
        """What plain Python did; None where that cannot be told: its result cannot be pickled, or it ended the process."""
        os.write(self.asks, GO)
        with open(self.hears, "rb", closefd=False) as pipe:
            text = pipe.read()
        try:
            return pickle.loads(text) if text else None  # noqa: S301  (from this process's own copy)
        except Exception:  # noqa: BLE001  (of a class that pickles and cannot be unpickled)
            return None

    def end(self) -> None:
        os.close(self.asks)  # who was not asked reads the end of the file, and leaves
        os.close(self.hears)
        os.waitpid(self.child, 0)


def silence() -> None:
    """Output of this process goes nowhere."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)


def packed(answer: Answer) -> bytes:
    """The answer pickled; nothing where it cannot be."""
    file = io.BytesIO()
    try:
        pickle.Pickler(file, pickle.HIGHEST_PROTOCOL).dump(answer)
    except Exception:  # noqa: BLE001  (whatever a class of the user's raises when it is pickled)
        return b""
    return file.getvalue()


# --- comparison


def differing_errors(ours: BaseException | None, theirs: BaseException | None) -> str:
    if type(ours) is type(theirs):
        return ""
    said = ["nothing" if error is None else f"{type(error).__name__}: {error}" for error in (ours, theirs)]
    return f"It raises {said[0]}, plain Python raises {said[1]}"


def difference(place: str, ours: Any, theirs: Any, seen: frozenset[int] = frozenset()) -> str:
    """How `ours` is not `theirs`, in words; empty where it is, up to rounding."""
    if ours is theirs or id(ours) in seen:
        return ""
    seen |= {id(ours)}
    if type(ours) is not type(theirs):
        return f"{place} is {type(ours).__name__} {shown(ours)}, in plain Python {type(theirs).__name__} {shown(theirs)}"
    match ours:
        case np.ndarray() | np.generic():
            return differing_arrays(place, ours, theirs)
        case float() | complex():
            return differing_arrays(place, np.asarray(ours), np.asarray(theirs))
        case list() | tuple() | deque():
            if len(ours) != len(theirs):
                return f"{place} has {len(ours)} items, in plain Python {len(theirs)}"
            parts = ((f"{place}[{k}]", x, y) for k, (x, y) in enumerate(zip(ours, theirs)))
        case dict():
            if list(ours) != list(theirs):
                return f"{place} has the keys {shown(list(ours))}, in plain Python {shown(list(theirs))}"
            parts = ((f"{place}[{key!r}]", ours[key], theirs[key]) for key in ours)
        case bool() | int() | str() | bytes() | None | set() | frozenset() | range() | slice():
            return "" if ours == theirs else f"{place} is {shown(ours)}, in plain Python {shown(theirs)}"
        case _ if isinstance(attributes := getattr(ours, "__dict__", None), Mapping) and not isinstance(ours, type):
            others = vars(theirs)
            if attributes.keys() != others.keys():
                return f"{place} has the attributes {sorted(attributes)}, in plain Python {sorted(others)}"
            parts = ((f"{place}.{name}", attributes[name], others[name]) for name in attributes)
        case _:
            return ""
    return next((found for part in parts if (found := difference(*part, seen))), "")


def differing_arrays(place: str, ours: Any, theirs: Any) -> str:
    if (ours.dtype, ours.shape) != (theirs.dtype, theirs.shape):
        return f"{place} is {ours.dtype} of shape {ours.shape}, in plain Python {theirs.dtype} of shape {theirs.shape}"
    ours, theirs = np.asarray(ours), np.asarray(theirs)
    if ours.dtype.kind not in "fc":
        wrong = ours != theirs if ours.dtype.names is None else np.zeros(ours.shape, bool)
    else:
        with np.errstate(all="ignore"):
            wrong = ~np.isclose(ours, theirs, *tolerances(theirs), equal_nan=True)
    if not np.any(wrong):
        return ""
    at = tuple(int(k) for k in np.argwhere(np.atleast_1d(wrong))[0]) if ours.ndim else ()
    return (
        f"{place} differs in {np.count_nonzero(wrong)} of {ours.size} elements of {ours.dtype}, first at {at}: "
        f"{ours[at]!r}, in plain Python {theirs[at]!r}"
    )


def tolerances(array: np.ndarray) -> tuple[float, float]:
    """Relative and absolute: rounding of sums and functions may differ, more in chains of them and where numbers cancel."""
    relative = float(np.finfo(array.dtype).eps) ** (2 / 3)
    size = np.abs(array[np.isfinite(array)])
    return relative, relative * float(size.max(initial=0))


def shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."


@dataclass(eq=False)
class LookedAt:
    """What enters a compiled function under `config.check_nan`: loops and Python's code report a NaN as they compute it."""

    function: Any  # the CompiledFunction
    enter: Callable[..., Any]

    def __call__(self, *state: Any) -> Any:
        made = self.reporting(state)
        for x in flatten(made)[0]:
            value = x._data if isinstance(x, Tensor) else x
            if isinstance(value, (np.ndarray, np.inexact, float, complex)):  # loops report none that came with an argument
                require_finite("it returns", self.where, value, config.check_nan == "inf")
        return made

    @property
    def where(self) -> Location:
        code = self.function.code
        return Location(code.co_filename, code.co_firstlineno, code.co_qualname)

    def reporting(self, state: tuple[Any, ...]) -> Any:
        errors = {"invalid": "raise"} | ({"divide": "raise", "over": "raise"} if config.check_nan == "inf" else {})
        with np.errstate(**errors):  # type: ignore[call-overload]
            try:
                return self.enter(*state)
            except NotFinite:
                raise
            except FloatingPointError as error:
                raise located(error) from None


def located(error: FloatingPointError) -> NotFinite:
    """The same with the last line of the user's that its traceback has."""
    place, trace = "", error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        name = trace.tb_frame.f_globals.get("__name__", "")
        if name.partition(".")[0] not in ("npcompile", "numpy") and not code.co_filename.startswith(GENERATED):
            place = f"{code.co_filename}:{trace.tb_lineno}, in {code.co_qualname}: "
        trace = trace.tb_next
    return NotFinite(f"{place}{error} (npcompile.config.check_nan)").with_traceback(error.__traceback__)


def checked(function: Any, enter: Callable[..., Any], before: Any) -> Callable[..., Any]:
    """What callers of a CompiledFunction enter in place of `before`: `enter` itself, unless calls are to be checked."""
    if config.check_nan:
        enter = LookedAt(function, enter)
    if not config.check:
        return enter
    if not isinstance(before, Checked):
        return Checked(function, enter)
    before.function, before.enter = function, enter
    return before
