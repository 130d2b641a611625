"""Groups of exceptions: made, raised, handled by `except*`, and split."""

from __future__ import annotations

import contextlib

import numpy as np

from tests.tracer.bytecode.constructs import construct


class Refused(Exception):
    pass


class Worse(Refused):
    pass


class Collected(ExceptionGroup):
    pass


class Derived(ExceptionGroup):
    def derive(self, members):
        return Derived(self.message, members)


def check_all(x, *kinds):
    """Raise what does not fit, all together."""
    errors = []
    for kind in kinds:
        try:
            if x.ndim == 2:
                raise kind(kind.__name__)
        except Exception as error:  # noqa: BLE001
            errors.append(error)
    if errors:
        raise ExceptionGroup("checks", errors)
    return x


@construct("exception group")
def group(x):
    found = []
    try:
        raise ExceptionGroup("two", [ValueError(1), TypeError(2)])
    except* ValueError as errors:
        found.append(len(errors.exceptions))
    except* TypeError:
        found.append("type")
    return x * 2, found


@construct("exception group of a callee")
def group_of_callee(x):
    found = []
    try:
        y = check_all(np.sin(x), ValueError, Refused, Worse, KeyError)
    except* (ValueError, KeyError) as errors:
        found.append((str(errors), errors.message, [str(e) for e in errors.exceptions]))
        y = np.cos(x)
    except* Refused as errors:
        found += [type(e).__name__ for e in errors.exceptions]
        y = y + 1
    else:
        found.append("else")
    finally:
        found.append("finally")
    return y, found


@construct("except* of a plain exception")
def plain_exception(x):
    found = []
    try:
        raise Worse("alone")
    except* Refused as errors:
        found.append((type(errors).__name__, errors.message, errors.exceptions[0].args))
    return x + 1, found


@construct("except* of nothing")
def nothing_raised(x):
    try:
        y = check_all(x)
    except* ValueError:
        y = x * 0
    else:
        y = y + 1
    return y


@construct("nested exception groups")
def nested_groups(x):
    found = []
    inner = ExceptionGroup("inner", [ValueError("a"), Refused("b")])
    try:
        raise ExceptionGroup("outer", (inner, ValueError("c"), Worse("d")))
    except* ValueError as errors:
        found.append((str(errors), str(errors.exceptions[0]), len(errors.exceptions)))
    except* Refused as errors:
        found.append((errors.exceptions[0].message, errors.exceptions[0].exceptions[0].args, errors.exceptions[1].args))
    return x * len(found), found


@construct("what except* leaves is raised to an outer block")
def rest_is_raised(x):
    found = []
    try:
        try:
            check_all(x, ValueError, Refused, KeyError)
        except* ValueError:
            found.append("value")
    except ExceptionGroup as errors:
        found.append((str(errors), [e.args for e in errors.exceptions]))
    return x + 1, found


@construct("exceptions raised by except* clauses")
def clauses_raise(x):
    found = []
    try:
        try:
            check_all(x, ValueError, Refused, KeyError, TypeError)
        except* ValueError:
            raise Refused("another")
        except* KeyError:
            raise
        except* TypeError as errors:
            raise errors
    except ExceptionGroup as errors:
        found.append((str(errors), [str(e) for e in errors.exceptions]))
        found.append([(str(e), [str(f) for f in e.exceptions]) for e in errors.exceptions[1:]])
    return x + 1, found


@construct("one exception raised by an except* clause")
def clause_raises_one(x):
    try:
        try:
            check_all(x, ValueError)
        except* ValueError as errors:
            raise KeyError("one") from errors
    except KeyError as error:
        return x + 1, error.args, str(error.__cause__), error.__context__ is error.__cause__


def refuse_twice(x):
    try:
        check_all(x, ValueError, KeyError)
    except* ValueError:
        raise Refused("first")
    except* KeyError:
        raise Refused("second")


@construct("exceptions that clauses of a callee raise together")
def callee_raises_group(x):
    try:
        refuse_twice(x)
    except ExceptionGroup as errors:
        found = str(errors), [str(e) for e in errors.exceptions], errors.__context__ is None
    return x + 1, found


@construct("return, break and continue out of a block with except*")
def left_in_loop(x):
    found = []
    for kind in (ValueError, Refused, KeyError):
        try:
            check_all(x, kind)
        except* Refused:
            found.append("refused")
        except* ValueError:
            x = x + 1
        except* KeyError:
            found.append("key")
    return x, found


@construct("split, subgroup and derive of an exception group")
def split(x):
    made = ExceptionGroup("all", [ValueError(1), ExceptionGroup("more", [Refused(2), ValueError(3)])])
    values, rest = made.split(ValueError)
    large = made.subgroup(lambda e: not isinstance(e, ExceptionGroup) and e.args[0] in (2, 3))
    none = made.subgroup(KeyError)
    both, nothing = made.split((Refused, ValueError))
    again = made.derive([KeyError(4)])
    texts = [str(e) for e in (values, rest, large, both, again, values.exceptions[1])]
    return x + len(texts), texts, none, nothing, large.exceptions[0].exceptions[0].args


@construct("except* of a subclass of ExceptionGroup")
def subclass(x):
    found = []
    try:
        raise Collected("mine", [ValueError(1), KeyError(2)])
    except* ValueError as errors:
        found.append(type(errors).__name__)
    except* Exception as errors:  # noqa: BLE001
        found.append(type(errors).__name__)
    return x * 3, found


@construct("BaseExceptionGroup")
def base_group(x):
    made = BaseExceptionGroup("exits", [SystemExit(1), ValueError(2)])
    plain = BaseExceptionGroup("plain", [ValueError(2)])
    try:
        raise made
    except* SystemExit as errors:
        names = [type(errors).__name__, type(plain).__name__]
    except* ValueError as errors:
        names.append(type(errors).__name__)
    return x - 1, names


@construct("except* with a contextmanager around it")
def with_manager(x):
    log = []

    @contextlib.contextmanager
    def noted():
        try:
            yield
        except* KeyError as errors:
            log.append(str(errors))

    with noted():
        x = x * 2
        check_all(x, KeyError, KeyError)
    return x, log


@construct("exception group that leaves the function", [], breaks=2, why="it is raised natively")
def leaves_function(log, x):
    y = x * 2
    try:
        check_all(y, ValueError, KeyError)
    except* ValueError:
        log.append("value")
    return y


@construct("exception group that is kept", breaks=1, why="its traceback is made natively")
def kept(x):
    try:
        check_all(x, ValueError, KeyError)
    except* ValueError as errors:
        found = errors
    except* KeyError:
        x = x + 1
    return x * 2, type(found).__name__, found


@construct("exception group with a derive of its own", breaks=1, why="what the user's derive gives is not known")
def own_derive(x):
    try:
        raise Derived("mine", [ValueError(1), KeyError(2)])
    except* ValueError as errors:
        name = type(errors).__name__
    except* KeyError:
        x = x + 1
    return x * 2, name


@construct("what NumPy raises in a block with except*", [], breaks=1, why="NumPy raises")
def numpy_raises(log, x):
    try:
        y = x * 2
        y = y + np.ones(7)
    except* ValueError as errors:
        log.append(len(errors.exceptions))
    return x + 1
