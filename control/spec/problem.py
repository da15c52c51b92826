"""What is wrong with a file, said so that it can be found and put right."""

import difflib
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Problem:
    """One mistake in one place."""

    file: str
    line: int
    """1-based; 0 where the file as a whole is meant."""
    message: str

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.line else self.file
        return f"{place}: {self.message}"


class SpecError(ValueError):
    """A file that cannot be used, with all of its problems."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(sorted(set(problems), key=lambda p: (p.file, p.line, p.message)))
        super().__init__("\n".join(str(p) for p in self.problems))


def nearest(name: str, valid: Iterable[str]) -> str:
    """A hint that ends an "unknown name" message: the nearest valid name, else all of them (at most 12)."""
    names = sorted(set(valid))
    folded = {n.casefold(): n for n in names}
    longer = [folded[f] for f in sorted(folded) if name and f.startswith(name.casefold())]
    if longer and name.casefold() not in folded:  # "A100" means A100-40 or A100-80, although V100 is nearer in letters
        return f"did you mean {' or '.join(repr(n) for n in longer[:4])}?"
    close = difflib.get_close_matches(name.casefold(), list(folded), n=1, cutoff=0.6)
    if close:
        return f"did you mean {folded[close[0]]!r}?"
    if not names:
        return "no name is valid here"
    return f"valid: {', '.join(names[:12])}" + (f" and {len(names) - 12} more" if len(names) > 12 else "")
