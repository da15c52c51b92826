"""Requests whose steps bring drafts, right and wrong ones."""

import random
from collections.abc import Sequence

from agents.engines.batch import StepRequest
from agents.engines.sampling import GREEDY, LogitRules, RuledText, Sampling
from tests.agents.engines.pipelines import Pipeline
from tests.agents.engines.tiny_models import VOCABULARY


def corrupted(draw: random.Random, tokens: Sequence[int]) -> tuple[int, ...]:
    """A draft that is right as a whole, or up to some token."""
    draft = list(tokens)
    if draft and draw.random() < 0.6:
        at = draw.randrange(len(draft))
        draft[at] = (draft[at] + 1) % VOCABULARY
    return tuple(draft)


def answered(
    pipeline: Pipeline,
    prompt: list[int],
    answer: Sequence[int],
    sampling: Sampling = GREEDY,
    rules: LogitRules | None = None,
    requests: int = 1,
) -> list[list[int]]:
    """What some requests get, side by side, with drafts that know the answer, more or less; as many tokens as that."""
    draw = random.Random(3)
    ids = [f"r{n}" for n in range(requests)]
    ruled = None if rules is None else RuledText(rules, tuple(prompt))
    first = tuple(StepRequest(each, 0, len(prompt), sampling, ruled) for each in ids)
    made = {s.request_id: [s.token_id] for s in pipeline.forward(first, prompt * requests)}
    while any(len(tokens) < len(answer) for tokens in made.values()):
        step, rows = [], list[int]()
        for each, tokens in made.items():
            draft = corrupted(draw, answer[len(tokens) : len(tokens) + draw.randint(0, 6)])
            position = len(prompt) + len(tokens) - 1
            step.append(StepRequest(each, position, 1 + len(draft), sampling, draft=draft))
            rows += (tokens[-1], *draft)
        for one in pipeline.forward(tuple(step), rows):
            made[one.request_id].append(one.token_id)
    for each in ids:
        pipeline.free(each)
    return [tokens[: len(answer)] for tokens in made.values()]
