"""A scenario file: what it means, and what is said of one that is wrong."""

from pathlib import Path

import pytest

from control.fleet_file.problem import SpecError
from control.simulator.scenario import Scenario, read_scenario
from control.simulator.serving.requests import ANY_LENGTH
from policies.priority import Priority

EXAMPLES = Path(__file__).parents[3] / "examples"
FLEET = EXAMPLES / "simulate" / "chat-fleet.yaml"
LINES = (
    "apiVersion: medley/v1",
    "kind: Scenario",
    "name: small",
    f"fleet: {FLEET}",
    "minutes: 30",
    "seed: 3",
    "traffic:",
    "  - {model: gpt-oss-20b, trace: trace.csv, repeat: true}",
    "  - {model: gpt-oss-20b, synthetic: poisson, requests_per_s: 2}",
)


def written(folder: Path, *lines: str) -> Path:
    (folder / "trace.csv").write_text(
        "arrival_s,input_tokens,output_tokens\n" + "\n".join(f"{6 * n},{n + 1},{n + 2}" for n in range(100))
    )
    path = folder / "scenario.yaml"
    path.write_text("\n".join(lines) + "\n")
    return path


def changed(folder: Path, old: str, new: str) -> Path:
    return written(folder, *(line.replace(old, new) for line in LINES))


def refused(path: Path) -> str:
    with pytest.raises(SpecError) as found:
        read_scenario(path)
    return str(found.value)


def requests(scenario: Scenario) -> list[tuple[float, int, int]]:
    of = scenario.traffic.requests
    return list(zip(of.arrival_s.tolist(), of.prompt_tokens.tolist(), of.output_tokens.tolist(), strict=True))


def test_streams_of_a_model_are_mixed_in_order_of_arrival_and_a_seed_repeats_them(tmp_path: Path) -> None:
    one, again = (read_scenario(written(tmp_path, *LINES)) for _ in range(2))
    assert requests(one) == requests(again)
    of_trace = {(6.0 * n, n % 100 + 1, n % 100 + 2) for n in range(300)}
    assert of_trace <= set(requests(one))
    assert 3300 < len(requests(one)) - 300 < 3900
    assert one.traffic.load(0.0, 1800.0)["gpt-oss-20b"].requests == len(requests(one))
    assert requests(one) != requests(read_scenario(changed(tmp_path, "seed: 3", "seed: 4")))


def test_requests_have_the_priority_of_their_stream(tmp_path: Path) -> None:
    of = read_scenario(changed(tmp_path, "repeat: true", "repeat: true, priority: batch")).traffic.requests
    is_batch = of.rank == Priority.BATCH.rank
    of_trace = {(6.0 * n, n % 100 + 1, n % 100 + 2) for n in range(300)}
    found = zip(of.arrival_s[is_batch], of.prompt_tokens[is_batch], of.output_tokens[is_batch], strict=True)
    assert {(float(at_s), int(prompt), int(output)) for at_s, prompt, output in found} == of_trace
    assert (of.rank[~is_batch] == Priority.STANDARD.rank).all()


def test_clients_of_a_stream_allow_an_answer_so_many_tokens(tmp_path: Path) -> None:
    of = read_scenario(changed(tmp_path, "repeat: true", "repeat: true, max_tokens: 7")).traffic.requests
    is_bounded = of.most_tokens == 7
    of_trace = {(6.0 * n, n % 100 + 1, min(n % 100 + 2, 7)) for n in range(300)}
    found = zip(of.arrival_s[is_bounded], of.prompt_tokens[is_bounded], of.output_tokens[is_bounded], strict=True)
    assert {(float(at_s), int(prompt), int(output)) for at_s, prompt, output in found} == of_trace
    assert (of.most_tokens[~is_bounded] == ANY_LENGTH).all()
    assert of.output_tokens[~is_bounded].max() > 7


def test_a_trace_is_scaled_to_a_mean_rate(tmp_path: Path) -> None:
    scenario = read_scenario(written(tmp_path, *LINES[:7], "  - {model: gpt-oss-20b, trace: trace.csv, scale: 0.3}"))
    assert len(requests(scenario)) == 1800 * 0.3 / 6


def test_rows_of_lengths_that_are_left_out_are_told_once(tmp_path: Path) -> None:
    (tmp_path / "lengths.csv").write_text("input_tokens,output_tokens\n5,6\n0,3\n7,8\n")
    drawn = "  - {model: gpt-oss-20b, synthetic: poisson, requests_per_s: 2, workload: lengths.csv}"
    notes = read_scenario(written(tmp_path, *LINES, drawn, drawn)).notes
    (note,) = (each for each in notes if "lengths.csv" in each)
    assert note.startswith("lengths.csv: 1 of 3 rows are left out; line 3: input_tokens is 0")
    assert not any("lengths.csv" in each for each in read_scenario(written(tmp_path, *LINES)).notes)


def test_a_row_that_makes_no_sense_is_refused_in_a_trace_that_is_replayed(tmp_path: Path) -> None:
    path = written(tmp_path, *LINES)
    with (tmp_path / "trace.csv").open("a") as trace:
        trace.write("\n600,0,5\n")
    assert f"{tmp_path / 'trace.csv'}:102: input_tokens is 0" in refused(path)


def test_the_examples_can_be_read() -> None:
    for path in (EXAMPLES / "simulate" / "spot-day.yaml", EXAMPLES / "simulate" / "half-hour.yaml"):
        assert len(read_scenario(path).traffic.requests) > 50_000


@pytest.mark.parametrize(
    ("old", "new", "line", "said"),
    [
        (", repeat: true", "", 8, "the scenario lasts 30 minutes, trace.csv as it is scaled 10.0: set `repeat: true`"),
        ("{model: gpt-oss-20b, trace", "{model: gpt-oss, trace", 8, "'gpt-oss' is not in fleet chat; did you mean"),
        ("repeat: true", "repaet: true", 8, "unknown key 'traffic[0].repaet'; did you mean 'repeat'?"),
        ("synthetic: poisson", "synthetic: bursty", 9, "bursty arrivals need cv, above 1"),
        ("synthetic: poisson", "synthetic: poisson, cv: 2", 9, "cv cannot be given with poisson"),
        ("trace: trace.csv", "trace: none.csv", 8, "none.csv: cannot be read"),
        ("minutes: 30", "minutes: 0", 5, "minutes: must be greater than 0"),
        ("seed: 3", "strategy: fixed", 1, "strategy fixed and a plan belong together"),
        ("seed: 3", "strategy: homogeneous", 6, "unknown value 'homogeneous'"),
        ("chat-fleet.yaml", "no-fleet.yaml", 4, "no-fleet.yaml: cannot be read"),
    ],
)
def test_a_mistake_is_told_at_its_line(tmp_path: Path, old: str, new: str, line: int, said: str) -> None:
    text = refused(changed(tmp_path, old, new))
    assert f"scenario.yaml:{line}: " in text
    assert said in text


def test_mistakes_of_all_files_are_told_at_once(tmp_path: Path) -> None:
    (tmp_path / "prices.csv").write_text("time,zone,machine,market,usd_per_hour\n9,aws/us-east-1,L4:1,spot,1\n")
    lines = [line.replace("trace.csv, repeat: true", "trace.csv") for line in LINES]
    text = refused(written(tmp_path, *lines, "market:", "  prices: {file: prices.csv}"))
    assert "scenario.yaml:8: the scenario lasts 30 minutes" in text
    assert f"scenario.yaml:11: {tmp_path / 'prices.csv'}:2: the first usd_per_hour of spot L4:1" in text
