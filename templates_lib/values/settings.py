"""Settings that a fleet's owner gives the planner."""

import math
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from msgspec import UNSET, UnsetType

from templates_lib.values.engine_set import engines_of


class Mode(StrEnum):
    ZONES = "zones"
    """Work that belongs together meets in a zone; crossing is a flow with its traffic priced."""
    PAPER = "paper"
    """The Coral paper's mode: any instance of a leg may feed any instance of the next, for free."""


class SloSplit(StrEnum):
    EVEN = "even"
    UNEVEN = "uneven"


class StepTimes(StrEnum):
    """Source of step times that were not measured on the nodes themselves."""

    BEST = "best"
    """For each GPU and engine what was less far off measured deployments, of what is installed."""
    ESTIMATED = "estimated"
    """Formulas fitted to public measurements."""
    KERNELS = "kernels"
    """NVIDIA's measured kernels (extra `kernels`), where they were timed."""


class Survive(StrEnum):
    NOTHING = "nothing"
    INSTANCE = "instance"
    ZONE = "zone"


@dataclass(frozen=True, slots=True)
class Replicas:
    """Bounds on the instances that serve one work class. Counting instances switches pruning off for its model."""

    min: int = 0
    max: int | None = None


@dataclass(frozen=True, slots=True)
class Guardrails:
    max_usd_per_hour: float | None = None
    """Rent, disks and traffic; demand that does not fit the budget is unmet, with that reason."""
    max_spot_share: float = 1.0
    """Largest share of every work class's demand that may depend on spot capacity: the rest is covered without it."""
    replicas: dict[str, Replicas] = field(default_factory=dict)
    """Numbers of replicas by work class id."""
    max_unproven_nodes: int = 4
    """Nodes beyond those held to ask of an offer whose availability is unknown."""
    max_zone_share: float = 1.0
    """No zone covers more than this share of a work class's demand."""


@dataclass(frozen=True, slots=True)
class WorkLimits:
    """Stopping rules. All but the last count work, so that a snapshot and a seed give one plan."""

    gap: float = 0.001
    """Stop when (cost − bound) / cost is at most this."""
    incumbent_columns: int = 2_000
    """Columns in the MILP that looks for a good plan."""
    proof_columns: int = 12_000
    """Columns in the MILP that proves it."""
    nodes: int = 20_000
    """Branch-and-bound nodes of each MILP."""
    simplex_iterations: int = 200_000
    """Iterations of all MILPs of a solve together, once it has a plan; each MILP before that may take as many."""
    wall_clock_s: float | None = None
    """Opt-in. A plan that this cut short may differ from run to run, and says so."""


@dataclass(frozen=True, slots=True)
class Settings:
    mode: Mode = Mode.ZONES
    utilisation_cap: float = 0.85
    """Share of certified capacity that a plan may use; the rest absorbs queueing."""
    utilisation_caps: Mapping[str, float] = field(default_factory=dict)
    """The same by work class, where pools of it are certified otherwise."""
    template_caps: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """Lower ones of single templates, by work class and template id: those of pools that kept less than others."""
    corrections: Mapping[str, float] = field(default_factory=dict)
    """Factors of these caps by work class, above 0 and at most 1: what answers that were measured say of the
    certificate."""
    startup_minutes: float = 6.0
    """Minutes from the request for a node to its first token; drives the initialisation cost."""
    install_minutes: Mapping[str, float] = field(default_factory=dict)
    """What installing an engine adds to that on a rented node, by engine; others are there with the agent."""
    adjustment_interval_minutes: float = 60.0
    restart_hours: float = 0.1
    """Instance time lost by one spot interruption."""
    survive: Survive = Survive.NOTHING
    survive_share: float = 1.0
    """Share of the demand that must stay covered after the loss."""
    guardrails: Guardrails = field(default_factory=Guardrails)
    limits: WorkLimits = field(default_factory=WorkLimits)
    seed: int = 0
    beside_running: bool = False
    """New instances find room beside all that run, those among them that the plan does not want: nothing has to go
    before what replaces it is there."""
    step_time_margins: Mapping[str, Mapping[str, float]] | UnsetType = UNSET
    """Factors of these caps by work class and node configuration, above 0 and below 1: what step times that may be off
    leave of a certificate (`control.planning.step_time_margins`). Unset: none, and the snapshot's hash is what it was
    before there were any."""

    def cap(self, work_class: str, template_id: str = "", nodes: Iterable[str] = ()) -> float:
        """Return the share of a template's certified capacity for the class that a plan may use; without one, that of
        templates without a cap of their own. `nodes`: its node configurations, the least well known of which counts."""
        cap = self.utilisation_caps.get(work_class, self.utilisation_cap)
        own = self.template_caps.get(work_class, {}).get(template_id, cap)
        margins = self.margins(work_class)
        margin = min((margins[name] for name in nodes if name in margins), default=1.0)
        return min(cap, own) * self.corrections.get(work_class, 1.0) * margin

    def margins(self, work_class: str) -> Mapping[str, float]:
        """Return node configuration → factor of the caps of the class; configurations without one have all of it."""
        return {} if isinstance(self.step_time_margins, UnsetType) else self.step_time_margins.get(work_class, {})

    def without_allowances(self) -> "Settings":
        """The same settings, whose certificates are taken at their word: without corrections and margins."""
        return replace(self, corrections={}, step_time_margins=UNSET)

    def capped(
        self, caps: Mapping[str, float], of_templates: Mapping[str, Mapping[str, float]] | None = None
    ) -> "Settings":
        """The same settings with these caps by work class, and these of single templates (None: none)."""
        return replace(self, utilisation_caps=caps, template_caps=of_templates or {})

    def of_classes(self, work_classes: Container[str]) -> "Settings":
        """The same settings, with those caps alone that are of these classes."""
        caps = {name: cap for name, cap in self.utilisation_caps.items() if name in work_classes}
        return self.capped(caps, {name: own for name, own in self.template_caps.items() if name in work_classes})

    @property
    def init_factor(self) -> float:
        """K of the Coral paper (section 4.3): node start-up time over adjustment interval. Of templates whose engine
        has to be installed it is more (`init_factor_of`)."""
        return self.startup_minutes / self.adjustment_interval_minutes

    def startup_minutes_of(self, engines: str) -> float:
        """Return the minutes until a node with these engines (`engine_set`) serves; unknown ones: the longest."""
        own = [self.install_minutes.get(engine, 0.0) for engine in engines_of(engines)]
        return self.startup_minutes + (sum(own) if own else max(self.install_minutes.values(), default=0.0))

    def init_factor_of(self, engines: str) -> float:
        """Return K of templates of these engines (`engine_set`)."""
        return self.startup_minutes_of(engines) / self.adjustment_interval_minutes

    def spending_at_most(self, usd_per_hour: float) -> "Settings":
        """The same settings, with the stricter of this limit (infinite: none) and the one that they have."""
        own = self.guardrails.max_usd_per_hour
        least = usd_per_hour if own is None else min(own, usd_per_hour)
        kept = None if math.isinf(least) else least
        return replace(self, guardrails=replace(self.guardrails, max_usd_per_hour=kept))
