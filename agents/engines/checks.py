"""Checks by which every engine refuses bad input before it changes anything."""

from collections.abc import Callable, Collection

import torch

from agents.engines.batch import StepBatch, StepRequest
from agents.engines.errors import BadBatchError
from agents.engines.given_rows import EmbeddedRows, EncodedRows
from agents.engines.grid_positions import grids_follow
from agents.engines.kv_part import KvPart
from agents.engines.stage_facts import StageFacts


def check_batch(
    facts: StageFacts,
    batch: StepBatch,
    rows: torch.Tensor,
    cached: Callable[[str], int],
    drafted: Callable[[str], int] = lambda _: 0,
) -> None:
    """Check a batch. `cached`: tokens of a request in the KV cache, 0 for one not known; `drafted`: tokens behind them
    that are there too, of a draft, of which some may be right. Raises BadBatchError."""
    if not batch.requests or len({request.id for request in batch.requests}) != len(batch.requests):
        raise BadBatchError("a step has at least one request, and each only once")
    expected = (batch.tokens,) if facts.held.first else (batch.tokens, facts.hidden_size)
    if tuple(rows.shape) != expected:
        raise BadBatchError(f"the step's rows must have shape {expected}, have {tuple(rows.shape)}")
    if facts.held.first and (int(rows.min()) < 0 or int(rows.max()) >= facts.vocab_size):
        raise BadBatchError(f"token ids must be in [0, {facts.vocab_size})")
    for request in batch.requests:
        known = cached(request.id)
        if request.shared and (known or not facts.shares_kv):
            why = "is not new, or can share none here"
            raise BadBatchError(f"request {request.id!r} brings KV blocks of others, and {why}")
        known += len(request.shared) * facts.block_tokens
        if request.tokens < 1 or not known <= request.position <= known + drafted(request.id):
            raise BadBatchError(
                f"request {request.id!r}: {known} tokens are cached, the step has {request.tokens} "
                f"from position {request.position}"
            )
        if facts.max_context_tokens and request.position + request.tokens > facts.max_context_tokens:
            raise BadBatchError(f"request {request.id!r} is past the context of {facts.max_context_tokens} tokens")
        if request.draft:
            _check_draft(facts, request)


def _check_draft(facts: StageFacts, request: StepRequest) -> None:
    if not facts.verifies_drafts:
        raise BadBatchError(f"request {request.id!r} brings a draft, and engine {facts.engine} verifies none")
    is_chosen = request.sampling is not None or not facts.held.last
    if len(request.draft) >= request.tokens or not is_chosen:
        raise BadBatchError(
            f"request {request.id!r}: a draft stands behind a known token, and tokens are sampled to verify it; of "
            f"{request.tokens} tokens {len(request.draft)} are a draft"
        )


def check_given(facts: StageFacts, batch: StepBatch, attending: Collection[str]) -> None:
    """Check what comes with a batch beside its tokens. `attending`: requests whose rows of an encoder are here. Raises
    BadBatchError."""
    for request in batch.requests:
        if request.grids and (facts.position_axes == 1 or not grids_follow(request.grids)):
            raise BadBatchError(
                f"request {request.id!r}: grids follow each other, and only a model whose tokens have three positions "
                f"takes them; this one has {facts.position_axes}"
            )
        if request.hands_out_rows and not facts.takes_rows:
            raise BadBatchError(f"request {request.id!r}: engine {facts.engine} hands out no hidden states")
    if batch.given.is_empty and not facts.encoded_tokens:
        return
    requests = {request.id: request for request in batch.requests}
    for embedded in batch.given.embedded:
        _check_embedded(facts, requests.get(embedded.request_id), embedded)
    given = [encoded.request_id for encoded in batch.given.encoded]
    for encoded in batch.given.encoded:
        _check_encoded(facts, encoded)
    if len(set(given)) != len(given) or not set(given) <= requests.keys() - set(attending):
        raise BadBatchError("rows of an encoder come once for a request, with its first step here")
    if facts.encoded_tokens and not requests.keys() <= {*given, *attending}:
        missing = ", ".join(sorted(requests.keys() - {*given, *attending}))
        raise BadBatchError(f"requests attend to an encoder, whose rows come with their first step here: {missing}")


def _check_embedded(facts: StageFacts, request: StepRequest | None, embedded: EmbeddedRows) -> None:
    if not facts.held.first or not facts.takes_rows:
        raise BadBatchError(f"this stage of engine {facts.engine} has no embeddings that rows could stand in for")
    tokens = len(embedded.rows)
    if tuple(embedded.rows.shape) != (tokens, facts.hidden_size) or not tokens:
        raise BadBatchError(f"rows are (tokens, {facts.hidden_size}), got {tuple(embedded.rows.shape)}")
    end = embedded.position + tokens
    if request is None or embedded.position < request.position or end > request.position + request.tokens:
        raise BadBatchError(
            f"rows of request {embedded.request_id!r} stand for tokens [{embedded.position}, {end}), which are not all "
            "in this step: cut them where the prompt is cut"
        )


def _check_encoded(facts: StageFacts, encoded: EncodedRows) -> None:
    expected = (facts.encoded_tokens, facts.encoded_width)
    if not facts.encoded_tokens or tuple(encoded.rows.shape) != expected:
        raise BadBatchError(
            f"request {encoded.request_id!r}: rows of an encoder have shape {expected} ((0, 0): the model attends to "
            f"none), got {tuple(encoded.rows.shape)}"
        )


def check_new(request_id: str, tokens: int, cached: int) -> None:
    """Check a request that is to be imported, of which `cached` tokens are here. Raises BadBatchError."""
    if cached or tokens < 1:
        raise BadBatchError(f"request {request_id!r} cannot be imported with {tokens} tokens: it is new with ≥ 1")


def check_part(
    facts: StageFacts, part: KvPart, request_id: str, tokens: int, first_kept_token: Callable[[int, int], int]
) -> None:
    """Check a part of a request that has `tokens` in the cache. Raises BadBatchError where it is not all held and kept
    here."""
    held, end_head = facts.held, facts.first_kv_head + facts.kv_heads
    if part.first_layer < held.first_layer or part.first_layer + part.layers > held.end:
        raise BadBatchError(f"layers of {part} are not all in [{held.first_layer}, {held.end})")
    if part.first_head < facts.first_kv_head or part.first_head + part.heads > end_head:
        raise BadBatchError(f"KV heads of {part} are not all in [{facts.first_kv_head}, {end_head})")
    for layer in range(part.first_layer, part.first_layer + part.layers):
        kept = first_kept_token(layer, tokens)
        if part.first_token < kept or part.first_token + part.tokens > tokens:
            where = f"layer {layer} of request {request_id!r}"
            raise BadBatchError(f"{where} keeps tokens [{kept}, {tokens}), {part} wants others")


def check_part_shape(part: KvPart, tensor: torch.Tensor, head_dim: int) -> None:
    """Raises BadBatchError where `tensor` is not what an export of the part is."""
    expected = part.shape(head_dim)
    if tuple(tensor.shape) != expected:
        raise BadBatchError(f"a KV part {part} has shape {expected}, got {tuple(tensor.shape)}")
