"""Answers are judged one by one, each objective for the work class that decides it."""

from dataclasses import replace
from pathlib import Path

import pytest

from bench.text_tables import DECODE, PREFILL, WHOLE, member, text_model
from templates_lib.values.slo import Slo
from tests.control.gateway.world import MODEL, World

ALWAYS, NEVER = 1e9, 1e-9


def judged(work_class: str, objective: str, kept: str) -> str:
    labels = f'kept="{kept}",model="{MODEL}",objective="{objective}",work_class="{MODEL}/{work_class}"'
    return f"medley_gateway_judged_answers_total{{{labels}}}"


@pytest.mark.parametrize(
    ("legs", "ttft_class", "tpot_class"),
    [({"e1": WHOLE}, "aggregated", "aggregated"), ({"e1": PREFILL, "e2": DECODE}, "prefill", "decode")],
)
def test_answers_that_keep_an_objective_are_counted_by_work_class(
    tmp_path: Path, legs: dict[str, str], ttft_class: str, tpot_class: str
) -> None:
    world = World(tmp_path)
    routing = text_model(MODEL, [member(MODEL, name, "z1", leg, 1e9) for name, leg in legs.items()])
    try:
        for name, leg in legs.items():
            world.echo(name, leg=leg)
        world.model = {"routing": replace(routing, objective=Slo(ALWAYS, NEVER))}
        world.publish()
        world.start_gateway()
        world.wait_ready()
        client = world.client()
        for tokens in (8, 8, 1):
            client.completions.create(model=MODEL, prompt="abcd", max_tokens=tokens, extra_body={"ignore_eos": True})
        world.wait_for(judged(ttft_class, "ttft", "true"), 3)
        world.wait_for(judged(tpot_class, "tpot", "false"), 2)
        assert len([name for name in world.metrics() if name.startswith("medley_gateway_judged_answers_total")]) == 2
    finally:
        world.stop()
