"""A model whose encoder and decoder are engines of their own, and whose decoder may be cut into stages."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

from agents.engines.batch import StepBatch, StepRequest
from agents.engines.components.protocol import EncoderEngine
from agents.engines.components.unit import EncoderUnit
from agents.engines.given_rows import EmbeddedRows, EncodedRows, GivenRows
from agents.engines.grid_positions import GridSpan
from agents.engines.layer_range import LayerRange
from agents.engines.protocol import StageEngine
from agents.engines.step_output import Sample
from agents.engines.torch_components.engine import TorchEncoder, load_torch_encoder
from agents.weights.checkpoint import Checkpoint
from tests.agents.engines.components.graph_requests import GraphRequest
from tests.agents.engines.components.tiny_graphs import COMPONENT
from tests.agents.engines.pipelines import DEVICE, Pipeline


@dataclass(frozen=True)
class Inputs:
    """What a decoder is given of a request beside its tokens."""

    grids: tuple[GridSpan, ...] = ()
    embedded: tuple[tuple[int, torch.Tensor], ...] = ()
    """(first token, rows)"""
    encoded: torch.Tensor | None = None


def load_encoder(checkpoint: Checkpoint, name: str) -> TorchEncoder:
    return load_torch_encoder(checkpoint, COMPONENT.get(name, "vision"), torch.float32, DEVICE)


def encoded(request: GraphRequest, checkpoint: Checkpoint, name: str) -> Inputs:
    """Let encoders work on the request's units."""
    if not request.units:
        return Inputs()
    rows = _rows(load_encoder(checkpoint, name), request.units)
    if not request.places:
        return Inputs(encoded=rows[0])
    embedded = [*zip(request.places, rows, strict=True)]
    if request.sounds:
        hearing = load_torch_encoder(checkpoint, "hearing", torch.float32, DEVICE)
        embedded += zip(request.sound_places, _rows(hearing, request.sounds), strict=True)
    return Inputs(request.grids, tuple(embedded))


def _rows(encoder: EncoderEngine, units: Sequence[EncoderUnit]) -> list[torch.Tensor]:
    return [torch.from_numpy(each) for each in encoder.encode(units)]


class SplitPipeline(Pipeline):
    """Stages of a decoder that are given what `inputs` has of each request, cut where its prompt is cut."""

    def __init__(self, stages: Sequence[StageEngine]) -> None:
        super().__init__(stages)
        self.inputs: dict[str, Inputs] = {}
        self.hands_out_rows = False
        self.rows: list[torch.Tensor] = []
        """That the last stage handed out, step by step."""
        self._attending: set[tuple[LayerRange, str]] = set()

    def forward(self, requests: tuple[StepRequest, ...], token_ids: list[int]) -> tuple[Sample, ...]:
        asked = tuple(replace(r, grids=self.inputs[r.id].grids, hands_out_rows=self.hands_out_rows) for r in requests)
        rows = torch.tensor(token_ids)
        for stage in self.stages:
            output = stage.step(StepBatch(asked, self._given(stage, asked)), rows)
            if output.hidden is not None:
                rows = output.hidden
        if output.rows is not None:
            self.rows.append(output.rows)
        return output.samples

    def free(self, request_id: str) -> None:
        super().free(request_id)
        self._attending = {each for each in self._attending if each[1] != request_id}

    def _given(self, stage: StageEngine, requests: tuple[StepRequest, ...]) -> GivenRows:
        held, given_rows, given_encoded = stage.facts.held, [], []
        for request in requests:
            own = self.inputs[request.id]
            for first, rows in own.embedded if held.first else ():
                start, end = max(first, request.position), min(first + len(rows), request.position + request.tokens)
                if start < end:
                    given_rows.append(EmbeddedRows(request.id, start, rows[start - first : end - first]))
            if own.encoded is not None and (held, request.id) not in self._attending:
                self._attending.add((held, request.id))
                given_encoded.append(EncodedRows(request.id, own.encoded))
        return GivenRows(tuple(given_rows), tuple(given_encoded))
