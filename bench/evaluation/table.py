"""Results as a Markdown table for people, and as CSV for figures."""

import csv
from collections.abc import Iterable, Sequence
from pathlib import Path


class Table:
    def __init__(self, name: str, columns: Sequence[str]) -> None:
        """`name`: of its CSV file."""
        self._name, self._columns = name, tuple(columns)
        self._rows: list[tuple[str, ...]] = []

    def add(self, *cells: str) -> None:
        if len(cells) != len(self._columns):
            raise ValueError(f"{self._name}: {len(cells)} cells for {len(self._columns)} columns")
        self._rows.append(cells)

    def show(self, folder: Path | None) -> None:
        """Print it; with a folder, keep it there too."""
        widths = [max(len(c) for c in column) for column in zip(self._columns, *self._rows, strict=True)]
        print(_line(self._columns, widths))
        print(_line(("-" * width for width in widths), widths))
        for row in self._rows:
            print(_line(row, widths))
        print(flush=True)
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
            with (folder / f"{self._name}.csv").open("w", newline="") as file:
                csv.writer(file, lineterminator="\n").writerows([self._columns, *self._rows])


def _line(cells: Iterable[str], widths: Sequence[int]) -> str:
    return "| " + " | ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)) + " |"
