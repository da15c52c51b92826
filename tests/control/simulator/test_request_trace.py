"""Traces of a scenario: what is refused, and how they are scaled, cut and repeated."""

from pathlib import Path

import numpy as np
import pytest

from control.fleet_file.problem import SpecError
from control.simulator.request_trace import Stream, read_stream

HEADER = "arrival_s,input_tokens,output_tokens\n"


def trace(folder: Path, *rows: str) -> Path:
    path = folder / "trace.csv"
    path.write_text(HEADER + "\n".join(rows))
    return path


@pytest.mark.parametrize(
    ("rows", "line", "said"),
    [
        (("0,5,5", "9,5,5", "4,5,5"), 4, "arrives 5 s before the request ahead of it: sort the file"),
        (("-1,5,5", "2,5,5"), 2, "arrives at -1 s, before the trace begins"),
        (("0,5,5", "1,5,0", "2,5,5"), 3, "output_tokens is 0, not a whole number of tokens of at least 1"),
        (("0,0,5", "1,5,5"), 2, "input_tokens is 0"),
        (("0,5,5", "x,5,5"), 3, "arrival_s is 'x', not a number"),
    ],
)
def test_a_row_that_can_be_no_request_is_named_by_its_line(
    tmp_path: Path, rows: tuple[str, ...], line: int, said: str
) -> None:
    path = trace(tmp_path, *rows)
    with pytest.raises(SpecError) as found:
        read_stream(path)
    assert [(p.file, p.line) for p in found.value.problems] == [(str(path), line)]
    assert said in str(found.value)


def test_every_bad_row_is_told_at_once_but_not_thousands(tmp_path: Path) -> None:
    path = trace(tmp_path, *("1,5,0" for _ in range(3000)))
    with pytest.raises(SpecError) as found:
        read_stream(path)
    assert [p.line for p in found.value.problems] == list(range(2, 12))


def test_a_file_of_lengths_is_told_from_a_trace(tmp_path: Path) -> None:
    path = tmp_path / "lengths.csv"
    path.write_text("input_tokens,output_tokens\n5,5\n6,6\n")
    with pytest.raises(SpecError, match=r"a shape of lengths; give it as `workload`"):
        read_stream(path)


def test_scaling_changes_all_gaps_alike_and_the_length_with_them(tmp_path: Path) -> None:
    found = read_stream(trace(tmp_path, "10,1,1", "12,2,2", "16,3,3"))
    assert found.arrival_s.tolist() == [0, 2, 6]
    assert found.period_s == pytest.approx(9)  # a mean gap of 3 after the last one
    twice = found.scaled(2)
    assert twice.arrival_s.tolist() == [0, 1, 3]
    assert twice.period_s == pytest.approx(4.5)


def test_a_trace_begins_again_at_its_end_and_anywhere_within() -> None:
    stream = Stream(np.array([0.0, 4.0]), np.array([1, 2], np.int32), np.array([3, 4], np.int32), 10.0)
    cut = stream.cut(3.0, 20.0)
    assert cut.arrival_s.tolist() == [1, 7, 11, 17]
    assert cut.prompt_tokens.tolist() == [2, 1, 2, 1]
    assert cut.output_tokens.tolist() == [4, 3, 4, 3]
