"""Lanes: how many steps of prompts an instance has under way, and which prompts go in one step."""

from collections.abc import Collection

LANES_OF_PART = 2
"""Lanes for each part of an instance: one that it works on, and one that comes next. With fewer, parts idle while
prompts wait for others to come round; with more, prompts are given out one by one long before anything could compute
them, and short ones are not put together."""
LANES_OF_PART_ALONE = 8
"""Lanes for each part where no step takes more than one prompt and none are put together: a long prompt then would
leave the parts before it idle, with all lanes behind it. That many are as good as no limit within an objective."""


def joins(tokens: float, before: float, chunk_tokens: float) -> bool:
    """Tell whether a prompt goes in one step with others, which have `before` tokens at the same node, and is not to be
    cut.

    Prompts are whole, and a node takes the number of them that comes nearest to its chunk. So its steps have that many
    tokens in the mean, which its throughput is certified with; to stay below it always, they would have half a prompt
    less, and with chunks of a few prompts it then falls short by a tenth. Beside others a prompt that is longer
    than the chunk is never taken, so a step has `FULLEST` times the chunk at most.
    """
    return tokens <= chunk_tokens and 2 * before + tokens <= 2 * chunk_tokens


def may_join(size: int, own: int) -> bool:
    """Tell whether a request whose KV cache has come may go over from its group, of `own` requests with it, to one of
    `size` that takes a step sooner: as long as groups stay about equal, as their steps then are.
    """
    return 4 * size <= 5 * own + 4


def lanes(parts: int, batch_caps: Collection[int]) -> int:
    """Return the number of lanes of an instance of so many parts, whose nodes take so many prompts in one step."""
    return parts * (LANES_OF_PART_ALONE if max(batch_caps) == 1 else LANES_OF_PART)
