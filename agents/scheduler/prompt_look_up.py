"""Drafts of what an answer says next, looked up in its own text: answers quote their prompts, and repeat themselves.

Prompt look-up decoding (Saxena 2023, github.com/apoorvumang/prompt-lookup-decoding), vLLM's method `ngram`: no second
model has to be held or computed.
"""

from array import array
from collections.abc import Iterable
from dataclasses import dataclass

from templates_lib.values.speculation import MOST_DRAFT_TOKENS

WIDTH = array("I").itemsize
"""Bytes of a packed token."""
_LOOK_BACK = 1 << 16
"""Tokens that are searched, at most: 256 KiB, which takes a fraction of a millisecond."""
_MOST_ASTRAY = 64
"""Finds across the borders of tokens, behind which a look-up gives up: a text can have one in each token, and whoever
writes it would hold up the scheduler for tens of milliseconds in each step."""
_REST = 8
"""Tokens without a draft, behind one of a single token that was wrong."""


def packed(tokens: Iterable[int]) -> bytes:
    """Pack tokens, `WIDTH` bytes each: a search in bytes goes at the speed of memory."""
    return array("I", tokens).tobytes()


def look_up(text: bytes | bytearray, ngram: int, most: int) -> tuple[int, ...]:
    """Return up to `most` tokens that came behind the last `ngram` tokens of a packed text, where these stood the last
    time before; nothing where they never did. Where the text ends before there are so many, they go on with
    themselves, as a text does that repeats itself."""
    size = ngram * WIDTH
    found = len(text) - size
    if found <= 0:
        return ()
    last, first = text[found:], max(0, len(text) - _LOOK_BACK * WIDTH)
    for _ in range(_MOST_ASTRAY):
        found = text.rfind(last, first, found + size - 1)
        if found < 0 or found % WIDTH == 0:  # else it lies across tokens
            break
    if found < 0 or found % WIDTH:
        return ()
    behind = array("I")
    behind.frombytes(text[found + size : found + size + most * WIDTH])
    return tuple(behind[n % len(behind)] for n in range(most))


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
