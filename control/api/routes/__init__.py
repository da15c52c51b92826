"""One module a resource: its documents and its routes."""

from control.api.routes import (
    budgets,
    cost,
    decisions,
    events,
    fleets,
    health,
    instances,
    models,
    offers,
    operations,
    plans,
    projects,
    session,
    templates,
    tokens,
)

ROUTERS = (
    health.router,
    session.open_router,
    session.router,
    projects.router,
    models.router,
    fleets.router,
    plans.router,
    decisions.router,
    instances.router,
    templates.router,
    offers.router,
    cost.router,
    budgets.router,
    events.router,
    tokens.router,
    operations.router,
)
