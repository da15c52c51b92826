"""Speculative decoding by prompt look-up, as a spec asks for it."""

from dataclasses import dataclass

MOST_NGRAM = 8
MOST_DRAFT_TOKENS = 16


@dataclass(frozen=True, slots=True)
class Speculation:
    """Tokens of an answer are drafted by what its text says further up, and verified together in one step. The answer
    is the same."""

    ngram: int
    """The text's last tokens that are looked for further up in it."""
    tokens: int
    """Of a draft, at most."""

    def __post_init__(self) -> None:
        for name, most in (("ngram", MOST_NGRAM), ("tokens", MOST_DRAFT_TOKENS)):
            if not 1 <= getattr(self, name) <= most:
                raise ValueError(f"`{name}` of a speculation is 1 to {most}, not {getattr(self, name)}")
