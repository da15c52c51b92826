"""What a pipeline is to do of a request."""

from control.simulator.serving.autoregressive.records import DECODE, PREFILL
from control.simulator.serving.kernel.compiled import compiled
from control.simulator.serving.kernel.world import World


@compiled
def submit_tokens(w: World, row: int) -> None:
    """Note what the sequence of a leg that is new begins and ends with."""
    sequence = w.sequences[row]
    request = w.calls[row // w.places.shape[1]].request
    sequence.peer = -1
    sequence.run = sequence.blocks = 0
    sequence.awaited = 0
    stages = w.seated.shape[1]
    for stage in range(stages):
        w.chunks[row * stages + stage].piece = 0
    sequence.tokens = w.prompt[request] + w.fates[request].made
    sequence.end = w.prompt[request] + w.output[request]
    is_prefill = w.instances[w.legs[row].instance].role == PREFILL
    sequence.most = sequence.tokens if is_prefill else sequence.end - 1


@compiled
def link_peers(w: World, source: int, target: int) -> None:
    """Have two legs hand a KV cache over where one computes the prompt and the other goes on with it."""
    roles = w.instances[w.legs[source].instance].role, w.instances[w.legs[target].instance].role
    if roles == (PREFILL, DECODE):
        w.sequences[source].peer = target
        w.sequences[target].peer = source
