"""From a template to what each of its nodes runs."""

from dataclasses import asdict, replace
from typing import Any

import pytest

from control.hub.gang import Gang, GangExecutor, UnplaceableError, gang_of
from templates_lib.values.placement import PipelinePlacement, Placement, Stage, StageNodes
from templates_lib.values.template import ServingTemplate, template_id


def nodes(config: str, count: int = 1, **changes: Any) -> StageNodes:
    given: dict[str, Any] = {
        "weight": 1.0,
        "tp": 1,
        "dp": 1,
        "pp": 1,
        "ep": 1,
        "batch_cap": 8,
        "chunk_tokens": 64,
        "kv_blocks": 40,
    }
    return StageNodes(config, count, **given | changes)


def template(*stages: Stage, kind: str = "pipeline") -> ServingTemplate:
    placement = Placement(kind, 1, asdict(PipelinePlacement(stages)))
    bill: dict[str, int] = {}
    for each in (each for stage in stages for each in stage.nodes):
        bill[each.config] = bill.get(each.config, 0) + each.count
    parts = ("tiny", "r1", "fp32", "torch", "lockstep-v1", bill, placement)
    return ServingTemplate(template_id(*parts), *parts)


def uneven(**changes: Any) -> ServingTemplate:
    peers = (nodes("small", 2, weight=0.25, **changes), nodes("large", weight=0.5, **changes))
    return template(Stage(0, 4, True, False, peers), Stage(4, 2, False, True, (nodes("small", **changes),)))


def alone(gang: Gang) -> GangExecutor:
    (executor,) = gang.executors
    return executor


def test_every_node_of_a_data_parallel_stage_has_a_place_of_its_own() -> None:
    gang = gang_of(uneven())
    assert [(p.config, p.stage, p.first_layer, p.layers, p.weight) for p in alone(gang).places] == [
        ("small", 0, 0, 4, 0.25),
        ("small", 0, 0, 4, 0.25),
        ("large", 0, 0, 4, 0.5),
        ("small", 1, 4, 2, 1.0),
    ]
    assert (alone(gang).engine, alone(gang).dtype) == ("torch", "fp32")
    assert {(p.batch_cap, p.chunk_tokens, p.kv_blocks) for p in alone(gang).places} == {(8, 64, 40)}


def test_the_longest_request_is_what_the_scarcest_stage_keeps_in_one_replica() -> None:
    assert alone(gang_of(uneven())).most_tokens == 40 * 16
    assert alone(gang_of(uneven(dp=2))).most_tokens == 20 * 16, "a request is in one replica"
    peers = (nodes("small", weight=0.4, kv_blocks=10), nodes("large", weight=0.6, kv_blocks=30))
    one = nodes("small", kv_blocks=25)
    cut = template(Stage(0, 4, True, False, peers), Stage(4, 2, False, True, (one,)))
    assert alone(gang_of(cut)).most_tokens == 25 * 16
    assert alone(gang_of(cut).with_kv_share(0.5)).most_tokens == 12 * 16


def test_a_gang_is_as_large_as_the_bill_of_its_template() -> None:
    wanted = uneven()
    configs = [place.config for place in alone(gang_of(wanted)).places]
    assert {config: configs.count(config) for config in configs} == wanted.nodes


@pytest.mark.parametrize("split", [{"ep": 2}, {"tp": 4, "ep": 2}, {"tp": 2, "dp": 4, "ep": 4}])
def test_a_split_that_no_engine_makes_is_refused_with_how(split: dict[str, int]) -> None:
    with pytest.raises(UnplaceableError, match=r"small is to be split .* engines spread experts over the devices"):
        gang_of(uneven(**split))


def test_replicas_inside_a_node_share_its_work_evenly() -> None:
    small = next(place for place in alone(gang_of(uneven(tp=2, dp=4, pp=2))).places if place.config == "small")
    assert (small.shards, small.replicas, small.parts) == (2, 4, 2)
    each = small.replica
    assert (each.weight, each.batch_cap, each.chunk_tokens, each.kv_blocks) == (0.25 / 4, 2, 16, 10)
    assert (each.shards, each.replicas, each.parts, each.layers) == (2, 1, 2, 4)
    assert not small.joint
    assert alone(gang_of(uneven(tp=2, dp=2, ep=4))).places[0].joint, "their experts are spread over both replicas"
    assert replace(small, batch_cap=3).replica.batch_cap == 1, "what is there for less than all is there for each"


def test_more_parts_than_layers_cannot_be_placed() -> None:
    with pytest.raises(UnplaceableError, match="no more than it has layers"):
        gang_of(uneven(pp=3))


def test_an_engine_that_cuts_no_tensors_may_be_parallel_in_other_ways() -> None:
    wanted = uneven(dp=2, pp=2)
    assert alone(gang_of(replace(wanted, engine="vllm-stage"))).places[0].parts == 2
    with pytest.raises(UnplaceableError, match="cut over devices by tensors, which engine vllm-stage does not do"):
        gang_of(replace(uneven(tp=2), engine="vllm-stage"))


@pytest.mark.parametrize(
    ("given", "how"),
    [
        ({"count": 2}, "over several nodes"),
        ({"dp": 2}, "several times"),
    ],
)
def test_an_engine_of_whole_models_has_one_node_that_it_cuts_itself(given: dict[str, int], how: str) -> None:
    def on(**changes: int) -> Gang:
        stage = Stage(0, 6, True, True, (nodes("small", **changes),))
        return gang_of(replace(template(stage), engine="vllm"))

    (place,) = alone(on(tp=2, pp=2, ep=2)).places
    assert (place.shards, place.parts, place.whole_experts) == (2, 2, True)
    assert alone(on(batch_cap=0)).engine == alone(on(chunk_tokens=0)).engine == "vllm"
    one_phase = alone(on(batch_cap=0, tp=2)).places + alone(on(chunk_tokens=0, pp=2)).places
    assert [(place.shards, place.parts) for place in one_phase] == [(2, 1), (1, 2)]
    with pytest.raises(UnplaceableError, match=f"{how}.* engine vllm does not do"):
        on(**given)
    with pytest.raises(UnplaceableError, match="over several nodes"):
        gang_of(replace(uneven(), engine="vllm"))


@pytest.mark.parametrize(("split", "whole_experts"), [({"tp": 2}, False), ({"tp": 2, "ep": 2}, True)])
def test_a_node_is_cut_over_its_devices_by_tensors_or_experts(split: dict[str, int], whole_experts: bool) -> None:
    small = [place for place in alone(gang_of(uneven(**split))).places if place.config == "small"]
    assert {(place.shards, place.whole_experts) for place in small} == {(2, whole_experts)}


def test_placements_that_no_node_agent_runs_are_refused() -> None:
    with pytest.raises(UnplaceableError, match="of kind 'shared-mesh' are not served yet"):
        gang_of(template(kind="shared-mesh"))
    with pytest.raises(UnplaceableError, match="names no node"):
        gang_of(template())


def test_prefill_nodes_hold_some_prompts_and_decode_nodes_compute_some() -> None:
    """A placement states no batch for prefill and no chunk for decode; a request that goes on elsewhere needs both."""
    (prefill,) = alone(gang_of(template(Stage(0, 6, True, True, (nodes("small", batch_cap=0),))))).places
    assert prefill.batch_cap > 0
    (decode,) = alone(
        gang_of(template(Stage(0, 6, True, True, (nodes("small", batch_cap=500, chunk_tokens=0),))))
    ).places
    assert decode.chunk_tokens >= decode.batch_cap == 500


@pytest.mark.parametrize(("share", "blocks"), [(1.0, 40), (0.5, 20), (0.124, 4), (0.001, 1)])
def test_a_share_of_the_kv_cache_is_whole_blocks_and_never_none(share: float, blocks: int) -> None:
    whole = gang_of(uneven())
    less = whole.with_kv_share(share)
    assert {place.kv_blocks for place in alone(less).places} == {blocks}
    assert [(p.config, p.first_layer, p.batch_cap) for p in alone(less).places] == [
        (p.config, p.first_layer, p.batch_cap) for p in alone(whole).places
    ]


def test_peers_that_only_prefill_take_as_much_in_a_step_as_they_can_together() -> None:
    """One of three quarters and one of a quarter of the stage: none waits for a step of the other, and none has less
    than fits both."""

    def chunks(large: int, small: int, batch_cap: int = 0) -> list[int]:
        peers = (
            nodes("large", weight=0.75, chunk_tokens=large, batch_cap=batch_cap),
            nodes("small", weight=0.25, chunk_tokens=small, batch_cap=batch_cap),
        )
        return [place.chunk_tokens for place in alone(gang_of(template(Stage(0, 6, True, True, peers)))).places]

    assert chunks(900, 300) == [900, 300]
    assert chunks(900, 200) == [600, 200]
    assert chunks(900, 800) == [900, 800]
    assert chunks(900, 800, batch_cap=4) == [900, 800]
