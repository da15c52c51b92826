"""What it brings to serve long prompts apart (`slo.max_prompt_tokens`): two bands of prompt lengths, each a work class.

A band has templates, instances and a queue of its own, and the allocation may send it to other nodes than the other
band. One model at a time is cut at quantiles of its own workload's prompt lengths, and then every model at the one that
was best for it; each fleet is planned under the same promise loop, on the same snapshot, and simulated with seeds that
no certificate has seen. `1 band` is the fleet without a cut.
"""

import math
import shutil
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import yaml

from bench.evaluation.attainment import SEEDS, planned_promise, unseen
from bench.evaluation.campaign import Campaign
from bench.evaluation.rated_sets import pipeline_recipe
from bench.evaluation.table import Table
from bench.scenarios import EXAMPLES, SetUp, world_session
from control.planning.templates import UnservableError

QUANTILES = (0.5, 0.8, 0.95)
SAVES = 2e-3
"""Share of the cost below which two plans cost the same: the gap of each."""


def run(campaign: Campaign, folder: Path | None) -> bool:
    table = Table("bands", ("set-up", "cut", "at tokens", "$/h", "of 1 band's", "kept", "worst"))
    for setup in campaign.setups:
        limits = _limits(campaign.promised(setup))
        whole = _add(table, setup, "1 band", {}, 0.0, campaign)
        best: dict[str, int] = {}
        for model, of_model in limits.items():
            costs = {}
            for quantile, tokens in of_model.items():
                named = f"{model} at {100 * quantile:.0f} %"
                costs[tokens] = _add(table, setup, named, {model: tokens}, whole, campaign)
            tokens = min(costs, key=lambda each: costs[each])
            if costs[tokens] < whole * (1 - SAVES):
                best[model] = tokens
        if len(best) > 1:
            _add(table, setup, "each at its best", best, whole, campaign)
    table.show(folder)
    return True


def _limits(made: SetUp) -> dict[str, dict[float, int]]:
    """Return the prompt lengths to cut at, by model and quantile of its workload."""
    prompts = {served.name: served.shape.prompt_tokens for served in pipeline_recipe(made).served}
    return {
        name: {quantile: int(np.quantile(lengths, quantile)) for quantile in QUANTILES}
        for name, lengths in prompts.items()
    }


def _add(table: Table, setup: str, name: str, limits: Mapping[str, int], whole: float, campaign: Campaign) -> float:
    """Plan with prompts cut at `limits`, by model, simulate, and return the cost, $/h."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as opened:
        examples = Path(shutil.copytree(EXAMPLES, Path(folder) / "examples"))
        spec = yaml.safe_load((examples / f"coral-{setup}.yaml").read_text())
        for model in spec["models"]:
            if model["model"] in limits:
                model["slo"]["max_prompt_tokens"] = limits[model["model"]]
        cut = examples / "cut.yaml"
        cut.write_text(yaml.safe_dump(spec))
        try:
            made = SetUp(setup, *opened.enter_context(world_session(cut, keep=True)))
        except UnservableError:
            table.add(setup, name, _listed(limits), "", "", "", "no node keeps the objective of the longer band")
            print(f"{setup} {name} {_listed(limits)}: unservable", flush=True)
            return math.inf
        found = planned_promise(made, made.snapshot, "medley")
        kept = unseen(made, found, campaign.seeds(SEEDS))
    worst = min(kept, key=lambda each: each[2])
    usd = found.plan.usd_per_hour
    of_whole = f"{usd / whole:.3f}" if whole else ""
    good = sum(share >= percentile / 100 for _, percentile, share in kept)
    said = f"{worst[0]}: {100 * worst[2]:.2f} %"
    table.add(setup, name, _listed(limits), f"{usd:.2f}", of_whole, f"{good} of {len(kept)}", said)
    print(f"{setup} {name} {_listed(limits)}: {usd:.2f} $/h {of_whole}", flush=True)
    return usd


def _listed(limits: Mapping[str, int]) -> str:
    return ", ".join(f"{each:,}" for each in limits.values())
