"""Tasks of the project, each in an environment of its own: `nox -l` lists them, `nox -s quick` runs one."""

from __future__ import annotations

import nox

PYTHONS = ["3.11", "3.12", "3.13", "3.14"]
QUICK = (
    "tests/tracer/bytecode/test_constructs.py",
    "tests/cpu/test_random_graphs.py",
    "tests/native_loops/test_native_loops.py",
    "tests/test_layering.py",
    "tests/test_ratchets.py",
)
nox.options.sessions = ["style", "quick"]


@nox.session(python=PYTHONS)
def tests(session: nox.Session) -> None:
    """All tests, or those that are named after `--`."""
    session.install("-e", ".[test]")
    session.run("pytest", "-n", "auto", *session.posargs)


@nox.session
def quick(session: nox.Session) -> None:
    """The minute of tests that finds most mistakes."""
    session.install("-e", ".[test]")
    session.run("pytest", "-n", "auto", *QUICK)


@nox.session
def style(session: nox.Session) -> None:
    """Lint, format and types."""
    session.install("-e", ".[test]")
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    session.run("mypy")


@nox.session
def docs(session: nox.Session) -> None:
    """The site, in build/site. A warning is an error."""
    session.install("-e", ".[docs]")
    session.run("python", "-m", "sphinx", "-W", "-b", "html", "docs", "build/site")


@nox.session
def sanitizers(session: nox.Session) -> None:
    """Random programs under AddressSanitizer and UndefinedBehaviorSanitizer."""
    session.install("-e", ".[test]")
    session.run("python", "-m", "tests.sanitizers", "100", *session.posargs)


@nox.session
def build(session: nox.Session) -> None:
    """The wheel and the source distribution, checked as a package index does."""
    session.install("build", "twine")
    session.run("python", "-m", "build")
    session.run("python", "-m", "twine", "check", "--strict", "dist/*")
