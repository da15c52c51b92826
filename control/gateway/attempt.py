"""One try at a call on the members of its route: puts their tokens in order and knows when the whole is there."""

from collections.abc import Sequence

from agents.messages.to_gateway import Finished, FinishReason, TokenLogprobs, TokenRun
from control.gateway.call import Call
from control.gateway.instance_link import InstanceLink
from control.gateway.token_order import TokenOrder


class Attempt:
    def __init__(self, call: Call, legs: Sequence[tuple[int, InstanceLink]], sources: int) -> None:
        """`legs`: for each an id, by which its member knows it, and that member. `sources`: legs that send tokens."""
        self.call = call
        call.served_by.append(tuple(link.instance for _, link in legs))
        self.links = dict(legs)
        self.open = dict(legs)
        """Legs that still hold something for it."""
        self._first_leg, begins = legs[0]
        self.first: InstanceLink | None = begins
        """Who begins it, until it has computed the prompt."""
        self._prompt_tokens = len(call.asked.prompt) + len(call.generated)
        begins.tokens.use(self._prompt_tokens)
        self.waiting_tokens = 0
        """Of the prompt, while it counts as waiting there (`control.gateway.pools`)."""
        self._sources = sources
        self._order = TokenOrder(len(call.generated))
        self._final: Finished | None = None

    @property
    def end(self) -> FinishReason | None:
        """Why it ended, once every token is here."""
        final = self._final
        return final.reason if final is not None and self._order.next_seq >= final.output_tokens else None

    @property
    def is_broken(self) -> bool:
        """Tokens are missing that nobody will send any more."""
        is_over = not self.open and self.end is None
        return is_over or self._order.is_overrun or (self._sources == 1 and self._order.has_gap)

    def take(self, run: TokenRun) -> tuple[list[int], list[TokenLogprobs]]:
        """Take tokens in; give those that can be delivered now: in order, no more than was asked for."""
        room = self.call.asked.max_tokens - len(self.call.generated)
        ids, logprobs = self._order.push(run)
        return ids[:room], logprobs[:room]

    def release(self, leg: int) -> None:
        """Note that a leg holds nothing any more. Of one that does not: no harm."""
        link = self.open.pop(leg, None)
        if link is not None and leg == self._first_leg:
            link.tokens.give_back(self._prompt_tokens)

    def close_leg(self, finished: Finished) -> None:
        """A leg has done its part and holds nothing for it any more.

        The shorter output counts: a first leg that meets a stop token ends it before the next leg knows.
        """
        self.release(finished.attempt)
        if finished.reason is not FinishReason.HANDED_OFF and (
            self._final is None or finished.output_tokens < self._final.output_tokens
        ):
            self._final = finished
