"""The cost of one more request per second of each demand."""

from templates_lib.values.plan import Plan
from templates_lib.values.snapshot import Snapshot


def demand_prices(plan: Plan, snapshot: Snapshot) -> dict[str, float]:
    """$/h per request/s by demand key, initialisation included, the dearest first: duals, so about."""
    prices = {d.key: plan.duals.get(f"demand/{d.key}", 0.0) for d in snapshot.demand if d.key not in plan.unmet}
    return dict(sorted(((key, usd) for key, usd in prices.items() if usd > 0), key=lambda item: -item[1]))
