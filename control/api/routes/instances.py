"""Instances: what runs where, how busy it is; and draining one."""

from typing import Annotated

from fastapi import Query
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, ConfigDict, Field

from control.actions import drain_instance as actions
from control.api.documented import problems
from control.api.guarded_route import ActOf, ServicesOf, api_router
from control.api.ids import InstanceId
from control.api.page import Cursor, Items, Limit, Page, after, page
from control.api.routes.events import STREAM, LastEventId, followed
from control.api.text import Line, QueryText, Readable
from control.db.database import Database
from control.db.instance_pages import instance_page
from control.db.instances import PostgresInstances
from control.db.nodes import PostgresNodes
from control.db.traffic_series import served_lately
from control.fleet.instance_view import InstanceView
from control.fleet.links import InstanceLinks, instance_links, is_by_layers
from control.fleet.live_instances import views, views_of_fleet
from control.fleet.model_of_instance import model_of_instance
from control.fleet.node_logs import FoundLines, found_lines, node_log
from control.lifecycle.history import PastTransition
from control.lifecycle.state import InstanceState

router = api_router("instances")
TailBytes = Annotated[int, Query(ge=1, le=1 << 18, description="Bytes of each node's log.")]


class NodeLog(BaseModel):
    model_config = ConfigDict(from_attributes=True)

    node: str
    place: int = Field(description="Which of the instance's nodes it is.")
    text: str = Field(description="The end of its output; empty where it is not here.")
    size_bytes: int = Field(description="Size of the whole log.")
    missing: str = Field(description="Why there is no text, and where to look; empty: there is.")


class DrainReason(BaseModel):
    model_config = ConfigDict(extra="forbid")

    reason: Line = Field(
        default="an operator asked for it", min_length=1, description="Reason, for people and for the history."
    )


@router.get("/instances", responses=problems())
def list_instances(
    services: ServicesOf,
    limit: Limit = 50,
    cursor: Cursor = None,
    fleet: QueryText = None,
    state: Annotated[
        list[InstanceState] | None, Query(max_length=9, description="Any of these; default: all but terminated.")
    ] = None,
) -> Page[InstanceView]:
    """List instances by id."""
    (last,) = after(cursor, str) or ("",)
    records = instance_page(services.database, limit + 1, str(last), fleet, state or ())
    return page(list(views(services.database, records)), limit, lambda view: view, lambda view: (view.id,))


@router.get("/instances:follow", responses=problems() | STREAM, response_class=StreamingResponse)
async def follow_instances(
    services: ServicesOf,
    last_event_id: LastEventId = None,
    since: Annotated[int | None, Query(ge=0, lt=2**63, description="As Last-Event-ID, for a first request.")] = None,
    fleet: QueryText = None,
) -> StreamingResponse:
    """Live (server-sent events): `event: transition`, a step in an instance's life, whose id may be resumed after;
    `event: load`, how busy one is now, without id."""
    return followed(services, services.streams.instances, last_event_id, since, fleet)


@router.get("/instances/{instance}", responses=problems(404))
def get_instance(instance: InstanceId, services: ServicesOf) -> InstanceView:
    return _view(services.database, instance)


@router.get("/instances/{instance}/history", responses=problems(404))
def get_history(instance: InstanceId, services: ServicesOf) -> Items[PastTransition]:
    """Every step of its life, oldest first, with the reasons."""
    stored = PostgresInstances(services.database)
    stored.load(instance)
    return Items(items=list(stored.history(instance)))


@router.get("/instances/{instance}/links", responses=problems(404))
def get_links(instance: InstanceId, services: ServicesOf) -> InstanceLinks:
    """What flows between its stages, and to or from the instances of the other phase, by what its model served in the
    last ten minutes. Empty for one that computes components of a graph (see `apps`), or whose model is not known."""
    database = services.database
    view = _view(database, instance)
    model = model_of_instance(database, instance)
    if model is None or not is_by_layers(view.nodes):
        return InstanceLinks(None, (), None)
    ready = [each for each in views_of_fleet(database, view.fleet) if each.state == InstanceState.READY]
    return instance_links(view, ready, model, served_lately(database, view.fleet, view.model, services.clock()))


@router.get("/instances/{instance}/logs", responses=problems(404))
def get_logs(instance: InstanceId, services: ServicesOf, tail_bytes: TailBytes = 16_384) -> Items[NodeLog]:
    """The end of the log of each of its nodes, where the node is on this machine; else where to look."""
    PostgresInstances(services.database).load(instance)
    held = PostgresNodes(services.database).of_instance(instance)
    logs = (node_log(services.home, held[place], tail_bytes) for place in sorted(held))
    return Items(items=[NodeLog.model_validate(each) for each in logs])


@router.get("/instances/{instance}/logs:find", responses=problems(404))
def find_in_logs(
    instance: InstanceId,
    services: ServicesOf,
    text: Annotated[str, Query(min_length=1, max_length=200), Readable],
    limit: Limit = 100,
) -> Items[FoundLines]:
    """The newest lines of each of its nodes' logs that hold a text, whatever its case, in the last 16 MiB of each."""
    PostgresInstances(services.database).load(instance)
    held = PostgresNodes(services.database).of_instance(instance)
    return Items(items=[found_lines(services.home, held[place], text, limit) for place in sorted(held)])


@router.post("/instances/{instance}:drain", responses=problems(404, 409, body=True))
def drain_instance(instance: InstanceId, act: ActOf, body: DrainReason | None = None) -> InstanceView:
    """Give an instance no new request, let it finish those it has, and give it back; one that does not serve yet is
    given back at once. The control plane launches what the fleet's plan still wants. A second call changes nothing."""
    actions.drain_instance(act, instance, (body or DrainReason()).reason)
    return _view(act.database, instance)


def _view(database: Database, instance: str) -> InstanceView:
    records = instance_page(database, 1, ids=[instance])
    if not records:
        PostgresInstances(database).load(instance)  # says what is near
    return next(iter(views(database, records)))
