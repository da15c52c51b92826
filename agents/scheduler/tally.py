"""Tally of a scheduler's work, in numbers that only rise."""

from dataclasses import dataclass


@dataclass(slots=True)
class Tally:
    prompt_tokens: int = 0
    """Computed; those of a preempted request count each time."""
    preemptions: int = 0
    sent_kv_bytes: int = 0
    received_kv_bytes: int = 0
