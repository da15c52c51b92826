"""Certificates: objectives that the capacities of a plan's templates were certified for."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from templates_lib.values.plan import Plan, Reason
from templates_lib.values.snapshot import Snapshot
from templates_lib.values.template import Capacity

CORRECTION, MARGIN = "correction", "step_time_margin"
"""Kinds of the reasons that say what was corrected, and what step times that may be off leave of a certificate."""


@dataclass(frozen=True, slots=True)
class Certificate:
    """One promise, and the work classes that it is given for."""

    queueing: bool
    """True where the capacity allows for requests that wait for each other."""
    percentile: float
    work_classes: tuple[str, ...]

    @property
    def text(self) -> str:
        share = f"{self.percentile:g}"
        promise = f"a request of percentile {share} keeps the objective alone; waiting for others is not included"
        if self.queueing:
            promise = f"{share} % of the requests keep the objective, waiting included"
        return f"{', '.join(self.work_classes)}: {promise}"

    @property
    def reason(self) -> Reason:
        return Reason("certificate", self.text, ", ".join(self.work_classes))


def certificates(capacities: Iterable[Capacity]) -> tuple[Certificate, ...]:
    """Return the promises that capacities rest on, those with waiting first; none for templates without an objective,
    which somebody listed."""
    found: dict[tuple[bool, float], set[str]] = {}
    for capacity in capacities:
        if capacity.slo_ms:
            classes = found.setdefault((capacity.queueing, capacity.percentile), set())
            classes.update(name for point in capacity.points for name in point.units_per_s)
    return tuple(Certificate(*promise, tuple(sorted(found[promise]))) for promise in sorted(found, reverse=True))


def unkept(plan: Plan) -> Iterator[Reason]:
    """Yield what the plan was promised to keep and did not, in simulation at its planned rates."""
    for name, each in sorted(plan.attainment.items()):
        if not each.is_kept:
            text = (
                f"{name}: {100 * each.share:.2f} % of {each.requests:,} simulated requests keep the objective, and "
                f"{each.percentile:g} % are promised: relax slo, lower slo.keep.percentile or offer faster nodes"
            )
            yield Reason("promise", text, name)


def corrections(snapshot: Snapshot) -> Iterator[Reason]:
    """Yield what the plan leaves out of its certificates because answers kept less than these promised."""
    for name, factor in sorted(snapshot.settings.corrections.items()):
        text = (
            f"{name}: {100 * factor:.3g} % of what its certificate allows is planned with, as fewer answers kept the "
            "objective than were promised while no more was asked than planned for: `medley status` shows both; where "
            "nodes are slower than their profiles for good, measure them (`medley profile`)"
        )
        yield Reason(CORRECTION, text, name)


def margins(plan: Plan, snapshot: Snapshot) -> Iterator[Reason]:
    """Yield what the plan leaves out of its certificates because step times may be off."""
    shares: dict[str, set[float]] = {}
    for instance in plan.instances:
        for name in instance.units_per_s:
            known = snapshot.settings.margins(name)
            share = min((known[node] for node in instance.nodes if node in known), default=1.0)
            shares.setdefault(name, set()).add(share)
    lowered = {name: each for name, each in sorted(shares.items()) if min(each) < 1}
    if lowered:
        said = ", ".join(f"{name} {_percent(each)}" for name, each in lowered.items())
        text = (
            f"{said} of what certificates allow is planned with, as step times may be off by as much: measured ones "
            "leave more (`medley profile run`), and policy.step_time_margin: 0 all of it"
        )
        yield Reason(MARGIN, text, ", ".join(lowered))


def _percent(shares: set[float]) -> str:
    """`83 %`, or `83 to 91 %`."""
    return " to ".join(dict.fromkeys(f"{100 * each:.0f}" for each in (min(shares), max(shares)))) + " %"
