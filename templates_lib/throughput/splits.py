"""The ways in which the GPUs of one node can share a model."""

from templates_lib.models.model_spec import ModelSpec
from templates_lib.ports.cost_model import Parallel
from templates_lib.values.engine_support import ANYTHING, EngineSupport


def splits(model: ModelSpec, gpu_count: int, engine: EngineSupport = ANYTHING) -> tuple[Parallel, ...]:
    """All (tp, dp, pp, ep) with tp · dp · pp = `gpu_count` that `engine` accepts, the most tensor parallel first.

    tp divides attention heads and feed-forward width, and divides the KV heads or is a multiple of them (they are
    then replicated), as vLLM requires. Experts are sharded with the rest (ep = 1), or placed whole on tp · dp GPUs.
    """
    found = []
    for tp in range(gpu_count, 0, -1):
        if gpu_count % tp or not _tensor_parallel(model, tp) or (tp > 1 and not engine.tensor_parallel):
            continue
        for pp in range(1, gpu_count // tp + 1):
            if (gpu_count // tp) % pp:
                continue
            dp = gpu_count // tp // pp
            if dp > 1 and not engine.data_parallel:
                continue
            found.append(Parallel(tp, dp, pp, 1))
            whole = model.experts is not None and tp * dp > 1 and model.experts.count % (tp * dp) == 0
            if whole and engine.expert_parallel:
                found.append(Parallel(tp, dp, pp, tp * dp))
    return tuple(found)


def kv_shards(model: ModelSpec, parallel: Parallel) -> int:
    """Among how many tensor-parallel ranks a layer's KV cache is cut; a latent cache is held whole by each."""
    return 1 if model.latent_attention is not None else min(parallel.tp, model.kv_heads)


def expert_shards(parallel: Parallel) -> int:
    return max(parallel.tp, parallel.ep)


def _tensor_parallel(model: ModelSpec, tp: int) -> bool:
    widths = [w for w in (model.intermediate_size, model.experts and model.experts.intermediate_size) if w]
    kv_fits = model.latent_attention is not None or model.kv_heads % tp == 0 or tp % model.kv_heads == 0
    return model.attention_heads % tp == 0 and kv_fits and all(w % tp == 0 for w in widths)
