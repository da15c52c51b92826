"""What tests of the API put into a database: fleets, plans, instances that serve."""

from datetime import datetime
from typing import Any

from control.db.database import Database
from control.db.instances import PostgresInstances
from control.db.plans import PostgresPlans
from control.lifecycle.event import Event, EventKind
from templates_lib.values.instance import Instance
from templates_lib.values.offer import Market, Offer
from templates_lib.values.placement import Placement
from templates_lib.values.plan import Attained, Plan, PlannedInstance, PlannedOffer
from templates_lib.values.settings import Settings
from templates_lib.values.snapshot import Snapshot
from templates_lib.values.template import ServingTemplate, template_id
from templates_lib.values.work import Demand

OFFER = Offer("aws", "us-east-1", "us-east-1a", "g6.xlarge", "L4:1/n10", Market.ON_DEMAND, 0.8, 10)
_UP = (EventKind.PROVISION, EventKind.NODES_UP, EventKind.AGENTS_UP, EventKind.LOADED)
OWN_CONFIG = {
    "model_type": "llama", "num_hidden_layers": 4, "hidden_size": 256, "num_attention_heads": 4,
    "num_key_value_heads": 4, "intermediate_size": 512, "vocab_size": 1000, "max_position_embeddings": 2048,
    "torch_dtype": "bfloat16",
}  # fmt: skip
"""Of a model that the catalogue does not have."""

_SLO = {"ttft_ms": 4000, "tpot_ms": 60}
PICTURES = {
    "name": "vl",
    "graph": "qwen2.5-vl-7b",
    "request_types": [
        {"type": "image-text-to-text", "share": 0.7, "slo": _SLO},
        {"type": "text-to-text", "share": 0.3, "slo": _SLO},
    ],
    "demand": {"requests_per_s": 3},
}
"""An any-to-any model, as `apps` of a spec has it."""


def spec(name: str = "chat", **changes: Any) -> dict[str, Any]:
    """A fleet on this machine, which needs no prices."""
    model = {
        "model": "smollm2-135m-instruct",
        "slo": {"ttft_ms": 60_000, "tpot_ms": 6000, "percentile": 95, "keep": {"throughput": True}},
        "workload": "sharegpt",
        "demand": {"requests_per_s": 0.005},
    }
    base = {"apiVersion": "medley/v1", "kind": "Fleet", "name": name, "models": [model]}
    return base | {"clouds": [{"cloud": "local"}]} | changes


def template(layers: int = 30) -> ServingTemplate:
    stage = {"first_layer": 0, "layers": layers, "first": True, "last": True}
    node = {"config": OFFER.node_config, "count": 1, "weight": 1.0, "tp": 1, "dp": 1, "pp": 1, "ep": 1}
    node |= {"batch_cap": 8, "chunk_tokens": 128, "kv_blocks": 64}
    placement = Placement("pipeline", 1, {"stages": [stage | {"nodes": [node]}]})
    parts = ("smollm2-135m-instruct", "1", "bf16", "torch", "lockstep-v1", {OFFER.node_config: 1}, placement)
    return ServingTemplate(template_id(*parts), *parts)


def kept_plan(
    database: Database,
    fleet: str,
    count: int = 1,
    number: int = 1,
    duals: dict[str, float] | None = None,
    gap: float = 0.0,
    attainment: dict[str, Attained] | None = None,
) -> Plan:
    """A plan of `count` instances of `template()`, on record with its snapshot."""
    made = template()
    snapshot = Snapshot(
        version=f"snapshot-{fleet}-{number}", now="2026-11-21T00:00:00+00:00", offers=(OFFER,), pools=(), traffic=(),
        instances=(), routes=(), demand=(Demand("smollm2-135m-instruct", "chat", 0.1),), settings=Settings(),
        library_version="library-1", cost_model_fingerprint="costs-1",
    )  # fmt: skip
    planned = PlannedInstance(
        made.id, made.model, "aggregated", OFFER.zone_id, OFFER.market, count, 0, made.nodes,
        {f"{made.model}/aggregated": 1.0}, OFFER.usd_per_hour * count,
    )  # fmt: skip
    cost = OFFER.usd_per_hour * count
    plan = Plan(
        id=f"plan-{fleet}-{number}", snapshot_version=snapshot.version, library_version="library-1", policy="medley",
        instances=(planned.with_template(made),),
        offers=(PlannedOffer(OFFER.key, OFFER.node_config, count, 0, OFFER.usd_per_hour),), flows=(),
        usd_per_hour=cost, rent_usd_per_hour=cost, traffic_usd_per_hour=0.0, init_usd=0.1, spot_risk_usd_per_hour=0.0,
        unmet={}, objective=cost, bound=cost * (1 - gap), gap=gap, solve_s=0.1, status="optimal",
        duals=duals or {}, attainment=attainment or {},
    )  # fmt: skip
    PostgresPlans(database).save(fleet, plan, snapshot)
    return plan


def serving(database: Database, fleet: str, now: datetime, name: str = "i000000000001") -> Instance:
    """A ready instance of `kept_plan(fleet)`, without nodes: none is rented in these tests."""
    made = template()
    stored = PostgresInstances(database)
    wanted = Instance(name, made.id, OFFER.zone_id, OFFER.market, "requested", (), fleet=fleet)
    stored.request(wanted, made, f"plan-{fleet}-1", now)
    for kind in _UP:
        stored.apply(name, Event(kind, "a test"), now)
    return stored.load(name)
