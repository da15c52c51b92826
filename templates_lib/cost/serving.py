"""Latency that closed-loop clients of a deployment see, derived from the times of single iterations.

Aggregated serving: `c` clients of a replica decode together while the prompts of the others pass through. A decoding
request sees every other client's prefill once per own output, so

    TPOT = t(decode) + stall · (c - 1) / output · (t(decode + prompt) - t(decode))
    TTFT = first + wait · t(decode) + t(prompt) + queued · (c - 1) · t(prompt of a full chunk)

Of c clients the KV cache holds n; the others wait (c - n) / n generations (Little's law). Disaggregated: no stall, a
hand-off before the first token, the queue is the prefill worker's, and a prefill stage that cannot follow holds the
clients back: TTFT ≥ c_prefill · t(prompt) - output · TPOT.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from templates_lib.cost.coefficients import ServingOverhead
from templates_lib.cost.deployment import Deployment, Worker
from templates_lib.models.model_spec import ModelSpec
from templates_lib.ports.cost_model import NodeStep, StageCostModel

Floats = NDArray[np.float64]
CHUNK_TOKENS = 8192.0
"""Prompt tokens in one iteration at the most (vLLM, SGLang and TensorRT-LLM defaults on data-centre cards)."""
MEMORY_SHARE = 0.9
"""Share of a GPU's memory that engines give to weights and cache (vLLM's default)."""


@dataclass(frozen=True, slots=True, eq=False)
class Loads:
    """Clients of n deployments, per data-parallel replica. Arrays (n,)."""

    running: Floats
    """Decoding at once."""
    waiting: Floats
    """Beyond what the KV cache holds."""
    queueing: Floats
    """Clients whose prompts meet before one prefill replica."""
    output_tokens: Floats
    apart: NDArray[np.bool_]
    """Disaggregated."""
    stated: NDArray[np.bool_]
    """True where the row says how many workers there are."""


@dataclass(frozen=True, slots=True, eq=False)
class StepTimes:
    """Seconds of iterations of n deployments. Arrays (n,)."""

    decode: Floats
    mixed: Floats
    """Decodes and one prompt a replica; equal to `decode` where phases are apart."""
    prompt: Floats
    """One prompt a replica, alone."""
    chunk_prompt: Floats
    """A prompt's share of an iteration that is full of prompts."""


def load_of(deployment: Deployment, serving: ServingOverhead) -> tuple[float, float, float]:
    """(running, waiting, queueing) clients of a replica."""
    decode = deployment.decode or deployment.prefill
    ahead = (serving.unstated_scale, serving.unstated_power)
    clients = _per_worker(deployment, decode, ahead) / decode.parallel.dp
    room = kv_requests(deployment, decode) / decode.parallel.dp
    running = max(min(clients, room), min(clients, 1.0))
    before = (serving.unstated_queue_scale, serving.unstated_queue_power)
    queueing = _per_worker(deployment, deployment.prefill, before) / deployment.prefill.parallel.dp
    return running, clients - running, queueing


def _per_worker(deployment: Deployment, worker: Worker, usual: tuple[float, float]) -> float:
    """Clients of one worker; as usual (scale, power) where the number of workers is not stated."""
    if worker.count:
        return deployment.concurrency / worker.count
    return float(usual_clients(np.array(deployment.concurrency), *usual))


def usual_clients(concurrency: Floats, scale: float, power: float) -> Floats:
    """Clients of one worker among an unstated number of them: from 1 to all."""
    return np.clip(scale * concurrency**power, 1.0, concurrency)


def kv_requests(deployment: Deployment, worker: Worker) -> float:
    """Requests whose KV cache fits beside the weights on one worker: pages are taken as a generation grows, so that a
    request holds half of its output in the mean."""
    model, parallel = deployment.model, worker.parallel
    gpus = parallel.tp * parallel.dp * parallel.pp
    copies = float(parallel.tp) if model.latent_attention else max(1.0, parallel.tp / model.kv_heads)
    request = copies * sum(_kept(model, deployment.prompt_tokens + deployment.output_tokens / 2))
    weights = model.weight_bytes * (parallel.dp if parallel.ep == 1 else 1)
    return max(0.0, MEMORY_SHARE * deployment.system.gpu.memory_bytes * gpus - weights) / request


def _kept(model: ModelSpec, tokens: float) -> list[float]:
    return [model.kv_bytes_per_token_per_layer * min(tokens, window or tokens) for window in model.windows]


def step_times(deployment: Deployment, cost_model: StageCostModel, running: float) -> tuple[float, float, float, float]:
    """Seconds of the four iterations that `StepTimes` names, in that order."""
    prefill, decode = deployment.prefill, deployment.decode or deployment.prefill
    prompt, total = deployment.prompt_tokens, deployment.prompt_tokens + deployment.output_tokens / 2
    in_chunk = max(1.0, CHUNK_TOKENS / prompt)
    ours, theirs = prefill.parallel, decode.parallel
    requests = running * theirs.dp
    together = deployment.decode is None
    mixed = np.array([0.0, prompt * theirs.dp * together])
    decoding = _seconds(deployment, cost_model, decode, mixed, np.array([requests, requests]), total)
    alone = np.array([prompt * ours.dp, prompt * ours.dp * in_chunk])
    prefilling = _seconds(deployment, cost_model, prefill, alone, np.zeros(2), total)
    return float(decoding[0]), float(decoding[1]), float(prefilling[0]), float(prefilling[1] / in_chunk)


def _seconds(
    deployment: Deployment,
    cost_model: StageCostModel,
    worker: Worker,
    prompts: Floats,
    requests: Floats,
    decode_context: float,
) -> Floats:
    model, parallel = deployment.model, worker.parallel
    step = NodeStep(
        layers=np.array([float(model.layers)]),
        prompt_tokens=prompts,
        prompt_context=np.array([deployment.prompt_tokens / 2]),
        decode_requests=requests,
        decode_context=np.array([decode_context]),
    )
    node = deployment.system.node(parallel.tp * parallel.dp * parallel.pp)
    return cost_model.stage_seconds(model, node, parallel, step, head=True)


def loads(deployments: Sequence[Deployment], serving: ServingOverhead) -> Loads:
    running, waiting, queueing = np.array([load_of(d, serving) for d in deployments]).reshape(-1, 3).T
    output = np.array([d.output_tokens for d in deployments])
    apart = np.array([d.decode is not None for d in deployments])
    stated = np.array([d.decode is None or d.decode.count > 0 for d in deployments])
    return Loads(running, waiting, queueing, output, apart, stated)


def latencies(times: StepTimes, load: Loads, serving: ServingOverhead) -> tuple[Floats, Floats]:
    """(TTFT, TPOT) in seconds, (n,) each."""
    stall = serving.stall * np.maximum(load.running - 1, 0) / load.output_tokens * (times.mixed - times.decode)
    tpot = times.decode + np.where(load.apart, 0.0, stall)
    generation = tpot * load.output_tokens
    no_room = load.waiting / np.maximum(load.running, 1.0) * generation
    share = np.where(load.apart, serving.queued_apart, serving.queued)
    queue = share * np.maximum(load.queueing - 1, 0) * times.chunk_prompt
    held_back = np.where(load.apart, np.maximum(load.queueing * times.chunk_prompt - generation, 0.0), 0.0)
    hand_off = np.where(load.stated, serving.hand_off_s, serving.unstated_hand_off_s)
    own = serving.first_token_s + hand_off * load.apart + serving.wait_steps * times.decode + times.prompt
    return np.asarray(own + np.maximum(queue, held_back) + no_room), np.asarray(tpot)
