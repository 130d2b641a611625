"""What the compiler did to a program, and what it left: one Pass for each place that it was tried at."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Pass:
    """An optimisation that was tried at a place of a program. `why_not` says why the program there is without it, if it is.

    `count`: how many there are of what the name says, where it is said of each place.
    """

    name: str
    place: str  # "the loop at line 12", or a kernel
    why_not: str | None = None
    count: int | None = None

    @property
    def fired(self) -> bool:
        return self.why_not is None

    def __str__(self) -> str:
        if self.why_not is not None:
            return f"{self.name}: not {self.place}: {self.why_not}"
        return f"{self.name}: {self.place}" if self.count is None else f"{self.name}: {self.place}: {self.count}"


@dataclass(slots=True)
class PassLog:
    """Passes in the order in which they were tried first. One that fired at a place for some types has fired there."""

    found: dict[tuple[str, str], Pass] = field(default_factory=dict)

    def note(self, name: str, place: str, why_not: str | None = None, count: int | None = None) -> None:
        known = self.found.get((name, place))
        if known is None or not known.fired:
            self.found[name, place] = Pass(name, place, why_not, count)

    def all(self) -> tuple[Pass, ...]:
        return tuple(self.found.values())
