"""What commands are given that measure all of their programs, or those that are named."""

from __future__ import annotations

import argparse
from collections.abc import Collection


class Command(argparse.ArgumentParser):
    """`python -m benchmarks.MODULE [PROGRAM ...]`, of the programs that are known."""

    def __init__(self, module: str, doc: str | None, known: Collection[str]):
        assert doc
        super().__init__(prog=f"python -m benchmarks.{module}", description=doc.split("\n", 1)[0])
        self.known = known
        self.add_argument("names", nargs="*", metavar="PROGRAM", help=f"all by default, of {', '.join(sorted(known))}")

    def given(self) -> argparse.Namespace:
        given = self.parse_args()
        if unknown := sorted(set(given.names) - set(self.known)):
            self.error(f"no such program: {', '.join(unknown)}")
        return given
