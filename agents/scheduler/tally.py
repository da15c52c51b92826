"""Tally of a scheduler's work, in numbers that only rise."""

from dataclasses import dataclass


@dataclass(slots=True)
class Tally:
    prompt_tokens: int = 0
    """Computed; those of a preempted request count each time."""
    looked_up_tokens: int = 0
    """Of requests that could have begun with known KV blocks, as they were admitted."""
    found_tokens: int = 0
    """Of them, tokens in such blocks."""
    preemptions: int = 0
    draft_tokens: int = 0
    """That were verified."""
    accepted_tokens: int = 0
    """Of them, those that were right."""
    sent_kv_bytes: int = 0
    received_kv_bytes: int = 0
