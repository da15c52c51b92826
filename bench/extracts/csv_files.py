"""Reading the shared data and writing the shipped extracts."""

import csv
import gzip
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SHARED = ROOT.parent / "shared" / "data"
RUNPOD = Path(__file__).with_name("runpod_secure.csv")
"""RunPod's secure cloud, per GPU: shape and list price, the same in all its data centres and linear in the count."""
RUNPOD_SOURCE = "skypilot-org/skypilot-catalog catalogs/v8/runpod/vms.csv @01acdfd419ce5afae1289ff14825b893ced0c196"


def read(path: Path) -> Iterator[dict[str, str]]:
    """The rows of a CSV file, compressed or not."""
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", encoding="utf-8") as file:
        yield from csv.DictReader(file)


def write(path: Path, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(rows)
