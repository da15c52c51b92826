"""Grammars that outputs are held to, by llguidance: which tokens may come next.

The mask of the next token is computed on a thread of its own, as soon as the one before is chosen: a step waits for
what is left of that, and nothing where the pass through the layers takes longer.
"""

import logging
import mmap
import threading
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch

from templates_lib.models.gguf_metadata import GgufCursor

_log = logging.getLogger(__name__)
_FILE = "tokenizer.json"
_CONTROL = 3
"""Token type of what is never text (gguf.TokenType.CONTROL)."""
_UNKNOWN = ord("?")
_MOST_TOKENS = 1 << 20
_threads = ThreadPoolExecutor(2, "grammar")


class Vocabulary:
    """Tokens of a model as llguidance knows them: read when the first grammar comes, which takes about a second."""

    def __init__(self, file: Path, size: int) -> None:
        """`size`: of the logits."""
        self.size = size
        self._file = file
        self._reading = threading.Lock()
        self._tokenizer: Any = None

    @property
    def tokenizer(self) -> Any:
        """The `llguidance.LLTokenizer`. Its end of text is a token behind all that the model has: which ones end an
        output, the request says. Raises OSError, ValueError and KeyError for files that are no tokenizer."""
        with self._reading:
            if self._tokenizer is None:
                read = _json_tokens if self._file.name == _FILE else _gguf_tokens
                self._tokenizer = _with_end(read(self._file, self.size))
            return self._tokenizer


def vocabulary_of(checkpoint: Path, size: int) -> Vocabulary | None:
    """The vocabulary beside a checkpoint's weights, a GGUF file or a folder; None where there is none, or no
    llguidance. `size`: of the logits."""
    file = checkpoint if checkpoint.is_file() else checkpoint / _FILE
    return Vocabulary(file, size) if file.is_file() and find_spec("llguidance") else None


class GrammarState:
    """Where one output is in its grammar."""

    def __init__(self, vocabulary: Vocabulary, grammar: str, output: Sequence[int], ends: Collection[int]) -> None:
        """`grammar`: in llguidance's form of Lark. `output`: tokens so far. `ends`: tokens that may come when the
        grammar is fulfilled, of which there is one at least."""
        self._vocabulary = vocabulary
        self._ends = [token for token in ends if token < vocabulary.size]
        self._matcher: Any = None
        self._next = self._later(lambda: self._begin(grammar, output))

    @property
    def allowed(self) -> torch.Tensor:
        """(vocabulary,) whether each token may come next; waits for it."""
        return self._next.result()

    def add(self, token: int) -> None:
        """Go on behind a token that was chosen."""
        self._next = self._later(lambda: self._go_on(token))

    def _later(self, step: Callable[[], None]) -> "Future[torch.Tensor]":
        return _threads.submit(self._after, step)

    def _after(self, step: Callable[[], None]) -> torch.Tensor:
        """Whatever is wrong with one grammar, its output ends, and others go on."""
        try:
            step()
            if self._matcher.is_error():
                raise ValueError(self._matcher.get_error())
            return self._mask()
        except Exception as error:
            _log.error("an output is ended, as its grammar cannot be followed: %s", error)
            return self._only_ends()

    def _begin(self, grammar: str, output: Sequence[int]) -> None:
        from llguidance import LLMatcher

        self._matcher = LLMatcher(self._vocabulary.tokenizer, grammar)
        if output:
            self._matcher.consume_tokens(list(output))

    def _go_on(self, token: int) -> None:
        if token not in self._ends:
            self._matcher.consume_token(token)

    def _mask(self) -> torch.Tensor:
        bits = np.frombuffer(self._matcher.compute_bitmask(), np.uint8)
        allowed = torch.from_numpy(np.unpackbits(bits, bitorder="little")[: self._vocabulary.size].astype(bool))
        if self._matcher.is_accepting():
            allowed[self._ends] = True
        return allowed

    def _only_ends(self) -> torch.Tensor:
        allowed = torch.zeros(self._vocabulary.size, dtype=torch.bool)
        allowed[self._ends] = True
        return allowed


@dataclass(frozen=True, slots=True)
class _Tokens:
    """Tokens of a vocabulary, by id."""

    texts: list[bytes]
    special: list[int]
    """Those that are never text."""
    encode: Callable[[bytes], list[int]]


def _with_end(tokens: _Tokens) -> Any:
    """An `LLTokenizer` with one token more, its end of text."""
    from llguidance import LLTokenizer, TokenizerWrapper

    class Wrapped:
        eos_token_id = len(tokens.texts)
        bos_token_id = None
        special_token_ids = (*tokens.special, eos_token_id)

        def __init__(self) -> None:
            self.tokens = (*tokens.texts, b"<end of output>")

        def __call__(self, text: bytes) -> list[int]:
            return tokens.encode(text)

    return LLTokenizer(TokenizerWrapper(Wrapped()))


def _json_tokens(file: Path, size: int) -> _Tokens:
    """Raises ValueError for a file that is no tokenizer."""
    from llguidance import LLTokenizer

    read = LLTokenizer(file.read_text(), n_vocab=size)
    special = [token for token in range(size) if read.is_special_token(token)]
    return _Tokens([read.decode_bytes([token]) for token in range(size)], special, read.tokenize_bytes)


def _gguf_tokens(file: Path, size: int) -> _Tokens:
    """Raises KeyError and ValueError for a file without byte-level tokens."""
    with file.open("rb") as opened, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        cursor = GgufCursor(mapped)
        metadata = cursor.metadata(cursor.counts()[1], _MOST_TOKENS)
    if metadata.get("tokenizer.ggml.model") != "gpt2":
        raise ValueError(f"{file}: tokens of kind {metadata.get('tokenizer.ggml.model')!r} are not byte-level")
    shown, kinds = metadata["tokenizer.ggml.tokens"][:size], metadata.get("tokenizer.ggml.token_type", ())
    special, of_letter = [n for n, kind in enumerate(kinds) if kind == _CONTROL], _bytes_of_letters()
    texts = [bytes(of_letter.get(letter, _UNKNOWN) for letter in text) for text in shown]
    texts += [b""] * (size - len(texts))
    special_ids = set(special)
    ids = {text: n for n, text in enumerate(texts) if n not in special_ids}
    longest = max(map(len, ids))

    def encode(text: bytes) -> list[int]:
        """The longest token first: what comes of it is the text all the same."""
        found, at = [], 0
        while at < len(text):
            ends = range(min(len(text), at + longest), at, -1)
            end = next((end for end in ends if text[at:end] in ids), at + 1)
            found.append(ids.get(text[at:end], 0))
            at = end
        return found

    return _Tokens(texts, special, encode)


def _bytes_of_letters() -> dict[str, int]:
    """Letters by which byte-level vocabularies show bytes: printable ones themselves, others from U+0100 on (GPT-2's
    `bytes_to_unicode`)."""
    shown = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = [byte for byte in range(0x100) if byte not in shown]
    return {chr(byte): byte for byte in shown} | {chr(0x100 + n): byte for n, byte in enumerate(hidden)}
