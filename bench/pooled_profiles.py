"""The profiles of several sweeps as one: a machine is not as fast at every hour."""

from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path
from statistics import fmean
from typing import TypeVar

from control.planning.local_profiles import profile_store
from control.profiles.store import StoredProfile
from templates_lib.cost.fit import fit_step_terms
from templates_lib.cost.hand_off_cost import HandOffCost
from templates_lib.cost.pipeline_cost import PipelineCost
from templates_lib.values.node_profile import NodeProfile

Cost = TypeVar("Cost", HandOffCost, PipelineCost)


def pooled(homes: Sequence[Path]) -> tuple[NodeProfile, ...]:
    """One for each kind of node, fitted to its steps in all sweeps. Kinds are kept apart: a node that may compute for
    2 of each 10 ms finds its caches cold, and a step takes it more processor time than one with more of them.

    `homes`: of the Medleys that keep the sweeps. Raises RuntimeError where there is none."""
    swept = [stored for home in homes for stored in profile_store(home).all()]
    if not swept:
        raise RuntimeError(f"there are no profiles in {', '.join(map(str, homes))}")
    cost = _mean(PipelineCost, [one.profile.pipeline for one in swept])
    kinds: dict[str, list[StoredProfile]] = {}
    for one in swept:
        kinds.setdefault(one.profile.config, []).append(one)
    return tuple(_of_kind(alike, cost) for alike in kinds.values())


def _of_kind(alike: Sequence[StoredProfile], cost: PipelineCost) -> NodeProfile:
    terms_s, errors = fit_step_terms([row for one in alike for row in one.rows])
    hand_off = _mean(HandOffCost, [one.profile.hand_off for one in alike])
    return replace(alike[0].profile, step_terms_s=terms_s, errors=errors, pipeline=cost, hand_off=hand_off)


def _mean(kind: type[Cost], costs: Sequence[Cost]) -> Cost:
    return kind(*(fmean(getattr(each, field.name) for each in costs) for field in fields(kind)))
