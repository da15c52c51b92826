"""The profiles that simulations rest on: those of all sweeps, which are none of the compared runs."""

from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path
from statistics import fmean

from control.planning.local_profiles import profile_store
from templates_lib.cost.fit import fit_step_terms
from templates_lib.node_profile import NodeProfile
from templates_lib.pipeline_cost import PipelineCost


def pooled(homes: Sequence[Path]) -> tuple[NodeProfile, ...]:
    """One for each kind of node, from one fit over the steps of all kinds in all sweeps: a step takes the same
    processor time whatever the node's share of a processor. Raises RuntimeError where there is no sweep."""
    swept = [stored for home in homes for stored in profile_store(home).all()]
    if not swept:
        raise RuntimeError(f"there are no profiles in {', '.join(map(str, homes))}")
    rows = [replace(row, seconds=row.seconds * one.profile.cpu_cores) for one in swept for row in one.rows]
    cpu_s, errors = fit_step_terms(rows)
    costs = [one.profile.pipeline for one in swept]
    cost = PipelineCost(*(fmean(getattr(each, field.name) for each in costs) for field in fields(PipelineCost)))
    kinds = {one.profile.config: one.profile for one in swept}
    return tuple(
        replace(
            profile,
            step_terms_s={name: seconds / profile.cpu_cores for name, seconds in cpu_s.items()},
            errors=errors,
            pipeline=cost,
        )
        for profile in kinds.values()
    )
