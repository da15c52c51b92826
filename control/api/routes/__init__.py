"""One module a resource: its documents and its routes."""

from control.api.routes import (
    alerts,
    apps,
    budgets,
    client_runs,
    cost,
    decisions,
    demand,
    events,
    fleets,
    graphs,
    health,
    idempotency_keys,
    instances,
    models,
    objectives,
    offers,
    operations,
    plans,
    playground,
    pools,
    projects,
    runs,
    series,
    session,
    slo,
    specs,
    status,
    templates,
    tokens,
    webhooks,
    workflows,
)

_RESOURCES = (
    health, session, projects, models, fleets, specs, plans, objectives, decisions, instances, playground, templates,
    graphs, apps, offers, demand, pools, cost, budgets, alerts, webhooks, slo, series, status, events, tokens,
    operations, idempotency_keys, workflows, runs, client_runs,
)  # fmt: skip
ROUTERS = (session.open_router, *(resource.router for resource in _RESOURCES))
