"""POST /v1/embeddings: from body to `GenerationParams`, and its answer."""

import base64
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from control.gateway.api_error import bad_request
from control.gateway.bodies import EmbeddingBody
from control.gateway.completion_request import prompts_of
from control.gateway.embedder import Embedder
from control.gateway.generation_params import GenerationParams
from control.gateway.reply import Choice, Usage
from control.gateway.sampling_defaults import AskedSampling
from control.gateway.service_tier import ServiceTier
from control.gateway.tokenizer import Tokenizer

MAX_INPUTS = 2048
"""OpenAI's own limit."""


def embedding_params(body: EmbeddingBody) -> GenerationParams:
    """Raises ApiError."""
    inputs = prompts_of(body.input, "input")
    if len(inputs) > MAX_INPUTS:
        raise bad_request(f"`input` has {len(inputs)} texts, and may have {MAX_INPUTS}: send several requests", "input")
    return GenerationParams(
        model=body.model,
        prompts=inputs,
        choices=1,
        sampling=AskedSampling(0.0, 1.0, 0, seed=0, top_logprobs=None),  # nothing is drawn
        max_tokens=1,
        stop=(),
        stop_token_ids=(),
        is_stream=False,
        with_usage=True,
        ignores_eos=True,
        service_tier=body.service_tier,
        cache_salt=body.cache_salt or "",
        is_embedding=True,
    )


class EmbeddingReply:
    """Renders vectors. Raises ApiError for more dimensions than the model has."""

    shows_special = False

    def __init__(
        self,
        body: EmbeddingBody,
        _id: str,
        model: str,
        _created: int,
        tokenizer: Tokenizer,
        _with_usage: bool,
        _service_tier: ServiceTier | None,
        _choices: int,
    ) -> None:
        self._model = model
        self._embedder = tokenizer.embedder
        self._dimensions = body.dimensions
        self._is_base64 = body.encoding_format == "base64"

    def whole(self, choices: list[Choice], usage: Usage) -> bytes:
        # Vector by vector: to write all of them at once would hold up other threads for as long.
        data = [
            {"object": "embedding", "index": number, "embedding": self._encoded(choice)}
            for number, choice in enumerate(choices)
        ]
        counted = {"prompt_tokens": usage.prompt_tokens, "total_tokens": usage.prompt_tokens}
        return msgspec.json.encode({"object": "list", "data": data, "model": self._model, "usage": counted})

    def _encoded(self, choice: Choice) -> Any:
        state = np.frombuffer(b"".join(piece.state for piece in choice.pieces), "<f4")
        vector = embedding_of(state, self._embedder, self._dimensions)
        if self._is_base64:
            return base64.b64encode(vector.tobytes()).decode()
        return msgspec.Raw(msgspec.json.encode(vector.tolist()))


def embedding_of(state: npt.NDArray[np.float32], embedder: Embedder, dimensions: int | None) -> npt.NDArray[np.float32]:
    """Return the vector of a text of pooled `state` (hidden size,). `dimensions`: as many of the first are kept, and
    brought to length one, as of models that were trained so (Kusupati 2022, Matryoshka representations). Raises
    ApiError for more than there are."""
    if dimensions is not None and dimensions > len(state):
        raise bad_request(f"`dimensions`: embeddings of this model have {len(state)}; ask for fewer", "dimensions")
    vector = state[:dimensions]
    length = float(np.linalg.norm(vector.astype(np.float64)))
    if length == 0.0 or not (embedder.normalises or dimensions is not None):
        return vector
    return (vector / length).astype("<f4")
