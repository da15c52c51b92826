"""Stages of one model in this process, joined as a pipeline: the smallest thing that serves requests."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

from agents.engines.batch import StepBatch, StepRequest
from agents.engines.kv_part import KvPart, empty_part
from agents.engines.layer_range import LayerRange
from agents.engines.protocol import StageEngine
from agents.engines.sampling import GREEDY, LogitRules, RuledText, Sampling
from agents.engines.step_output import Sample
from agents.engines.torch_engine.engine import load_torch_engine
from agents.weights.checkpoint import Checkpoint

DEVICE = torch.device(os.environ.get("MEDLEY_TEST_DEVICE", "cpu"))
"""Engines run on it: `bench.gpu_all` has the tests of engines and of nodes' programs run on a GPU."""


@dataclass(frozen=True)
class Running:
    """A request between steps: `pending` tokens are not in the cache yet."""

    id: str
    pending: tuple[int, ...]
    position: int = 0
    tokens: tuple[int, ...] = ()
    """Sampled so far."""
    sampling: Sampling = GREEDY
    ruled: RuledText | None = None
    """Told with its first token."""


def cut(layers: Sequence[int]) -> list[LayerRange]:
    """Layer counts of consecutive stages → their ranges."""
    starts = [sum(layers[:i]) for i in range(len(layers))]
    last = len(layers) - 1
    return [LayerRange(a, n, first=i == 0, last=i == last) for i, (a, n) in enumerate(zip(starts, layers, strict=True))]


class Pipeline:
    def __init__(self, stages: Sequence[StageEngine]) -> None:
        self.stages = stages

    @classmethod
    def load(
        cls, checkpoint: Checkpoint, layers: Sequence[int], blocks: int = 64, dtype: torch.dtype = torch.float32
    ) -> "Pipeline":
        """Stages of so many layers each."""
        return cls([load_torch_engine(checkpoint, held, blocks, dtype, DEVICE) for held in cut(layers)])

    def step(self, running: Sequence[Running], chunk: int) -> list[Running]:
        """Each request takes up to `chunk` of its pending tokens; who has none left gets a new one."""
        takes = [r.pending[:chunk] for r in running]
        requests = tuple(_asked(r, len(take)) for r, take in zip(running, takes, strict=True))
        samples = {s.request_id: s for s in self.forward(requests, [t for take in takes for t in take])}
        return [_advanced(r, take, samples.get(r.id)) for r, take in zip(running, takes, strict=True)]

    def forward(self, requests: tuple[StepRequest, ...], token_ids: list[int]) -> tuple[Sample, ...]:
        rows = torch.tensor(token_ids)
        for stage in self.stages:
            output = stage.step(StepBatch(requests), rows)
            if output.hidden is not None:
                rows = output.hidden
        return output.samples

    def generate(
        self,
        prompt: Sequence[int],
        tokens: int,
        chunk: int = 512,
        sampling: Sampling = GREEDY,
        rules: LogitRules | None = None,
    ) -> list[int]:
        ruled = None if rules is None else RuledText(rules, tuple(prompt))
        running = Running("only", tuple(prompt), sampling=sampling, ruled=ruled)
        while len(running.tokens) < tokens:
            (running,) = self.step([running], chunk)
        self.free("only")
        return list(running.tokens)

    def free(self, request_id: str) -> None:
        for stage in self.stages:
            stage.free(request_id)


def _asked(running: Running, tokens: int) -> StepRequest:
    """A token is chosen behind the last pending one."""
    if tokens < len(running.pending):
        return StepRequest(running.id, running.position, tokens)
    ruled = None if running.tokens else running.ruled
    return StepRequest(running.id, running.position, tokens, running.sampling, ruled)


def _advanced(running: Running, take: tuple[int, ...], sample: Sample | None) -> Running:
    moved = replace(running, position=running.position + len(take), pending=running.pending[len(take) :])
    if sample is None:
        return moved
    return replace(moved, pending=(sample.token_id,), tokens=(*moved.tokens, sample.token_id))


def hand_over(request_id: str, tokens: int, source: Pipeline, target: Pipeline) -> int:
    """Moves a request's KV cache between pipelines whose cuts differ, head by head; the bytes that went over."""
    moved = 0
    for to in target.stages:
        to.reserve(request_id, tokens)
        for layer in range(to.facts.held.first_layer, to.facts.held.end):
            origin = next(s for s in source.stages if s.facts.held.first_layer <= layer < s.facts.held.end)
            first = origin.first_kept_token(layer, tokens)
            for head in range(origin.facts.kv_heads):
                part = KvPart(layer, 1, head, 1, first, tokens - first)
                tensor = exported(origin, request_id, part)
                to.import_kv(request_id, part, tensor)
                moved += tensor.nbytes
    return moved


def exported(engine: StageEngine, request_id: str, part: KvPart) -> torch.Tensor:
    out = empty_part(part, engine.facts)
    engine.export_kv(request_id, part, out)
    return out
