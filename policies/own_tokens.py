"""How long a prefill instance goes on with answers whose KV cache is on its way to a decode instance."""


def goes_on(made: int, most: int, prompts: int) -> bool:
    """Tell whether it makes one more token of an answer. `made`: behind the first one. `most`: the bound on these.
    `prompts`: that wait there, or are being computed: they go first, as their clients have nothing yet."""
    return made < most and prompts == 0
