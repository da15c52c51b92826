"""Digests of full KV blocks: equal exactly where the tokens of the block, what rows stand for them, all before it and
their salt are."""

from array import array
from collections.abc import Sequence
from hashlib import blake2b

from agents.messages.component_work import PromptRows
from agents.scheduler.given import content_of

_DIGEST_BYTES = 32
"""Nobody finds two texts of one digest, so that a block of another's text is never taken for one's own."""


def extend_digests(
    digests: list[bytes],
    tokens: Sequence[int],
    block_tokens: int,
    blocks: int,
    salt: str,
    given: Sequence[PromptRows] = (),
) -> None:
    """Append digests to those of the first blocks of `tokens`, until there is one of each of the first `blocks`, which
    are full. Each covers the one before: keys and values of a token depend on all tokens up to it. The first covers
    `salt`. `given`: rows with a key, in place of some of the tokens."""
    for block in range(len(digests), blocks):
        first, end = block * block_tokens, (block + 1) * block_tokens
        own = array("I", tokens[first:end]).tobytes() + content_of(given, first, end)
        before = digests[-1] if digests else _digest(salt.encode())
        digests.append(_digest(before + own))


def _digest(content: bytes) -> bytes:
    return blake2b(content, digest_size=_DIGEST_BYTES).digest()
