"""What a spec file turns into: offers, demand, settings and the recipe of its library."""

import json
from pathlib import Path

import pytest

from control.fleet_file.problem import SpecError
from control.planning.world import read_world
from templates_lib.values.settings import Mode
from tests import factories as make
from tests.control.planning.worlds import world_of

EXAMPLES = Path(__file__).parents[3] / "examples"

SMALL = """\
apiVersion: medley/v1
kind: Fleet
name: small
models:
  - model: gpt-oss-20b
    slo: {ttft_ms: 900, tpot_ms: 30, keep: throughput}
    workload: azure-code
    demand: {requests_per_s: 2}
clouds:
  - cloud: aws
    regions: [us-east-2]
    gpus: [L4]
"""


def test_the_core_example_is_the_papers_set_up() -> None:
    core = read_world(EXAMPLES / "coral-core.yaml")
    assert [s.name for s in core.recipe.served] == ["qwen3-32b", "gpt-oss-20b", "phi-4-14b"]
    assert len(core.recipe.nodes) == 12
    assert core.quotes.zones == ("aws/ap-northeast-2", "aws/us-east-2")
    assert {d.requests_per_s for d in core.demand} == {10.0}
    assert (core.recipe.n_max, core.recipe.rho) == (6, 12.0)


def test_the_extended_example_is_the_papers_set_up() -> None:
    extended = read_world(EXAMPLES / "coral-extended.yaml")
    assert len(extended.recipe.served) == 6
    assert len(extended.recipe.nodes) == 20
    assert len(extended.quotes.zones) == 3
    assert {d.requests_per_s for d in extended.demand} == {25.0}


def test_real_clouds_has_only_what_is_sold_in_zones_with_traffic_priced() -> None:
    real = read_world(EXAMPLES / "real-clouds.yaml")
    assert not any(offer.derived for offer in real.quotes.offers)
    assert {offer.cloud for offer in real.quotes.offers} == {"aws", "gcp", "runpod"}
    assert real.quotes.traffic
    snapshot = real.snapshot("2026-11-21T00:00:00+00:00", make.library(real.recipe.served[0].work_classes(), {}))
    assert snapshot.settings.mode is Mode.ZONES
    assert {d.app: round(d.requests_per_s, 1) for d in snapshot.demand} == {"gpt-oss-20b": 2.5, "qwen3-32b": 5.6}


def test_bags_are_what_a_zone_offers_together(tmp_path: Path) -> None:
    made = world_of(tmp_path, SMALL)
    offered: dict[str, set[str]] = {}
    for offer in made.quotes.offers:
        offered.setdefault(offer.zone_id, set()).add(offer.node_config)
    assert {frozenset(bag) for bag in made.recipe.zone_bags} == {frozenset(bag) for bag in offered.values()}


def test_quotas_availability_and_own_offers_are_taken_in(tmp_path: Path) -> None:
    (tmp_path / "supply.csv").write_text("zone,config,market,available\naws/us-east-2,L4:1,on-demand,7\n")
    (tmp_path / "hall.yaml").write_text(
        "apiVersion: medley/v1\nkind: Offers\noffers:\n  - {cloud: own, region: hall, instance_type: box, "
        "node_config: 'L4:1/n10', market: owned, usd_per_hour: 0, available: 3}\n"
    )
    made = world_of(
        tmp_path,
        SMALL + "offers: {availability: supply.csv, files: [hall.yaml]}\n"
        "quotas:\n  - {cloud: aws, region: us-east-2, family: G-VT, limit: 64}\n",
    )
    assert {o.available_count for o in made.quotes.offers if o.cloud == "aws" and o.node_config == "L4:1/n10"} == {7}
    assert any(o.zone_id == "own/hall" and o.usd_per_hour == 0 for o in made.quotes.offers)
    assert [p.limit for p in made.quotes.pools if p.unit == "vcpus"] == [64.0]


def test_an_unknown_quota_family_is_told_at_its_line(tmp_path: Path) -> None:
    text = SMALL + "quotas:\n  - {cloud: aws, region: us-east-2, family: G-VTX, limit: 64}\n"
    with pytest.raises(SpecError, match=r"fleet\.yaml:14: .*'G-VTX'.*'G-VT'"):
        world_of(tmp_path, text)


def test_a_problem_of_a_named_file_is_told_with_both_places(tmp_path: Path) -> None:
    (tmp_path / "supply.csv").write_text("zone,config,market,available\naws/us-east-2,L4:1,on-demand,many\n")
    with pytest.raises(SpecError, match=r"fleet\.yaml:13: .*supply\.csv:2: .*whole number"):
        world_of(tmp_path, SMALL + "offers: {availability: supply.csv}\n")


@pytest.mark.parametrize(
    ("demand", "expected"),
    [
        ("{trace: azure-code}", 2.5),
        ("{trace: azure-code, scale: 4}", 10.1),
        ("{trace: arrivals.csv}", 1.0),
        ("{trace: arrivals.csv, at: peak}", 1.5),
    ],
)
def test_demand_comes_from_a_trace(tmp_path: Path, demand: str, expected: float) -> None:
    # 90 requests in the first minute, 30 in the second.
    arrivals = [i * 60 / 90 for i in range(90)] + [60 + i * 2 for i in range(30)]
    rows = "".join(f"{at},100,10\n" for at in arrivals)
    (tmp_path / "arrivals.csv").write_text(f"arrival_s,input_tokens,output_tokens\n{rows}")
    made = world_of(tmp_path, SMALL.replace("{requests_per_s: 2}", demand))
    assert made.demand[0].requests_per_s == pytest.approx(expected, rel=0.02)


def test_rows_of_a_trace_that_are_left_out_are_said_once(tmp_path: Path) -> None:
    (tmp_path / "arrivals.csv").write_text("arrival_s,input_tokens,output_tokens\n0,100,10\n1,0,10\n60,100,10\n")
    text = SMALL.replace("{requests_per_s: 2}", "{trace: arrivals.csv}")
    (note,) = world_of(tmp_path, text).notes
    assert note.startswith("arrivals.csv: 1 of 3 rows are left out; line 3: input_tokens is 0")
    assert world_of(tmp_path, SMALL).notes == ()


def test_a_model_and_its_lengths_may_come_from_files(tmp_path: Path) -> None:
    config = {
        "model_type": "llama", "num_hidden_layers": 4, "hidden_size": 256, "num_attention_heads": 8,
        "num_key_value_heads": 2, "intermediate_size": 512, "vocab_size": 1000, "torch_dtype": "bfloat16",
    }  # fmt: skip
    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / "lengths.csv").write_text("input_tokens,output_tokens\n100,10\n300,30\n")
    text = SMALL.replace("model: gpt-oss-20b", "model: ./config.json\n    name: mine").replace(
        "azure-code", "lengths.csv"
    )
    (served,) = world_of(tmp_path, text).recipe.served
    assert (served.name, served.model.layers, served.shape.mean_prompt_tokens) == ("mine", 4, 200.0)


def test_a_config_that_is_no_known_model_is_told_at_its_line(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(SpecError, match=r"fleet\.yaml:5: .*config\.json: is not JSON"):
        world_of(tmp_path, SMALL.replace("model: gpt-oss-20b", "model: ./config.json\n    name: mine"))


def test_a_limit_on_instances_keeps_every_template_of_its_model(tmp_path: Path) -> None:
    least, most = "{gpt-oss-20b/decode: {min: 1}}", "{gpt-oss-20b/decode: {max: 4}}"
    assert world_of(tmp_path, SMALL + f"policy: {{replicas: {least}}}\n").recipe.unpruned == ()
    assert world_of(tmp_path, SMALL + f"policy: {{replicas: {most}}}\n").recipe.unpruned == ("gpt-oss-20b",)
