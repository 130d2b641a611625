"""Generators with blocks: as managers made by contextlib.contextmanager, in loops, and with values and exceptions sent in."""

from __future__ import annotations

import contextlib

import numpy as np

from tests.tracer.bytecode.constructs import construct


class Refused(Exception):
    pass


class Worse(Refused):
    pass


def refuse(x, kind=Refused):
    if x.ndim == 2:
        raise kind("a matrix")
    return x


@contextlib.contextmanager
def closing(log):
    log.append("begin")
    try:
        yield len(log)
    finally:
        log.append("end")


@contextlib.contextmanager
def handling(log, kind=Refused, scale=2.0):
    try:
        yield scale
    except kind as error:
        log.append((type(error).__name__, str(error)))
    else:
        log.append("passed")


@contextlib.contextmanager
def translating(log):
    try:
        yield log
    except Refused as error:
        raise KeyError("translated") from error


@contextlib.contextmanager
def quiet(scale):
    with np.errstate(all="ignore"):
        yield scale
        log_of_quiet = scale * 2
    assert log_of_quiet


@construct("contextmanager with try and finally")
def manager_closes(x):
    log = []
    with closing(log) as n:
        y = np.sin(x) * n
        log.append("body")
    return y, log


@construct("contextmanager with a log from outside", [])
def manager_closes_outside(log, x):
    with closing(log) as n:
        x = x * n
    return x + len(log)


@construct("contextmanager that handles an exception of the body", [])
def manager_swallows(log, x):
    with handling(log, scale=3.0) as scale:
        x = x * scale
        refuse(x)
        x = x * 100
    return x + 1


@construct("contextmanager whose body passes", [])
def manager_passes(log, x):
    with handling(log) as scale:
        x = x * scale
    return x + 1


@construct("contextmanager that an exception of another kind goes through", [])
def manager_lets_through(log, x):
    try:
        with handling(log, ValueError) as scale, closing(log):
            x = x * scale
            refuse(x, Worse)
    except Refused as error:
        log.append(str(error))
    return x + 1


@construct("contextmanager that raises another exception", [])
def manager_translates(log, x):
    try:
        with translating(log) as same:
            same.append("body")
            refuse(x)
    except KeyError as error:
        log.append((error.args, type(error.__cause__).__name__, error.__context__ is error.__cause__))
    return x * 2


@construct("exception that leaves contextmanagers and the function", [], breaks=5, why="it is raised natively")
def manager_is_left(log, x):
    with closing(log), handling(log, ValueError):
        y = x * 2
        refuse(y)
    return y


@construct("exception that NumPy raises in a contextmanager's body", [], breaks=6, why="NumPy raises")
def manager_and_numpy(log, x):
    with handling(log, ValueError) as scale:
        y = x * scale
        y = y + np.ones(7)
    return x * 2


@construct("return out of a contextmanager's body", [])
def manager_returns(log, x):
    for k in range(3):
        with closing(log), handling(log) as scale:
            if k == 1:
                return x * scale
            x = x + k
    return x


@construct("break and continue out of a contextmanager's body", [])
def manager_in_loop(log, x):
    for k in range(5):
        with closing(log):
            if k == 1:
                continue
            if k == 3:
                break
            x = x + k
    return x


@construct("nested contextmanagers", [])
def managers_nested(log, x):
    with closing(log) as outer, handling(log), closing(log) as inner:
        with quiet(2.0) as scale, handling(log, KeyError):
            x = x * scale
            {}["missing"]
        x = np.log(x - x) + outer + inner
        refuse(x)
    return x


@construct("contextmanager that is a method, with a closure")
def manager_of_closure(x):
    log = []

    @contextlib.contextmanager
    def scaled(by):
        nonlocal x
        x = x * by
        try:
            yield x
        finally:
            x = x / by
            log.append(by)

    with scaled(4.0) as y:
        x = x + 1
        z = y * 2
    return x, z, log


@construct("contextmanager whose generator yields twice", [])
def manager_yields_twice(log, x):
    @contextlib.contextmanager
    def twice():
        try:
            yield x
            yield x
        finally:
            log.append("closed")

    try:
        with twice() as y:
            y = y * 2
    except RuntimeError as error:
        log.append(str(error))
    return y


@construct("contextmanager whose generator does not yield", [])
def manager_does_not_yield(log, x):
    @contextlib.contextmanager
    def none():
        if x.ndim == 1:
            yield x

    try:
        with none():
            log.append("body")
    except RuntimeError as error:
        log.append((str(error), error.__cause__ is None))
    return x + 1


@construct("StopIteration raised in a contextmanager's body", [])
def manager_and_stop_iteration(log, x):
    try:
        with closing(log), handling(log, KeyError):
            next(iter(()))
    except StopIteration as error:
        log.append(error.value)
    return x + 1


@construct("break of the graph in a contextmanager's body", [], breaks=4, why="print, while a generator is begun")
def manager_with_break(log, x):
    with closing(log) as n:
        y = np.sin(x) * n
        print(end="")
        y = np.cos(y) + 1
    return y * 2


def rows(x, log):
    try:
        for row in x:
            yield row * 2
    finally:
        log.append("rows end")


def replies(log):
    total = 0.0
    while True:
        try:
            got = yield total
            total = total + (1.0 if got is None else got)
        except ValueError as error:
            log.append(str(error))
            total = 0.0
        except GeneratorExit:
            log.append("closed")
            raise


def counted(x):
    try:
        yield x
        yield x + 1
    finally:
        x = x + 100
    return x


@construct("generator with try and finally in a loop", [])
def generator_to_its_end(log, x):
    return [row + 1 for row in rows(x, log)], sum(rows(x, log))


@construct("generator with try and finally, left early", [])
def generator_left(log, x):
    for row in rows(x, log):
        log.append(row)
        break
    return x + 1


@construct("generator that is kept and left early", [], breaks=3, why="Python closes it when the function returns")
def generator_kept(log, x):
    kept = rows(x, log)
    first = next(kept)
    for row in kept:
        first = first + row
        break
    return first * 2


@construct("generator that has not begun at a break", [], breaks=3, why="print, and a generator from outside")
def generator_handed_over(log, x):
    kept = rows(x * 2, log=log)
    print(end="")
    return sum(kept) + 1


@construct("send, throw and close of a generator", [])
def generator_methods(log, x):
    talk = replies(log)
    first = next(talk)
    second = talk.send(2.0)
    third = talk.throw(ValueError("reset"))
    fourth = talk.send(x)
    talk.close()
    talk.close()
    return first, second, third, fourth * 2, next(talk, "over")


@construct("result of a generator", [])
def generator_result(log, x):
    items = counted(x)
    try:
        while True:
            log.append(next(items))
    except StopIteration as stop:
        first = stop.value
    for _ in items:
        pass
    try:
        items.send(None)
    except StopIteration as stop:
        return first, stop.value, next(items, "over")


@construct("exception that leaves a generator in a loop", [])
def generator_raises(log, x):
    def refusing():
        try:
            yield x
            refuse(x)
        finally:
            log.append("finally")

    total = x * 0
    try:
        for row in refusing():
            total = total + row
    except Refused as error:
        log.append(str(error))
    return total


@construct("StopIteration raised by a generator", [])
def generator_stops_wrongly(log, x):
    def wrong():
        yield x
        raise StopIteration(3)

    total = x * 0
    try:
        for row in wrong():
            total = total + row
    except RuntimeError as error:
        log.append((str(error), type(error.__cause__).__name__))
    return total


@construct("bare raise in a generator, and what is handled outside of it", [])
def generator_handles_apart(log, x):
    def inner():
        try:
            yield x
        except KeyError:
            yield x + 1
            try:
                raise
            except KeyError as error:
                log.append(error.args)
                yield x + 2

    items = inner()
    total = next(items)
    total = total + items.throw(KeyError("inner"))
    try:
        try:
            raise Refused("outer")
        except Refused:
            total = total + next(items)
            raise
    except Refused as error:
        log.append(str(error))
    return total, next(items, None)
