"""A call's tokens as the client's text: decoded, cut at stop strings, counted."""

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator

import msgspec

from agents.messages.to_gateway import FinishReason
from control.gateway.api_error import ApiError
from control.gateway.call import Call, News
from control.gateway.dispatcher import Dispatcher
from control.gateway.reply import Piece, Usage
from control.gateway.stop_strings import StopStrings
from control.gateway.tokenizer import TextStream


class Answer:
    def __init__(
        self,
        call: Call,
        text: TextStream,
        stop: tuple[str, ...],
        min_tokens: int,
        dispatcher: Dispatcher,
        started_s: float,
    ) -> None:
        """`min_tokens`: the answer is not cut at stop strings within so many. `started_s`: when it came, of the
        monotonic clock."""
        self._call = call
        self._min_tokens = min_tokens
        self._text = text
        self._stop = StopStrings(stop)
        self._dispatcher = dispatcher
        self._tokens = 0
        self.started_s = started_s
        self.first_token_s: float | None = None
        """Time at which it came, on the same monotonic clock."""
        self.finish_reason = ""

    @property
    def usage(self) -> Usage:
        """Tokens up to the one that completed a stop string, where one ended the answer."""
        return Usage(len(self._call.asked.prompt), self._tokens, self._call.cached_prompt_tokens)

    async def pieces(self) -> AsyncIterator[Piece]:
        """Yield pieces as they come; raises ApiError where the call fails. `finish_reason` is set at the end."""
        while True:
            news = await self._call.news()
            # The state of a prompt is there when its first token would be.
            if (news.ids or self._call.state) and self.first_token_s is None:
                self.first_token_s = time.monotonic()
            piece = self._take(news)
            if self._stop.is_found:
                self._dispatcher.cancel(self._call)
                self._call.finish(FinishReason.STOP)
                self.finish_reason = "stop"
            elif isinstance(news.end, ApiError):
                raise news.end
            elif news.end is not None:
                self.finish_reason = news.end.value
                rest = self._stop.push(self._text.flush()) + self._stop.flush()
                piece = Piece(piece.text + rest, piece.ids, piece.logprobs, self._call.state)
            if piece.text or piece.logprobs or piece.state:
                yield piece
            if self.finish_reason:
                return

    def _take(self, news: News) -> Piece:
        text, count, unsearched = "", 0, self._min_tokens - self._tokens
        for token in news.ids:
            new = self._text.push(token)
            text += new if count < unsearched else self._stop.push(new)
            count += 1
            if self._stop.is_found:
                break
        self._tokens += count
        return Piece(text, tuple(news.ids[:count]), tuple(news.logprobs[:count]))


class TaskAnswer(Answer):
    """What the code of a task makes of the decoder's text, which comes at once."""

    async def pieces(self) -> AsyncIterator[Piece]:
        """See `Answer.pieces`. Raises ApiError where the code fails, too."""
        made = [piece async for piece in super().pieces()]
        text = "".join(piece.text for piece in made)
        task, route = self._call.asked.task, self._call.route
        assert task is not None  # noqa: S101 - whose answer this is
        assert route is not None  # noqa: S101 - it was sent somewhere
        answer = await task.app.answer(task.graphs[route.id], text)
        shown = answer if isinstance(answer, str) else msgspec.json.encode(answer).decode()
        ids = tuple(token for piece in made for token in piece.ids)
        yield Piece(shown, ids, tuple(each for piece in made for each in piece.logprobs))


async def merged(answers: list[Answer]) -> AsyncGenerator[tuple[int, Piece | None], None]:
    """Yield pieces of several answers with the answer's number as they come, and None once for its end. Close it: its
    tasks end with it. Raises ApiError where any call fails."""
    coming: asyncio.Queue[tuple[int, Piece | Exception | None]] = asyncio.Queue(len(answers))

    async def read(number: int) -> None:
        try:
            async for piece in answers[number].pieces():
                await coming.put((number, piece))
            await coming.put((number, None))
        except Exception as error:  # whoever waits for pieces gets it
            await coming.put((number, error))

    tasks = [asyncio.create_task(read(number)) for number in range(len(answers))]
    left = len(answers)
    try:
        while left:
            number, piece = await coming.get()
            if isinstance(piece, Exception):
                raise piece
            left -= piece is None
            yield number, piece
    finally:
        for task in tasks:
            task.cancel()
