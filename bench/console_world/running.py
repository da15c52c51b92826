"""Plans that the product makes, and the instances that run by them."""

import random
from collections import defaultdict
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
from sqlalchemy import insert

from control.db.cost_tables import node_price
from control.db.database import Database
from control.db.fleet_tables import instance as instance_table
from control.db.fleet_tables import instance_event
from control.db.fleet_tables import node as node_table
from control.db.fleets import PostgresFleets
from control.db.instances import PostgresInstances
from control.diff.target import targets
from control.lifecycle.fleet import FleetMode
from control.lifecycle.node_load import NodeLoad
from control.lifecycle.state import InstanceState as S
from control.reconcile.live_planner import live_planner
from control.simulator.attainment import SimulatedAttainment
from templates_lib.values.offer import Offer
from templates_lib.values.plan import Plan
from templates_lib.values.snapshot import Snapshot

REQUESTS = 4_000
"""Of a simulated plan: its promise is looked at, and nobody relies on it."""
_STEPS = (S.REQUESTED, S.PROVISIONING, S.BOOTSTRAPPING, S.LOADING, S.READY)
_EVENTS = ("", "provision", "nodes_up", "agents_up", "loaded")
_OTHER_STATES = (S.LOADING, S.BOOTSTRAPPING, S.PROVISIONING, S.DRAINING)
"""One in forty instances is in one of them; the others are ready."""


def put_fleet(database: Database, spec: dict[str, Any], project: str, mode: FleetMode, now: datetime) -> None:
    text = msgspec.json.encode(spec).decode()
    PostgresFleets(database).create(str(spec["name"]), text, now, project=project, mode=mode)


def planned(database: Database, fleet: str, home: Path, now: datetime, *, baselines: bool = True) -> Plan:
    """The product's own plan for the fleet as it is asked for and as it runs, on record."""
    record = PostgresFleets(database).load(fleet)
    planner = live_planner(database, home, lambda *_: None, partial(SimulatedAttainment, requests=REQUESTS))
    return planner.solve(record, PostgresInstances(database).living(), now, baselines=baselines).report.plan


def change_demand(database: Database, spec: dict[str, Any], now: datetime) -> None:
    fleets = PostgresFleets(database)
    known = fleets.load(str(spec["name"]))
    fleets.change(known.name, known.version, now, spec=msgspec.json.encode(spec).decode())


class Launches:
    """Rows of instances, kept until `write`, since there are many."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self.names: list[str] = []
        """Of all instances, those that are gone too."""
        self._rows: defaultdict[Any, list[dict[str, Any]]] = defaultdict(list)

    def run(self, fleet: str, project: str, plan: Plan, snapshot: Snapshot, now: datetime) -> None:
        """All that `plan` wants runs; some of it is on its way."""
        for each in targets(plan):
            offers = [o for o in snapshot.offers if (o.zone_id, o.market) == (each.zone, each.market)]
            by_config = {o.node_config: o for o in sorted(offers, key=lambda o: -o.usd_per_hour)}
            for _ in range(each.count):
                odd = self._rng.randrange(40) == 0
                state = self._rng.choice(_OTHER_STATES) if odd else S.READY
                begun = now - timedelta(minutes=self._rng.randrange(30, 60 * 24 * 9))
                self._add(fleet, project, plan.id, each, by_config, state, begun, None)
            # What ran before it and is gone: the ledger has it.
            gone = now - timedelta(hours=self._rng.uniform(1, 200))
            begun = gone - timedelta(hours=self._rng.uniform(3, 60))
            self._add(fleet, project, plan.id, each, by_config, S.TERMINATED, begun, gone)

    def _add(
        self, fleet: str, project: str, plan_id: str, each: Any, offers: dict[str, Offer], state: S,
        begun: datetime, gone: datetime | None,
    ) -> None:  # fmt: skip
        name = f"i{self._rng.randrange(16**12):012x}"
        self.names.append(name)
        passed = _STEPS if state in (S.READY, S.DRAINING, S.TERMINATED) else _STEPS[: _STEPS.index(state) + 1]
        times = [begun + timedelta(seconds=75 * n) for n in range(len(passed))]
        life = list(zip(_EVENTS, passed, times, strict=False))
        if state is S.DRAINING:
            life.append(("drain", S.DRAINING, begun + timedelta(minutes=20)))
        if gone is not None:
            life += [("drain", S.DRAINING, gone - timedelta(minutes=3)), ("drained", S.TERMINATING, gone)]
            life.append(("nodes_gone", S.TERMINATED, gone + timedelta(seconds=20)))
        before = ""
        for version, (event, to_state, at) in enumerate(life):
            self._rows[instance_event].append(
                {
                    "instance_id": name, "version": version, "event": event, "from_state": before,
                    "to_state": to_state, "reason": f"plan {plan_id}" if not version else _WHY[event], "at": at,
                }
            )  # fmt: skip
            before = to_state
        self._rows[instance_table].append(
            {
                "id": name, "fleet": fleet, "plan_id": plan_id, "template_id": each.template.id,
                "template": each.template, "zone": each.zone, "market": each.market, "state": state,
                "version": len(life) - 1, "state_since": life[-1][2],
            }
        )  # fmt: skip
        configs = [config for config, count in each.template.nodes.items() for _ in range(count)]
        for place, config in enumerate(configs):
            self._node(name, place, offers[config], project, each.template.model, state, begun, gone)

    def _node(
        self, name: str, place: int, offer: Offer, project: str, model: str, state: S, begun: datetime,
        gone: datetime | None,
    ) -> None:  # fmt: skip
        rng, serves = self._rng, state in (S.READY, S.DRAINING)
        running, blocks = rng.randrange(0, 48), 4096
        load = NodeLoad(
            cpu_share=round(rng.uniform(0.1, 0.98), 2), memory_mib=rng.randrange(9_000, 22_000),
            scheduler="ready" if place == 0 else "", running=running if place == 0 else 0,
            waiting=max(0, running - 42) if place == 0 else 0, kv_blocks=blocks,
            kv_blocks_free=blocks - 80 * running - rng.randrange(80),
        )  # fmt: skip
        node = f"medley-{name}-{place}-0"
        self._rows[node_table].append(
            {
                "name": node, "instance_id": name, "place": place, "offer": offer.key, "cloud": offer.cloud,
                "provider_id": f"{offer.cloud}-{rng.randrange(16**10):010x}", "requested_at": begun,
                "created_at": begun + timedelta(seconds=40),
                "last_heartbeat": None, "load": load if serves and gone is None else None, "gone_at": gone,
                "gone_because": "" if gone is None else "given back", "usd_per_hour": offer.usd_per_hour,
                "project": project, "model": model,
            }
        )  # fmt: skip
        if offer.market == "spot" and gone is None:
            changed = {"node": node, "usd_per_hour": round(1.06 * offer.usd_per_hour, 4)}
            self._rows[node_price].append(changed | {"since": begun + timedelta(minutes=25)})

    def write(self, database: Database, now: datetime) -> None:
        for row in self._rows[node_table]:
            row["last_heartbeat"] = None if row["load"] is None else now
        with database.transaction() as connection:
            for table in (instance_table, instance_event):
                connection.execute(insert(table), self._rows[table])
            # A missing load is no value, not the JSON document null.
            silent = [row for row in self._rows[node_table] if row["load"] is None]
            connection.execute(insert(node_table), [row for row in self._rows[node_table] if row["load"] is not None])
            connection.execute(insert(node_table), [{k: v for k, v in row.items() if k != "load"} for row in silent])
            if self._rows[node_price]:
                connection.execute(insert(node_price), self._rows[node_price])
        self._rows.clear()


_WHY = {
    "provision": "its nodes are rented", "nodes_up": "the cloud has given all its nodes",
    "agents_up": "all its agents are known", "loaded": "every stage holds its layers",
    "drain": "the plan does not want it any more", "drained": "no request is left",
    "nodes_gone": "the cloud lists none of its nodes",
}  # fmt: skip
