"""Colours of pictures: fixed ones for files, and names that a page fills in by its reader's light."""

import re
from dataclasses import dataclass

_LIGHT = ("#1f6fd0", "#d9641a", "#15897c", "#a6338a", "#947100", "#6347c4", "#3f8624", "#7d6150")
_DARK = ("#6aa9f5", "#f29a55", "#43c4b3", "#e57ec4", "#dcb840", "#a793f5", "#85cc62", "#c8ab96")


@dataclass(frozen=True, slots=True)
class Palette:
    ink: str
    muted: str
    grid: str
    paper: str
    lines: tuple[str, ...]


LIGHT = Palette("#1b1f24", "#59626d", "#e2e6ea", "#ffffff", _LIGHT)
DARK = Palette("#e9ecef", "#a0a9b3", "#30363d", "#15181c", _DARK)

# Colours that no picture has of its own, to be found again in what matplotlib writes.
_MARKED = Palette("#fe0001", "#fe0002", "#fe0003", "#fe0004", tuple(f"#fe01{n:02x}" for n in range(len(_LIGHT))))
_MARK = re.compile(r"#fe0[01][0-9a-f]{2}")


def marked() -> Palette:
    """Palette of an SVG whose colours `named` gives names to."""
    return _MARKED


def named(svg: str) -> str:
    """The same with `var(--ink)`, `var(--line-0)` and so on for the colours of `marked`."""
    names = dict(_names(_MARKED))
    return _MARK.sub(lambda found: f"var(--{names[found[0]]})", svg)


def custom_properties(palette: Palette) -> str:
    """As CSS."""
    return " ".join(f"--{name}: {colour};" for colour, name in _names(palette))


def _names(palette: Palette) -> list[tuple[str, str]]:
    whole = [(palette.ink, "ink"), (palette.muted, "muted"), (palette.grid, "grid"), (palette.paper, "paper")]
    return whole + [(colour, f"line-{n}") for n, colour in enumerate(palette.lines)]
