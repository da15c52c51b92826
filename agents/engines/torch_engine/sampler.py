"""Chooses tokens from logits."""

import torch

from agents.engines.batch import StepRequest
from agents.engines.sampling import GREEDY, Sampling
from agents.engines.step_output import Sample

_MASK = (1 << 64) - 1


def sample(requests: list[StepRequest], logits: torch.Tensor) -> tuple[Sample, ...]:
    """One token for each request from its row of `logits` (requests, vocabulary) fp32."""
    greedy = logits.argmax(dim=-1).tolist()
    samples = []
    for row, request in enumerate(requests):
        sampling = request.sampling or GREEDY
        token = greedy[row]
        if sampling.temperature > 0:
            token = _drawn(logits[row], sampling, uniform(sampling.seed, request.position + request.tokens))
        logprob, alternatives = _logprobs(logits[row], token, sampling.logprobs)
        samples.append(Sample(request.id, token, token in sampling.stop_token_ids, logprob, alternatives))
    return tuple(samples)


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


def _drawn(logits: torch.Tensor, sampling: Sampling, draw: float) -> int:
    """Top-k, then temperature, then top-p, as vLLM and transformers do; what is left is cut by inverse distribution in
    token order, so that two engines whose probabilities differ in the last digit agree but at the very edge."""
    scaled = logits / sampling.temperature
    if 0 < sampling.top_k < len(scaled):
        scaled = scaled.masked_fill(scaled < scaled.topk(sampling.top_k).values[-1], float("-inf"))
    probabilities = scaled.softmax(dim=-1, dtype=torch.float64)
    if sampling.top_p < 1:
        falling, order = probabilities.sort(descending=True, stable=True)
        outside = falling.cumsum(0) - falling >= sampling.top_p
        probabilities[order[outside]] = 0
    cumulative = probabilities.cumsum(0)
    token = torch.searchsorted(cumulative, draw * cumulative[-1], right=True)
    return min(int(token), int(probabilities.nonzero()[-1]))


def _logprobs(
    logits: torch.Tensor, token: int, wanted: int | None
) -> tuple[float | None, tuple[tuple[int, float], ...]]:
    if wanted is None:
        return None, ()
    logprobs = logits.log_softmax(dim=-1)
    best = logprobs.topk(wanted)
    return float(logprobs[token]), tuple(zip(best.indices.tolist(), best.values.tolist(), strict=True))
