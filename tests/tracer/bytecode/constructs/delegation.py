"""`yield from`: what it yields, what it gives, and what is sent and thrown through it."""

from __future__ import annotations

import contextlib

import numpy as np

from tests.tracer.bytecode.constructs import construct


class Refused(Exception):
    pass


def inner(x, log):
    received = 0.0
    try:
        for k in range(3):
            try:
                got = yield x * k
                received = received + (0.0 if got is None else got)
            except Refused as error:
                log.append(str(error))
                yield x + 100
    finally:
        log.append("inner end")
    return received


def outer(x, log):
    result = yield from inner(x, log)
    log.append("between")
    yield result
    yield from [x + 1, x + 2]
    return "over"


def careful(x, log):
    try:
        yield from inner(x, log)
    except KeyError as error:
        log.append(error.args)
        yield x - 1


@construct("yield from")
def all_items(x):
    log = []
    return [*outer(x, log)], sum(inner(x, log)), log


@construct("yield from a list, a range and an array")
def of_containers(x):
    def items():
        yield from range(2)
        first = yield from (3, 4)
        yield first is None
        yield from x

    return list(items())


@construct("values sent through yield from", [])
def sent(log, x):
    items = outer(x, log)
    found = [next(items), items.send(2.0), items.send(x), items.send(3.0), *items]
    return found[3], len(found)


@construct("exceptions thrown through yield from", [])
def thrown(log, x):
    items = careful(x, log)
    found = [next(items), items.throw(Refused("first")), next(items), items.throw(KeyError("second"))]
    return found, next(items, "over")


@construct("result of a generator with yield from", [])
def result(log, x):
    items = outer(x, log)
    try:
        while True:
            next(items)
    except StopIteration as stop:
        return x + 1, stop.value


@construct("generator with yield from that is left early", [])
def left_early(log, x):
    for item in careful(x, log):
        y = item + 1
        break
    return y


@construct("contextmanager with yield from", [])
def manager(log, x):
    def entered():
        log.append("in")
        try:
            yield 3.0
        except Refused as error:
            log.append(str(error))
        finally:
            log.append("out")

    @contextlib.contextmanager
    def scope():
        yield from entered()

    with scope() as scale:
        x = np.sin(x) * scale
        raise Refused("body")
    return x + 1
