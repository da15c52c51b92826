"""Stations that serve batches: each lane takes what waits, first come, first served, up to a batch, and is busy with it
until all of it is done."""

import numpy as np

from control.simulator.serving.kernel.compiled import compiled
from control.simulator.serving.kernel.heap import push
from control.simulator.serving.kernel.lists import dequeue, enqueue
from control.simulator.serving.kernel.records import READY, STEP, Station
from control.simulator.serving.kernel.world import Limits, World


@compiled
def order_batches(w: World, limits: Limits, instance: int, now_s: float) -> None:
    """Begin a batch in every lane that has none, as long as calls wait."""
    own, waiting = w.instances[instance], w.queue_ends[instance]
    station = w.stations[own.model]
    for group in range(own.group_at, own.group_at + own.groups):
        if waiting.head < 0:
            return
        if w.groups[group].flight:
            continue
        work_s = _fill(w, instance, group, station, now_s)
        slope = 1.0 - station.start_s / station.batch_s if station.batch_s > 0 else 1.0
        # A call that is more than a batch is one by itself, and takes what it takes at the certified capacity.
        served_s = max(work_s, station.start_s + slope * work_s)
        w.state[0].steps += 1
        w.groups[group].flight = w.state[0].steps
        push(w, now_s + served_s, STEP, group, group, w.state[0].steps)
        interval = int(now_s / limits.use_interval_s) - own.use_first
        w.use_s[own.use_at + min(interval, own.uses - 1)] += served_s * station.nodes / own.groups


@compiled
def _fill(w: World, instance: int, group: int, station: Station, now_s: float) -> float:
    """Put what waits into the batch; seconds that it takes of a lane at the certified capacity."""
    waiting, members, legs = w.queue_ends[instance], w.group_ends[group], w.places.shape[1]
    w.mix[:] = 0.0
    work_s = 0.0
    while waiting.head >= 0:
        row = waiting.head
        call = row // legs
        own = w.calls[call]
        of_route = w.route_legs[w.routes[own.route].leg_at + row - call * legs]
        w.mix[of_route.work_class] += of_route.units
        with_it_s = _work_s(w, station)
        if members.head >= 0 and with_it_s > station.batch_s:
            break
        work_s = with_it_s
        dequeue(w, waiting, row)
        w.legs[row].group = group
        enqueue(w, members, row)
        w.groups[group].size += 1
        w.instances[instance].running += 1
        if np.isnan(w.fates[own.request].queued_s):
            w.fates[own.request].queued_s = now_s - w.arrival_s[own.request]
    return work_s


@compiled
def _work_s(w: World, station: Station) -> float:
    """Seconds that the units of `mix` take of one of the lanes, which share the station's capacity."""
    most_s = 0.0
    for facet in range(station.facet_at, station.facet_at + station.facets):
        own_s = 0.0
        for work_class in range(len(w.mix)):
            own_s += w.facets[facet, work_class] * w.mix[work_class]
        most_s = max(most_s, own_s)
    return most_s * station.lanes


@compiled
def leave_batch(w: World, row: int) -> None:
    """Take a leg out of its batch, which goes on, or out of the queue."""
    leg = w.legs[row]
    if leg.group >= 0:
        dequeue(w, w.group_ends[leg.group], row)
        w.groups[leg.group].size -= 1
        w.instances[leg.instance].running -= 1
        leg.group = -1
    elif leg.phase == READY:
        dequeue(w, w.queue_ends[leg.instance], row)
