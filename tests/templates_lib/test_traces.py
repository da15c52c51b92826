import gzip
from pathlib import Path

import numpy as np
import pytest

from templates_lib.load.traces import TraceError, iterate_requests, read_trace

AZURE = """TIMESTAMP,ContextTokens,GeneratedTokens
2023-11-16 18:17:03.9799600,4808,10
2023-11-16 18:17:04.9799600,3180,8
2023-11-16 18:17:07.9799600,110,27
"""


def write(folder: Path, text: str, name: str = "trace.csv") -> Path:
    path = folder / name
    path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    return path


def test_azure_timestamps_become_seconds_from_the_start(tmp_path: Path) -> None:
    trace = read_trace(write(tmp_path, AZURE))
    assert trace.arrival_s.tolist() == pytest.approx([0, 1, 4])
    assert trace.prompt_tokens.tolist() == [4808, 3180, 110]
    assert trace.output_tokens.tolist() == [10, 8, 27]


def test_columns_of_other_units_are_read_in_the_order_of_arrival_and_kept_in_the_shape(tmp_path: Path) -> None:
    text = "arrival_s,input_tokens,output_tokens,images,image_tokens\n9,5,5,2,1200\n3,7,7,1,600\n4,8,8,-1,600\n"
    trace = read_trace(write(tmp_path, text))
    assert trace.bad_count == 1
    units = {name: column.tolist() for name, column in trace.shape().units.items()}
    assert units == {"images": [1, 2], "image_tokens": [600, 1200]}
    assert trace.shape().fingerprint != read_trace(write(tmp_path, text.replace("1200", "1300"))).shape().fingerprint


@pytest.mark.parametrize(
    ("header", "rows", "arrivals"),
    [
        ("timestamp_ms,input_tokens,output_tokens,hash_ids", ["0,10,5,1 2", "1500,20,6,3"], [0, 1.5]),
        ("arrival_s,input_tokens,output_tokens", ["2,10,5", "3.5,20,6"], [0, 1.5]),
        ("Timestamp,Model,Request tokens,Response tokens", ["5,GPT-4,10,5", "6.5,ChatGPT,20,6"], [0, 1.5]),
        ("num_prefill_tokens,num_decode_tokens", ["10,5", "20,6"], [0, 0]),
        ("input_tokens,output_tokens", ["10,5", "20,6"], [0, 0]),
    ],
)
def test_every_known_format_is_read_plain_and_gzipped(
    tmp_path: Path, header: str, rows: list[str], arrivals: list[float]
) -> None:
    text = "\n".join([header, *rows])
    for name in ("t.csv", "t.csv.gz"):
        trace = read_trace(write(tmp_path, text, name))
        assert trace.arrival_s.tolist() == pytest.approx(arrivals)
        assert trace.prompt_tokens.tolist() == [10, 20]
        assert trace.output_tokens.tolist() == [5, 6]


def test_rows_out_of_order_are_sorted_with_their_lengths(tmp_path: Path) -> None:
    trace = read_trace(write(tmp_path, "arrival_s,input_tokens,output_tokens\n9,1,1\n4,2,2\n6,3,3\n"))
    assert trace.arrival_s.tolist() == [0, 2, 5]
    assert trace.prompt_tokens.tolist() == [2, 3, 1]


def test_bad_rows_are_skipped_and_reported_with_their_line(tmp_path: Path) -> None:
    rows = ["0,5,5", "x,5,5", "1,0,5", "2,5", "nan,5,5", "3,5,1.5", "4,6,6"]
    trace = read_trace(write(tmp_path, "arrival_s,input_tokens,output_tokens\n" + "\n".join(rows)))
    assert trace.arrival_s.tolist() == [0, 4]
    assert [b.line for b in trace.bad_rows] == [3, 4, 5, 6, 7]
    assert trace.bad_count == 5
    assert "input_tokens is 0" in trace.bad_rows[1].problem
    assert trace.left_out == (
        "trace.csv: 5 of 7 rows are left out; line 3: arrival_s is 'x', not a number; line 4: input_tokens is 0, not a "
        "whole number of tokens of at least 1; line 5: output_tokens is '', not a number; and 2 more"
    )


def test_reading_streams_and_rubbish_does_not_pile_up(tmp_path: Path) -> None:
    path = write(tmp_path, "arrival_s,input_tokens,output_tokens\n" + "1,2,3\n" + "rubbish\n" * 500)
    first = next(iter(iterate_requests(path)))
    assert first[0] == 2
    trace = read_trace(path)
    assert trace.bad_count == 500
    assert len(trace.bad_rows) == 100


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a,b\n1,2\n", "columns a, b are none of the known kinds"),
        ("arrival_s,input_tokens,output_tokens\n", "no usable request in 0 rows"),
        ("arrival_s,input_tokens,output_tokens\n1,-4,2\n", "line 2: input_tokens is -4"),
    ],
)
def test_a_file_without_requests_is_an_error_that_says_why(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(TraceError, match=problem):
        read_trace(write(tmp_path, text))


def test_missing_truncated_and_oversized_files_are_clear_errors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(TraceError, match="cannot be read"):
        read_trace(tmp_path / "nowhere.csv")
    whole = gzip.compress(("arrival_s,input_tokens,output_tokens\n" + "1,2,3\n" * 5000).encode(), 1)
    cut = tmp_path / "cut.csv.gz"
    cut.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(TraceError, match="is the file whole"):
        read_trace(cut)
    monkeypatch.setattr("templates_lib.load.traces.MAX_REQUESTS", 10)
    with pytest.raises(TraceError, match="more than 10 requests"):
        read_trace(write(tmp_path, "input_tokens,output_tokens\n" + "1,2\n" * 11))


def test_scaling_changes_the_rate_and_not_the_burstiness(tmp_path: Path) -> None:
    trace = read_trace(write(tmp_path, AZURE))
    scaled = trace.scaled_to(10.0)
    assert scaled.requests_per_s == pytest.approx(10)
    assert scaled.cv == pytest.approx(trace.cv)
    assert scaled.shape().mean_prompt_tokens == trace.shape().mean_prompt_tokens


def test_rates_count_every_request_once(tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    times = np.sort(draw.uniform(0, 100, 400))
    text = "arrival_s,input_tokens,output_tokens\n" + "".join(f"{t},1,1\n" for t in times)
    series = read_trace(write(tmp_path, text)).rates(10)
    assert (series.requests_per_s * 10).sum() == pytest.approx(400)
    assert series.cv.mean() == pytest.approx(1.0, abs=0.25)


def test_lengths_alone_have_no_rate(tmp_path: Path) -> None:
    trace = read_trace(write(tmp_path, "input_tokens,output_tokens\n1,2\n3,4\n"))
    with pytest.raises(TraceError, match="shape of lengths"):
        _ = trace.requests_per_s


AZURE_LMM = """TIMESTAMP,NumImages,ContextTokens,GeneratedTokens
2024-10-21T12:16:01.098Z,529,35932,45
2024-10-21T12:16:01.108Z,1,2270,29
2024-10-21T12:16:01.109Z,0,77,9
2024-10-21T12:16:02.108Z,1,128,12
2024-10-21T12:16:03.108Z,3,9000,12
2024-10-21T12:16:04.108Z,4,100,12
"""


def test_the_azure_lmm_trace_has_squares_of_the_number_of_images(tmp_path: Path) -> None:
    trace = read_trace(write(tmp_path, AZURE_LMM))
    assert trace.units["images"].tolist() == [23, 1, 0, 1]
    assert trace.prompt_tokens.tolist() == [35932 - 23 * 1105, 2270 - 1105, 77, 128 - 85]
    assert (trace.prompt_tokens + trace.units["image_tokens"]).tolist() == [35932, 2270, 77, 128]
    assert [bad.line for bad in trace.bad_rows] == [6, 7]  # no square, and too few tokens for two images
