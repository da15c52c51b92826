"""How many steps of prompts an instance has under way."""

LANES_OF_PART = 2
"""For each part of its pipeline one that it works on, and one that comes next: with fewer, parts idle while prompts
wait for others to come round; with more, prompts are given out one by one long before anything could compute them, and
short ones are not put together."""
