"""Chooses tokens from logits."""

from collections.abc import Callable

import torch

from agents.engines.batch import StepBatch, StepRequest
from agents.engines.sampling import GREEDY, Sampling
from agents.engines.step_output import Sample
from agents.engines.torch_engine.logit_rules import RuledChoices, RuledRequests, without_unlikely

FIRST_LOOK = 512
"""Tokens that hold the top-p share nearly always; a flatter distribution is sorted whole."""
_MASK = (1 << 64) - 1


def sample_ends(
    batch: StepBatch, hidden: torch.Tensor, head: Callable[[torch.Tensor], torch.Tensor], ruled: RuledRequests
) -> tuple[Sample, ...]:
    """Sample after the last known row of each request that asks for a token, and after those of its draft. `hidden`:
    rows of the whole batch; `head`: the logits of the rows that it is given; `ruled`: has begun the batch, and learns
    what is chosen."""
    asking = [request for request in batch.requests if request.sampling is not None]
    if not asking:
        return ()
    rows, end = list[int](), 0
    for request in batch.requests:
        end += request.tokens
        rows += range(end - 1 - len(request.draft), end) if request.sampling is not None else ()
    return sample(asking, head(hidden[torch.tensor(rows).to(hidden.device)]), ruled)


def sample(requests: list[StepRequest], logits: torch.Tensor, ruled: RuledRequests) -> tuple[Sample, ...]:
    """One token for each request from its row of `logits` (rows, vocabulary) fp32, and from those of its draft as long
    as that is what was chosen: each token is a function of logits behind what was chosen before it, as without a
    draft."""
    greedy = logits.argmax(dim=-1).tolist()
    samples, first = [], 0
    for request in requests:
        for place, drafted in enumerate((*request.draft, None)):
            row = first + place
            made = _sample(request, logits[row], greedy[row], request.known_end + place, ruled)
            samples.append(made)
            if made.stop or made.token_id != drafted:
                break
        first += 1 + len(request.draft)
    return tuple(samples)


def _sample(request: StepRequest, logits: torch.Tensor, greedy: int, position: int, ruled: RuledRequests) -> Sample:
    """The token at `position`, from `logits` (vocabulary) fp32 and the likeliest one by them."""
    sampling, own, token = request.sampling or GREEDY, ruled.get(request.id), greedy
    if own is not None:
        token = chosen(own, logits, sampling, position)
    elif sampling.temperature > 0:
        token = drawn(logits, sampling, position)
    logprob, alternatives = _logprobs(logits, token, sampling.logprobs)
    return Sample(request.id, token, token in sampling.stop_token_ids, logprob, alternatives)


def chosen(own: RuledChoices, logits: torch.Tensor, sampling: Sampling, position: int) -> int:
    """The token at `position` by a request's rules, which count it. `logits` (vocabulary) fp32: as the model gives
    them."""
    chances, is_drawn = own.ruled(logits, position), sampling.temperature > 0
    token = drawn(chances, sampling, position, own.rules.min_p) if is_drawn else int(chances.argmax())
    own.add(token)
    return token


def uniform(seed: int, position: int) -> float:
    """A number in [0, 1) that depends on nothing but the seed and the sampled token's position.

    SplitMix64 (Steele, Lea and Flood 2014) of both, mixed twice so that neighbouring seeds share nothing.
    """
    return (_mixed(_mixed(seed & _MASK) + position * 0x9E3779B97F4A7C15) >> 11) / 2**53


def _mixed(value: int) -> int:
    value = (value + 0x9E3779B97F4A7C15) & _MASK
    value = ((value ^ value >> 30) * 0xBF58476D1CE4E5B9) & _MASK
    value = ((value ^ value >> 27) * 0x94D049BB133111EB) & _MASK
    return value ^ value >> 31


def drawn(logits: torch.Tensor, sampling: Sampling, position: int, min_p: float = 0.0) -> int:
    """The token at `position` of prompt and output, from `logits` (vocabulary) fp32, which rules have changed already.

    Min-p, top-k, then top-p of what that leaves, as vLLM and transformers do; then the token where the cumulated
    probability, in the order of token ids, passes the draw: two engines whose logits differ in the last digits agree
    but at the very edge of a token's share."""
    scaled = without_unlikely(logits / sampling.temperature, min_p)
    tokens, probabilities = _candidates(scaled, sampling)
    draw = uniform(sampling.seed, position)
    cumulative = probabilities.cumsum(0, dtype=torch.float64)
    place = int(torch.searchsorted(cumulative, draw * cumulative[-1], right=True))
    return int(tokens[min(place, len(tokens) - 1)])


def _candidates(scaled: torch.Tensor, sampling: Sampling) -> tuple[torch.Tensor, torch.Tensor]:
    """Token ids that may be drawn, rising, and their probabilities up to a common factor."""
    if not sampling.top_k and sampling.top_p >= 1:
        probabilities = scaled.softmax(-1)
        tokens = probabilities.nonzero()[:, 0]
        return tokens, probabilities[tokens]
    values, ids = scaled.topk(min(sampling.top_k or FIRST_LOOK, len(scaled)))
    total = (values if sampling.top_k else scaled).logsumexp(-1)
    probabilities = (values - total).exp()
    if not sampling.top_k and probabilities.sum() < sampling.top_p:
        values, ids = scaled.sort(descending=True)
        probabilities = (values - total).exp()
    kept = probabilities.cumsum(0) - probabilities < sampling.top_p
    tokens, order = ids[kept].sort()
    return tokens, probabilities[kept][order]


def _logprobs(
    logits: torch.Tensor, token: int, wanted: int | None
) -> tuple[float | None, tuple[tuple[int, float], ...]]:
    if wanted is None:
        return None, ()
    logprobs = logits.log_softmax(dim=-1)
    best = logprobs.topk(wanted)
    return float(logprobs[token]), tuple(zip(best.indices.tolist(), best.values.tolist(), strict=True))
