"""Tokenises prompts, most of a gateway's work: on the loop while there is little to do, on threads when there is more.

A hop to a thread and back costs a lone request more than tokenising does. So what is short in each turn of the loop
stays; more of that turn goes to a thread, where all that wait are taken in one call and pay for one hop together.
"""

import asyncio
from collections import deque
from dataclasses import dataclass

from control.gateway.tokenizer import Tokenizer

_BATCH_CHARACTERS = 32 << 10
"""About 8 ms of work: who comes later waits no longer than that for a short prompt's turn."""

_THREADS = 2
"""A long prompt has one for itself and leaves the other to short ones."""

_INLINE_CHARACTERS = 4096
"""About 1 ms, of all prompts in a turn of the loop together: nothing longer holds it up."""


@dataclass(frozen=True, slots=True)
class _Waiting:
    text: str
    is_rendered: bool
    tokens: "asyncio.Future[tuple[int, ...]]"


class PromptEncoder:
    """Encodes prompts with one tokenizer. Make it on a running loop."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[_Waiting] = deque()
        self._at_work = 0
        self._turn_characters = 0
        """Encoded in this turn of the loop."""

    async def encode(self, text: str, is_rendered: bool) -> tuple[int, ...]:
        """`is_rendered`: a chat template has written it, special tokens included."""
        if self._turn_characters + len(text) <= _INLINE_CHARACTERS and not self._at_work:
            if not self._turn_characters:
                self._loop.call_soon(self._next_turn)
            self._turn_characters += len(text)
            return self._tokenizer.encode([text], is_rendered)[0]
        waiting = _Waiting(text, is_rendered, self._loop.create_future())
        self._waiting.append(waiting)
        if self._at_work == 0:
            self._loop.call_soon(self._start)  # after others that arrived in the same turn of the loop
        else:
            self._start()
        return await waiting.tokens

    def _next_turn(self) -> None:
        self._turn_characters = 0

    def _start(self) -> None:
        if not self._waiting or self._at_work >= _THREADS:
            return
        batch, size = [self._waiting.popleft()], 0
        while self._waiting and self._waiting[0].is_rendered == batch[0].is_rendered:
            size += len(batch[-1].text)
            if size + len(self._waiting[0].text) > _BATCH_CHARACTERS:
                break
            batch.append(self._waiting.popleft())
        self._at_work += 1
        texts = [waiting.text for waiting in batch]
        work = self._loop.run_in_executor(None, self._tokenizer.encode, texts, batch[0].is_rendered)
        work.add_done_callback(lambda done: self._finish(batch, done))

    def _finish(self, batch: list[_Waiting], done: "asyncio.Future[list[tuple[int, ...]]]") -> None:
        self._at_work -= 1
        error = done.exception()
        for n, waiting in enumerate(batch):
            if waiting.tokens.done():
                continue  # its request was cut off meanwhile
            if error is None:
                waiting.tokens.set_result(done.result()[n])
            else:
                waiting.tokens.set_exception(error)
        self._start()
