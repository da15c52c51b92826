"""Records of a span that has passed, in PostgreSQL: read at once, to be replayed."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import msgspec
from sqlalchemy import Row, func, or_, select
from sqlalchemy.dialects.postgresql import distinct_on

from control.db.cost_tables import node_price
from control.db.database import Database
from control.db.demand_overrides import Override
from control.db.demand_tables import demand_hour, demand_line, demand_override, demand_report
from control.db.fleet_tables import instance, instance_event, node
from control.db.instance_rows import past_transition
from control.db.market_tables import offer_call, offer_price
from control.db.reconcile_tables import event
from control.db.tables import plan, snapshot
from control.lifecycle.history import PastTransition
from control.lifecycle.state import InstanceState
from policies.availability import CallOutcome
from templates_lib.values.offer import Market
from templates_lib.values.template import ServingTemplate


@dataclass(frozen=True, slots=True)
class PastInstance:
    id: str
    fleet: str
    plan_id: str
    template: ServingTemplate
    zone: str
    market: Market
    steps: tuple[PastTransition, ...]
    """All of its life, the oldest first."""


@dataclass(frozen=True, slots=True)
class PastNode:
    name: str
    instance: str
    fleet: str
    place: int
    offer: str
    provider_id: str
    requested_at: datetime
    created_at: datetime | None
    gone_at: datetime | None
    gone_because: str
    charged: bool
    prices: tuple[tuple[datetime, float | None], ...]
    """$/h of its offer from when on; None: nobody knows."""
    disk_usd_per_hour: float = 0.0


@dataclass(frozen=True, slots=True)
class PastPlan:
    """A plan that was made, whether or not it was accepted."""

    at: datetime
    id: str
    usd_per_hour: float


@dataclass(frozen=True, slots=True)
class PastCall:
    """Answer of a cloud to a call for a node."""

    offer: str
    at: datetime
    outcome: CallOutcome
    reason: str


@dataclass(frozen=True, slots=True)
class RecordedEvent:
    at: datetime
    kind: str
    subject: str


@dataclass(frozen=True, slots=True)
class PastLoad:
    """Requests of clients for one app in a minute, or an hour of which no more is known."""

    app: str
    request_type: str
    at: datetime
    seconds: int
    """Seconds of it that gateways watched."""
    units: dict[tuple[str, str], int]
    """Units by work class and unit; the requests themselves among them."""


@dataclass(frozen=True, slots=True)
class PastOverride:
    said: Override
    ended_at: datetime | None
    """Taken back, or replaced by a later one; None: it was not."""


@dataclass(frozen=True, slots=True)
class PostgresPast:
    """Spans are [since, until). Every method also raises DatabaseUnavailableError."""

    database: Database

    def instances(self, fleet: str, since: datetime, until: datetime) -> tuple[PastInstance, ...]:
        """List the instances that were there in the span, by id."""
        first, last = (
            select(instance_event.c.instance_id, which(instance_event.c.at).label("at"))
            .where(ended)
            .group_by(instance_event.c.instance_id)
            .subquery()
            for which, ended in (
                (func.min, instance_event.c.version == 0),
                (func.max, instance_event.c.to_state == InstanceState.TERMINATED),
            )
        )
        query = select(instance).join(first, first.c.instance_id == instance.c.id)
        query = query.outerjoin(last, last.c.instance_id == instance.c.id)
        query = query.where(instance.c.fleet == fleet, first.c.at < until)
        query = query.where(or_(last.c.at.is_(None), last.c.at >= since)).order_by(instance.c.id)
        with self.database.transaction() as connection:
            rows = connection.execute(query).all()
            steps: defaultdict[str, list[PastTransition]] = defaultdict(list)
            own = select(instance_event).where(instance_event.c.instance_id.in_([row.id for row in rows]))
            for row in connection.execute(own.order_by(instance_event.c.instance_id, instance_event.c.version)):
                steps[row.instance_id].append(past_transition(row))
        return tuple(_instance(row, tuple(steps[row.id])) for row in rows)

    def nodes(self, since: datetime, until: datetime) -> tuple[PastNode, ...]:
        """List the nodes of all fleets, held or on their way in the span, by when they were asked for."""
        held = select(node, instance.c.fleet).join(instance, instance.c.id == node.c.instance_id)
        held = held.where(node.c.requested_at < until, or_(node.c.gone_at.is_(None), node.c.gone_at > since))
        with self.database.transaction() as connection:
            rows = connection.execute(held.order_by(node.c.requested_at, node.c.name)).all()
            changes: defaultdict[str, list[tuple[datetime, float | None]]] = defaultdict(list)
            later = select(node_price).where(node_price.c.node.in_([row.name for row in rows]))
            for price in connection.execute(later.order_by(node_price.c.node, node_price.c.since)):
                changes[price.node].append((_utc(price.since), float(price.usd_per_hour)))
        return tuple(_node(row, changes[row.name]) for row in rows)

    def plans(self, name: str, since: datetime, until: datetime) -> tuple[PastPlan, ...]:
        """List the plans that were made for fleets of that name, by the clock of whoever made them, the oldest
        first."""
        said = snapshot.c.body["now"].as_string()
        query = select(plan.c.id, plan.c.usd_per_hour, said.label("at")).join(
            snapshot, snapshot.c.version == plan.c.snapshot_version
        )
        # Rows are written after their snapshots were taken, so that none of the span is older than it.
        query = query.where(plan.c.name == name, plan.c.created_at >= since)
        found = [PastPlan(_moment(row.at), row.id, row.usd_per_hour) for row in self.database.read(query)]
        return tuple(sorted((p for p in found if since <= p.at < until), key=lambda p: (p.at, p.id)))

    def calls(self, since: datetime, until: datetime) -> tuple[PastCall, ...]:
        """List the calls of all fleets, in order."""
        query = select(offer_call).where(offer_call.c.at >= since, offer_call.c.at < until)
        rows = self.database.read(query.order_by(offer_call.c.sequence))
        return tuple(PastCall(row.offer, _utc(row.at), CallOutcome(row.outcome), row.reason) for row in rows)

    def prices(self, since: datetime, until: datetime) -> Mapping[str, tuple[tuple[datetime, float | None], ...]]:
        """Offer key → $/h from when on it was known here, the one that held at `since` first; None: not sold."""
        columns = offer_price.c.key, offer_price.c.recorded_at, offer_price.c.usd_per_hour
        # The newest row of each key before the span, in one pass.
        before = select(*columns).ext(distinct_on(offer_price.c.key)).where(offer_price.c.recorded_at < since)
        before = before.order_by(offer_price.c.key, offer_price.c.sequence.desc())
        within = select(*columns).where(offer_price.c.recorded_at >= since, offer_price.c.recorded_at < until)
        found: defaultdict[str, list[tuple[datetime, float | None]]] = defaultdict(list)
        with self.database.transaction() as connection:
            for query in (before, within.order_by(offer_price.c.sequence)):
                for key, at, usd_per_hour in connection.execute(query):
                    found[key].append((_utc(at), usd_per_hour))
        return {key: tuple(points) for key, points in found.items()}

    def events(self, fleet: str, since: datetime, until: datetime) -> tuple[RecordedEvent, ...]:
        """List the events on record of the fleet itself, in order."""
        query = select(event.c.at, event.c.kind, event.c.subject).where(event.c.fleet == fleet)
        query = query.where(event.c.at >= since, event.c.at < until).order_by(event.c.sequence)
        return tuple(RecordedEvent(_utc(row.at), row.kind, row.subject) for row in self.database.read(query))

    def accepted(self, fleet: str, before: datetime) -> tuple[datetime, str] | None:
        """The plan that the fleet was held to just before then, and since when; None: none was accepted."""
        query = select(event.c.at, event.c.subject).where(event.c.fleet == fleet, event.c.kind == "plan.accepted")
        query = query.where(event.c.at < before).order_by(event.c.sequence.desc()).limit(1)
        row = self.database.read_one(query)
        return None if row is None else (_utc(row.at), row.subject)

    def span(self, fleet: str) -> tuple[datetime, datetime] | None:
        """Return when something of the fleet was put on record first, and last; None: nothing ever was."""
        query = select(func.min(event.c.at), func.max(event.c.at)).where(event.c.fleet == fleet)
        with self.database.transaction() as connection:
            first, last = connection.execute(query).one()
        return None if first is None else (_utc(first), _utc(last))

    def overrides(self, fleet: str, since: datetime, until: datetime) -> tuple[PastOverride, ...]:
        """List the overrides that operators had in force in the span, in the order in which they were made."""
        query = select(demand_override).where(demand_override.c.fleet == fleet, demand_override.c.made_at < until)
        query = query.where(or_(demand_override.c.ended_at.is_(None), demand_override.c.ended_at > since))
        query = query.where(demand_override.c.expires_at > since).order_by(demand_override.c.id)
        rows = self.database.read(query)
        return tuple(
            PastOverride(
                Override(r.model, r.requests_per_s, r.made_by, r.reason, _utc(r.made_at), _utc(r.expires_at)),
                None if r.ended_at is None else _utc(r.ended_at),
            )
            for r in rows
        )

    def load(self, fleet: str, since: datetime, until: datetime) -> tuple[PastLoad, ...]:
        """List the load by time and app. A minute that no gateway reported is not there."""
        found: dict[tuple[datetime, str, str], PastLoad] = {}
        lines = demand_line.join(demand_report)
        with self.database.transaction() as connection:
            for table, source, seconds in (
                (demand_hour, demand_hour, func.max(demand_hour.c.seconds)),
                (demand_line, lines, func.max(demand_report.c.seconds)),
            ):
                keys = (table.c.app, table.c.request_type, table.c.started_at, table.c.work_class, table.c.unit)
                query = select(*keys, seconds, func.sum(table.c.offered)).select_from(source).group_by(*keys)
                query = query.where(table.c.fleet == fleet, table.c.started_at >= since, table.c.started_at < until)
                for app, kind, at, work_class, unit, watched, units in connection.execute(query):
                    load = PastLoad(app, kind, _utc(at), int(watched), {})
                    found.setdefault((load.at, app, kind), load).units[work_class, unit] = int(units)
        return tuple(found[key] for key in sorted(found))


def _instance(row: Row[Any], steps: tuple[PastTransition, ...]) -> PastInstance:
    template = msgspec.json.decode(row.template, type=ServingTemplate)
    return PastInstance(row.id, row.fleet, row.plan_id, template, row.zone, Market(row.market), steps)


def _node(row: Row[Any], changes: list[tuple[datetime, float | None]]) -> PastNode:
    first = None if row.usd_per_hour is None else float(row.usd_per_hour)
    return PastNode(
        row.name,
        row.instance_id,
        row.fleet,
        row.place,
        row.offer,
        row.provider_id,
        _utc(row.requested_at),
        None if row.created_at is None else _utc(row.created_at),
        None if row.gone_at is None else _utc(row.gone_at),
        row.gone_because,
        row.charged,
        ((_utc(row.requested_at), first), *changes),
        float(row.disk_usd_per_hour),
    )


def _moment(text: str) -> datetime:
    at = datetime.fromisoformat(text)
    return at if at.tzinfo is not None else at.replace(tzinfo=UTC)


def _utc(at: datetime) -> datetime:
    return at.astimezone(UTC)
