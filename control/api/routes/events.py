"""Events: who did what, what happened, and why. The audit log and the history of fleets are one."""

from typing import Annotated, Any

from fastapi import Header, Query
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, Field

from control.api.documented import problems
from control.api.feed import Feed
from control.api.guarded_route import ServicesOf, api_router
from control.api.page import Cursor, Limit, Page, after, page
from control.api.problem import ApiError
from control.api.services import Services
from control.api.streams import event_document
from control.api.text import QueryText
from control.db.events import PostgresEvents
from control.lifecycle.fleet_event import PastEvent

router = api_router("events")
LastEventId = Annotated[
    str | None,
    Header(alias="Last-Event-ID", max_length=20, description="Go on after this one; browsers send it by themselves."),
]
STREAM: dict[int | str, dict[str, Any]] = {
    200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}, "description": "Server-sent events."}
}


class Event(BaseModel):
    sequence: int
    at: str = Field(description="ISO 8601, UTC.")
    actor: str = Field(description="`token:ID`, or `reconciler`.")
    kind: str = Field(description="What, such as `plan.accepted`.")
    text: str = Field(description="Why, for people.")
    fleet: str
    subject: str = Field(description="Id of what it is about.")
    detail: dict[str, str | int | float | bool] = Field(
        description="Its figures by name, such as `usd_per_hour` and `usd_per_hour_before` of `plan.accepted`."
    )
    trace: str = Field(description="Trace id of the request that it belongs to; empty: of none.")


@router.get("/events", responses=problems())
def list_events(
    services: ServicesOf,
    limit: Limit = 50,
    cursor: Cursor = None,
    fleet: QueryText = None,
    subject: QueryText = None,
    kind: QueryText = None,
) -> Page[Event]:
    """List events, the newest first."""
    last = after(cursor, int)
    before = None if last is None else int(last[0])
    rows = PostgresEvents(services.database).page(
        limit + 1, before=before, fleet=fleet or "", subject=subject or "", kind=kind or ""
    )
    return page(rows, limit, shown, lambda row: (row.sequence,))


@router.get("/events:follow", responses=problems() | STREAM, response_class=StreamingResponse)
async def follow_events(
    services: ServicesOf,
    last_event_id: LastEventId = None,
    since: Annotated[int | None, Query(ge=0, lt=2**63, description="As Last-Event-ID, for a first request.")] = None,
    fleet: QueryText = None,
) -> StreamingResponse:
    """Events as they happen (server-sent events): `event: event`, data as in the list, id its sequence."""
    return followed(services, services.streams.events, last_event_id, since, fleet)


def followed(
    services: Services, feed: Feed, last_event_id: str | None, since: int | None, fleet: str | None
) -> StreamingResponse:
    after_id = since
    if last_event_id:
        if not (last_event_id.isascii() and last_event_id.isdigit() and int(last_event_id) < 2**63):
            raise ApiError(400, "bad-last-event-id", "Last-Event-ID is the id of an event that was sent")
        after_id = int(last_event_id)
    if services.streams.followers >= services.settings.max_streams:
        detail = f"{services.settings.max_streams} streams are open here already"
        raise ApiError(503, "unavailable", detail, headers={"Retry-After": "10"})
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(feed.follow(after_id, fleet), media_type="text/event-stream", headers=headers)


def shown(past: PastEvent) -> Event:
    return Event.model_validate(event_document(past))
