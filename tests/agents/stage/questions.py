"""What instances of a tiny model are asked, and what one engine answers."""

from typing import Any

from agents.engines import sampling
from agents.messages.to_scheduler import Generate, Sampling
from tests.agents.engines.pipelines import Pipeline

GREEDY = Sampling(0.0, 1.0, 0, 0)
WARM = Sampling(0.9, 0.95, 40, 11, 2)


def asked(
    attempt: int,
    prompt: list[int],
    tokens: int,
    chosen: Sampling = GREEDY,
    sent: tuple[int, ...] = (),
    *,
    model: str = "tiny",
    stop_ids: tuple[int, ...] = (),
    deadline_s: float = 600.0,
    **options: Any,
) -> Generate:
    return Generate(attempt, f"r{attempt}", model, tuple(prompt), sent, tokens, stop_ids, chosen, deadline_s, **options)


def expected(whole: Pipeline, prompt: list[int], tokens: int, chosen: Sampling = GREEDY) -> list[int]:
    ours = sampling.Sampling(chosen.temperature, chosen.top_p, chosen.top_k, chosen.seed)
    return whole.generate(prompt, tokens, sampling=ours)
