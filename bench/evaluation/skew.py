"""Cost when the largest or the smallest third of the models gets 80 % of the requests (Coral, section 6.5)."""

from pathlib import Path

from bench.evaluation.campaign import Campaign
from bench.evaluation.cost import show_costs


def run(campaign: Campaign, folder: Path | None) -> bool:
    """Whether no baseline is cheaper than Medley."""
    met = True
    for kind in ("large-heavy", "small-heavy"):
        for setup in campaign.setups:
            print(f"Section 6.5, {setup}, {kind}: $/h of rent and amortised starts")
            met &= show_costs(campaign.all_methods(setup, kind), setup, kind, folder)
    return met
