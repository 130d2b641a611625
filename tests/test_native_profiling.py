"""`config.native_profiling`: perf, gdb and py-spy show the user's lines and names, and nothing changes without it."""

import cProfile
import io
import os
import pstats
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import npcompile as npc
from npcompile import settings
from npcompile.backends.cpu.binding import UNITS
from npcompile.backends.cpu.loader import loader, product_text, runtime_text
from npcompile.backends.native_profiling import FLAGS, FOR_PROFILERS, is_directive, with_lines
from npcompile.tensor_core.events import WATCHERS, Event

PROGRAM = """\
import numpy as np
import npcompile as npc

def smoothing(a, n):
    for _ in range(n):
        for i in range(1, a.shape[0] - 1):
            a[i] = 0.25 * a[i - 1] + NUMBER * a[i]
    return a

def norm(x):
    z = np.sin(x) * NUMBER
    return np.sqrt(
        np.sum(z * z))

def relaxed(x, n):
    return npc.fori_loop(0, n,
        lambda i, x: x * NUMBER
            + 1.0 / (i + 2), x)

def statements(a, n):
    total = 0.0
    for k in range(n):
        b = a * NUMBER + k
        total += b.sum()
    return total
"""
# The function, its arguments, a symbol and the lines that its machine code is of.
CASES = {
    "smoothing": ((np.linspace(0, 1, 50), 3), r"npc_run_smoothing", {6, 7}),
    "norm": ((np.linspace(0, 1, 5000),), r"npc_\w*sin\w*_norm_0", {11, 13}),
    "relaxed": ((1.0, 10), r"npc_loop_relaxed", {17, 18}),
    "statements": ((np.linspace(0, 1, 5), 300), r"npc_run_statements", {22, 23, 24}),
}


@pytest.fixture
def always() -> Iterator[None]:
    with npc.config.patch(tiers="always"):
        yield


@pytest.fixture
def program(tmp_path: Path, request: pytest.FixtureRequest) -> tuple[Path, dict[str, Any]]:
    """The file, and its names. Its units were never made before."""
    path = tmp_path / "t1_program.py"
    number = 0.5 + int.from_bytes(os.urandom(4), "little") * 2.0**-40
    path.write_text(PROGRAM.replace("NUMBER", repr(number)))
    names: dict[str, Any] = {}
    exec(compile(path.read_text(), path, "exec"), names)
    return path, names


class Texts:
    """The texts of units that are loaded in a block."""

    def __enter__(self) -> list[str]:
        self.found: list[str] = []
        WATCHERS.append(self)
        return self.found

    def __exit__(self, *raised: object) -> None:
        WATCHERS.remove(self)

    def begin(self, event: Event) -> None: ...
    def end(self, event: Event) -> None: ...
    def meet(self, event: Event) -> None:
        if event.name == "unit":
            self.found.append(event.subject[0])


def new_libraries(function: Callable[..., Any], arguments: tuple[Any, ...]) -> tuple[list[Path], Callable[..., Any]]:
    """Those that the first call of the compiled function loads."""
    before = {unit.library.path for unit in UNITS.values()}
    compiled = npc.compile(function)
    given = [a.copy() if isinstance(a, np.ndarray) else a for a in arguments]
    found = compiled(*given)
    np.testing.assert_allclose(found, function(*(a.copy() if isinstance(a, np.ndarray) else a for a in arguments)), rtol=1e-12)
    return [u.library.path for u in UNITS.values() if u.library.path not in before], compiled


def shown(*command: str | Path) -> str:
    if shutil.which(str(command[0])) is None:
        pytest.skip(f"{command[0]} is not installed")
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@pytest.mark.skipif(sys.platform != "linux", reason="reads ELF with binutils")
@pytest.mark.parametrize("name", CASES)
def test_machine_code_has_names_and_lines(name: str, program: tuple[Path, dict[str, Any]], always: None) -> None:
    path, names = program
    arguments, symbol, lines = CASES[name]
    with npc.config.patch(native_profiling=True):
        libraries, _compiled = new_libraries(names[name], arguments)
    symbols = "".join(shown("nm", library) for library in libraries)
    assert re.search(rf" [tT] {symbol}\b", symbols), symbols
    of = {(found[1], int(found[2])) for library in libraries for found in located(library)}
    assert {line for file, line in of if file == str(path)} >= lines, of


def located(library: Path) -> Iterator[re.Match[str]]:
    return re.finditer(r"^(\S+):(\d+)(?: \(discriminator \d+\))?$", shown("objdump", "-d", "-l", library), re.M)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc/self/maps")
@pytest.mark.parametrize("is_asked", [False, True])
def test_the_file_of_a_library_stays(is_asked: bool, program: tuple[Path, dict[str, Any]], always: None) -> None:
    """Profilers look for symbols in the file that the process has mapped."""
    arguments, _, _ = CASES["norm"]
    with npc.config.patch(native_profiling=is_asked):
        libraries, _compiled = new_libraries(program[1]["norm"], arguments)
    assert libraries
    for library in libraries:
        assert library.is_file() and f"{library}\n" in Path("/proc/self/maps").read_text()


@pytest.mark.parametrize("name", CASES)
def test_it_is_the_same_code_with_names_and_lines(name: str, program: tuple[Path, dict[str, Any]], always: None) -> None:
    """Passes decide alike whether lines are told or not; without, nothing of it is in the text."""
    arguments, _, _ = CASES[name]
    texts = {}
    for is_asked in (False, True):
        with Texts() as texts[is_asked], npc.config.patch(native_profiling=is_asked):
            new_libraries(program[1][name], arguments)
    assert len(texts[False]) == len(texts[True]) > 0
    for plain, told in zip(texts[False], texts[True]):
        assert "#line" not in plain and FOR_PROFILERS not in plain and f"_{name}" not in plain
        plain, told = (text.replace(f"_{name}", "").replace("NPC_NOT_INLINED ", "") for text in (plain, told))
        code = [line for line in told.split("\n") if not is_directive(line)]
        assert not {line for line in plain.split("\n") if line}.difference(code)
        assert len(code) <= plain.count("\n") + 12  # other names, and an entry that calls


@pytest.mark.skipif(sys.platform != "linux", reason="perf is of Linux")
def test_perf_shows_the_function_and_the_line(program: tuple[Path, dict[str, Any]], tmp_path: Path) -> None:
    path, data = program[0], tmp_path / "perf.data"
    text = path.read_text() + "\nf, a = npc.compile(smoothing), np.linspace(0, 1, 1000)\nfor _ in range(200): f(a, 100)\n"
    path.write_text(text)
    command = ["perf", "record", "-q", "-e", "cpu-clock", "-o", str(data), sys.executable, str(path)]
    if shutil.which("perf") is None:
        pytest.skip("perf is not installed")
    environment = {**os.environ, "NPCOMPILE_PERF": "1", "NPCOMPILE_TIERS": "always"}
    environment["PYTHONPATH"] = str(Path(npc.__file__).parents[1])
    recorded = subprocess.run(command, capture_output=True, text=True, env=environment)
    if recorded.returncode or not data.exists():
        pytest.skip(f"perf may not record here: {recorded.stderr.strip()}")
    told = shown("perf", "report", "-q", "-i", data, "--stdio", "--sort", "symbol,srcline")
    assert re.search(rf"_smoothing\w*(\.\w+)* +{path.name}:7\b", told), told[:2000]


def straight(x: np.ndarray) -> Any:
    return np.exp(x) + 1


def broken(x: np.ndarray) -> Any:
    y = np.exp(x)
    print(end="")
    return y * 2


@pytest.mark.parametrize("function", [straight, broken])
def test_rows_of_cprofile(function: Callable[..., Any], always: None) -> None:
    """A compiled function is shown under its own name, with the user's file and line, the same in every process."""
    compiled, x, profile = npc.compile(function), np.ones(5), cProfile.Profile()
    for _ in range(3):
        compiled(x)
    profile.runcall(compiled, x)
    text = io.StringIO()
    pstats.Stats(profile, stream=text).strip_dirs().print_stats()
    place = re.escape(f"{Path(__file__).name}:{function.__code__.co_firstlineno}>")
    assert re.search(rf"{place}:\d+\({function.__name__}\)$", text.getvalue(), re.M)
    names = {found for line in text.getvalue().splitlines() for found in re.findall(rf"{place}:\d+\((.*)\)$", line)}
    later = {"broken (npcompile, point_1)"} if function is broken else set()
    assert names - {function.__name__, f"{function.__name__} (npcompile)"} == later, text.getvalue()


def test_the_runtime_has_frame_pointers() -> None:
    """It calls kernels, in threads too: who called is found through it."""
    plain = runtime_text(), product_text("f8")
    with npc.config.patch(native_profiling=True):
        told = runtime_text(), product_text("f8")
    compiler = loader().compiler
    for without, text in zip(plain, told):
        assert text.endswith(without) and text.startswith(FOR_PROFILERS)
        assert {*FLAGS} <= {*compiler.flags_for(text)} and {*FLAGS}.isdisjoint(compiler.flags_for(without))


def test_directives_hold_for_one_line() -> None:
    body = ["int f(int x) {", '#line 7 "f.py"', "  x += 1;", "#pragma GCC ivdep", "  while (x)\\", "    x--;", "}"]
    text = "\n".join([f"{FOR_PROFILERS}f */", *body, "int g(int x) {", "}"])
    assert with_lines(text).split("\n")[2:] == [
        '#line 7 "f.py"',
        "  x += 1;",
        "#pragma GCC ivdep",
        '#line 7 "f.py"',
        "  while (x)\\",
        "    x--;",
        '#line 7 "f.py"',
        "}",
        '#line 12 "npcompile.c"',
        "int g(int x) {",
        "}",
    ]
    assert with_lines("int f;") == "int f;"


def test_the_variable_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for value, is_asked in (("", False), ("0", False), ("1", True)):
        monkeypatch.setenv("NPCOMPILE_PERF", value)
        assert settings.Config().native_profiling is is_asked
    monkeypatch.setenv("NPCOMPILE_PERF", "yes")
    with pytest.raises(ValueError, match="NPCOMPILE_PERF is 'yes': set it to 1"):
        settings.Config()
    with pytest.raises(ValueError, match="native_profiling is True or False, not 1"):
        npc.config.native_profiling = 1
