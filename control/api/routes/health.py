"""Liveness, readiness and metrics of the process. Open to all."""

from contextlib import suppress

from fastapi import APIRouter, Response
from pydantic import BaseModel

from control.api.documented import problems
from control.api.guarded_route import ServicesOf
from control.db.errors import DatabaseError
from control.db.operations import PostgresOperations

router = APIRouter(tags=["health"])


class Health(BaseModel):
    status: str


@router.get("/healthz", responses={503: problems()[503]})
async def health() -> Health:
    """The process runs and its loop turns."""
    return Health(status="ok")


@router.get("/readyz", responses={503: problems()[503]})
def ready(services: ServicesOf) -> Health:
    """The database answers and its tables are those of this release: requests may be sent here."""
    services.database.check()
    return Health(status="ready")


@router.get("/metrics", responses={200: {"content": {"text/plain": {}}}}, response_class=Response)
def metrics(services: ServicesOf) -> Response:
    """Metrics in Prometheus' format."""
    # Without the database the rest is worth knowing all the more; the gauge keeps what it was.
    with suppress(DatabaseError):
        services.metrics.open_operations.set(PostgresOperations(services.database).open_count())
    services.metrics.followers.set(services.streams.followers)
    return Response(services.metrics.text(), media_type="text/plain; version=0.0.4")
