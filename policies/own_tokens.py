"""How long a prefill instance goes on with answers whose KV cache is on its way to a decode instance."""

from collections.abc import Mapping

OWN_TOKENS_VARIABLE = "MEDLEY_NODE_OWN_TOKENS"
"""Of the environment of control planes, which pass it on, and of node agents: the bound for schedulers there."""
MOST_OWN_TOKENS = 64
"""More would not fit the message that hands them over; a way that takes as many steps is no way."""


def own_tokens_of(environment: Mapping[str, str]) -> int:
    """Tokens behind the first that a prefill instance makes at most; 0 where nothing is said. Raises ValueError."""
    said = environment.get(OWN_TOKENS_VARIABLE, "0")
    if not (said.isdecimal() and int(said) <= MOST_OWN_TOKENS):
        raise ValueError(f"{OWN_TOKENS_VARIABLE} is {said!r}; give a number from 0 (off) to {MOST_OWN_TOKENS}")
    return int(said)


def goes_on(made: int, most: int, prompts: int) -> bool:
    """Tell whether it makes one more token of an answer. `made`: behind the first one. `most`: the bound on these.
    `prompts`: that wait there, or are being computed: they go first, as their clients have nothing yet."""
    return made < most and prompts == 0
