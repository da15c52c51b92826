"""Tokenising off the loop: many at once give what each alone gives, and one failure is not another's."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from control.gateway.prompt_encoder import PromptEncoder
from control.gateway.tokenizer import TokenizerFiles
from control.gateway.tokenizer_source import load_tokenizer
from tests.control.gateway.world import byte_tokenizer


class Counted:
    """A tokenizer that counts its calls, and cannot read NUL."""

    def __init__(self, inner: TokenizerFiles) -> None:
        self._inner = inner
        self.batches: list[int] = []

    def __getattr__(self, name: str):
        return getattr(self._inner, name)

    def encode(self, texts: Sequence[str], is_rendered: bool) -> list[tuple[int, ...]]:
        self.batches.append(len(texts))
        if any("\0" in text for text in texts):
            raise ValueError("NUL")
        return self._inner.encode(texts, is_rendered)


@pytest.fixture
def counted(tmp_path: Path) -> Counted:
    return Counted(load_tokenizer(byte_tokenizer(tmp_path)))


def test_many_at_once_are_encoded_together_and_each_gets_its_own(counted: Counted):
    texts = [f"{n} " * (50 + n) for n in range(64)] + ["short", "x" * 100_000]

    async def scenario():
        encoder = PromptEncoder(counted)
        encoded = await asyncio.gather(*(encoder.encode(text, n % 5 == 0) for n, text in enumerate(texts)))
        assert encoded == [counted._inner.encode([text], is_rendered=False)[0] for text in texts]

    asyncio.run(scenario())
    assert sum(counted.batches) == len(texts)
    assert len(counted.batches) < len(texts)


def test_an_error_reaches_who_waits_and_later_prompts_are_served(counted: Counted):
    async def scenario():
        encoder = PromptEncoder(counted)
        with pytest.raises(ValueError, match="NUL"):
            await encoder.encode("\0" * 300, is_rendered=False)
        assert len(await encoder.encode("y" * 300, is_rendered=False)) == 300

    asyncio.run(scenario())


def test_a_request_that_is_cut_off_while_it_waits_harms_nobody(counted: Counted):
    async def scenario():
        encoder = PromptEncoder(counted)
        gone = asyncio.create_task(encoder.encode("a" * 300, is_rendered=False))
        stays = asyncio.create_task(encoder.encode("b" * 300, is_rendered=False))
        await asyncio.sleep(0)
        gone.cancel()
        assert len(await stays) == 300

    asyncio.run(scenario())
