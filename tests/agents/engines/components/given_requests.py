"""Requests to instances of decoders, whose rows encoders have put into the sidecar of a node."""

from typing import Any

import torch

from agents.messages.component_work import PromptRows, TensorAt
from agents.messages.to_scheduler import Generate
from agents.tensors.client import TensorClient
from agents.weights.checkpoint import Checkpoint
from tests.agents.engines.components.graph_requests import GraphRequest
from tests.agents.engines.components.split_model import Inputs, encoded
from tests.agents.stage.questions import asked


class Encoded:
    """Inputs of a graph's requests, encoded once, and put anew for each attempt: who takes a tensor has it gone."""

    def __init__(self, checkpoint: Checkpoint, name: str, tensors: TensorClient, takers: int) -> None:
        self._checkpoint, self._name = checkpoint, name
        self._tensors, self._takers = tensors, takers
        self._inputs: dict[int, Inputs] = {}

    def ask(self, attempt: int, request: GraphRequest, tokens: int, keyed: bool = False, **options: Any) -> Generate:
        """Ask for an answer, with rows that lie ready. `keyed`: with their content's hash."""
        return asked(attempt, request.prompt, tokens, given=self.put(attempt, request, keyed), **options)

    def put(self, attempt: int, request: GraphRequest, keyed: bool = False) -> tuple[PromptRows, ...]:
        inputs = self._inputs.get(id(request))
        if inputs is None:
            inputs = self._inputs[id(request)] = encoded(request, self._checkpoint, self._name)
        if inputs.encoded is not None:
            return (PromptRows(self._at(f"{attempt}", inputs.encoded), len(inputs.encoded)),)
        grids = {span.first_token: (span.frames, span.rows, span.columns) for span in inputs.grids}
        key = f"{id(request):016x}" if keyed else None
        return tuple(
            PromptRows(
                self._at(f"{attempt}.{place}", rows), len(rows), place, grids.get(place), key=key and f"{key}.{place}"
            )
            for place, rows in sorted(inputs.embedded, key=lambda each: each[0])
        )

    def _at(self, name: str, rows: torch.Tensor) -> TensorAt:
        self._tensors.put(name, rows.numpy(), consumers=self._takers)
        return TensorAt(name)
