"""Pipelines of text from templates, with what each step takes."""

from collections.abc import Mapping
from math import ceil

import numpy as np

from control.cloud.local.kind import quota_period_us
from control.hub.gang import BLOCK_TOKENS, GangPlace, placed_gang
from control.timing.pipeline_model import NodeModel, PipelineModel, StageModel
from control.timing.step_table import StepTable, step_table
from templates_lib.models.model_spec import ModelSpec
from templates_lib.ports.cost_model import Parallel, StageCostModel
from templates_lib.sources.placement_kinds import unit_of
from templates_lib.values.node_config import NodeConfig
from templates_lib.values.placement import Stage, StageNodes
from templates_lib.values.template import ServingTemplate


class TemplateModels:
    """Pipelines by template and executor, each made once, and the step tables that they share: all of one served model
    and its cost model. An executor that has a share of a node's compute takes so many times longer for its steps."""

    def __init__(self, model: ModelSpec, configs: Mapping[str, NodeConfig], cost_model: StageCostModel) -> None:
        """`configs`: by id, those that templates are made of."""
        self._model = model
        self._configs = configs
        self._cost_model = cost_model
        self._pipelines: dict[tuple[str, str], PipelineModel] = {}
        self._tables: dict[tuple[str, Parallel, int, bool, float], StepTable] = {}

    def pipeline(self, template: ServingTemplate, executor: str = "") -> PipelineModel:
        """`executor`: id of the one of its executors that is asked for, with its share of the nodes; empty: there is
        one. Raises ValueError for a placement that cannot be read, or is on an unknown configuration."""
        known = self._pipelines.get((template.id, executor))
        if known is None:
            known = self._pipelines[template.id, executor] = self._made(template, executor)
        return known

    def _made(self, template: ServingTemplate, executor: str) -> PipelineModel:
        executors = zip(placed_gang(template).executors, unit_of(template).executors, strict=True)
        found = {placed.id: (gang.places, placed) for gang, placed in executors if executor in ("", placed.id)}
        if len(found) != 1:
            raise ValueError(f"template {template.id} has executors {', '.join(found)}, which are simulated one by one")
        ((places, placed),) = found.values()
        stages: list[tuple[Stage, list[NodeModel]]] = [(stage, []) for stage in placed.stages]
        for (number, stage, nodes, _), place in zip(placed.placed(), places, strict=True):
            stages[number][1].append(self._node(template, stage, nodes, place, len(stages)))
        return PipelineModel(
            tuple(StageModel(stage.layers, tuple(own)) for stage, own in stages),
            self._model.max_context_tokens,
            self._model.kv_bytes_per_token_per_layer,
            self._model.windows,
            BLOCK_TOKENS,
            2 * stages[0][1][0].hop_s,  # an offer, and its acceptance
        )

    def _node(
        self, template: ServingTemplate, stage: Stage, nodes: StageNodes, place: GangPlace, depth: int
    ) -> NodeModel:
        config = self._configs.get(nodes.config)
        if config is None:
            raise ValueError(f"template {template.id} is on {nodes.config!r}, which is not among the configurations")
        hop_s = hop_s_per_token = 0.0
        if depth > 1:
            none, one = self._cost_model.hop_seconds(self._model, config, np.array([0.0, 1.0]))
            hop_s, hop_s_per_token = float(none), float(one - none)
        cores = self._cost_model.processor_cores(self._model, config)
        send_s, take_s = self._cost_model.hand_off_s_per_byte(self._model, config)
        parallel = Parallel(nodes.tp, nodes.dp, nodes.pp, nodes.ep)
        return NodeModel(
            config=config.id,
            weight=place.weight,
            batch_cap=place.batch_cap,
            chunk_tokens=place.chunk_tokens,
            kv_blocks=place.kv_blocks,
            step=self._table(config, parallel, stage.layers, stage.last, place.compute),
            hop_s=hop_s,
            hop_s_per_token=hop_s_per_token,
            hand_off_bytes_per_s=self._cost_model.transfer_bytes_per_s(self._model, config),
            send_s_per_byte=send_s / place.compute,
            take_s_per_byte=take_s / place.compute,
            quota_share=1.0 if cores is None else place.compute * cores / ceil(cores),
            quota_period_s=0.0 if cores is None else quota_period_us(cores) / 1e6,
        )

    def _table(self, config: NodeConfig, parallel: Parallel, layers: int, head: bool, compute: float) -> StepTable:
        key = (config.id, parallel, layers, head, compute)
        if key not in self._tables:
            table = step_table(self._cost_model, self._model, config, parallel, layers, head=head)
            self._tables[key] = table if compute == 1 else table.slowed(1 / compute)
        return self._tables[key]
