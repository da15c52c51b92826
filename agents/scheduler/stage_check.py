"""Do the stages that came hold the pipeline of the layout?"""

from collections.abc import Iterator, Mapping

from agents.messages.to_stage_scheduler import StageLoaded
from agents.scheduler.layout import PipelineLayout


def faults(layout: PipelineLayout, loaded: Mapping[tuple[int, int], StageLoaded]) -> Iterator[str]:
    """Why what the nodes hold, by (stage, node), cannot serve; nothing when it can. All nodes must be there."""
    agreed = {
        (one.hidden_size, one.dtype, one.block_tokens, one.model_layers, one.kv_heads, one.head_dim)
        for one in loaded.values()
    }
    if len(agreed) > 1:
        what = "hidden size, data type, tokens of a block, layers of the model, KV heads, their size"
        yield f"the stages differ in ({what}): {sorted(agreed)}"
    end = 0
    for stage, nodes in enumerate(layout.stages):
        held = {(one.first_layer, one.layers) for (s, _), one in loaded.items() if s == stage}
        if len(held) > 1 or min(held)[0] != end:
            yield f"stage {stage} holds (first layer, layers) {sorted(held)}, must begin with layer {end}"
        end += min(held)[1]
        for node, limits in enumerate(nodes):
            if loaded[stage, node].kv_blocks < limits.kv_blocks:
                yield f"{limits.name} has {loaded[stage, node].kv_blocks} KV blocks, not {limits.kv_blocks}"
    one = loaded[0, 0]
    if end != one.model_layers:
        yield f"the stages hold {end} layers of {one.model_layers}"
    if (one.block_tokens, one.vocab_size) != (layout.block_tokens, layout.vocab_size):
        yield (
            f"the stages have KV blocks of {one.block_tokens} tokens and a vocabulary of {one.vocab_size}, "
            f"not {layout.block_tokens} and {layout.vocab_size}"
        )
    if 0 < one.max_context_tokens < layout.max_context_tokens:
        yield f"the model's context has {one.max_context_tokens} tokens, not {layout.max_context_tokens}"
