"""Limits of supply, quota and policy that a plan uses up."""

from collections.abc import Iterator
from dataclasses import dataclass

from control.explain.node_supply import NodeSupply, node_supplies
from templates_lib.values.plan import Plan
from templates_lib.values.snapshot import Snapshot

POLICIES = {
    "spot": ("spot_share", "policy.max_spot_share holds spot back for {}"),
    "zone-share": ("zone_share", "policy.max_zone_share spreads {}"),
    "survive": ("survive", "policy.survive keeps spare capacity: {}"),
}
"""First word of a row of the relaxation → kind of the limit, and what it says."""


NONE_BINDS = "no limit of supply, quota or policy binds: demand and prices alone decide"
NOTHING_TO_HAVE = "no offer has a node to give now: `medley status` says which clouds are left out, and why"
TOO_LITTLE_LEFT = "nothing is used up, but what is left over is not enough for an instance that would serve more"


@dataclass(frozen=True, slots=True)
class Limit:
    kind: str
    """`supply`, `quota`, `budget`, `replicas`, `spot_share`, `zone_share`, `survive` or `network`."""
    subject: str
    """Key of the offer (empty: all of them), id of the pool, work class, or what a policy is about."""
    text: str
    usd_per_hour: float | None = None
    """Dollars an hour that one more unit would save, initialisation included: a dual, so about. None: the relaxation
    says nothing."""


def limits(plan: Plan, snapshot: Snapshot) -> tuple[Limit, ...]:
    """Return the limits that bind, the dearest first."""
    found = (*_supply(plan, snapshot), *_pools(plan, snapshot), *_budget(plan, snapshot), *_replicas(plan, snapshot))
    return tuple(sorted((*found, *_policies(plan)), key=lambda b: -(b.usd_per_hour or 0.0)))


def limit_texts(found: tuple[Limit, ...], plan: Plan) -> tuple[str, ...]:
    """Put the binding limits in words, also where nothing binds."""
    return tuple(limit.text for limit in found) or (TOO_LITTLE_LEFT if plan.unmet else NONE_BINDS,)


def _supply(plan: Plan, snapshot: Snapshot) -> Iterator[Limit]:
    if plan.unmet and all(offer.available_count == 0 for offer in snapshot.offers):
        yield Limit("supply", "", NOTHING_TO_HAVE)
    for supply in node_supplies(plan, snapshot):
        if supply.used_up:
            text = _exhausted(supply, snapshot)
            yield Limit("supply", supply.offer.key, text, _saving(plan, f"offer/{supply.offer.key}"))


def _exhausted(supply: NodeSupply, snapshot: Snapshot) -> str:
    one = supply.most == 1
    text = f"the one node of {supply.name} is used" if one else f"all {supply.most} nodes of {supply.name} are used"
    if supply.offer.available_count is None:
        most = snapshot.settings.guardrails.max_unproven_nodes
        text += f" (policy.max_unproven_nodes = {most}: nobody says how many there are)"
    return text


def _pools(plan: Plan, snapshot: Snapshot) -> Iterator[Limit]:
    nodes = plan.nodes()
    for pool in snapshot.pools:
        used = pool.taken(nodes)
        least = min((w for w in pool.members.values() if w > 0), default=0.0)
        saving = _saving(plan, f"pool/{pool.id}")
        # Whole instances may leave a little of a quota that the relaxation uses up.
        if used > 0 and (saving is not None or pool.limit - used < least - 1e-9):
            text = f"{used:g} of {pool.limit:g} {pool.unit} of quota {pool.id} are used"
            yield Limit("quota", pool.id, text, saving)


def _budget(plan: Plan, snapshot: Snapshot) -> Iterator[Limit]:
    most = snapshot.settings.guardrails.max_usd_per_hour
    cheapest = min((o.usd_per_hour for o in snapshot.offers if o.usd_per_hour > 0), default=0.0)
    if most is not None and most - plan.usd_per_hour < cheapest:
        text = f"policy.max_usd_per_hour = {most:g}: no other node fits: {plan.usd_per_hour:,.2f} $/h are planned"
        yield Limit("budget", "max_usd_per_hour", text)


def _replicas(plan: Plan, snapshot: Snapshot) -> Iterator[Limit]:
    for name, bounds in snapshot.settings.guardrails.replicas.items():
        count = sum(i.count for i in plan.instances if name in i.units_per_s)
        if count < bounds.min:
            text = f"only {count} of at least {bounds.min} instances of {name}: supply or another limit gives no more"
            yield Limit("replicas", name, text)
        elif count == bounds.max:
            yield Limit("replicas", name, f"{name} has the {bounds.max} instances that policy.replicas allows")
        elif count == bounds.min and plan.duals.get(f"replicas/{name}", 0.0) > 0:
            yield Limit("replicas", name, f"{name} has {count} instances because policy.replicas asks for as many")


def _policies(plan: Plan) -> Iterator[Limit]:
    """Yield the policies that bind by the relaxation: their room in a plan of whole nodes says little."""
    seen: set[tuple[str, str]] = set()
    for row in plan.duals:
        word, _, subject = row.partition("/")
        kind, text = POLICIES.get(word, ("", ""))
        if word == "survive":
            subject = subject.partition("/")[0] if not subject.startswith("instance/") else "the largest instance"
        if kind and (kind, subject) not in seen:
            seen.add((kind, subject))
            yield Limit(kind, subject, text.format(subject))


def _saving(plan: Plan, row: str) -> float | None:
    dual = plan.duals.get(row, 0.0)
    return -dual if dual < 0 else None
