from dataclasses import asdict

import numpy as np
import pytest

from templates_lib.load.shapes import catalogue, load_rates, load_shape

EXPECTED = {"azure-code", "azure-conversation", "servegen-m-large", "mooncake-conversation", "sharegpt"}


def test_every_shipped_shape_loads_and_states_its_source() -> None:
    shapes = {facts.id: load_shape(facts.id) for facts in catalogue().shapes}
    assert shapes.keys() >= EXPECTED | {"arxiv-summarization"}
    for facts in catalogue().shapes:
        assert facts.licence
        assert facts.date
        assert facts.method
        assert shapes[facts.id].source == facts.source
        assert len(shapes[facts.id].prompt_tokens) <= 2000


@pytest.mark.parametrize("facts", catalogue().shapes, ids=lambda f: f.id)
def test_an_extract_keeps_the_statistics_of_its_trace_within_one_percent(facts) -> None:  # type: ignore[no-untyped-def]
    shape = load_shape(facts.id)
    now = {
        "mean_prompt_tokens": shape.mean_prompt_tokens,
        "mean_output_tokens": shape.mean_output_tokens,
        "p99_prompt_tokens": shape.prompt_percentile(99),
        "p99_output_tokens": float(np.percentile(shape.output_tokens, 99)),
        "prefill_context": shape.prefill_context,
        "decode_context": shape.decode_context,
    }
    assert now == pytest.approx(asdict(facts.extract), rel=1e-4)
    assert now == pytest.approx(asdict(facts.full), rel=0.01)


def test_the_stand_in_for_burstgpt_has_the_published_means() -> None:
    shape = load_shape("servegen-m-large")
    assert shape.mean_prompt_tokens == pytest.approx(914, rel=0.01)
    assert shape.mean_output_tokens == pytest.approx(155, rel=0.01)


def test_shipped_rates_cover_their_time() -> None:
    assert load_rates("servegen-m-large").duration_s == 14 * 86400
    conversation = load_rates("azure-conversation")
    assert conversation.window_s == 60
    assert conversation.mean_requests_per_s == pytest.approx(19366 / 3500, rel=0.05)
    for facts in catalogue().rates:
        assert load_rates(facts.id).scaled_to(25).mean_requests_per_s == pytest.approx(25)


def test_a_wrong_name_is_answered_with_the_nearest() -> None:
    with pytest.raises(ValueError, match="did you mean 'azure-code'"):
        load_shape("azure-cod")
    with pytest.raises(ValueError, match="did you mean 'servegen-m-mid'"):
        load_rates("servegen-m-midd")
