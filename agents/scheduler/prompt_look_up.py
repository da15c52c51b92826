"""Drafts of what an answer says next, looked up in its own text: answers quote their prompts, and repeat themselves.

Prompt look-up decoding (Saxena 2023, github.com/apoorvumang/prompt-lookup-decoding), vLLM's method `ngram`: no second
model has to be held or computed.
"""

import sys
from array import array
from collections.abc import Iterable
from dataclasses import dataclass

from templates_lib.values.speculation import MOST_DRAFT_TOKENS

_CODEC = f"utf-32-{sys.byteorder[0]}e"  # le or be, as arrays are
_LOOK_BACK = 1 << 16
"""Tokens that are searched, at most, which takes some hundredths of a millisecond."""
_REST = 8
"""Tokens without a draft, behind one of a single token that was wrong."""


def as_characters(tokens: Iterable[int]) -> str:
    """Return tokens as one character each: text is searched at the speed of memory. Raises UnicodeDecodeError where a
    token has none, from 1,114,112 on."""
    return array("I", tokens).tobytes().decode(_CODEC, "surrogatepass")


def look_up(text: str, ngram: int, most: int) -> tuple[int, ...]:
    """Return up to `most` tokens that came behind the last `ngram` tokens of a text, where these stood the last time
    before; nothing where they never did. `text`: as characters. Where the text ends before there are so many, they go
    on with themselves, as a text does that repeats itself."""
    found = -1
    if len(text) > ngram:
        found = text.rfind(text[-ngram:], max(0, len(text) - _LOOK_BACK), len(text) - 1)
    if found < 0:
        return ()
    behind = text[found + ngram : found + ngram + most]
    return tuple(ord(behind[n % len(behind)]) for n in range(most))


@dataclass(slots=True)
class DraftTrust:
    """How many tokens of a run are worth drafting, by what came of the last draft: rows that are wrong cost time, and
    on a GPU steps with drafts are not replayed as graphs."""

    most: int = MOST_DRAFT_TOKENS
    resumes_at: int = 0
    """Length of the text from which on there are drafts again."""

    def most_behind(self, tokens: int) -> int:
        """Return how many to draft behind so many tokens."""
        return self.most if tokens >= self.resumes_at else 0

    def learn(self, right: int, tokens: int) -> None:
        """Take in that so many tokens of a draft were right, behind which the text has `tokens`."""
        if not right and self.most == 1:
            self.resumes_at = tokens + _REST
        self.most = max(1, min(MOST_DRAFT_TOKENS, 2 * right))
