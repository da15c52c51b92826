"""Nodes: those that instances are made of, those that offers give, and what each market has."""

from collections import Counter
from collections.abc import Iterator

from control.checker.case import Case, Cell
from control.checker.violation import Violation, slack


def violations(case: Case) -> Iterator[Violation]:
    yield from _instances(case)
    yield from _offers(case)
    yield from _accounting(case)
    yield from _pools(case)


def _instances(case: Case) -> Iterator[Violation]:
    seen: set[tuple[str, str, str]] = set()
    for planned in case.plan.instances:
        key = (planned.template_id, planned.zone, planned.market.value)
        where = f"instances[{planned.template_id} in {planned.zone}, {planned.market.value}]"
        if key in seen:
            yield Violation("duplicate", where, "one entry", "several")
        seen.add(key)
        if planned.count < 1 or any(n < 1 for n in planned.nodes.values()) or not planned.nodes:
            found = f"count {planned.count}, nodes {planned.nodes}"
            yield Violation("count", where, "at least one instance of at least one node", found)
        running = min(case.running[planned.template_id, planned.zone, planned.market], planned.count)
        if planned.running != running:
            yield Violation("running", f"{where}.running", f"{running}", f"{planned.running}")


def _offers(case: Case) -> Iterator[Violation]:
    """No offer gives more than it has beside what is held; where that is unknown, `max_unproven_nodes`."""
    seen: set[str] = set()
    for planned in case.plan.offers:
        where = f"offers[{planned.offer}]"
        offer = case.offers.get(planned.offer)
        if offer is None or planned.offer in seen:
            yield Violation("offer", where, "one entry for an offer of the snapshot", "unknown or repeated")
            continue
        seen.add(planned.offer)
        if planned.node_config != offer.node_config:
            yield Violation("offer", f"{where}.node_config", offer.node_config, planned.node_config)
        held = case.held[offer.key]
        if planned.held != min(held, planned.nodes):
            yield Violation("held", f"{where}.held", f"{min(held, planned.nodes)}", f"{planned.held}")
        more = offer.available_count
        if more is None:
            more = case.snapshot.settings.guardrails.max_unproven_nodes
        if not 0 <= planned.nodes <= held + more:
            yield Violation("supply", where, f"0 to {held + more} nodes ({held} held)", f"{planned.nodes}")


def _accounting(case: Case) -> Iterator[Violation]:
    """Instances' nodes equal rented nodes, by node configuration, zone and market."""
    needed: Counter[Cell] = Counter()
    for instance in case.plan.instances:
        for config, nodes in instance.nodes.items():
            needed[config, instance.zone, instance.market] += instance.count * nodes
    rented: Counter[Cell] = Counter()
    for cell, offers in case.used.items():
        rented[cell] = sum(o.nodes for o in offers)
    for cell in sorted(needed.keys() | rented.keys()):
        if needed[cell] != rented[cell]:
            expected = f"{needed[cell]} nodes, as the instances have"
            yield Violation("node_accounting", " ".join(cell), expected, f"{rented[cell]} in the offers")


def _pools(case: Case) -> Iterator[Violation]:
    for pool in case.snapshot.pools:
        taken = sum(pool.members.get(o.offer, 0.0) * o.nodes for o in case.plan.offers)
        if taken > pool.limit + slack(pool.limit):
            yield Violation("pool", pool.id, f"at most {pool.limit} {pool.unit}", f"{taken}")
