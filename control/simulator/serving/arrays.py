"""Requests, a fleet and its stations as the arrays of the kernel."""

from collections.abc import Sequence
from math import ceil
from typing import Any, get_type_hints

import numpy as np

from control.simulator.serving.autoregressive import records as p
from control.simulator.serving.autoregressive.rows import PipelineRows, pipeline_rows
from control.simulator.serving.batch_model import BatchModel
from control.simulator.serving.fleet_timeline import FleetTimeline, InstanceLife
from control.simulator.serving.kernel import records as r
from control.simulator.serving.kernel.world import Limits, World
from control.simulator.serving.late_binding_rows import LateBindingRows, late_binding_rows
from control.simulator.serving.requests import ANY_LENGTH, Requests
from control.simulator.serving.settings import ServingSettings
from control.timing.pipeline_model import PipelineModel
from policies import queue_parts
from policies.routing_table import RoutedRoute
from policies.rows import Ints, Rows, column, copied, rows_of, table_of

PICKS = 256
"""Choices that are asked of a router at once, at the most."""
_CALLS = 1024


def limits_of(settings: ServingSettings) -> Limits:
    """Give each setting the type that the kernel was compiled for: another, such as a whole number of seconds, would
    have it compiled once more, which takes a minute."""
    return Limits(**{name: kind(getattr(settings, name)) for name, kind in get_type_hints(Limits).items()})


def world_of(
    requests: Requests, fleet: FleetTimeline, routes: Sequence[RoutedRoute], settings: ServingSettings
) -> World:
    """`routes`: all that calls may take, in the order of `picks`.

    Raises ValueError for an instance that has to send or take in data and cannot."""
    _check_links(fleet, routes)
    lives, apps = fleet.instances, requests.apps
    classes = fleet.work_classes(apps)
    charged = [[classes.index(name) for name in fleet.work_classes((app,))] for app in apps]
    pipelines = pipeline_rows([life.station for life in lives if isinstance(life.station, PipelineModel)])
    batches = list({id(life.station): life.station for life in lives if isinstance(life.station, BatchModel)}.values())
    served = fleet.apps_of_instances(apps)
    instances, seats, uses = _instances(fleet, served, pipelines, batches, settings)
    groups = column(instances, "groups")
    most_legs = max((len(route.legs) for route in routes), default=1)
    facets = [batch.facets(classes) for batch in batches]
    route_legs, edges = _legs(routes, classes)
    late = late_binding_rows(fleet, apps, routes, route_legs, most_legs)
    return World(
        **_of_requests(requests, most_legs),
        **_of_calls(most_legs, pipelines.most_stages, max(map(len, charged), default=0)),
        **_of_pipelines(pipelines, int(groups.max(initial=1))),
        **_of_late_binding(late),
        call_ends=_no_ends(1),
        parked_ends=_no_ends(len(apps)),
        queue_ends=_no_ends(len(lives)),
        group_ends=_no_ends(int(groups.sum())),
        held_ends=_no_ends(len(lives)),
        edges=edges,
        instances=instances,
        instance_apps=np.array([app for own in served for app in own], np.int64),
        groups=rows_of(r.Group, int(groups.sum()), instance=np.repeat(np.arange(len(lives)), groups)),
        nodes=table_of(r.Node, [row for life in lives for row in _nodes(life)]),
        stations=table_of(r.Station, [
            (batch.batch_s, batch.start_s, batch.lanes, *span, batch.node_count)
            for batch, span in zip(batches, _spans([len(own) for own in facets]), strict=True)
        ]),
        facets=np.concatenate([np.zeros((0, len(classes))), *facets]),
        mix=np.zeros(len(classes)),
        apps=_apps(requests, fleet, served, charged, late.spans),
        charges=rows_of(r.Charge, sum(map(len, charged)), work_class=[number for own in charged for number in own]),
        done_s=np.full(len(classes), -np.inf),
        picks=np.zeros((len(apps), PICKS, 1 + most_legs), np.int64),
        picked=rows_of(r.Picked, len(apps), made=-1),
        queues=rows_of(queue_parts.Queue, len(apps) * queue_parts.PARTS, **queue_parts.EMPTY),
        chosen=np.zeros(most_legs, np.int64),
        heap=rows_of(r.Event, _events(_CALLS, most_legs + pipelines.most_stages, int(groups.sum()) + len(lives))),
        state=rows_of(r.State, 1, pending=-1, lost=-1),
        use_s=np.zeros(uses),
        seats=rows_of(p.Seat, seats),
    )  # fmt: skip


def _of_requests(requests: Requests, most_legs: int) -> dict[str, Any]:
    return {
        "app": requests.app,
        "arrival_s": requests.arrival_s,
        "prompt": requests.prompt_tokens,
        "output": requests.output_tokens,
        "rank": requests.rank,
        "most": requests.most_tokens,
        "fates": rows_of(r.Fate, len(requests), **dict.fromkeys(_TIMES, np.nan)),
        "places": np.full((len(requests), most_legs), -1, np.int32),
    }


def _of_calls(most_legs: int, most_stages: int, most_charges: int) -> dict[str, Any]:
    """Rows of calls and their legs, all of them free: `with_room` makes more."""
    calls, legs = _CALLS, _CALLS * most_legs
    return {
        "calls": rows_of(r.Call, calls, request=-1),
        "call_links": rows_of(r.Links, calls, next=_free(0, calls)),
        "parked_links": rows_of(r.Links, calls),
        "legs": rows_of(r.CallLeg, legs),
        "queue_links": rows_of(r.Links, legs),
        "held_links": rows_of(r.Links, legs),
        "booked": np.full((calls, most_charges), np.inf),
        "waiting": rows_of(queue_parts.Waiting, calls),
        "sequences": rows_of(p.Sequence, legs, peer=-1),
        "seated": np.zeros((legs, most_stages), np.int64),
        "chunks": rows_of(p.Chunk, legs * most_stages),
    }


def _of_pipelines(pipelines: PipelineRows, most_groups: int) -> dict[str, Any]:
    """What pipelines are, and room for a step of the largest. `most_groups`: of an instance."""
    names = "pipelines", "stages", "limits", "windows", "kinds", "by_rows", "by_context", "tables"
    return {name: getattr(pipelines, name) for name in names} | {
        "work": rows_of(p.Work, pipelines.most_nodes),
        "feeds": np.zeros((pipelines.most_nodes, pipelines.most_nodes), np.bool_),
        "scratch": np.zeros((3, max(pipelines.most_nodes, most_groups)), np.int64),
    }


def _of_late_binding(late: LateBindingRows) -> dict[str, Any]:
    names = "routes", "route_legs", "servers", "flows", "flow_zones", "members", "candidates", "latency_s", "busy_s"
    return {name: getattr(late, name) for name in names}


def with_room(w: World) -> World:
    """The same with twice as many calls."""
    old, most_legs, stages = len(w.calls), w.places.shape[1], w.seated.shape[1]
    calls, legs = 2 * old, 2 * old * most_legs
    call_links = copied(w.call_links, rows_of(r.Links, calls, next=_free(0, calls)))
    column(call_links, "next")[-1] = w.state[0].free
    w.state[0].free = old
    return w._replace(
        calls=copied(w.calls, rows_of(r.Call, calls, request=-1)),
        call_links=call_links,
        booked=np.concatenate([w.booked, w.booked]),
        parked_links=copied(w.parked_links, rows_of(r.Links, calls)),
        waiting=copied(w.waiting, rows_of(queue_parts.Waiting, calls)),
        legs=copied(w.legs, rows_of(r.CallLeg, legs)),
        queue_links=copied(w.queue_links, rows_of(r.Links, legs)),
        held_links=copied(w.held_links, rows_of(r.Links, legs)),
        sequences=copied(w.sequences, rows_of(p.Sequence, legs, peer=-1)),
        seated=np.concatenate((w.seated, np.zeros_like(w.seated))),
        chunks=copied(w.chunks, rows_of(p.Chunk, legs * stages)),
        heap=copied(w.heap, rows_of(r.Event, _events(calls, most_legs + stages, len(w.groups) + len(w.instances)))),
    )


_TIMES = ("queued_s", "first_s", "accepted_s", "handed_s", "finish_s")


def _free(first: int, end: int) -> Ints:
    """Each row's next, of a list of free rows."""
    return np.append(np.arange(first + 1, end), -1)


def _events(calls: int, parts: int, others: int) -> int:
    """Room on the heap for the events of so many calls, beside those of instances and groups. `parts`: legs of a call,
    and stages that send KV cache for it."""
    return 2 * others + (4 + parts) * calls


def _no_ends(count: int) -> Rows[r.Ends]:
    return rows_of(r.Ends, count, head=-1, tail=-1)


def _spans(counts: Sequence[int]) -> list[tuple[int, int]]:
    """Where each of several things that lie behind each other begins, and how many rows it has."""
    return list(zip([0, *np.cumsum(counts).tolist()], counts, strict=False))


def _check_links(fleet: FleetTimeline, routes: Sequence[RoutedRoute]) -> None:
    edges = [(route.legs, edge) for route in routes for edge in route.edges if edge.bytes_per_request > 0]
    sending = {legs[end].work_class for legs, edge in edges for end in (edge.source, edge.target)}
    for life in fleet.instances:
        does_part = life.leg in p.ROLES or not sending.isdisjoint(life.work_classes)
        if does_part and life.station.bytes_per_s <= 0:
            raise ValueError(f"instance {life.id} does {life.leg} alone on a node that sends nothing to other nodes")


def _legs(routes: Sequence[RoutedRoute], classes: tuple[str, ...]) -> tuple[Rows[r.RouteLeg], Rows[r.Edge]]:
    """Legs of all routes, and their edges in the order of where they begin."""
    legs: list[tuple[float, ...]] = []
    edges: list[tuple[float, ...]] = []
    for route in routes:
        for number, leg in enumerate(route.legs):
            own = [(edge.target, edge.bytes_per_request) for edge in route.edges if edge.source == number]
            legs.append((classes.index(leg.work_class), leg.units_per_request, len(edges), len(own), 0, 0))
            edges += own
    return table_of(r.RouteLeg, legs), table_of(r.Edge, edges)


def _nodes(life: InstanceLife) -> list[tuple[float, ...]]:
    """The rows of its nodes; of a station of batches one, through which all its data goes."""
    if isinstance(life.station, BatchModel):
        return [(0, 0, 0, 0, life.station.bytes_per_s, 0, 0, 0, 0, 0)]
    return [(0, 0, 0, 0, node.hand_off_bytes_per_s, 0, 0, 0, node.kv_blocks, 0) for node in life.station.nodes]


def _instances(
    fleet: FleetTimeline,
    served: Sequence[Sequence[int]],
    pipelines: PipelineRows,
    batches: Sequence[BatchModel],
    settings: ServingSettings,
) -> tuple[Rows[r.Instance], int, int]:
    """Instances, and how many seats and intervals they have together."""
    lives = fleet.instances
    table = rows_of(r.Instance, len(lives), alive=True, room=settings.max_waiting, kv_most=np.inf)
    station = {id(batch): row for row, batch in enumerate(batches)}
    nodes = groups = seats = uses = apps = 0
    for number, life in enumerate(lives):
        own = table[number]
        own.node_at, own.group_at, own.seat_at, own.use_at, own.app_at = nodes, groups, seats, uses, apps
        own.apps = len(served[number])
        own.use_first = int(min(life.ready_s, fleet.length_s) / settings.use_interval_s)
        end = ceil(min(life.gone_s, fleet.length_s) / settings.use_interval_s)
        own.uses = max(end - own.use_first, 1)
        if isinstance(life.station, PipelineModel):
            own.model, own.role = pipelines.index[id(life.station)], p.ROLES.get(life.leg, p.WHOLE)
            own.groups = life.station.groups_of(life.leg)
            count = len(life.station.nodes)
            seats += count * own.groups
        else:
            own.model, own.groups, count = station[id(life.station)], life.station.lanes, 1
            own.serves_batches = True
        nodes, groups, uses, apps = nodes + count, groups + own.groups, uses + own.uses, apps + own.apps
    return table, seats, uses


def _apps(
    requests: Requests,
    fleet: FleetTimeline,
    served: Sequence[Sequence[int]],
    charged: Sequence[Sequence[int]],
    members: Sequence[tuple[int, int]],
) -> Rows[r.App]:
    """A context is the least of the pipelines that serve the app; nothing is known before the first table."""
    apps = rows_of(r.App, len(requests.apps), look_s=np.inf)
    spans = _spans([len(own) for own in charged])
    for number, name in enumerate(requests.apps):
        lives = [life for life, own in zip(fleet.instances, served, strict=True) if number in own]
        contexts = [x.station.max_context_tokens for x in lives if isinstance(x.station, PipelineModel)]
        apps[number].context = min(contexts, default=ANY_LENGTH if lives else 0)  # batches keep none
        apps[number].charge_at, apps[number].charges = spans[number]
        apps[number].member_at, apps[number].members = members[number]
        own = requests.output_tokens[requests.app == number]
        apps[number].mean_output = fleet.mean_output_tokens.get(name, float(own.mean()) if len(own) else 1.0)
    return apps
