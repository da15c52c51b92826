"""The port between text and tokens, and the adapter over Hugging Face `tokenizers`."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from tokenizers import Tokenizer as HfTokenizer
from tokenizers.decoders import DecodeStream

from control.gateway import embedder
from control.gateway.chat_template import ChatTemplate
from control.gateway.embedder import Embedder
from control.gateway.sampling_defaults import PLAIN, SamplingDefaults

_SHRINKS = 4
"""Times that a normaliser makes a text shorter at the most: NFC makes up to three characters one (UAX 15)."""


class TextStream(Protocol):
    """Turns one output's tokens into text as they come."""

    def push(self, token: int) -> str:
        """The text that is certain now: empty in the middle of a character."""

    def flush(self) -> str:
        """Text that is left at the end, whole or not."""


class Tokenizer(Protocol):
    """Interface of one model's tokenizer. Thread-safe."""

    @property
    def stop_ids(self) -> tuple[int, ...]:
        """Tokens that end an answer."""

    @property
    def vocabulary_size(self) -> int: ...

    def least_tokens(self, text: str) -> int:
        """Tokens that a text has at the least, from its length alone."""

    @property
    def sampling_defaults(self) -> SamplingDefaults:
        """As its model's files have them."""

    @property
    def embedder(self) -> Embedder:
        """How its model's embeddings are made."""

    def encode(self, texts: Sequence[str], is_rendered: bool) -> list[tuple[int, ...]]:
        """Plain prompts get the tokens that the model wants around one; a rendered conversation has them."""

    @property
    def chat_template(self) -> ChatTemplate:
        """Of its model's conversations."""

    def decode(self, tokens: Sequence[int]) -> str:
        """Text of tokens, special ones included."""

    def token_text(self, token: int) -> str:
        """Text of one token alone, for log-probabilities; part of a character shows as U+FFFD."""

    def open_stream(self, *, shows_special: bool = False) -> TextStream:
        """`shows_special`: text has special tokens, too."""


@dataclass(frozen=True, slots=True)
class TokenizerFiles:
    """A Hugging Face tokenizer with what else its model's files say about text."""

    tokenizer: HfTokenizer
    stop_ids: tuple[int, ...]
    bos_ids: tuple[int, ...] = ()
    """Put before a plain prompt where the tokenizer's own post-processor does not do it."""
    chat_template: ChatTemplate = field(default_factory=ChatTemplate.missing)
    sampling_defaults: SamplingDefaults = PLAIN
    embedder: Embedder = embedder.PLAIN
    _longest: int = field(init=False)
    """Bytes of the longest token, or more."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "_longest", max(map(_bytes, self.tokenizer.get_vocab()), default=1))

    @property
    def vocabulary_size(self) -> int:
        return int(self.tokenizer.get_vocab_size())

    def least_tokens(self, text: str) -> int:
        return len(text) // (self._longest * (_SHRINKS if self.tokenizer.normalizer is not None else 1))

    def encode(self, texts: Sequence[str], is_rendered: bool) -> list[tuple[int, ...]]:
        before = () if is_rendered else self.bos_ids
        encodings = self.tokenizer.encode_batch_fast(list(texts), add_special_tokens=not is_rendered)
        return [(*before, *encoding.ids) for encoding in encodings]

    def decode(self, tokens: Sequence[int]) -> str:
        return str(self.tokenizer.decode(list(tokens), skip_special_tokens=False))

    def token_text(self, token: int) -> str:
        return str(self.tokenizer.decode([token], skip_special_tokens=False))

    def open_stream(self, *, shows_special: bool = False) -> TextStream:
        return _Stream(self.tokenizer, shows_special)


def _bytes(token: str) -> int:
    return max(1, len(token.encode()))


class _Stream:
    def __init__(self, tokenizer: HfTokenizer, shows_special: bool) -> None:
        self._tokenizer = tokenizer
        self._skips = not shows_special
        self._stream = DecodeStream(skip_special_tokens=self._skips)
        self._pending: list[int] = []

    def push(self, token: int) -> str:
        self._pending.append(token)
        text = self._stream.step(self._tokenizer, token)
        if text is None:
            return ""
        self._pending.clear()
        return text

    def flush(self) -> str:
        text = str(self._tokenizer.decode(self._pending, skip_special_tokens=self._skips)) if self._pending else ""
        self._pending.clear()
        return text
