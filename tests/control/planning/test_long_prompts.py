from pathlib import Path

import pytest

from control.planning.what_if import DemandChange, WhatIf, supposed
from control.planning.world import read_world
from tests import factories as make

SPEC = """\
apiVersion: medley/v1
kind: Fleet
name: small
models:
  - model: gpt-oss-20b
    slo: {{ttft_ms: 900, tpot_ms: 30, ttft_ms_per_1k_prompt_tokens: 100, max_prompt_tokens: {limit}, keep: throughput}}
    workload: azure-code
    demand: {{requests_per_s: 10}}
clouds:
  - {{cloud: aws, regions: [us-east-2], gpus: [L4]}}
"""


def world(folder: Path, limit: int):
    path = folder / "fleet.yaml"
    path.write_text(SPEC.format(limit=limit))
    return read_world(path)


def test_longer_prompts_are_served_and_asked_for_as_a_class_of_their_own(tmp_path: Path) -> None:
    made = world(tmp_path, 4000)
    rates = {d.app: d.requests_per_s for d in made.demand}
    assert set(rates) == {"gpt-oss-20b", "gpt-oss-20b-long"}
    assert sum(rates.values()) == pytest.approx(10)
    assert 0 < rates["gpt-oss-20b-long"] < rates["gpt-oss-20b"]
    shapes = {s.name: s.shape for s in made.recipe.served}
    assert shapes["gpt-oss-20b"].prompt_tokens.max() <= 4000 < shapes["gpt-oss-20b-long"].prompt_tokens.min()


def test_without_a_limit_all_prompts_are_one_class(tmp_path: Path) -> None:
    assert [d.app for d in world(tmp_path, 0).demand] == ["gpt-oss-20b"]


def test_a_supposed_rate_of_an_app_is_that_of_all_its_request_types(tmp_path: Path) -> None:
    made = world(tmp_path, 4000)
    snapshot = made.snapshot("2026-11-21T12:00:00+00:00", make.library(made.recipe.served[0].work_classes(), {}))
    before = {d.app: d.requests_per_s for d in snapshot.demand}

    def rates(model: str | None, requests_per_s: float) -> dict[str, float]:
        change = WhatIf(demand=(DemandChange(model, requests_per_s=requests_per_s),))
        return {d.app: d.requests_per_s for d in supposed(snapshot, change, made.fleet.apps).demand}

    for whole in (None, "gpt-oss-20b"):
        assert rates(whole, 30) == pytest.approx({app: 3 * rate for app, rate in before.items()})
    assert rates("gpt-oss-20b-long", 7) == pytest.approx({**before, "gpt-oss-20b-long": 7})
    with pytest.raises(ValueError, match="'gpt-oss-20b'"):
        rates("gpt-oss-20c", 7)
