from dataclasses import replace

import pytest

from templates_lib.apps.app import llm_app
from templates_lib.apps.served_model import ServedModel
from templates_lib.load.shapes import load_shape
from templates_lib.models.catalogue import load_models
from templates_lib.values.slo import Slo
from templates_lib.values.work import Phase

SLO = Slo(ttft_ms=300, tpot_ms=60, ttft_ms_per_1k_prompt_tokens=400)
MODEL = next(iter(load_models().values()))
SERVED = ServedModel("talk", MODEL, SLO, load_shape("azure-conversation"))


def test_without_a_limit_or_a_longer_prompt_nothing_is_split() -> None:
    for limit in (0, 100_000):
        served = replace(SERVED, slo=replace(SLO, max_prompt_tokens=limit))
        (only,) = llm_app(served).request_types
        assert only.served is served
        assert only.share == 1.0


def test_long_prompts_become_a_request_type_of_their_own_with_their_own_budget() -> None:
    app = llm_app(replace(SERVED, slo=replace(SLO, max_prompt_tokens=2048)))
    assert [each.name for each in app.request_types] == ["chat", "long"]
    (short, longer), (most, few) = app.components, (each.share for each in app.request_types)
    assert most + few == pytest.approx(1)
    assert 0 < few < most
    assert (short.name, longer.name) == ("talk", "talk-long")
    assert short.shape.prompt_tokens.max() <= 2048 < longer.shape.prompt_tokens.min()
    assert short.slo_ms(Phase.PREFILL) < longer.slo_ms(Phase.PREFILL)
    tokens = most * short.shape.mean_prompt_tokens + few * longer.shape.mean_prompt_tokens
    assert tokens == pytest.approx(SERVED.shape.mean_prompt_tokens)
    assert {c.id for c in short.work_classes()}.isdisjoint(c.id for c in longer.work_classes())
