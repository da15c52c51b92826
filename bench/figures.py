"""Whether the tables of documents are those that commands printed last.

    python -m bench.figures [--write]

A table below a line `<!-- printed: NAME -->` is bench/printed/NAME.csv, which the command beside it keeps there:
`python -m bench.evaluation ... -o bench/printed`, `python -m bench.compare_step_times --write`. Behind a colon stand
the columns that are shown, if not all are: `<!-- printed: NAME: FIRST | SECOND -->`. Names the tables that are not as
they were printed, and exits with 1; `--write` writes them into the documents.
"""

import argparse
import csv
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PRINTED = Path(__file__).with_name("printed")
DOCUMENTS = ("bench/README.md", "docs/results.md")
MARKED = re.compile(r"<!-- printed: (?P<name>[\w-]+)(?:: (?P<columns>[^\n]+?))? -->\n+(?P<table>(?:\|[^\n]*\n)*)")


def printed_table(name: str, shown: str | None = None, folder: Path = PRINTED) -> str:
    """What was printed last, as a Markdown table of the columns that are `shown`. Raises ValueError for a table or
    column that was not printed."""
    path = folder / f"{name}.csv"
    if not path.exists():
        raise ValueError(f"no table {name!r} was printed into {folder}")
    with path.open(newline="", encoding="utf-8") as lines:
        columns, *rows = csv.reader(lines)
    names = [each.strip() for each in shown.split("|")] if shown else columns
    if missing := [each for each in names if each not in columns]:
        raise ValueError(f"table {name!r} has no column {missing[0]!r}, only {', '.join(columns)}")
    at = [columns.index(each) for each in names]
    cells = names, ["---"] * len(names), *([row[i] for i in at] for row in rows)
    return "".join(f"| {' | '.join(line)} |\n" for line in cells)


def renewed(text: str, folder: Path = PRINTED) -> tuple[str, list[str]]:
    """`text` with its marked tables as they were printed last, and the names of those that were not. Raises
    ValueError."""
    stale = []

    def renew(found: re.Match[str]) -> str:
        table = printed_table(found["name"], found["columns"], folder)
        if found["table"] == table:
            return found[0]
        stale.append(found["name"])
        return f"{found[0][: found.start('table') - found.start()]}{table}"

    return MARKED.sub(renew, text), stale


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="write the tables into the documents")
    is_written = parser.parse_args().write
    found = {name: renewed((ROOT / name).read_text(encoding="utf-8")) for name in DOCUMENTS}
    for name, (text, stale) in found.items():
        for table in stale:
            print(f"{name}: table {table} {'written' if is_written else 'is not what was printed last'}")
        if is_written:
            (ROOT / name).write_text(text, encoding="utf-8")
    return int(not is_written and any(stale for _, stale in found.values()))


if __name__ == "__main__":
    sys.exit(main())
