"""How many steps of prompts an instance has under way."""

from collections.abc import Collection

LANES_OF_PART = 2
"""For each part of its pipeline one that it works on, and one that comes next: with fewer, parts idle while prompts
wait for others to come round; with more, prompts are given out one by one long before anything could compute them, and
short ones are not put together."""
LANES_OF_PART_ALONE = 8
"""Where no step takes more than one prompt, none are put together: a long prompt then would leave the parts before it
idle, with all lanes behind it. That many are as good as no limit within an objective."""


def lanes(parts: int, batch_caps: Collection[int]) -> int:
    """Of a pipeline of so many parts, whose nodes take so many prompts in one step."""
    return parts * (LANES_OF_PART_ALONE if max(batch_caps) == 1 else LANES_OF_PART)
