"""`python -m npcompile script.py` runs a script as `python script.py` does, with its own functions compiled."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import zipapp
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SAYS = "from npcompile.compiler import compiled_function as cf\nis_compiled = lambda f: cf(f) is not None\n"


def python(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, *arguments]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300, check=False)


def write(folder: Path, **files: str) -> None:
    for name, text in files.items():
        path = folder / f"{name.replace('__in__', '/')}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))


def same_as_plain(folder: Path, *arguments: str, plain: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    """What the run with npcompile gave, which is what `python` gives."""
    expected, given = python(*(plain or arguments), folder=folder), python("-m", "npcompile", *arguments, folder=folder)
    assert (given.returncode, given.stdout, given.stderr) == (expected.returncode, expected.stdout, expected.stderr)
    return given


FACTS = '''
    """What a script sees."""
    from __future__ import annotations
    import sys
    import beside

    def f(x: int) -> int:
        return x + 1

    if __name__ == "__main__":
        facts = [sys.argv, sys.path[0], __name__, __doc__, __file__, __package__, __spec__, f.__annotations__]
        print(*facts, sys.modules["__main__"].f is f, sorted(globals()), beside.VALUE, f(1), sep="\\n")
'''


def test_a_script_sees_what_it_sees_without(tmp_path: Path) -> None:
    write(tmp_path, folder__in__script=FACTS, folder__in__beside="VALUE = 7\n")
    os.symlink(tmp_path / "folder" / "script.py", tmp_path / "link.py")
    for path in ("folder/script.py", "link.py"):
        done = same_as_plain(tmp_path, path, "-m", "--package", "x y")
        assert done.returncode == 0, done.stderr


def test_functions_and_methods_are_compiled_and_called_so(tmp_path: Path) -> None:
    write(
        tmp_path,
        script=SAYS
        + textwrap.dedent("""
        import functools
        import numpy as np

        def marked(function):
            @functools.wraps(function)
            def inner(*args):
                return function(*args)
            return inner

        seen = []
        def registered(function):
            seen.append(function)
            return function

        @registered
        def f(x):
            return np.sin(x) + 1
        @marked
        def g(x):
            return x
        try:
            def h(x):
                return x
        finally:
            pass
        async def later():
            return 1
        class A:
            def area(self):
                return 2
            @property
            def name(self):
                return "a"
            @staticmethod
            def s(x):
                return x
            class B:
                def m(self):
                    return 3
        print(list(map(is_compiled, [f, g, h, A.area, A.__dict__["name"].fget, A.s, seen[0], A.B.m])))
        print(is_compiled(cf(g).user.__closure__[0].cell_contents), f(np.arange(3.0)), A().area(), A().name, A.s(4), A.B().m())
    """),
    )
    done = python("-m", "npcompile", "script.py", folder=tmp_path)
    assert not done.stderr
    first, second = done.stdout.splitlines()
    assert first == str([True, True, True, True, True, True, False, True])
    assert second == "True [1.         1.84147098 1.90929743] 2 a 4 3"


@pytest.mark.parametrize(
    "text",
    [
        "import sys\nsys.exit(3)\n",
        "raise SystemExit('gone')\n",
        "def f(x):\n    return x[0]\n\nf(())\n",
        "def f():\n    try:\n        1 / 0\n    except ZeroDivisionError as e:\n        raise ValueError('no') from e\n\nf()\n",
        "def f(:\n    pass\n",
        "import sys\nsys.excepthook = lambda t, _, trace: print(t, trace.tb_lineno, trace.tb_frame.f_code.co_name)\n1 / 0\n",
        "def f():\n    raise KeyboardInterrupt\nf()\n",
        "import warnings\ndef f():\n    warnings.warn('look', stacklevel=2)\nf()\n",
        "@len\n@str\ndef f(): pass\n@len\nclass A: pass\n",
        "# -*- coding: latin-1 -*-\nprint('\\xe9', __file__)\n",
    ],
)
def test_ends_and_errors_are_the_scripts_own(tmp_path: Path, text: str) -> None:
    (tmp_path / "script.py").write_bytes(text.encode("latin-1").replace(b"\\xe9", b"\xe9"))
    same_as_plain(tmp_path, "script.py", "a")


def test_modules_packages_folders_and_archives(tmp_path: Path) -> None:
    report = "import sys\nprint(sys.argv, __name__, __package__, __spec__ and __spec__.name, __file__)\n"
    inner = "import sys\nfrom pkg.tool import f\nprint(sys.argv, __package__, sys.path[0], f(2))\n"
    write(tmp_path, pkg__in____init__="", pkg__in__tool=f"def f(x):\n    return x + 1\n{report}", pkg__in____main__=inner)
    same_as_plain(tmp_path, "-m", "pkg.tool", "-m", "a")
    same_as_plain(tmp_path, "-m", "pkg", "a")
    write(
        tmp_path,
        place__in____main__="import beside\n" + report.replace("__name__", "beside"),
        place__in__beside="",
    )
    same_as_plain(tmp_path, "place", "b")
    zipapp.create_archive(tmp_path / "place", tmp_path / "place.pyz")
    same_as_plain(tmp_path, "place.pyz", "b")


def test_what_is_not_there_is_said_as_python_says_it(tmp_path: Path) -> None:
    write(tmp_path, empty__in__other="", bad__in____init__="")
    for arguments in (["-m", "no_module_of_this_name"], ["-m", "bad"], ["-m", "no_module.part"], ["missing.py"], ["empty"]):
        plain, given = (python(*start, *arguments, folder=tmp_path) for start in ([], ["-m", "npcompile"]))
        assert given.returncode == plain.returncode, arguments
        assert "Traceback" not in given.stderr and arguments[-1].partition(".")[0] in given.stderr


def test_the_package_of_a_module_is_compiled_and_others_on_request(tmp_path: Path) -> None:
    call = "from one.work import f\nfrom two import g\nprint(is_compiled(f), is_compiled(g))\n"
    write(tmp_path, one__in____init__="", one__in__work="def f(x):\n    return x + 1\n", two="def g(x):\n    return x + 1\n")
    write(tmp_path, one__in____main__=SAYS + call, script=SAYS + call)
    for arguments, expected in {
        ("-m", "one"): "True False",
        ("script.py",): "False False",
        ("--package", "two", "script.py"): "False True",
        ("--package", "two", "--package", "one", "-m", "one"): "True True",
    }.items():
        done = python("-m", "npcompile", *arguments, folder=tmp_path)
        assert done.stdout.strip() == expected, (arguments, done.stderr)


def test_wrong_arguments_are_explained(tmp_path: Path) -> None:
    for arguments in ([], ["-m"], ["--package"], ["--unknown", "script.py"]):
        done = python("-m", "npcompile", *arguments, folder=tmp_path)
        assert done.returncode == 2 and "usage: python -m npcompile" in done.stderr
