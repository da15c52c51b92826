"""What was promised of each work class of a fleet, beside what its answers kept."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from control.db.corrections import PostgresCorrections
from control.db.database import Database
from control.db.fleets import PostgresFleets
from control.db.plans import PostgresPlans
from control.db.slo_samples import PostgresSloSamples, SloSample
from policies.correction import Correction, Counted, KeptShare, kept_share
from templates_lib.values.plan import Attained, Plan


@dataclass(frozen=True, slots=True)
class KeptObjective:
    objective: str
    """`ttft` or `tpot`."""
    kept: KeptShare


@dataclass(frozen=True, slots=True)
class KeptPromise:
    """One work class of the plan in force."""

    work_class: str
    promised: Attained
    """As its certificate has it."""
    objectives: tuple[KeptObjective, ...]
    """Empty: no answer was counted."""
    correction: Correction | None
    """None: it was never corrected."""

    @property
    def model(self) -> str:
        return model_of(self.work_class)


def model_of(work_class: str) -> str:
    """Return the model that a work class of text is of."""
    return work_class.rpartition("/")[0]


def kept_promises(database: Database, fleet: str, since: datetime, until: datetime) -> tuple[KeptPromise, ...]:
    """List the promises of the fleet's plan in force by work class, with the answers from `since` on and before
    `until`; empty without a plan, or where it promises nothing. Raises DatabaseUnavailableError."""
    try:
        plan = PostgresPlans(database).load(PostgresFleets(database).target(fleet).accepted)
    except LookupError:
        PostgresFleets(database).load(
            fleet
        )  # a fleet without a plan promises nothing; one that is not there is an error
        return ()
    return _promises(plan, database, fleet, since, until)


def _promises(plan: Plan, database: Database, fleet: str, since: datetime, until: datetime) -> tuple[KeptPromise, ...]:
    if not plan.attainment:
        return ()
    corrections = PostgresCorrections(database).of_fleet(fleet)
    samples = PostgresSloSamples(database).read({model_of(name) for name in plan.attainment}, since, until)
    return tuple(
        KeptPromise(name, promised, _objectives(name, samples, since), corrections.get(name))
        for name, promised in sorted(plan.attainment.items())
    )


def _objectives(work_class: str, samples: Sequence[SloSample], since: datetime) -> tuple[KeptObjective, ...]:
    found = judged_minutes(work_class, samples, since)
    shares = {objective: kept_share(tuple(minutes.values())) for objective, minutes in sorted(found.items())}
    return tuple(KeptObjective(objective, share) for objective, share in shares.items() if share is not None)


def judged_minutes(
    work_class: str, samples: Iterable[SloSample], since: datetime
) -> Mapping[str, Mapping[datetime, Counted]]:
    """Return the answers of a work class by objective and minute, all gateways together, of minutes that begin from
    `since` on."""
    found: dict[str, dict[datetime, Counted]] = defaultdict(dict)
    for sample in samples:
        for each in sample.judged:
            if each.work_class == work_class and sample.begins_at >= since:
                own = found[each.objective]
                before = own.get(sample.begins_at, Counted(0.0, 0.0))
                own[sample.begins_at] = Counted(before.answers + each.answers, before.kept + each.kept)
    return found
