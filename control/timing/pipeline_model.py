"""What an instance costs in time: the stages of its pipeline, the nodes of each, and what joins them."""

from dataclasses import dataclass

from control.timing.step_table import StepTable
from policies.lanes import lanes


@dataclass(frozen=True, slots=True, eq=False)
class NodeModel:
    """One node of a stage. The limits are those of `agents.scheduler.layout.NodeLimits`."""

    config: str
    """Node configuration, for reports."""
    weight: float
    """Share of each group's requests, relative to its peers of the stage."""
    batch_cap: int
    """Requests of one group."""
    chunk_tokens: int
    """Prompt tokens of one step."""
    kv_blocks: int
    step: StepTable
    """Seconds of its steps, with its layers."""
    hop_s: float = 0.0
    """Until a result of no rows is at the next node: at the next stage's, or back at the scheduler."""
    hop_s_per_token: float = 0.0
    """More for each row of activations, between stages."""
    hand_off_bytes_per_s: float = 0.0
    """Rate of its network for KV caches, in one direction; 0 where it hands none over."""
    quota_share: float = 1.0
    """Share of each period that its processors may compute; steps' seconds are at this share."""
    quota_period_s: float = 0.0
    """A node that was idle has a whole quota at once. Only where the share is below 1."""
    send_s_per_byte: float = 0.0
    """What its steps take longer for each byte of a KV cache that is sent while its prompt is computed."""
    take_s_per_byte: float = 0.0
    """What they take longer for each that comes while it computes for others."""


@dataclass(frozen=True, slots=True, eq=False)
class StageModel:
    layers: int
    nodes: tuple[NodeModel, ...]
    """Data-parallel peers."""


@dataclass(frozen=True, slots=True, eq=False)
class PipelineModel:
    """A whole instance, whose groups take turns at its stages (`lockstep-v1`). Equal ones should share one object."""

    stages: tuple[StageModel, ...]
    max_context_tokens: int
    kv_bytes_per_token_per_layer: float
    windows: tuple[int, ...]
    """Attention window of each layer, 0 for none: what a hand-off carries of it."""
    block_tokens: int = 16
    hand_off_s: float = 0.0
    """Time of each hand-off beside its bytes: messages between the two schedulers and their nodes."""

    def __post_init__(self) -> None:
        if not self.stages or not all(stage.nodes for stage in self.stages):
            raise ValueError("a pipeline has at least one stage, and a stage at least one node")
        held = sum(stage.layers for stage in self.stages)
        if held != len(self.windows):
            raise ValueError(f"the stages hold {held} layers, the model has {len(self.windows)}")
        for node in self.nodes:
            if node.weight <= 0 or min(node.batch_cap, node.chunk_tokens, node.kv_blocks) < 1:
                raise ValueError(f"weight, batch cap, chunk and KV blocks of a node are positive: {node.config}")
            if not 0 < node.quota_share <= 1 or (node.quota_share < 1 and node.quota_period_s <= 0):
                raise ValueError(f"a quota is a share above 0, up to 1, of a period above 0 s: {node.config}")

    @property
    def nodes(self) -> tuple[NodeModel, ...]:
        """All nodes, stage by stage."""
        return tuple(node for stage in self.stages for node in stage.nodes)

    @property
    def node_count(self) -> int:
        return len(self.nodes)

    @property
    def bytes_per_s(self) -> float:
        """What each of its nodes sends and takes in at least."""
        return min(node.hand_off_bytes_per_s for node in self.nodes)

    def send_s_per_token(self, stage: StageModel, node: NodeModel) -> float:
        """What a step of a node of `stage` takes longer for each prompt token, at an instance that does prefill alone:
        its KV cache is sent. Layers with windows are taken to keep every token."""
        return node.send_s_per_byte * stage.layers * self.kv_bytes_per_token_per_layer

    def groups_of(self, leg: str) -> int:
        """How many groups take turns at an instance that does this leg."""
        return self.lanes if leg == "prefill" else self.groups

    @property
    def groups(self) -> int:
        """As `agents.scheduler.layout.PipelineLayout`: one for each part of each stage."""
        return sum(max(node.step.parts for node in stage.nodes) for stage in self.stages)

    @property
    def lanes(self) -> int:
        """As `agents.scheduler.layout.PipelineLayout`: the groups of an instance that does prefill alone."""
        return lanes(sum(node.step.parts for node in self.nodes), [node.batch_cap for node in self.nodes])
