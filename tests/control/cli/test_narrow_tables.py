"""Tables on narrow terminals: each row in one line, with the columns that matter most, and nothing of a name lost."""

import io

import pytest
from rich.console import Console

from control.cli.output import fitting_table

COLUMNS = ("instance", "model", "leg", "state", "load", "KV", "cpu", "MiB")
ROWS = [
    ("gpt-oss-120b-p1-0f3a", "gpt-oss-120b-chat", "prefill", "ready", "12+3", "87 %", "15.92", "129,320"),
    ("llama-3.3-70b-instruct-d2-91ce", "llama-3.3-70b-instruct", "decode", "draining", "0+0", "3 %", "0.10", "90"),
]
SPARE = ("MiB", "cpu", "model", "leg")


def lines(width: int) -> list[str]:
    shown = Console(width=width, file=io.StringIO(), color_system=None)
    shown.print(fitting_table(COLUMNS, ROWS, width, right=("load", "KV", "cpu", "MiB"), spare=SPARE))
    assert isinstance(shown.file, io.StringIO)
    return [line.rstrip() for line in shown.file.getvalue().splitlines()]


@pytest.mark.parametrize(
    ("width", "left_out"), [(120, ()), (95, SPARE[:1]), (85, SPARE[:2]), (80, SPARE[:3]), (60, SPARE)]
)
def test_columns_are_left_out_until_each_row_is_a_line(width: int, left_out: tuple[str, ...]) -> None:
    head, *rows = lines(width)
    assert head.split() == [name for name in COLUMNS if name not in left_out]
    assert len(rows) == len(ROWS)
    for row, cells in zip(rows, ROWS, strict=True):
        assert [row.split()[0], row.split()[-1]] == [cells[0], cells[COLUMNS.index(head.split()[-1])].split()[-1]]
        assert len(row) <= width


def test_what_is_still_too_wide_is_folded_and_nothing_of_it_lost() -> None:
    shown = "".join(lines(36)).replace(" ", "")
    cells = [cell for row in (COLUMNS, *ROWS) for name, cell in zip(COLUMNS, row, strict=True) if name not in SPARE]
    assert sorted(shown) == sorted("".join(cells).replace(" ", ""))
