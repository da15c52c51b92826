"""What the stages of a model that reads pictures take on some GPUs: encoder, prompts and decoding, by the estimated
costs."""

from dataclasses import dataclass, field

from control.timing.step_table import StepTable, step_table
from templates_lib.cost.component import EstimatedComponentCost
from templates_lib.graphs.component import Component, ComponentWork, DecoderSpec
from templates_lib.graphs.model_graph import ModelGraph
from templates_lib.ports.component_cost import ComponentCostModel
from templates_lib.ports.cost_model import Parallel
from templates_lib.values.node_config import NodeConfig

_LONG = 65_536.0
"""Tokens of a request by which the size of a KV cache is found out: so many that no other limit is nearer."""


@dataclass(frozen=True, slots=True, eq=False)
class EncodeTimes:
    """Seconds of an encoder on all GPUs of a node. Equal ones should share one object: times are kept."""

    component: Component
    node: NodeConfig
    costs: ComponentCostModel
    _known: dict[tuple[int, int], float] = field(default_factory=dict)

    def seconds(self, tokens: int, items: int) -> float:
        """Of one batch: image tokens of all its parts, each of which sees itself alone."""
        known = self._known.get((tokens, items))
        if known is None:
            work = ComponentWork(float(tokens), float(items))
            known = self._known[tokens, items] = self.costs.seconds(self.component, self.node, work, 1.0)
        return known

    def tokens_per_s(self, part: int) -> float:
        """Image tokens/s of parts of so many tokens, one after the other."""
        return part / self.seconds(part, 1)


@dataclass(frozen=True, slots=True, eq=False)
class TextTimes:
    """Seconds of an instance that holds the whole decoder on all GPUs of a node, split by tensor parallelism."""

    table: StepTable
    cross_share: float
    """Of `DecoderSpec`: what a row that layers attend to apart counts as in a context; 0: rows stand in the prompt."""
    kv_tokens: float
    """Tokens that its KV cache holds."""

    def seconds(self, prompt: int, context: float, decoding: int, cached: float, ended: int) -> float:
        """Of one step: `prompt` tokens that attend to `context` earlier ones in the mean, `decoding` requests behind
        `cached` tokens in the mean, `ended` prompts whose last token is in it (`control.timing.step_table`)."""
        return self.table.seconds(prompt, context, decoding, cached, ended)

    def prompt_s(self, tokens: int, rows: int) -> float:
        """Of a prompt alone, its rows among its tokens or apart from them."""
        own = tokens if self.cross_share else tokens + rows
        return self.seconds(own, (own - 1) / 2 + self.cross_share * rows, 0, 0.0, 1)


def encode_times(graph: ModelGraph, component: str, node: NodeConfig, costs: ComponentCostModel) -> EncodeTimes:
    return EncodeTimes(graph.component(component), node, costs)


def text_times(
    graph: ModelGraph, component: str, node: NodeConfig, costs: EstimatedComponentCost, reserved_bytes: float = 0.0
) -> TextTimes:
    """`reserved_bytes`: of each GPU, for what runs beside. Raises ValueError where no long prompt fits."""
    part = graph.component(component)
    if not isinstance(part.spec, DecoderSpec):
        raise ValueError(f"{graph.id}: component {component!r} writes no text; name its decoder")
    model = part.spec.model
    table = step_table(costs.stages, model, node, Parallel(node.gpu_count), model.layers, head=True)
    long = ComponentWork(1.0, 1.0, _LONG - 1.0)
    kv_tokens = _LONG * costs.most_requests(part, node, long, reserved_bytes)
    if kv_tokens < _LONG:
        raise ValueError(f"{graph.id}: {component!r} and a KV cache do not fit {node.id}; take more GPUs")
    return TextTimes(table, part.spec.cross_share, kv_tokens)
