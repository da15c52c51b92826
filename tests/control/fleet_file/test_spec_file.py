"""A spec file is read whole or refused with every problem at its line."""

import textwrap

import pytest

from control.fleet_file.document import MAX_NODES, parse
from control.fleet_file.names import Names
from control.fleet_file.problem import SpecError
from control.fleet_file.read import read
from control.fleet_file.schema import FleetFile
from templates_lib.values.nearest_name import nearest_name

NAMES = Names(
    models=frozenset({"qwen3-32b", "phi-4-14b"}),
    gpus=frozenset({"L4", "L40S", "A100-40", "A100-80", "V100"}),
    shapes=frozenset({"azure-code", "azure-conversation"}),
    rates=frozenset({"azure-code", "azure-conversation"}),
    regions={"aws": frozenset({"us-east-2", "ap-northeast-2"}), "gcp": frozenset({"us-central1"})},
)

GOOD = """\
apiVersion: medley/v1
kind: Fleet
name: small
models:
  - model: qwen3-32b
    slo: {ttft_ms: 1600, tpot_ms: 100}
    workload: azure-code
    demand: {requests_per_s: 10}
clouds:
  - cloud: aws
    regions: [us-east-2]
    gpus: [L4, L40S]
    counts: [1, 2]
    markets: [on-demand, spot]
    derived: true
policy:
  mode: paper
  replicas:
    qwen3-32b/prefill: {min: 1, max: 3}
"""


def load(text: str) -> FleetFile:
    return read(parse(textwrap.dedent(text), "fleet.yaml"), NAMES)


def problems(text: str) -> list[str]:
    with pytest.raises(SpecError) as caught:
        load(text)
    return [str(p) for p in caught.value.problems]


@pytest.mark.parametrize(
    ("slo", "percentile", "is_promised"),
    [
        ("", 99, True),
        (", percentile: 95", 95, True),
        (", keep: {percentile: 99.5}", 99.5, True),
        (", percentile: 20, keep: {percentile: 50}", 50, True),
        (", keep: {}", 99, True),
        (", keep: throughput", 99, False),
        (", keep: {throughput: true}, percentile: 20", 20, False),
        (", keep: {percentile: null}", 99, False),
    ],
)
def test_a_share_of_all_requests_is_promised_unless_throughput_is_stated(
    slo: str, percentile: float, is_promised: bool
) -> None:
    objective = load(GOOD.replace("tpot_ms: 100", f"tpot_ms: 100{slo}")).models[0].slo.value
    assert (objective.percentile, objective.queueing) == (percentile, is_promised)


@pytest.mark.parametrize(("slo", "is_refused"), [("", False), (", late: serve", False), (", late: refuse", True)])
def test_late_requests_are_refused_only_where_that_is_stated(slo: str, is_refused: bool) -> None:
    objective = load(GOOD.replace("tpot_ms: 100", f"tpot_ms: 100{slo}")).models[0].slo.value
    assert objective.refuses_late is is_refused


def test_a_good_file_is_read() -> None:
    fleet = load(GOOD)
    assert fleet.models[0].served_name == "qwen3-32b"
    assert fleet.clouds[0].derived
    assert fleet.policy.replicas["qwen3-32b/prefill"].max == 3
    assert fleet.solver.n_max == 6


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (
            "model: qwen3-32b",
            "model: qwen3-32",
            "fleet.yaml:5: models[0].model: unknown model 'qwen3-32'; did you mean",
        ),
        ("[L4, L40S]", "[L4, L40]", "fleet.yaml:12: clouds[0].gpus[1]: unknown GPU 'L40'; did you mean 'L40S'?"),
        ("[L4, L40S]", "[A100]", "fleet.yaml:12: clouds[0].gpus[0]: unknown GPU 'A100'; did you mean 'A100-40' or"),
        ("[us-east-2]", "[us-eats-2]", "fleet.yaml:11: unknown region 'us-eats-2' of aws; did you mean 'us-east-2'?"),
        ("[us-east-2]", "[us-central1]", "fleet.yaml:11: unknown region 'us-central1' of aws; "),
        ("cloud: aws", "cloud: awss", "fleet.yaml:10: clouds[0].cloud: unknown cloud 'awss'; did you mean 'aws'?"),
        ("azure-code", "azure-cod", "fleet.yaml:7: models[0].workload: unknown workload shape 'azure-cod'; did you"),
        ("ttft_ms:", "ttftms:", "fleet.yaml:6: unknown key 'models[0].slo.ttftms'; did you mean 'ttft_ms'?"),
        ("policy:", "polcy:", "fleet.yaml:16: unknown key 'polcy'; did you mean 'policy'?"),
        ("mode: paper", "mode: papr", "fleet.yaml:17: policy.mode: unknown value 'papr'; did you mean 'paper'?"),
        ("spot]", "spott]", "fleet.yaml:14: clouds[0].markets[1]: unknown value 'spott'; did you mean 'spot'?"),
        ("requests_per_s: 10", "requests_per_s: 0", "fleet.yaml:8: models[0].demand.requests_per_s: demand is 0"),
        ("requests_per_s: 10", "requests_per_s: -1", "fleet.yaml:8: models[0].demand.requests_per_s: demand must be"),
        ("requests_per_s: 10", "requests_per_s: .nan", "fleet.yaml:8: models[0].demand.requests_per_s: must be a fin"),
        ("ttft_ms: 1600", "ttft_ms: -1", "fleet.yaml:6: models[0].slo.ttft_ms: must be greater than 0, is -1"),
        ("tpot_ms: 100", "tpot_ms: 100, late: refuse, keep: throughput", "fleet.yaml:6: models[0].slo: `late: refuse`"),
        ("tpot_ms: 100", "tpot_ms: 100, late: drop", "fleet.yaml:6: models[0].slo.late: "),
        (
            "qwen3-32b/prefill:",
            "qwen3-32b/prefil:",
            "fleet.yaml:19: policy.replicas: unknown work class 'qwen3-32b/prefil'; did you mean",
        ),
        ("min: 1", "min: 4", "fleet.yaml:19: policy.replicas.qwen3-32b/prefill: max 3 is below min 4"),
        ("medley/v1", "medley/v2", "fleet.yaml:1: apiVersion: unknown value 'medley/v2'; did you mean 'medley/v1'?"),
        ("name: small", "name: small\nname: other", "fleet.yaml:4: key 'name' occurs twice; keep one"),
        ("slo: {", "slo: [", "fleet.yaml:6: is not valid YAML"),
        (
            "requests_per_s: 10",
            "requests_per_s: yes",
            "fleet.yaml:8: models[0].demand.requests_per_s: must be a valid n",
        ),
        (
            "requests_per_s: 10",
            "requests_per_s: '10'",
            "fleet.yaml:8: models[0].demand.requests_per_s: must be a valid",
        ),
        ("requests_per_s: 10", "requests_per_s: .inf", "fleet.yaml:8: models[0].demand.requests_per_s: must be a fin"),
        ("counts: [1, 2]", "counts: [1.5]", "fleet.yaml:13: clouds[0].counts[0]: must be a valid integer, is 1.5"),
        ("counts: [1, 2]", "counts: []", "fleet.yaml:13: clouds[0].counts must have at least one entry"),
        ("name: small", "name:", "fleet.yaml:3: name has no value; give one or remove the key"),
        (
            "tpot_ms: 100",
            "tpot_ms: 100, percentile: 101",
            "fleet.yaml:6: models[0].slo.percentile: must be less than 100",
        ),
        ("tpot_ms: 100", "tpot_ms: 100, keep: always", "fleet.yaml:6: models[0].slo.keep: is `throughput`, or like"),
        (
            "tpot_ms: 100",
            "tpot_ms: 100, keep: {percentile: 20}",
            "fleet.yaml:6: models[0].slo.keep.percentile: must",
        ),
        (
            "tpot_ms: 100",
            "tpot_ms: 100, keep: {percentile: 99.99}",
            "fleet.yaml:6: models[0].slo.keep.percentile: must",
        ),
        (
            "slo: {ttft_ms: 1600, tpot_ms: 100}",
            "slo:\n      ttft_ms: 1600\n      tpot_ms: 100\n      percentile: 20",
            "fleet.yaml:9: models[0].slo.percentile: a plan can promise 50 to 99.9 %",
        ),
        (
            "tpot_ms: 100",
            "tpot_ms: 100, percentile: 99.99, keep: {throughput: false}",
            "fleet.yaml:6: models[0].slo.percentile: a plan can promise 50 to 99.9 %",
        ),
        (
            "tpot_ms: 100",
            "tpot_ms: 100, keep: {percentile: 99, throughput: true}",
            "fleet.yaml:6: models[0].slo.keep: promises a percentile or throughput",
        ),
        ("mode: paper", "max_spot_share: 1.5", "fleet.yaml:17: policy.max_spot_share: must be less than or equal to 1"),
        ("kind: Fleet", "kind: Offers", "fleet.yaml:2: kind: unknown value 'Offers'; valid: Fleet"),
    ],
)
def test_a_mistake_is_named_with_its_line(old: str, new: str, expected: str) -> None:
    assert old in GOOD
    assert any(p.startswith(expected) for p in problems(GOOD.replace(old, new)))


@pytest.mark.parametrize(("written", "read_as"), [("1e2", 100.0), ("2.5E+1", 25.0), ("1e-2", 0.01), ("7", 7.0)])
def test_numbers_are_read_as_people_write_them(written: str, read_as: float) -> None:
    fleet = load(GOOD.replace("requests_per_s: 10", f"requests_per_s: {written}"))
    assert fleet.models[0].demand.requests_per_s == read_as


def test_all_problems_are_reported_at_once_in_the_order_of_the_file() -> None:
    text = GOOD.replace("qwen3-32b\n", "qwen\n").replace("[L4, L40S]", "[l4, X1]").replace("paper", "papr")
    found = problems(text)
    assert [p.split(":")[1] for p in found] == ["5", "12", "12", "17"]


def test_a_missing_section_is_named() -> None:
    (nothing,) = problems("apiVersion: medley/v1\nkind: Fleet\nname: x\nclouds: [{cloud: aws}]\n")
    assert nothing.startswith("fleet.yaml:1: ")
    assert all(name in nothing for name in ("models", "apps"))
    assert "fleet.yaml:5: models[0].slo is missing" in problems(GOOD.replace("slo:", "# slo:"))[0]


def test_demand_is_a_rate_or_a_trace() -> None:
    both = GOOD.replace("requests_per_s: 10", "requests_per_s: 10, trace: azure-code")
    assert "give one of requests_per_s, trace and metered" in problems(both)[0]
    scaled = GOOD.replace("requests_per_s: 10", "requests_per_s: 10, scale: 2")
    assert "belong to trace" in problems(scaled)[0]


@pytest.mark.parametrize(
    "wrong", ["{cv: -1}", "{cv: 51}", "{cv: 2, trace: a/b.csv}", "{trace: azure-code}", "{gaps: 3}"]
)
def test_arrivals_are_of_a_cv_or_of_the_file_of_a_trace(wrong: str) -> None:
    asked = "requests_per_s: 10, arrivals: "
    (problem,) = problems(GOOD.replace("requests_per_s: 10", asked + wrong))
    assert "arrivals" in problem or "gaps" in problem
    assert "fleet.yaml" in problem


def test_models_of_one_name_are_refused() -> None:
    again = GOOD.replace(
        "clouds:",
        "  - {model: qwen3-32b, slo: {ttft_ms: 1, tpot_ms: 1}, workload: azure-code, "
        "demand: {requests_per_s: 1}}\nclouds:",
    )
    assert "different names" in problems(again)[0]


@pytest.mark.parametrize("text", ["", "[]", "just words", "a: b: c", "{", "\t"])
def test_what_is_no_mapping_is_refused(text: str) -> None:
    assert problems(text)


def test_aliases_cannot_blow_up() -> None:
    rows = ["a0: &a0 [1,1,1,1,1,1,1,1,1,1]"]
    rows += [f"a{i}: &a{i} [{','.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 12)]
    with pytest.raises(SpecError, match="too large"):
        parse("\n".join(rows), "bomb.yaml")
    assert MAX_NODES < 10**6


def test_a_merged_key_keeps_the_line_where_it_was_written() -> None:
    document = parse("base: &b\n  x: 1\nuse:\n  <<: *b\n  y: 2\n", "f.yaml")
    assert document.value["use"] == {"x": 1, "y": 2}
    assert document.line(("use", "x")) == 2


def test_the_nearest_name_prefers_a_longer_form_of_what_was_typed() -> None:
    assert nearest_name("A100", {"V100", "A100-40", "A100-80"}) == "did you mean 'A100-40' or 'A100-80'?"
    assert nearest_name("zzz", {"a", "b"}) == "valid: a, b"
