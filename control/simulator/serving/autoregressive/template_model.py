"""What an instance of a template costs in time."""

from collections.abc import Mapping
from math import ceil

import numpy as np

from control.cloud.local.kind import quota_period_us
from control.hub.gang import BLOCK_TOKENS, batch_cap, chunk_tokens
from control.simulator.serving.autoregressive.pipeline_model import NodeModel, PipelineModel, StageModel
from control.simulator.serving.autoregressive.step_table import StepTable, step_table
from templates_lib.models.model_spec import ModelSpec
from templates_lib.ports.cost_model import Parallel, StageCostModel
from templates_lib.sources.placement_kinds import PlacementError, unit_of
from templates_lib.values.node_config import NodeConfig
from templates_lib.values.placement import Stage, StageNodes
from templates_lib.values.template import ServingTemplate


class TemplateModels:
    """Pipelines by template, each made once, and the step tables that they share: all of one served model and its cost
    model."""

    def __init__(self, model: ModelSpec, configs: Mapping[str, NodeConfig], cost_model: StageCostModel) -> None:
        """`configs`: by id, those that templates are made of."""
        self._model = model
        self._configs = configs
        self._cost_model = cost_model
        self._pipelines: dict[str, PipelineModel] = {}
        self._tables: dict[tuple[str, Parallel, int, bool], StepTable] = {}

    def pipeline(self, template: ServingTemplate) -> PipelineModel:
        """Raises ValueError for a placement that is no pipeline, or is on an unknown configuration."""
        known = self._pipelines.get(template.id)
        if known is None:
            known = self._pipelines[template.id] = self._made(template)
        return known

    def _made(self, template: ServingTemplate) -> PipelineModel:
        try:
            (executor,) = unit_of(template).executors
        except (PlacementError, ValueError) as error:
            raise ValueError(f"template {template.id} is not simulated: {error}") from error
        placed = executor.stages
        depth = len(placed)
        stages = tuple(
            StageModel(
                stage.layers,
                tuple(
                    node for nodes in stage.nodes for node in (self._node(template, stage, nodes, depth),) * nodes.count
                ),
            )
            for stage in placed
        )
        return PipelineModel(
            stages,
            self._model.max_context_tokens,
            self._model.kv_bytes_per_token_per_layer,
            self._model.windows,
            BLOCK_TOKENS,
            2 * stages[0].nodes[0].hop_s,  # an offer, and its acceptance
        )

    def _node(self, template: ServingTemplate, stage: Stage, nodes: StageNodes, depth: int) -> NodeModel:
        config = self._configs.get(nodes.config)
        if config is None:
            raise ValueError(f"template {template.id} is on {nodes.config!r}, which is not among the configurations")
        hop_s = hop_s_per_token = 0.0
        if depth > 1:
            none, one = self._cost_model.hop_seconds(self._model, config, np.array([0.0, 1.0]))
            hop_s, hop_s_per_token = float(none), float(one - none)
        cores = self._cost_model.processor_cores(self._model, config)
        return NodeModel(
            config=config.id,
            weight=nodes.weight,
            # As an instance is started with: a placement says nothing of the phase that it is not made for.
            batch_cap=batch_cap(nodes),
            chunk_tokens=chunk_tokens(stage, nodes),
            kv_blocks=nodes.kv_blocks,
            step=self._table(config, Parallel(nodes.tp, nodes.dp, nodes.pp, nodes.ep), stage.layers, stage.last),
            hop_s=hop_s,
            hop_s_per_token=hop_s_per_token,
            hand_off_bytes_per_s=self._cost_model.transfer_bytes_per_s(self._model, config),
            quota_share=1.0 if cores is None else cores / ceil(cores),
            quota_period_s=0.0 if cores is None else quota_period_us(cores) / 1e6,
        )

    def _table(self, config: NodeConfig, parallel: Parallel, layers: int, head: bool) -> StepTable:
        key = (config.id, parallel, layers, head)
        if key not in self._tables:
            self._tables[key] = step_table(self._cost_model, self._model, config, parallel, layers, head=head)
        return self._tables[key]
