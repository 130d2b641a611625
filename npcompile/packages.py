"""`compile_package`: every function of a package compiled, wherever it is kept, until that is undone."""

from __future__ import annotations

import functools
import importlib
import importlib.abc
import importlib.machinery
import operator
import sys
import threading
import types
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from npcompile.backends.registry import Backend
from npcompile.compiler import compiled_with, options_of
from npcompile.tracer.bytecode.tracebacks import hide_frames, uncounted
from npcompile.tracer.entry import plain_function

MOST_ITEMS = 3000  # of a container that is searched for functions
MOST_LEVELS = 4  # of containers in containers
EMPTY = types.CellType()
METHODS = (staticmethod, classmethod, types.MethodType)
TESTS = ("tests", "test", "testing", "conftest")
NEEDED_HERE = {"npcompile", "numpy", "platformdirs", "threadpoolctl", *sys.stdlib_module_names}

# How something is kept: how it is read, and how it is written.
Way = tuple[Callable[[Any, Any], Any], Callable[[Any, Any, Any], Any]]
AS_ITEM: Way = operator.getitem, operator.setitem
AS_ATTRIBUTE: Way = getattr, setattr
IN_CLASS: Way = (lambda owner, name: vars(owner)[name]), setattr
AS_KEY: Way = operator.getitem, lambda owner, key, _: owner.pop(key)


def compile_package(
    *names: str,
    backend: str | Backend = "cpu",
    dynamic: bool | None = None,
    mode: str = "default",
    accuracy: str | None = "bitwise",
) -> CompiledPackage:
    """Compile every function of packages, and put what is compiled wherever the plain functions are kept. An experiment.

    A package that is not imported yet is imported. Modules of it that are imported later are compiled when they are.
    What is replaced: functions and methods that are defined in the package, in its modules and classes (also as `property`,
    `cached_property`, `staticmethod`, `classmethod`, `functools.partial` and bound methods), in closures, in defaults, in lists,
    tuples and dicts that its modules hold, in objects of its classes that wrap a function (with `__wrapped__`), and under the
    names by which other modules have imported them. What stays as it is: functions without Python code or that call and compute
    nothing, functions in `lru_cache` objects, modules of tests, functions that are compiled already, and what other objects
    hold. As `compile` does, generators and coroutines run as they are.

    Parameters
    ----------
    names
        Packages or modules, such as "scipy.signal". The standard library, NumPy and npcompile cannot be named.
    backend, dynamic, mode, accuracy
        As `compile` takes them. Results have NumPy's bits unless another accuracy is asked for: what a package tests its results
        against was computed by NumPy.

    Returns
    -------
    CompiledPackage
        `undo()` puts the plain functions back; so does the end of a `with` block.

    Raises
    ------
    ImportError
        A package cannot be imported.
    ValueError
        No name is given, npcompile itself runs on a package, or a module has no Python functions.

    Examples
    --------
    >>> with compile_package("scipy.signal") as compiled:
    ...     signal.hilbert(x)
    >>> compiled = compile_package("scipy.stats", "scipy.optimize")
    >>> compiled.undo()
    """
    if not names:
        raise ValueError("compile_package takes the names of packages, and none is given")
    for name in names:
        if not isinstance(name, str):
            raise TypeError(f"compile_package takes names of packages, not {type(name).__qualname__}: {name!r}")
        if name.partition(".")[0] in NEEDED_HERE:
            raise ValueError(f"{name} cannot be compiled: npcompile itself runs on it. Compile the functions that call it")
    modules = [importlib.import_module(name) for name in names]
    options = options_of(backend=backend, dynamic=dynamic, mode=mode, accuracy=accuracy)
    package = CompiledPackage(names, functools.partial(compiled_with, replace(options, when_hot=True)))
    package.compile_loaded()
    for name, module in zip(names, modules):
        if not hasattr(module, "__path__") and not any(is_made_in(name, value) for value in vars(module).values()):
            package.undo()
            raise ValueError(f"{name} has no functions that are written in Python")
    return package


class CompiledPackage:
    """What `compile_package` returns: the functions that it has compiled, and the way back."""

    def __init__(self, names: Sequence[str], compiling: Callable[[Any], Any]):
        self.names = tuple(names)
        self.functions: list[types.FunctionType] = []  # compiled
        self._compile = compiling
        self._new: dict[int, tuple[Any, Any]] = {}  # id of what is replaced -> itself, and what replaces it
        self._done: list[tuple[Way, Any, Any, Any, Any]] = []  # what was written: how, where, under which key, instead of what
        self._finder = LaterModules(self)
        self._lock = threading.RLock()

    def __repr__(self) -> str:
        return f"<{len(self.functions)} compiled functions of {', '.join(self.names)}>"

    def __enter__(self) -> CompiledPackage:
        return self

    def __exit__(self, *_: object) -> None:
        self.undo()

    def undo(self) -> None:
        """Put the plain functions back where nothing else was put since. Functions that are running end compiled."""
        with self._lock:
            if self._finder in sys.meta_path:
                sys.meta_path.remove(self._finder)
            for (get, put), owner, key, old, new in reversed(self._done):
                try:
                    now = get(owner, key)
                except (LookupError, ValueError):  # a shorter list, an empty cell
                    continue
                if now is new:
                    put(owner, key, old)
            self._new = {id(new): (new, old) for old, new in self._new.values()}
            for module in list(sys.modules.values()):  # some have imported what is compiled
                if isinstance(module, types.ModuleType):
                    self.replace_names(vars(module))
            self._done.clear()
            self._new.clear()
            self.functions.clear()

    def is_ours(self, module: Any) -> bool:
        """Is a module of that name compiled?"""
        return isinstance(module, str) and not is_test(module) and any(f"{module}.".startswith(f"{n}.") for n in self.names)

    def compile_loaded(self) -> None:
        """Compile the functions of all modules that are imported, and those of later ones then."""
        with self._lock:
            modules = [(name, m) for name, m in list(sys.modules.items()) if isinstance(m, types.ModuleType)]
            classes = self.compile_all(value for name, m in modules if self.is_ours(name) for value in list(vars(m).values()))
            for name, module in modules:
                if name.partition(".")[0] != "npcompile":
                    self.replace_names(vars(module))
            self.replace_attributes(classes)
            tops = {name.partition(".")[0] for name in self.names}  # whose other modules may have tables of functions
            for name, module in modules:
                if name.partition(".")[0] in tops:
                    self.replace_inside(vars(module))
            sys.meta_path.insert(0, self._finder)

    def compile_module(self, module: types.ModuleType) -> None:
        """Compile the functions of a module that was just imported."""
        with self._lock:
            self.replace_attributes(self.compile_all(vars(module).values()))
            self.replace_names(vars(module))
            self.replace_inside(vars(module))

    def compiled(self, value: Any) -> Any:
        """What a function or class was made into: what has the name that it is defined by."""
        with self._lock:
            self.replace_attributes(self.compile_all([value]))
            return self.of(value)

    def compile_all(self, values: Iterable[Any]) -> list[type]:
        """Compile the functions that are found in `values`, and put them into each other. Returns the classes found there."""
        functions, classes, others = self.find(values)
        made = []
        for function in functions:
            entry = self._compile(function)
            if entry is not function:
                self._new[id(function)] = function, entry
                made.append(entry)
                if hasattr(function, "__wrapped__"):  # of a decorator, which may ask for it again
                    entry.__wrapped__ = function.__wrapped__
        self.functions += made
        for cell in (cell for function in (*functions, *others) for cell in contents(function)):
            self.replace(AS_ATTRIBUTE, cell, "cell_contents", cell.cell_contents)
        for function in functions:
            for each in (function, self.of(function)):
                for name in ("__defaults__", "__kwdefaults__"):
                    self.replace(AS_ATTRIBUTE, each, name, getattr(each, name), self.inside(getattr(each, name)))
            for value in vars(function).values():
                if self.is_wrapper(value):
                    self.inside(value)
        return classes

    def find(self, values: Iterable[Any]) -> tuple[list[types.FunctionType], list[type], list[types.FunctionType]]:
        """The plain functions that are kept in `values`, and the classes, as far as they are of these packages; other functions,
        as decorators from elsewhere make them."""
        functions: list[types.FunctionType] = []
        others: list[types.FunctionType] = []
        classes: list[type] = []
        pending, seen = list(values), set()
        while pending:
            value = pending.pop()
            if id(value) in seen:
                continue
            seen.add(id(value))
            if isinstance(value, types.FunctionType):
                if not is_plain(value):
                    continue
                if self.is_ours(value.__globals__.get("__name__")) and id(value) not in self._new:
                    functions.append(value)
                else:
                    others.append(value)
                pending += [cell.cell_contents for cell in contents(value)]
                pending.append(getattr(value, "__wrapped__", None))
            elif isinstance(value, type):
                if self.is_ours(value.__module__):
                    classes.append(value)
                    pending += vars(value).values()
            elif isinstance(value, METHODS):
                pending.append(value.__func__)
            elif isinstance(value, property):
                pending += [value.fget, value.fset, value.fdel]
            elif isinstance(value, (functools.partial, functools.cached_property)):
                pending.append(value.func)
            elif type(value) in (dict, list, tuple) and len(value) < MOST_ITEMS:
                pending += value.values() if isinstance(value, dict) else value
            elif self.is_wrapper(value):
                pending += vars(value).values()
        return functions, classes, others

    def is_wrapper(self, value: Any) -> bool:
        """Is it an object of a class of these packages that stands for a function, as decorators make them?"""
        return self.is_ours(type(value).__module__) and "__wrapped__" in getattr(value, "__dict__", ())

    def of(self, value: Any) -> Any:
        """What stands where `value` was: a compiled function, or what is made anew of one."""
        if id(value) in self._new:
            return self._new[id(value)][1]
        made = value
        if type(value) in METHODS and (func := self.of(value.__func__)) is not value.__func__:
            made = types.MethodType(func, value.__self__) if isinstance(value, types.MethodType) else type(value)(func)
        elif type(value) is property:
            parts = value.fget, value.fset, value.fdel
            get, put, delete = map(self.of, parts)
            if (get, put, delete) != parts:
                made = property(get, put, delete, value.__doc__)
        elif type(value) is functools.partial and (func := self.of(value.func)) is not value.func:
            made = functools.partial(func, *value.args, **value.keywords)
            vars(made).update(vars(value))
        if made is not value and not isinstance(value, types.MethodType):  # bound methods are made at each access
            self._new[id(value)] = value, made
        return made

    def replace(self, way: Way, owner: Any, key: Any, old: Any, new: Any = None) -> None:
        """Write what replaces `old`, and keep what undoes that."""
        new = self.of(old) if new is None else new
        if new is not old:
            way[1](owner, key, new)
            self._done.append((way, owner, key, old, new))

    def replace_names(self, namespace: dict[str, Any]) -> None:
        for name, value in list(namespace.items()):
            self.replace(AS_ITEM, namespace, name, value)

    def replace_attributes(self, classes: Iterable[type]) -> None:
        for owner in classes:
            for name, value in list(vars(owner).items()):
                if type(value) is functools.cached_property:  # it knows its name: no other can take its place
                    self.replace(AS_ATTRIBUTE, value, "func", value.func)
                try:
                    self.replace(IN_CLASS, owner, name, value)
                except (AttributeError, TypeError):  # the class refuses: the method stays as it is
                    continue

    def replace_inside(self, namespace: dict[str, Any]) -> None:
        """Change lists and dicts in place; tuples are made anew."""
        for name, value in list(namespace.items()):
            if (type(value) in (dict, list, tuple) or self.is_wrapper(value)) and name != "__builtins__":
                self.replace(AS_ITEM, namespace, name, value, self.inside(value))

    def inside(self, value: Any, level: int = 0) -> Any:
        """What is in a container in place of `value`."""
        if self.is_wrapper(value):
            for name, item in list(vars(value).items()):  # its class may refuse to have attributes set
                self.replace(AS_ITEM, vars(value), name, item)
        if level == MOST_LEVELS or type(value) not in (dict, list, tuple) or len(value) > MOST_ITEMS:
            return self.of(value)
        if isinstance(value, tuple):
            made = tuple(self.inside(item, level + 1) for item in value)
            return made if any(x is not y for x, y in zip(value, made)) else value
        for key, item in list(value.items() if isinstance(value, dict) else enumerate(value)):
            self.replace(AS_ITEM, value, key, item, self.inside(item, level + 1))
            if isinstance(value, dict) and (new := self.of(key)) is not key:  # both are keys: whoever looks may have either
                value[new] = value[key]
                self._done.append((AS_KEY, value, new, None, value[key]))
        return value


class LaterModules(importlib.abc.MetaPathFinder):
    """Finds modules of compiled packages as the other finders do, and compiles them when they have run."""

    def __init__(self, package: CompiledPackage):
        self.package = package

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if not self.package.is_ours(fullname):
            return None
        following = sys.meta_path[sys.meta_path.index(self) + 1 :] if self in sys.meta_path else []
        for finder in following:
            spec = finder.find_spec(fullname, path, target) if hasattr(finder, "find_spec") else None
            if spec is not None:
                if isinstance(spec.loader, importlib.machinery.SourceFileLoader):
                    spec.loader.exec_module = functools.partial(self.exec_module, spec.loader)  # type: ignore[method-assign]
                return spec
        return None

    @uncounted
    def exec_module(self, loader: importlib.machinery.SourceFileLoader, module: types.ModuleType) -> None:
        del loader.exec_module  # what it has from its class
        try:
            loader.exec_module(module)
        except BaseException:
            hide_frames()
            raise
        if self in sys.meta_path:
            self.package.compile_module(module)


def is_test(module: str) -> bool:
    """Is it a module of tests, by its name?"""
    return any(part in TESTS or part.startswith("test_") for part in module.split("."))


def is_made_in(module: str, value: Any) -> bool:
    """Is it a function or class of that module?"""
    return isinstance(value, (types.FunctionType, type)) and value.__module__ == module


def is_plain(function: types.FunctionType) -> bool:
    """Was it not made by `compile`?"""
    return plain_function(function) is function


def contents(function: types.FunctionType) -> list[types.CellType]:
    """The cells of a function that hold something."""
    return [cell for cell in function.__closure__ or () if cell != EMPTY]
