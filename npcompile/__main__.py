"""Run a script or module with its own functions compiled: `python -m npcompile script.py`, `python -m npcompile -m module`."""

from __future__ import annotations

import argparse
import ast
import builtins
import functools
import importlib.util
import os
import sys
import types
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from typing import Any, NoReturn

import npcompile as npc
from npcompile.packages import NEEDED_HERE, CompiledPackage
from npcompile.tracer.bytecode.tracebacks import hide_ours

DEFINITION = (ast.FunctionDef, ast.ClassDef)
DECORATOR = "<compiled by npcompile>"  # a constant of the script's code, which the function that compiles takes the place of


class Decorate(ast.NodeTransformer):
    """Gives the functions and classes of a module an outermost decorator; none to what is defined in functions and classes."""

    def visit(self, node: ast.AST) -> ast.AST:
        if isinstance(node, DEFINITION):
            first = node.decorator_list[0] if node.decorator_list else node
            node.decorator_list.insert(0, ast.copy_location(ast.Constant(DECORATOR), first))
            return node
        return node if isinstance(node, (ast.expr, ast.AsyncFunctionDef)) else self.generic_visit(node)


def decorated_code(source: bytes, filename: str, decorator: Any) -> types.CodeType:
    """The code of a module that calls `decorator` with each function and class as it defines them. SyntaxError as Python's."""
    tree = ast.parse(source, filename)
    Decorate().visit(tree)
    code = compile(tree, filename, "exec", dont_inherit=True)
    return code.replace(co_consts=tuple(decorator if type(c) is str and c == DECORATOR else c for c in code.co_consts))


def script_module(path: str) -> types.ModuleType:
    """`__main__` for a script: a file, or a folder or archive with a `__main__.py`."""
    if not os.path.isfile(path) or path.endswith((".zip", ".pyz")):
        found = PathFinder.find_spec("__main__", [os.path.abspath(path)])
        if found is not None:
            enter_folder(os.path.abspath(path))
            return module_of(found, "")
        problem = "can't find '__main__' module in" if os.path.exists(path) else "can't open file"
        quit_with(f"{problem} {os.path.abspath(path)!r}", 2 if problem.endswith("file") else 1)
    enter_folder(os.path.dirname(os.path.realpath(path)))
    module = types.ModuleType("__main__")
    absolute = os.path.abspath(path)
    vars(module).update(__file__=absolute, __loader__=SourceFileLoader("__main__", absolute), __cached__=None, __package__=None)
    return module


def enter_folder(folder: str) -> None:
    """Look for modules there where Python would: instead of the folder in which `python -m` was called."""
    if not sys.flags.safe_path:
        sys.path[0] = folder


def named_module(name: str) -> types.ModuleType:
    """`__main__` for `-m name`: a module, or the `__main__` of a package."""
    sys.argv[0] = "-m"
    try:
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.submodule_search_locations is not None:
            name += ".__main__"
            spec = importlib.util.find_spec(name)
    except ModuleNotFoundError as error:
        quit_with(f"Error while finding module specification for {name!r} ({type(error).__name__}: {error})", 1)
    if spec is None:
        quit_with(f"No module named {name}", 1)
    sys.argv[0] = spec.origin or name
    return module_of(spec, spec.parent)


def module_of(spec: ModuleSpec, package: str | None) -> types.ModuleType:
    module = types.ModuleType("__main__")
    facts = {"__spec__": spec, "__file__": spec.origin, "__loader__": spec.loader, "__cached__": spec.cached}
    vars(module).update(facts, __package__=package)
    return module


def quit_with(problem: str, status: int) -> NoReturn:
    print(f"{sys.executable}: {problem}", file=sys.stderr)
    sys.exit(status)


def run(module: types.ModuleType, package: CompiledPackage) -> None:
    """Run the code of `module` as `__main__`. What it raises is shown without the frames that lead there."""
    namespace = vars(module)
    namespace["__builtins__"] = builtins
    given = vars(sys.modules["__main__"])
    if "__annotations__" in given:  # up to Python 3.13
        namespace["__annotations__"] = {}
    if "__cached__" not in given:  # since Python 3.15
        namespace.pop("__cached__", None)
    sys.modules["__main__"] = module
    try:
        package.compile_loaded()
        loader: Any = module.__loader__
        filename = str(module.__file__)
        if filename.endswith(".py") or module.__spec__ is None:  # scripts may have any name
            code = decorated_code(loader.get_data(filename), filename, package.compiled)
        else:
            code = loader.get_code(namespace["__spec__"].name)
        exec(code, namespace)
    except BaseException:
        sys.excepthook = functools.partial(show, sys.excepthook, namespace)
        raise


def show(shows: Any, namespace: dict[str, Any], kind: type[BaseException], error: BaseException, trace: Any) -> None:
    """Hand an exception on to `shows`, with the frames from the script on."""
    while trace is not None and trace.tb_frame.f_globals is not namespace:
        trace = trace.tb_next
    error.__traceback__ = trace
    hide_ours(error)
    shows(kind, error, error.__traceback__)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m npcompile",
        usage="python -m npcompile [--package NAME]... (script.py | -m module) [argument]...",
        description="Run a script with the functions compiled that it defines; with -m those of the module's package. See also "
        "python -m npcompile.doctor.",
    )
    parser.add_argument("--package", action="append", default=[], metavar="NAME", help="a package to compile besides")
    parser.add_argument("-m", dest="module", metavar="module", help="run a module, as python -m does")
    options, rest = split(sys.argv[1:])
    given = parser.parse_args(options)
    if given.module is None and not rest:
        parser.error("name a script, or a module after -m")
    sys.argv[:] = rest if given.module is None else ["-m", *rest]
    names = ["__main__"]
    if given.module is None:
        module = script_module(rest[0])
    else:
        module = named_module(given.module)
        top = given.module.partition(".")[0]
        names += [top] if top not in NEEDED_HERE else []
    for name in given.package:
        npc.compile_package(name)
    run(module, CompiledPackage(names, npc.compile))


def split(arguments: list[str]) -> tuple[list[str], list[str]]:
    """Our own arguments, and those from the script on, or after the module."""
    k = 0
    while k < len(arguments) and arguments[k].startswith("-") and arguments[k] != "-":
        if arguments[k] == "-m":
            return arguments[: k + 2], arguments[k + 2 :]
        k += 2 if arguments[k] == "--package" else 1
    return arguments[:k], arguments[k:]


if __name__ == "__main__":
    main()
