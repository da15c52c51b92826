"""What serves legs: schedulers of text, and stations of batches. The rest of the kernel asks here, whichever it is."""

from control.simulator.serving.autoregressive.places import could_ever_fit
from control.simulator.serving.autoregressive.scheduler import leave, order_steps
from control.simulator.serving.kernel.batches import leave_batch, order_batches
from control.simulator.serving.kernel.compiled import compiled
from control.simulator.serving.kernel.heap import look_at, wake
from control.simulator.serving.kernel.lists import leave_instance
from control.simulator.serving.kernel.records import ABSENT, SENDING
from control.simulator.serving.kernel.world import Limits, World
from policies.queue_parts import PARTS, first_waiting


@compiled
def order(w: World, limits: Limits, instance: int, now_s: float) -> None:
    """Begin all that the instance can begin, and tell gateways if it has room again."""
    own = w.instances[instance]
    if own.serves_batches:
        order_batches(w, limits, instance, now_s)
    else:
        order_steps(w, limits, instance, now_s)
    for at in range(own.app_at, own.app_at + own.apps):
        app = w.instance_apps[at]
        if first_waiting(w.queues, app * PARTS) >= 0:
            look_at(w, app, now_s)
    room = limits.max_waiting - (own.held - own.running)
    if room > 0 and own.room <= 0:
        own.room = room
        note_room(w, instance)
        for at in range(own.app_at, own.app_at + own.apps):
            try_parked(w, w.instance_apps[at])


@compiled
def note_room(w: World, instance: int) -> None:
    """Have gateways know that the instance is full, or is not any more."""
    own = w.instances[instance]
    w.state[0].filled = True
    for at in range(own.app_at, own.app_at + own.apps):
        w.apps[w.instance_apps[at]].filled = True


@compiled
def try_parked(w: World, app: int) -> None:
    """Have all calls of the app that are parked now be tried again."""
    own = w.apps[app]
    if own.parked == 0:
        return
    if own.wakes == 0:
        w.state[0].waking += 1
    own.wakes = own.parked


@compiled
def fits(w: World, instance: int, prompt: int, made: int, output: int) -> bool:
    """Whether the instance could ever hold its leg of such a request."""
    return w.instances[instance].serves_batches or could_ever_fit(w, instance, prompt, made, output)


@compiled
def release(w: World, row: int) -> None:
    """Give back what a leg holds of what serves it."""
    if w.instances[w.legs[row].instance].serves_batches:
        leave_batch(w, row)
    else:
        leave(w, row)


@compiled
def end_service(w: World, row: int) -> None:
    """The leg is computed; its instance holds it until its outputs have arrived."""
    leg = w.legs[row]
    if leg.phase != SENDING:
        release(w, row)
        leg.phase = SENDING
        w.instances[leg.instance].running += 1


@compiled
def forget(w: World, row: int, now_s: float) -> None:
    """The leg is over at its instance."""
    leg = w.legs[row]
    if leg.phase == SENDING:
        w.instances[leg.instance].running -= 1
    else:
        release(w, row)
    leave_instance(w, row)
    leg.phase = ABSENT
    wake(w, leg.instance, now_s)
