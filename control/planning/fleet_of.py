"""The fleet that the checked content of a spec file asks for."""

from collections.abc import Collection
from datetime import timedelta
from pathlib import Path
from typing import TypeVar

from control.diff.limits import Disruption
from control.fleet_file.document import Document
from control.fleet_file.own_model import OwnModel
from control.fleet_file.schema import FleetFile
from control.offers.pools import QuotaLimit
from control.offers.selection import Selection
from control.planning.fleet import Fleet, ReconcileSettings
from control.planning.graph_apps import graph_apps_of
from control.planning.local_market import local_machines, local_quotes
from control.planning.offer_sources import OfferSources
from control.planning.own_market import own_hosts, own_quotes
from control.planning.served import served_apps
from control.planning.sharing import sharing_of
from templates_lib.values.clouds import LOCAL, OWNED, SKYPILOT, cloud_kind
from templates_lib.values.engines import start_up_minutes
from templates_lib.values.reach import Reach
from templates_lib.values.settings import Guardrails, Replicas, Settings, WorkLimits

T = TypeVar("T")


def fleet_of(file: FleetFile, document: Document, own: Collection[OwnModel]) -> tuple[Fleet, tuple[str, ...]]:
    """Make the fleet, with notes on what was left out of the traces that it names. `file`: the checked content of
    `document`; `own`: registered models. Raises SpecError."""
    hosts = own_hosts(file, document)
    apps, demand, notes = served_apps(file, document, own)
    graphs = graph_apps_of(file, document)
    demand, notes = demand | graphs.demand, (*notes, *graphs.notes)
    machines, sources = local_machines(file), offer_sources(file, document)
    engines = {each.engine for app in apps for served in app.components for each in served.by_engine()}
    engines |= {each.engine for each in graphs.apps if each.engine}
    settings, kept = _settings(file, engines), _reconcile(file)
    sharing = sharing_of(file, document, apps)
    disks, margin = file.offers.disks, file.policy.step_time_margin
    burst = file.policy.pools.burst
    more = disks, margin, graphs.apps, sharing, graphs.runs, None if burst is None else burst.value
    return Fleet(file.name, apps, demand, sources, machines, hosts, settings, kept, *more), notes


def offer_sources(file: FleetFile, document: Document) -> OfferSources:
    folder, at = Path(document.file).parent, document.position
    selections = (
        Selection(c.cloud, _all(c.regions), _all(c.gpus), _all(c.counts), tuple(c.markets), c.derived)
        for c in file.clouds
        if c.cloud not in (LOCAL, OWNED)
    )
    offers, stock = file.offers, file.offers.availability
    quotas = (
        (QuotaLimit(q.cloud, q.region, q.family, q.limit, q.market), at("quotas", place))
        for place, q in enumerate(file.quotas)
    )
    return OfferSources(
        selections=tuple(selections),
        clouds_at=at("clouds"),
        by_region=offers.by_region,
        stated=(local_quotes(local_machines(file)), own_quotes(file)),
        files=tuple((folder / name, at("offers", "files", place)) for place, name in enumerate(offers.files)),
        availability=None if stock is None else (folder / stock, at("offers", "availability")),
        quotas=tuple(quotas),
        reach=Reach(
            tuple(frozenset(group.networks) for group in file.network.peered),
            file.network.gateways or "",
            file.network.overlay == "wireguard",
        ),
    )


def _settings(file: FleetFile, engines: Collection[str]) -> Settings:
    policy, solver = file.policy, file.solver
    return Settings(
        mode=policy.mode,
        utilisation_cap=policy.utilisation_cap,
        startup_minutes=policy.startup_minutes,
        install_minutes=_install_minutes(file, engines),
        adjustment_interval_minutes=policy.adjustment_interval_minutes,
        restart_hours=policy.restart_hours,
        survive=policy.survive,
        survive_share=policy.survive_share,
        guardrails=Guardrails(
            max_usd_per_hour=policy.max_usd_per_hour,
            max_spot_share=policy.max_spot_share,
            replicas={key: Replicas(r.min, r.max) for key, r in policy.replicas.items()},
            max_unproven_nodes=policy.max_unproven_nodes,
            max_zone_share=policy.max_zone_share,
        ),
        limits=WorkLimits(
            gap=solver.gap,
            incumbent_columns=solver.incumbent_columns,
            proof_columns=solver.proof_columns,
            nodes=solver.nodes,
            simplex_iterations=solver.simplex_iterations,
            wall_clock_s=solver.wall_clock_s,
        ),
        seed=solver.seed,
    )


def _install_minutes(file: FleetFile, engines: Collection[str]) -> dict[str, float]:
    """Return what engines add to the start-up of a rented node, by engine."""
    if not any(cloud_kind(cloud.cloud).adapter == SKYPILOT for cloud in file.clouds):
        return {}
    return {engine: more for engine in sorted(engines) if (more := start_up_minutes(engine))}


def _reconcile(file: FleetFile) -> ReconcileSettings:
    kept, moved = file.reconcile, file.reconcile.disruption
    disruption = Disruption(moved.max_instances, moved.max_share, timedelta(minutes=moved.window_minutes))
    return ReconcileSettings(
        kept.replan_minutes, kept.payback_minutes, kept.payback_share, kept.max_new_nodes_per_hour, disruption
    )


def _all(values: list[T] | None) -> tuple[T, ...] | None:
    return None if values is None else tuple(values)
