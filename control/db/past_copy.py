"""A fleet as it was at a moment, put into a database of its own: what runs, and the load that was offered before."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from itertools import islice
from typing import Any

from sqlalchemy import insert, select

from control.db.database import Database
from control.db.demand_tables import demand_hour, demand_line, demand_report
from control.db.fleet_tables import instance, instance_event, node
from control.db.past import PastInstance, PastNode
from control.lifecycle.history import PastTransition

_ROWS = 5000


def copy_instances(
    target: Database, instances: Iterable[PastInstance], nodes: Sequence[PastNode], before: datetime
) -> None:
    """Copy instances as they were just before then: those whose life had begun, with the nodes that were had by then.

    Nodes that were on their way are left out: they are asked for again. Raises DatabaseUnavailableError.
    """
    with target.transaction() as connection:
        for past in instances:
            steps = steps_before(past, before)
            last = steps[-1]
            row: dict[str, Any] = {
                "id": past.id,
                "fleet": past.fleet,
                "plan_id": past.plan_id,
                "template_id": past.template.id,
            }
            row |= {"template": past.template, "zone": past.zone, "market": past.market}
            row |= {"state": last.to_state, "version": last.version, "state_since": datetime.fromisoformat(last.at)}
            connection.execute(insert(instance).values(row))
            connection.execute(insert(instance_event), [_event(step) for step in steps])
        rows = [_node(each, before) for each in nodes if each.created_at is not None and each.created_at < before]
        if rows:
            connection.execute(insert(node), rows)


def steps_before(past: PastInstance, before: datetime) -> tuple[PastTransition, ...]:
    return tuple(step for step in past.steps if datetime.fromisoformat(step.at) < before)


def copy_demand(source: Database, target: Database, fleet: str, since: datetime, until: datetime) -> None:
    """Copy what gateways reported of the fleet. Raises DatabaseUnavailableError."""
    lines = select(demand_line).where(
        demand_line.c.fleet == fleet, demand_line.c.started_at >= since, demand_line.c.started_at < until
    )
    keys = select(demand_line.c.gateway, demand_line.c.started_at).where(
        demand_line.c.fleet == fleet, demand_line.c.started_at >= since, demand_line.c.started_at < until
    )
    named = keys.distinct().subquery()
    reports = select(demand_report).join(
        named,
        (named.c.gateway == demand_report.c.gateway) & (named.c.started_at == demand_report.c.started_at),
    )
    hours = select(demand_hour).where(
        demand_hour.c.fleet == fleet, demand_hour.c.started_at >= since, demand_hour.c.started_at < until
    )
    with source.transaction() as reading, target.transaction() as writing:
        for table, query in ((demand_report, reports), (demand_line, lines), (demand_hour, hours)):
            rows = (dict(row) for row in reading.execute(query).mappings())
            while part := list(islice(rows, _ROWS)):
                writing.execute(insert(table), part)


def _event(step: PastTransition) -> dict[str, Any]:
    return {
        "instance_id": step.instance_id,
        "version": step.version,
        "event": step.event or "",
        "from_state": step.from_state or "",
        "to_state": step.to_state,
        "reason": step.reason,
        "at": datetime.fromisoformat(step.at),
    }


def _node(past: PastNode, before: datetime) -> dict[str, Any]:
    gone = past.gone_at is not None and past.gone_at < before
    known = [usd for at, usd in past.prices if at < before]
    return {
        "name": past.name,
        "instance_id": past.instance,
        "place": past.place,
        "offer": past.offer,
        "cloud": past.offer.partition("/")[0],
        "provider_id": past.provider_id,
        "requested_at": past.requested_at,
        "created_at": past.created_at,
        "gone_at": past.gone_at if gone else None,
        "gone_because": past.gone_because if gone else "",
        "usd_per_hour": known[-1] if known else None,
        "disk_usd_per_hour": past.disk_usd_per_hour,
        "charged": past.charged,
        "project": "default",
        "model": "",
    }
