"""The least change that would serve more of a demand that is not met, found by re-solving."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from control.explain.node_supply import node_supplies
from templates_lib.ports.solve import Solve
from templates_lib.values.library import Library
from templates_lib.values.plan import Plan
from templates_lib.values.settings import Replicas, Settings, Survive
from templates_lib.values.snapshot import Snapshot

PLENTY = 1000
"""Nodes of every offer: as good as endless."""
SERVED = 1e-6


@dataclass(frozen=True, slots=True)
class Shortage:
    unmet: dict[str, float]
    """Requests per second of each demand that the plan does not serve."""
    lifted: str
    """Limit that has to give: `supply`, a policy, both, or `network.peered`; empty where nothing helps."""
    left: dict[str, float]
    """Demand still unserved with that lifted."""
    usd_per_hour: float
    """Cost of the cheapest plan then."""
    nodes: dict[str, int]
    """Offer → nodes that plan takes beyond those that there are."""
    quotas: dict[str, float]
    """Pool → its use beyond its limit."""
    names: dict[str, str]
    """Names of the offers in `nodes`, for people."""


def shortage(
    plan: Plan, snapshot: Snapshot, library: Library, solve: Solve, joined: Snapshot | None = None
) -> Shortage | None:
    """Return what would serve the unmet demand; None where all is met. Tries supply, then each policy, then joining
    networks, then all of supply and policy; the first that serves all wins, else what serves most. `joined`: the
    snapshot with all networks joined; None: they are."""
    if not plan.unmet:
        return None
    best: tuple[float, str, Plan] | None = None
    for lifted, changed in _what_ifs(snapshot, joined):
        other = solve(changed, library)
        left = sum(other.unmet.values())
        if best is None or left < best[0] - SERVED:
            best = left, lifted, other
        if left <= SERVED:  # the mildest change that serves all is the one to name
            break
    assert best is not None  # noqa: S101 - supply can always be lifted
    left, lifted, other = best
    helps = left < sum(plan.unmet.values()) - SERVED
    missing = [s for s in node_supplies(other, snapshot) if s.used > s.most] if helps else []
    quotas = {p.id: p.taken(other.nodes()) - p.limit for p in snapshot.pools}
    return Shortage(
        unmet=plan.unmet,
        lifted=lifted if helps else "",
        left=other.unmet if helps else plan.unmet,
        usd_per_hour=other.usd_per_hour if helps else plan.usd_per_hour,
        nodes={s.offer.key: s.used - s.most for s in missing},
        quotas={name: over for name, over in quotas.items() if over > SERVED and helps},
        names={s.offer.key: s.name for s in missing},
    )


def _what_ifs(snapshot: Snapshot, joined: Snapshot | None) -> Iterator[tuple[str, Snapshot]]:
    endless = _endless(snapshot)
    yield "supply", endless
    free = snapshot.settings
    for name, lift in POLICIES.items():
        lifted = lift(snapshot.settings)
        if lifted != snapshot.settings:
            yield name, replace(snapshot, version="", settings=lifted)
            free = lift(free)
    if joined is not None:
        yield "network.peered", joined
    if free != snapshot.settings:
        yield "supply and policy", replace(endless, settings=free)


def _endless(snapshot: Snapshot) -> Snapshot:
    offers = tuple(replace(o, available_count=PLENTY) for o in snapshot.offers)
    pools = tuple(replace(p, limit=p.limit + PLENTY * sum(p.members.values())) for p in snapshot.pools)
    return replace(snapshot, version="", offers=offers, pools=pools)


def _without_most_replicas(settings: Settings) -> Settings:
    bounds = {name: Replicas(r.min, None) for name, r in settings.guardrails.replicas.items()}
    return _with_rails(settings, replicas=bounds)


def _with_rails(settings: Settings, **changes: Any) -> Settings:
    return replace(settings, guardrails=replace(settings.guardrails, **changes))


POLICIES: dict[str, Callable[[Settings], Settings]] = {
    "policy.max_usd_per_hour": lambda s: _with_rails(s, max_usd_per_hour=None),
    "policy.replicas": _without_most_replicas,
    "policy.max_spot_share": lambda s: _with_rails(s, max_spot_share=1.0),
    "policy.max_zone_share": lambda s: _with_rails(s, max_zone_share=1.0),
    "policy.survive": lambda s: replace(s, survive=Survive.NOTHING),
}
"""Key of the spec file → the settings without that limit."""
