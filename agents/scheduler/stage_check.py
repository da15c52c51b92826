"""Do the stages that came hold the pipeline of the layout?"""

from collections.abc import Iterator, Mapping

from agents.messages.to_stage_scheduler import StageLoaded
from agents.scheduler.layout import PipelineLayout
from agents.scheduler.workers import Workers


def faults(layout: PipelineLayout, workers: Workers, loaded: Mapping[int, StageLoaded]) -> Iterator[str]:
    """Yield why what the workers hold, by number, cannot serve; nothing when it can. All workers must be there."""
    agreed = {
        (one.hidden_size, one.dtype, one.block_tokens, one.model_layers, one.kv_heads, one.head_dim)
        for one in loaded.values()
    }
    if len(agreed) > 1:
        what = "hidden size, data type, tokens of a block, layers of the model, KV heads, their size"
        yield f"the stages differ in ({what}): {sorted(agreed)}"
    end = 0
    for stage, peers in enumerate(layout.stages):
        held = {_held([loaded[w] for w in workers.parts(stage, node)]) for node in range(len(peers))}
        if len(held) > 1 or min(held)[0] != end:
            yield f"stage {stage} holds (first layer, layers) {sorted(held)}, must begin with layer {end}"
        end += min(held)[1]
        for node, limits in enumerate(peers):
            blocks = min(loaded[worker].kv_blocks for worker in workers.parts(stage, node))
            if blocks < limits.kv_blocks:
                yield f"{limits.name} has {blocks} KV blocks, not {limits.kv_blocks}"
    one = loaded[0]
    if end != one.model_layers:
        yield f"the stages hold {end} layers of {one.model_layers}"
    if (one.block_tokens, one.vocab_size) != (layout.block_tokens, layout.vocab_size):
        yield (
            f"the stages have KV blocks of {one.block_tokens} tokens and a vocabulary of {one.vocab_size}, "
            f"not {layout.block_tokens} and {layout.vocab_size}"
        )
    if 0 < one.max_context_tokens < layout.max_context_tokens:
        yield f"the model's context has {one.max_context_tokens} tokens, not {layout.max_context_tokens}"


def _held(parts: list[StageLoaded]) -> tuple[int, int]:
    """First layer, and layers, as far as the parts follow each other without a gap."""
    first = end = parts[0].first_layer
    for part in parts:
        end = end + part.layers if part.first_layer == end else end
    return first, end - first
