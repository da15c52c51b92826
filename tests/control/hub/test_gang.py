"""From a template to what each of its nodes runs."""

from dataclasses import asdict
from typing import Any

import pytest

from control.hub.gang import UnplaceableError, gang_of
from templates_lib.placement import PipelinePlacement, Placement, Stage, StageNodes
from templates_lib.template import ServingTemplate, template_id


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


def test_every_node_of_a_data_parallel_stage_has_a_place_of_its_own() -> None:
    gang = gang_of(uneven())
    assert [(p.config, p.stage, p.first_layer, p.layers, p.weight) for p in gang.places] == [
        ("small", 0, 0, 4, 0.25),
        ("small", 0, 0, 4, 0.25),
        ("large", 0, 0, 4, 0.5),
        ("small", 1, 4, 2, 1.0),
    ]
    assert (gang.engine, gang.dtype) == ("torch", "fp32")
    assert {(p.batch_cap, p.chunk_tokens, p.kv_blocks) for p in gang.places} == {(8, 64, 40)}


def test_a_gang_is_as_large_as_the_bill_of_its_template() -> None:
    wanted = uneven()
    configs = [place.config for place in gang_of(wanted).places]
    assert {config: configs.count(config) for config in configs} == wanted.nodes


@pytest.mark.parametrize("split", [{"dp": 2}, {"pp": 2}, {"ep": 2}, {"tp": 4, "ep": 2}])
def test_a_split_that_no_engine_makes_is_refused_with_how(split: dict[str, int]) -> None:
    with pytest.raises(UnplaceableError, match=r"small is to be split .* node agents start one engine a node"):
        gang_of(uneven(**split))


@pytest.mark.parametrize(("split", "whole_experts"), [({"tp": 2}, False), ({"tp": 2, "ep": 2}, True)])
def test_a_node_is_cut_over_its_devices_by_tensors_or_experts(split: dict[str, int], whole_experts: bool) -> None:
    small = [place for place in gang_of(uneven(**split)).places if place.config == "small"]
    assert {(place.shards, place.whole_experts) for place in small} == {(2, whole_experts)}


def test_placements_that_no_node_agent_runs_are_refused() -> None:
    with pytest.raises(UnplaceableError, match="of kind 'shared-mesh' are not served yet"):
        gang_of(template(kind="shared-mesh"))
    with pytest.raises(UnplaceableError, match="names no node"):
        gang_of(template())


def test_prefill_nodes_hold_some_prompts_and_decode_nodes_compute_some() -> None:
    """A placement states no batch for prefill and no chunk for decode; a request that goes on elsewhere needs both."""
    (prefill,) = gang_of(template(Stage(0, 6, True, True, (nodes("small", batch_cap=0),)))).places
    assert prefill.batch_cap > 0
    (decode,) = gang_of(template(Stage(0, 6, True, True, (nodes("small", batch_cap=500, chunk_tokens=0),)))).places
    assert decode.chunk_tokens >= decode.batch_cap == 500


@pytest.mark.parametrize(("share", "blocks"), [(1.0, 40), (0.5, 20), (0.124, 4), (0.001, 1)])
def test_a_share_of_the_kv_cache_is_whole_blocks_and_never_none(share: float, blocks: int) -> None:
    whole = gang_of(uneven())
    less = whole.with_kv_share(share)
    assert {place.kv_blocks for place in less.places} == {blocks}
    assert [(p.config, p.first_layer, p.batch_cap) for p in less.places] == [
        (p.config, p.first_layer, p.batch_cap) for p in whole.places
    ]
