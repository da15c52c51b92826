"""Requests longer than an objective speaks of, as a served model of their own (`Slo.max_prompt_tokens`)."""

from dataclasses import replace

from templates_lib.apps.served_model import ServedModel
from templates_lib.load.workload import split_prompts

LONG_SUFFIX = "-long"


def by_prompt_length(served: ServedModel) -> tuple[tuple[ServedModel, float], ...]:
    """(served model, its share of the requests): the model itself or, where some prompts of its shape are longer than
    `max_prompt_tokens`, one part up to that length and one, named with `LONG_SUFFIX`, for the longer ones.

    Both keep the objective; a budget that grows with the prompt (`ttft_ms_per_1k_prompt_tokens`) is then reckoned
    with the lengths of each part, so that a few long prompts no longer decide what the short ones need.
    """
    split = split_prompts(served.shape, served.slo.max_prompt_tokens)
    if split.long is None:
        return ((served, 1.0),)
    unlimited = replace(served.slo, max_prompt_tokens=0)
    longer = replace(served, name=served.name + LONG_SUFFIX, slo=unlimited, shape=split.long)
    if split.short is None:
        return ((longer, 1.0),)
    return (replace(served, shape=split.short), 1 - split.long_share), (longer, split.long_share)
