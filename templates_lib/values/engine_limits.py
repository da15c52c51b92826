"""What a placement asks of an engine that the engine does not do."""

from collections.abc import Collection, Sequence
from dataclasses import replace

from templates_lib.values.engine_support import EngineSupport
from templates_lib.values.placement import Stage
from templates_lib.values.work import Phase


def beyond(support: EngineSupport, stages: Sequence[Stage]) -> tuple[str, ...]:
    """Return the ways in which a model is cut that an engine with this support does not cut it, to read behind "a model
    is to be"; empty: it runs on these nodes as they are."""
    nodes = [each for stage in stages for each in stage.nodes]
    asked = {
        "cut over several nodes": (sum(each.count for each in nodes) > 1, support.cuts_over_nodes),
        "cut over devices by tensors": (any(each.tp > 1 for each in nodes), support.tensor_parallel),
        "cut over devices by experts": (any(each.ep > 1 for each in nodes), support.expert_parallel),
        "held several times by a node": (any(each.dp > 1 for each in nodes), support.data_parallel),
        "served with prompts and answers apart": (
            any(each.phase is not Phase.AGGREGATED for each in nodes),
            support.hands_over,
        ),
    }
    return tuple(how for how, (is_asked, can) in asked.items() if is_asked and not can)


def most_nodes(support: EngineSupport, n_max: int) -> int:
    """Return the most nodes that an instance may have, of `n_max` that any may."""
    return n_max if support.cuts_over_nodes else 1


def refusal_of_phases(
    engine: str, support: EngineSupport, model: str, phases: Collection[Phase], kv_dtype: str, *, is_latent: bool
) -> str | None:
    """Say why an engine does not serve a model in these phases, and what to do; None: it does. `kv_dtype`, `is_latent`:
    of its KV cache."""
    has_type = support.hand_over_types is None or kv_dtype in support.hand_over_types
    if not (has_type and (support.hands_over_latents or not is_latent)):
        support = replace(support, hands_over=False)
    if set(phases) <= set(support.phases):
        return None
    return (
        f"model {model} is to have prompts and answers on instances of their own, and engine {engine} hands no KV cache"
        " of it over: set `disaggregated: false` and `aggregated: true`, or leave `engine` out"
    )
