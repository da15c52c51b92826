"""Problems of a file, with the place of each and what to put right."""

from collections.abc import Iterable
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class SpecProblem:
    """One mistake in one place."""

    file: str
    line: int
    """1-based; 0 where the file as a whole is meant."""
    message: str
    key: tuple[str | int, ...] = field(default=(), compare=False)
    """Path of the value in the document; empty where it is not known, or the whole is meant."""

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.line else self.file
        return f"{place}: {self.message}"


class SpecError(ValueError):
    """A file that cannot be used, with all of its problems."""

    def __init__(self, problems: Iterable[SpecProblem]) -> None:
        self.problems = tuple(sorted(set(problems), key=lambda p: (p.file, p.line, p.message)))
        super().__init__("\n".join(str(p) for p in self.problems))
