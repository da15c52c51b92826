"""What instances of a tiny model are asked, and what one engine answers."""

from typing import Any

import msgspec

from agents.engines import sampling
from agents.messages.to_scheduler import Generate, LogitRules, Sampling
from tests.agents.engines.pipelines import Pipeline

GREEDY = Sampling(0.0, 1.0, 0, 0)
WARM = Sampling(0.9, 0.95, 40, 11, 2)
RULES = LogitRules(0.4, 0.3, 1.3, 0.02, ((5, 1.5), (9, -2.0)), (7, 11), 30)
RULED = Sampling(0.0, 1.0, 0, 0, None, RULES)
KINDS = (GREEDY, RULED, WARM, Sampling(1.2, 0.9, 0, 5, None, RULES))


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
    rules = None if chosen.rules is None else sampling.LogitRules(*msgspec.structs.astuple(chosen.rules))
    ours = sampling.Sampling(chosen.temperature, chosen.top_p, chosen.top_k, chosen.seed)
    return whole.generate(prompt, tokens, sampling=ours, rules=rules)
