"""An exported program as a wheel: libraries for several processors, and a module that calls the best one."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import platform
import subprocess
import sysconfig
import tempfile
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from pprint import pformat
from typing import Final

from npcompile.backends.c99.description import dtype_in_words, number_in_words
from npcompile.backends.c99.project import UNFIT, Project
from npcompile.backends.cache import open_cache
from npcompile.backends.cpu.compiler import find_compiler
from npcompile.backends.errors import CompilerRefused
from npcompile.tensor_core.loop_ir.types import Memref, Scalar, Type

LEVELS: Final = {"x86_64": ("x86-64-v2", "x86-64-v3", "x86-64-v4")}  # by machine; others have what a compiler makes by itself
ASKING: Final = "level"  # the library that asks for the processor's
ALL: Final = "all"  # the level of a library for all processors of a machine
# Fused operations round once where NumPy rounds twice. Compilers make some although they are told not to contract.
FLAGS: Final = ("-std=c99", "-O3", "-fPIC", "-shared", "-w", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math")
ROUNDED: Final = ("-mno-fma", "-fno-tree-slp-vectorize")
SECONDS: Final = 120.0  # for one library
# Which of the levels has this processor, with what the system keeps of its registers?
LEVEL: Final = """int npc_level(void) {
  __builtin_cpu_init();
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") || !__builtin_cpu_supports("bmi2")) return 2;
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512cd") &&
    __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") ? 4 : 3;
}
"""
MOMENT: Final = (1980, 1, 1, 0, 0, 0)  # of the files, so that equal programs make equal wheels
MODULE: Final = '''"""Made by {made_by} of the function {name}."""

import os

from ._calls import ExportError, Function, quickest

__all__ = ["ExportError", {name!r}]
__version__ = {version!r}
PARAMETERS = {parameters}
RESULTS = {results}
FORMS = {forms}
ERRORS = {errors}
_function = Function(quickest(os.path.dirname(__file__), {levels!r}), {name!r}, PARAMETERS, RESULTS, FORMS, ERRORS)


def {name}({signature}):
    {doc!r}
    return _function({signature})
'''


@dataclass
class Wheel:
    """Writes it. The version is checked before anything is made."""

    project: Project
    version: str

    def __post_init__(self) -> None:
        parts = self.version.split(".")
        if not (self.version.isascii() and all(map(str.isalnum, parts)) and parts[0].isdigit()):
            raise ValueError(f"{self.version!r} is not a version of a distribution: write it as 1.0")

    @property
    def name(self) -> str:
        return self.project.of.name

    @property
    def tag(self) -> str:
        return f"py3-none-{sysconfig.get_platform().replace('-', '_').replace('.', '_')}"

    def write(self, folder: Path) -> Path:
        """Raises NoCompiler."""
        libraries = self.libraries()
        files = {f"{self.name}/_{level}.so": data for level, data in libraries.items()}
        files[f"{self.name}/__init__.py"] = self.module([level for level in libraries if level != ASKING]).encode()
        files[f"{self.name}/_calls.py"] = Path(__file__).with_name("in_wheels.py").read_bytes()
        about = f"{self.name}-{self.version}.dist-info"
        files[f"{about}/METADATA"] = self.metadata().encode()
        files[f"{about}/WHEEL"] = f"Wheel-Version: 1.0\nGenerator: npcompile\nRoot-Is-Purelib: false\nTag: {self.tag}\n".encode()
        files[f"{about}/RECORD"] = record(files, f"{about}/RECORD").encode()
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{self.name}-{self.version}-{self.tag}.whl"
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as made:
            for name, data in files.items():
                written = zipfile.ZipInfo(name, MOMENT)
                written.external_attr, written.compress_type = 0o644 << 16, zipfile.ZIP_DEFLATED
                made.writestr(written, data)
        return path

    # --- libraries

    def libraries(self) -> dict[str, bytes]:
        """By level, and what asks for the processor's. Raises NoCompiler."""
        found: dict[str, bytes] = {}
        source = self.source()
        command = find_compiler(open_cache()).command
        with tempfile.TemporaryDirectory() as folder:
            for level in LEVELS.get(platform.machine(), ()):
                try:
                    found[level] = library(command, source, (f"-march={level}", *ROUNDED), Path(folder))
                except CompilerRefused:
                    continue  # an old compiler has not all of them
            if len(found) > 1:
                found[ASKING] = library(command, LEVEL, (), Path(folder))
            elif not found:
                found[ALL] = library(command, source, (), Path(folder))
        return found

    def source(self) -> str:
        """In one text, the header's included."""
        include = f'#include "{self.name}.h"\n'
        before, found, after = self.project.source().partition(include)
        assert found, self.name
        return before + self.project.header() + after

    # --- texts

    def module(self, levels: Sequence[str]) -> str:
        of, project = self.project.of, self.project
        shapes = of.shapes if of.shapes is not None else [None for _ in of.names]
        parameters = [
            (
                name,
                *typed(kind),
                isinstance(kind, Memref) and kind.contiguous,
                written,
                shape if isinstance(kind, Memref) else None,
            )
            for name, kind, written, shape in zip(of.names, of.kinds, of.written, shapes)
        ]
        errors = {
            status: (cause.name, cause.reason, f"{cause.at.file}:{cause.at.line}") for status, cause in project.statuses.items()
        }
        assert UNFIT not in errors, errors
        return MODULE.format(
            made_by=of.made_by,
            name=self.name,
            version=self.version,
            parameters=pformat(parameters),
            results=pformat([typed(each.kind) for each in project.results]),
            forms=pformat(project.forms()),
            errors=pformat(errors),
            levels=[*levels],
            signature=", ".join(of.names),
            doc=of.doc,
        )

    def metadata(self) -> str:
        summary = (self.project.of.doc or f"The compiled function {self.name}").strip().split("\n")[0]
        lines = ["Metadata-Version: 2.1", f"Name: {self.name}", f"Version: {self.version}", f"Summary: {summary}"]
        return "\n".join([*lines, "Requires-Python: >=3.10", "Requires-Dist: numpy"]) + "\n"


def typed(kind: Type) -> tuple[str, int | None]:
    assert isinstance(kind, Memref | Scalar), kind
    return (dtype_in_words(kind.element), kind.rank) if isinstance(kind, Memref) else (number_in_words(kind.kind), None)


def library(command: Sequence[str], source: str, flags: Sequence[str], folder: Path) -> bytes:
    """Raises CompilerRefused."""
    path, made = folder / "source.c", folder / "library.so"
    path.write_text(source, encoding="utf-8")
    asked = [*command, *FLAGS, *flags, str(path), "-o", str(made), "-lm"]
    done = subprocess.run(asked, capture_output=True, text=True, timeout=SECONDS, check=False)
    if done.returncode:
        raise CompilerRefused(f"{' '.join(asked)}\n{done.stderr}")
    return made.read_bytes()


def record(files: dict[str, bytes], own: str) -> str:
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    for name, data in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        rows.writerow((name, f"sha256={digest}", len(data)))
    rows.writerow((own, "", ""))
    return text.getvalue()
