"""A leg's outputs go to the legs that need them, and a call is over when all its legs are."""

import numpy as np

from control.simulator.serving.kernel.calls import begin, drop, finish
from control.simulator.serving.kernel.compiled import compiled
from control.simulator.serving.kernel.heap import push, wake
from control.simulator.serving.kernel.links import transfer_end_s
from control.simulator.serving.kernel.records import AWAITING, INPUT, SENDING, SERVED
from control.simulator.serving.kernel.stations import end_service, forget
from control.simulator.serving.kernel.world import Limits, World


@compiled
def complete(w: World, limits: Limits, row: int, now_s: float) -> None:
    """The leg is computed: its outputs are sent, and until they have arrived its instance holds it."""
    legs = w.places.shape[1]
    call = row // legs
    own = w.calls[call]
    own.open -= 1
    if own.open == 0:
        _serve(w, limits, call, now_s)
        return
    leg, of_route = w.legs[row], w.route_legs[w.routes[own.route].leg_at + row - call * legs]
    leg.unsent = 0
    for edge in range(of_route.edge_at, of_route.edge_at + of_route.edges):
        target = call * legs + w.edges[edge].target
        if w.sequences[target].peer == row:
            continue  # a KV cache, which is handed over by itself
        leg.unsent += 1
        source, to = w.instances[leg.instance], w.instances[w.legs[target].instance]
        size, end_s = w.edges[edge].size, now_s
        if size > 0 and leg.instance != w.legs[target].instance:
            end_s = transfer_end_s(w.nodes[source.node_at], w.nodes[to.node_at], size, now_s)
        subject = (own.request * legs + row - call * legs) * legs + w.edges[edge].target
        push(w, end_s, INPUT, subject, row, own.attempt)
    if leg.unsent:
        end_service(w, row)
        wake(w, leg.instance, now_s)
    else:
        forget(w, row, now_s)


@compiled
def _serve(w: World, limits: Limits, call: int, now_s: float) -> None:
    """All legs of the call are done."""
    request = w.calls[call].request
    fate = w.fates[request]
    fate.made = w.output[request]
    if np.isnan(fate.first_s):
        fate.first_s = now_s + limits.reply_s
    drop(w, call, now_s)
    finish(w, limits, call, SERVED, now_s)


@compiled
def take_input(w: World, subject: int, source: int, attempt: int, now_s: float) -> None:
    """An output of the leg `source` arrives. `subject`: request, leg it comes from and leg it goes to."""
    legs = w.places.shape[1]
    call = source // legs
    row = call * legs + subject % legs
    leg, sender = w.legs[row], w.legs[source]
    if w.calls[call].request != subject // (legs * legs) or w.calls[call].attempt != attempt:
        return  # the call is over, or was begun again
    if sender.phase != SENDING or not (w.instances[sender.instance].alive and w.instances[leg.instance].alive):
        return  # gateways find out that an instance is dead, and begin the call again
    w.fates[w.calls[call].request].handed_s = now_s
    sender.unsent -= 1
    if sender.unsent == 0:
        forget(w, source, now_s)
    leg.missing -= 1
    if leg.missing == 0 and leg.phase == AWAITING:
        begin(w, row)
        wake(w, leg.instance, now_s)
