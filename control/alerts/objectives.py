"""How the objectives of all fleets were kept of late, from what gateways measured."""

from collections.abc import Iterator
from datetime import datetime

from control.db.database import Database
from control.db.fleets import PostgresFleets
from control.db.slo_samples import LatencyHistogram, PostgresSloSamples, added
from control.fleet_file.model_section import SloSection, if_readable, slos_of
from control.lifecycle.fleet import may_serve
from policies.alert_rules import MISSED_WITHIN, ObjectiveFacts
from policies.attainment import share_within


def objective_facts(database: Database, now: datetime) -> Iterator[ObjectiveFacts]:
    """Yield every objective for which something was observed, of fleets that may serve. A fleet whose spec cannot be
    read has other alerts, and keeps none from the rest. Raises DatabaseUnavailableError."""
    slos: dict[tuple[str, str], SloSection] = {}
    fleets = PostgresFleets(database)
    targets = fleets.targets()
    for record in fleets.all():
        # What gateways observe is by a model's name, which belongs to the one fleet that serves it.
        if may_serve(record, targets.get(record.name)):
            own_slos = if_readable(slos_of, record.spec) or {}
            slos |= {(record.name, model): slo for model, slo in own_slos.items()}
    samples = PostgresSloSamples(database).read({model for _, model in slos}, now - MISSED_WITHIN, now)
    for (fleet, model), slo in slos.items():
        own = [sample for sample in samples if sample.model == model]
        measured: tuple[tuple[str, float, list[LatencyHistogram]], ...] = (
            ("TTFT", slo.ttft_ms, [sample.ttft for sample in own]),
            ("TPOT", slo.tpot_ms, [sample.tpot for sample in own]),
        )
        for objective, limit_ms, parts in measured:
            histogram = added(parts)
            within = share_within(histogram, limit_ms / 1000)
            if within is not None:
                answers = sum(histogram.values())
                yield ObjectiveFacts(fleet, model, objective, limit_ms, slo.percentile, answers, within)
