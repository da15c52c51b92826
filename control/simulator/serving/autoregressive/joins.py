"""What becomes of a group's requests when its step is through all stages."""

import numpy as np

from control.simulator.serving.autoregressive.places import count_prompt
from control.simulator.serving.autoregressive.records import COMING, HELD, PREFILL
from control.simulator.serving.autoregressive.scheduler import offer
from control.simulator.serving.kernel.compiled import compiled
from control.simulator.serving.kernel.heap import push
from control.simulator.serving.kernel.legs import complete
from control.simulator.serving.kernel.records import ARRIVED
from control.simulator.serving.kernel.world import Limits, World


@compiled
def join(w: World, limits: Limits, group: int, step: int, now_s: float) -> None:
    """Move the requests of the group on: all of it is through."""
    row = w.group_ends[group].head
    while row >= 0:
        sequence = w.sequences[row]
        after = w.queue_links[row].next
        if sequence.flight == step:
            sequence.flight = 0
            sequence.position += sequence.count
            if sequence.position == sequence.tokens:
                if not sequence.sampled:
                    count_prompt(w, row, -1)
                sequence.sampled = True
                sequence.tokens += 1
                _deliver(w, limits, row, now_s)
        row = after


@compiled
def _deliver(w: World, limits: Limits, row: int, now_s: float) -> None:
    """Give the client one more token."""
    leg, sequence = w.legs[row], w.sequences[row]
    fate = w.fates[w.calls[row // w.places.shape[1]].request]
    fate.made += 1
    if np.isnan(fate.first_s):
        fate.first_s = now_s + limits.reply_s
    if sequence.tokens == sequence.end:
        peer = sequence.peer if w.instances[leg.instance].role == PREFILL else -1
        complete(w, limits, row, now_s)
        if peer >= 0:  # its output is whole: there is nothing to hand over
            complete(w, limits, peer, now_s)
    elif w.instances[leg.instance].role == PREFILL:
        leg.phase = HELD
        if w.legs[sequence.peer].phase == COMING:  # it lacks the first token
            told_s = now_s + w.pipelines[w.instances[leg.instance].model].hand_off_s / 2
            request = w.calls[row // w.places.shape[1]].request
            push(w, told_s, ARRIVED, request, sequence.peer, w.sequences[sequence.peer].run)
        else:
            offer(w, sequence.peer, now_s)
