"""What is measured, in which order, and where it is kept: passes of real runs, and a sweep for profiles before and
behind the runs of two shapes, so that what the machine does meanwhile is in the floor as in the error. On a shared
machine the same requests take a node 2 to 20 % more processor time a quarter of an hour later, and at 90 % of what it
can do a step that is 3 % longer makes a token take 9 % longer. Of two passes it is chance whether both are slow, and
the floor then says nothing of it: there are three. The steps of a kind of node vary by 2 to 3 % from one sweep to the
next, whatever is measured within it, and once by 14 %: profiles are of all seven, which leaves 1 to 2 %."""

import tempfile
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from bench.fidelity.company import company
from bench.fidelity.recording import read, write
from bench.fidelity.runtime import record
from bench.fidelity.shapes import SHAPES, Setup, parts, requests_per_s, setup
from bench.fidelity.trace import Asked, poisson
from templates_lib.models.catalogue import weights_places

MODEL, DTYPE = "smollm2-135m-instruct", "fp32"
LOADS = (0.3, 0.6, 0.9)
PASSES = (0, 1, 2)
SECONDS = 18.0
"""Of arrivals at the highest load. Lower ones get longer, so that as many requests are seen at each: of two dozen, it
is chance whether the two real runs part ways, and the floor with it."""
_SHAPES_BETWEEN = 2
"""Shapes that have their runs between two sweeps."""
_PLACES = {shape: number for number, shape in enumerate(SHAPES)}


@dataclass(frozen=True, slots=True)
class Task:
    folder: Path
    number: int
    """Of its pass; of a sweep, how many came before it."""
    shape: str = ""
    """Empty: a sweep. Else its runs at every load, one behind the other."""

    @property
    def is_done(self) -> bool:
        if not self.shape:
            return sweep_home(self.folder, self.number).exists()
        return all(run_path(self.folder, self.shape, load, self.number).exists() for load in LOADS)

    def __str__(self) -> str:
        return f"pass {self.number + 1}: {self.shape}" if self.shape else f"sweep {self.number + 1}"

    def do(self) -> None:
        """Raises RuntimeError and SweepError."""
        with company(weights_places()[MODEL], DTYPE):
            now = datetime.now(UTC).isoformat(timespec="seconds")
            if self.shape:
                self._run(now)
            else:
                self._sweep(now)

    def _sweep(self, now: str) -> None:
        with tempfile.TemporaryDirectory(dir=self.folder) as home:
            setup(Path(home) / "home", now)
            (Path(home) / "home").rename(sweep_home(self.folder, self.number))

    def _run(self, now: str) -> None:
        made = setup(sweep_home(self.folder, 0), now)
        firsts = [run_path(self.folder, self.shape, load, PASSES[0]) for load in LOADS]
        if self.number == PASSES[0]:
            held = parts(self.shape, made)
            most_per_s = requests_per_s(held, made.served)
            asked = [self._asked(load * most_per_s, SECONDS * max(LOADS) / load, made) for load in LOADS]
        else:  # the same requests to the same instances
            before = [read(path) for path in firsts]
            held = before[0].parts
            asked = [tuple(Asked(s.arrival_s, s.prompt_tokens, s.output_tokens) for s in b.requests) for b in before]
        with tempfile.TemporaryDirectory() as home:
            traces = dict(zip(LOADS, asked, strict=True))
            for found in record(made, self.shape, held, traces, Path(home)):
                write(found, run_path(self.folder, self.shape, found.load, self.number))

    def _asked(self, requests_per_s: float, seconds: float, made: Setup) -> tuple[Asked, ...]:
        return poisson(made.served.shape, requests_per_s, seconds, seed=1 + _PLACES[self.shape])


def tasks(folder: Path, shapes: tuple[str, ...]) -> tuple[Task, ...]:
    """In order; the sweep behind the runs of two shapes is that before the next two."""
    runs = [Task(folder, number, shape) for number in PASSES for shape in shapes]
    found = [Task(folder, 0)]
    for sweep, at in enumerate(range(0, len(runs), _SHAPES_BETWEEN), start=1):
        found += [*runs[at : at + _SHAPES_BETWEEN], Task(folder, sweep)]
    return tuple(found)


def sweep_home(folder: Path, number: int) -> Path:
    """A Medley's home with the profiles of one sweep."""
    return folder / f"sweep-{number + 1}"


def sweep_homes(folder: Path) -> list[Path]:
    """Of every sweep that was made."""
    return sorted(folder.glob("sweep-*"))


def run_path(folder: Path, shape: str, load: float, number: int) -> Path:
    return folder / f"{shape}-{100 * load:.0f}-{number + 1}.json"
