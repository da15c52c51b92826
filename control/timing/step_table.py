"""Step times of one node as tables, so that a simulation need not ask the cost model step by step.

A step of P prompt tokens (that attend to c earlier ones in the mean) and R decoding requests (with k cached tokens) is

    rows(P + R) + R · decode_context(k) - [R = 0] · decode_step
        + [P > 0] · (prompt_step + P · (prompt_token + prompt_context(c)))

and, where the node holds the LM head, head(S) more: of the S rows that a token is sampled of, those that decode and the
last of each prompt that ends in the step (cost models, which are told of no single prompts, take one). All are of the
fullest replica. Both shipped cost models are of that form: products of all rows, attention of each phase apart, linear
in its tokens.
"""

from dataclasses import dataclass, fields, replace

import numpy as np

from templates_lib.models.model_spec import ModelSpec
from templates_lib.ports.cost_model import Floats, NodeStep, Parallel, StageCostModel
from templates_lib.values.node_config import NodeConfig

CELLS = 32
"""Cells of each octave; values between two points are on a straight line."""
OCTAVES = 20
"""Rows and contexts up to a million; beyond, the last cell goes on."""
POINTS = 2 + CELLS * OCTAVES
"""Points of contexts: 0, then 1 to 2 ^ OCTAVES."""
DENSE_OCTAVES = 12
DENSE = 2**DENSE_OCTAVES
"""Rows up to which every count has its own value: products are padded to whole tiles."""
ROW_POINTS = DENSE + CELLS * (OCTAVES - DENSE_OCTAVES) + 1
_PROMPT_ROWS = 512.0
_DECODE_ROWS = 64.0


@dataclass(frozen=True, slots=True, eq=False)
class StepTable:
    """Seconds. By rows: arrays (ROW_POINTS,), at `row_points()`; by context: arrays (POINTS,), at `table_points()`."""

    rows_s: Floats
    """By rows: of a step that only decodes, with nothing cached, without the head."""
    head_s: Floats
    """By sampled rows; 0 where the node has no head."""
    prompt_context_s: Floats
    """Seconds of one prompt token, by the mean number of earlier tokens it attends to, plus 1."""
    decode_context_s: Floats
    """Seconds of one decoding request, by the mean number of its cached tokens, plus 1."""
    prompt_step_s: float
    prompt_token_s: float
    """Seconds of a prompt token over a decoding request's; may be below 0."""
    decode_step_s: float
    replicas: int = 1
    """Data-parallel ones inside the node."""
    parts: int = 1
    """Pipeline parts inside the node, each of which may work on another step."""
    busy_share: float = 1.0
    """Share of a step's time without the head that its largest part takes."""

    def seconds(self, prompt: int, context: float, requests: int, cached: float, ended: int) -> float:
        """Of one step of one replica: `prompt` tokens that attend to `context` earlier ones in the mean, `requests`
        that decode behind `cached` tokens in the mean, `ended` prompts whose last token is in it."""
        body = _between(self.rows_s, _ROWS, float(prompt + requests))
        if requests:
            body += requests * _between(self.decode_context_s, _CONTEXTS, cached + 1.0)
        else:
            body -= self.decode_step_s
        if prompt:
            seen = _between(self.prompt_context_s, _CONTEXTS, context + 1.0)
            body += self.prompt_step_s + prompt * (self.prompt_token_s + seen)
        sampled = requests + ended
        return body + (_between(self.head_s, _ROWS, float(sampled)) if sampled else 0.0)

    def slowed(self, times: float) -> "StepTable":
        """The same, each step taking so many times as long."""
        seconds = [field.name for field in fields(self) if field.name.endswith("_s")]
        return replace(self, **{name: times * getattr(self, name) for name in seconds})


def table_points() -> Floats:
    """(POINTS,)"""
    octaves = 2.0 ** np.arange(OCTAVES)[:, None] * (1 + np.arange(CELLS) / CELLS)
    return np.concatenate(([0.0], octaves.ravel(), [2.0**OCTAVES]))


def row_points() -> Floats:
    """(ROW_POINTS,)"""
    octaves = 2.0 ** np.arange(DENSE_OCTAVES, OCTAVES)[:, None] * (1 + np.arange(CELLS) / CELLS)
    return np.concatenate((np.arange(DENSE), octaves.ravel(), [2.0**OCTAVES]))


_ROWS, _CONTEXTS = row_points(), table_points()


def _between(values: Floats, points: Floats, at: float) -> float:
    return float(np.interp(at, points, values))


def step_table(
    cost_model: StageCostModel, model: ModelSpec, node: NodeConfig, parallel: Parallel, layers: int, *, head: bool
) -> StepTable:
    """Table of a node of `layers` layers, and the LM head where `head`. Raises ValueError as the cost model does."""
    dp = parallel.dp

    def seconds(
        prompts: Floats | float, context: Floats | float, requests: Floats | float, cached: Floats | float, head: bool
    ) -> Floats:
        of_node = (np.asarray(prompts) * dp, np.asarray(context), np.asarray(requests) * dp, np.asarray(cached))
        shape = np.broadcast_shapes(*(part.shape for part in of_node), (1,))
        parts = (np.broadcast_to(part, shape).astype(np.float64) for part in of_node)
        held = np.full(shape, float(layers))
        return cost_model.stage_seconds(model, node, parallel, NodeStep(held, *parts), head=head)

    rows = np.maximum(row_points(), 1.0)
    before = np.maximum(table_points(), 1.0) - 1.0
    bare = seconds(0.0, 0.0, rows, 0.0, False)
    prompts = np.array([1.0, _PROMPT_ROWS])
    over = seconds(prompts, 0.0, 1.0, 0.0, False) - seconds(0.0, 0.0, prompts + 1.0, 0.0, False)
    prompt_token_s = float((over[1] - over[0]) / (prompts[1] - prompts[0]))
    prompt_step_s = float(over[0]) - prompt_token_s
    alone = seconds(_PROMPT_ROWS, 0.0, 0.0, 0.0, False) - seconds(0.0, 0.0, _PROMPT_ROWS, 0.0, False)
    seen = seconds(_PROMPT_ROWS, before, 0.0, 0.0, False)
    cached = seconds(0.0, 0.0, _DECODE_ROWS, before, False)
    part = -(-layers // parallel.pp)
    return StepTable(
        rows_s=bare,
        head_s=seconds(0.0, 0.0, rows, 0.0, True) - bare if head else np.zeros(ROW_POINTS),
        prompt_context_s=(seen - seen[0]) / _PROMPT_ROWS,
        decode_context_s=(cached - cached[0]) / _DECODE_ROWS,
        prompt_step_s=prompt_step_s,
        prompt_token_s=prompt_token_s,
        decode_step_s=float(prompt_step_s + _PROMPT_ROWS * prompt_token_s - alone[0]),
        replicas=dp,
        parts=parallel.pp,
        busy_share=part / layers,
    )
