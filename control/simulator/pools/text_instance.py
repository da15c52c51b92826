"""A text instance of a pool, or a monolith: steps of a chunk of prompts beside everything that decodes.

A monolith encodes the pictures of a prompt in the step in which the prompt begins, on the same GPUs, as vLLM does: all
else waits meanwhile. KV cache is kept for a whole prompt and its answer from when the prompt begins; nothing is
preempted.
"""

import heapq
from dataclasses import dataclass, field
from math import ceil

from control.simulator.pools.pool_requests import PoolRequest
from control.simulator.pools.stage_times import EncodeTimes, TextTimes
from policies.pools.turns import Turn, Waiting

MOST_TOGETHER = 256
"""Requests that are computed at once (vLLM's `max_num_seqs`)."""
CHUNK_TOKENS = 2048
"""Prompt tokens of one step."""
MOST_STEPS = 16
"""Steps without a prompt are counted one by one no further than this: their contexts grow, which a leap takes the mean
of."""


@dataclass(slots=True, eq=False)
class _Prompt:
    request: PoolRequest
    tokens: int
    """That are computed: rows among them where they stand in the prompt."""
    cross: float
    """Tokens that rows which are attended to apart count as in a context."""
    kv_tokens: float
    parts: list[int]
    """Image tokens of parts that are still to be encoded here."""
    done: int = 0


@dataclass(slots=True, eq=False)
class Step:
    """A step under way."""

    seconds: float
    ended: list[PoolRequest]
    """Those whose prompt is computed with it: their first token comes."""
    encoded: list[PoolRequest]
    """Those whose last picture is encoded in it."""
    prompt_tokens: int
    steps: int = 1
    """Equal steps one after another in which nothing but decoding happens, taken as one."""

    def cut(self, elapsed_s: float) -> float | None:
        """End it with the step that is under way, as a prompt has come; seconds until then from its beginning, or None
        where it ends with that one anyway."""
        one_s = self.seconds / self.steps
        steps = max(ceil(elapsed_s / one_s), 1)
        if steps >= self.steps:
            return None
        self.steps, self.seconds = steps, steps * one_s
        return self.seconds


@dataclass(slots=True, eq=False)
class TextInstance:
    id: str
    times: TextTimes
    turn: Turn
    encoder: EncodeTimes | None = None
    """Of a monolith: the encoder on the same GPUs."""
    encode_tokens: int = 0
    """Of a monolith: image tokens of one step at most; a larger part is alone."""
    is_busy: bool = False
    pending_tokens: int = 0
    """Of prompts that are on their way, wait or are being read."""
    coming: int = 0
    held_tokens: float = 0.0
    """Of the KV cache."""
    _queue: list[tuple[float, int, _Prompt]] = field(default_factory=list)
    _reading: list[tuple[float, int, _Prompt]] = field(default_factory=list)
    """In order of their turns."""
    _decoding: list[tuple[int, int, _Prompt]] = field(default_factory=list)
    """(step after which it is done, order, request), a heap."""
    _order: int = 0
    _steps: int = 0
    _cached: float = 0.0
    """Tokens of all that write."""

    def tokens_of(self, request: PoolRequest) -> int:
        """Tokens of its prompt that are computed: all, or of text alone where layers attend to rows apart (insight
        7)."""
        return request.text_tokens + (0 if self.times.cross_share else request.image_tokens)

    def expect(self, request: PoolRequest) -> None:
        """Know of a request whose rows are on their way, or which has none: it counts as pending from now on."""
        self.coming += 1
        request.text_instance = self.id
        self.pending_tokens += self.tokens_of(request)

    def take(self, request: PoolRequest, now_s: float) -> None:
        """Have a request wait that was expected, and whose rows are there or are made here."""
        self.coming -= 1
        rows, tokens = request.image_tokens, self.tokens_of(request)
        cross = self.times.cross_share * rows
        parts = [part for image in request.images for part in image] if self.encoder else []
        prompt = _Prompt(request, tokens, cross, tokens + cross + request.output_tokens, parts)
        work_s = self.times.prompt_s(request.text_tokens, rows) + self._encode_s(parts)
        turn_s = self.turn(Waiting(request.asked_s, now_s, work_s, request.due_s))
        self._order += 1
        heapq.heappush(self._queue, (turn_s, self._order, prompt))

    @property
    def is_idle(self) -> bool:
        """Whether nothing is to be computed, or on its way here."""
        return not (self.coming or self._queue or self._reading or self._decoding)

    def begin(self) -> Step | None:
        """Begin the next step; None where there is nothing to compute."""
        self._admit()
        encode_s, encoded = self._encode()
        prompt, context, ended = self._chunk()
        decoding = len(self._decoding)
        if not (prompt or decoding or encode_s):
            return None
        self.is_busy = True
        steps = 1
        if not (self._reading or self._queue):
            steps = min(self._decoding[0][0] - self._steps, MOST_STEPS)
        seconds = encode_s
        if prompt or decoding:
            cached = self._cached / decoding + (steps - 1) / 2 if decoding else 0.0
            seconds += steps * self.times.seconds(prompt, context, decoding, cached, len(ended))
        return Step(seconds, [each.request for each in ended], encoded, prompt, steps)

    def end(self, step: Step) -> list[PoolRequest]:
        """The step is done: every request that decodes has one more token. Return those that are over."""
        self.is_busy = False
        self._steps += step.steps
        self._cached += step.steps * len(self._decoding)
        self.pending_tokens -= step.prompt_tokens
        over = []
        while self._decoding and self._decoding[0][0] <= self._steps:
            over.append(self._leave(heapq.heappop(self._decoding)[2]))
        for place in [place for place, each in enumerate(self._reading) if each[2].done == each[2].tokens][::-1]:
            _, order, prompt = self._reading.pop(place)
            if prompt.request.output_tokens == 1:
                self.held_tokens -= prompt.kv_tokens
                over.append(prompt.request)
                continue
            self._cached += prompt.tokens + prompt.cross + 1
            heapq.heappush(self._decoding, (self._steps + prompt.request.output_tokens - 1, order, prompt))
        return over

    def _leave(self, prompt: _Prompt) -> PoolRequest:
        self.held_tokens -= prompt.kv_tokens
        self._cached -= prompt.tokens + prompt.cross + prompt.request.output_tokens
        return prompt.request

    def _admit(self) -> None:
        """Begin with what comes next, as far as there is room for it, and no more than a step takes: what comes later
        may have an earlier turn."""
        left = sum(each[2].tokens - each[2].done for each in self._reading)
        while self._queue and left < CHUNK_TOKENS and len(self._reading) + len(self._decoding) < MOST_TOGETHER:
            prompt = self._queue[0][2]
            is_alone = not (self._reading or self._decoding)
            if self.held_tokens + prompt.kv_tokens > self.times.kv_tokens and not is_alone:
                return
            self.held_tokens += prompt.kv_tokens
            left += prompt.tokens
            self._reading.append(heapq.heappop(self._queue))

    def _encode(self) -> tuple[float, list[PoolRequest]]:
        """Encode what the first prompts still lack, as much as a step may; (seconds, requests that lack no more)."""
        batch: list[int] = []
        encoded = []
        for _, _, prompt in self._reading:
            while prompt.parts and (not batch or sum(batch) + prompt.parts[-1] <= self.encode_tokens):
                batch.append(prompt.parts.pop())
                if not prompt.parts:
                    encoded.append(prompt.request)
            if prompt.parts:
                break
        return (self._batch_s(batch) if batch else 0.0), encoded

    def _chunk(self) -> tuple[int, float, list[_Prompt]]:
        """(prompt tokens of the step, mean tokens that each attends to, prompts that end in it)."""
        left, attended, ended = CHUNK_TOKENS, 0.0, []
        for _, _, prompt in self._reading:
            if prompt.parts or not left:
                break
            own = min(left, prompt.tokens - prompt.done)
            attended += own * (prompt.done + (own - 1) / 2 + prompt.cross)
            prompt.done += own
            left -= own
            if prompt.done == prompt.tokens:
                ended.append(prompt)
        used = CHUNK_TOKENS - left
        return used, attended / used if used else 0.0, ended

    def _encode_s(self, parts: list[int]) -> float:
        return sum(self._batch_s([part]) for part in parts)

    def _batch_s(self, parts: list[int]) -> float:
        return self.encoder.seconds(sum(parts), len(parts)) if self.encoder else 0.0
