"""What flows between the stages of an instance, and from the prompts' instances to the answers'. Plain values."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from control.fleet.instance_view import InstanceView, NodeView
from templates_lib.models.model_spec import ModelSpec
from templates_lib.values.work import Phase


@dataclass(frozen=True, slots=True)
class StageLink:
    """Hidden states that one stage sends the next."""

    source: int
    target: int
    bytes_per_token: float
    bytes_per_s: float | None
    """Now; None: it is not known how many tokens go through."""


@dataclass(frozen=True, slots=True)
class HandOff:
    """KV cache that goes over once a prompt is computed: to `peers` where this instance computes prompts, from them
    where it makes answers."""

    is_sent: bool
    peers: tuple[str, ...]
    """Instances of the other phase, of the same fleet and model."""
    bytes_per_token: float
    """Of a prompt, of all layers."""
    bytes_per_s: float | None
    """As of a link."""


@dataclass(frozen=True, slots=True)
class InstanceLinks:
    tokens_per_s: float | None
    """That go through it now: its part of what its model served, by its capacity. None: it is not known."""
    stages: tuple[StageLink, ...]
    hand_off: HandOff | None
    """None: it computes prompts and answers alike, or only one of them is there."""


def instance_links(
    view: InstanceView, others: Sequence[InstanceView], model: ModelSpec, served: Mapping[str, float] | None
) -> InstanceLinks:
    """Describe the links of an instance that serves a model by layers. `others`: ready ones of its fleet, itself among
    them or not; `served`: units/s of its model by work class, prompt and output tokens; None: nobody counted."""
    peers = [each for each in others if each.model == view.model and each.id != view.id]
    tokens = None if served is None else _tokens(view, [view, *peers], served)
    size = model.hidden_size * model.activation_element_bytes
    stages = sorted({node.stage for node in view.nodes})
    links = [
        StageLink(first, second, size, None if tokens is None else size * tokens) for first, second in pairwise(stages)
    ]
    return InstanceLinks(tokens, tuple(links), _hand_off(view, peers, model, served))


def _tokens(view: InstanceView, same: Sequence[InstanceView], served: Mapping[str, float]) -> float | None:
    """Return the instance's part of the tokens, of both kinds where it does both."""
    total = 0.0
    for name, own in view.work.items():
        capacity = sum(each.work.get(name, 0.0) for each in same)
        app, _, phase = name.rpartition("/")
        wanted = [f"{app}/{Phase.PREFILL}", f"{app}/{Phase.DECODE}"] if phase == Phase.AGGREGATED else [name]
        if capacity:
            total += own / capacity * sum(served.get(each, 0.0) for each in wanted)
    return total if view.work else None


def _hand_off(
    view: InstanceView, peers: Sequence[InstanceView], model: ModelSpec, served: Mapping[str, float] | None
) -> HandOff | None:
    other = {Phase.PREFILL.value: Phase.DECODE.value, Phase.DECODE.value: Phase.PREFILL.value}.get(view.leg)
    there = [each for each in peers if each.leg == other]
    if other is None or not there:
        return None
    size = model.kv_bytes_per_token_per_layer * model.layers
    is_sent = view.leg == Phase.PREFILL
    prompts = None
    if served is not None:
        # Whoever makes answers takes the prompts of its part of them.
        alike = [view, *(each for each in peers if each.leg == view.leg)]
        capacity = sum(each.units_per_s for each in alike)
        whole = sum(units for name, units in served.items() if name.endswith(f"/{Phase.PREFILL}"))
        prompts = whole * view.units_per_s / capacity if capacity else None
    ids = tuple(sorted(each.id for each in there))
    return HandOff(is_sent, ids, size, None if prompts is None else size * prompts)


def is_by_layers(nodes: Sequence[NodeView]) -> bool:
    """Tell whether nodes hold layers of a model, not components of a graph."""
    return bool(nodes) and not any(node.components for node in nodes)
