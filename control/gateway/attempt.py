"""One try at a call on the instances of its legs: puts their tokens in order and knows when the whole is there."""

from agents.messages.to_gateway import Finished, FinishReason, TokenLogprobs, TokenRun
from control.gateway.call import Call
from control.gateway.instance_link import InstanceLink
from control.gateway.token_order import TokenOrder


class Attempt:
    def __init__(self, id_: int, call: Call, links: tuple[InstanceLink, ...]) -> None:
        self.id = id_
        self.call = call
        self.links = links
        """One, or prefill and decode."""
        self._open = {link.instance for link in links}
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
        is_over = not self._open and self.end is None
        return is_over or self._order.is_overrun or (len(self.links) == 1 and self._order.has_gap)

    def take(self, run: TokenRun) -> tuple[list[int], list[TokenLogprobs]]:
        """What can be delivered now: in order, no more than was asked for."""
        room = self.call.asked.max_tokens - len(self.call.generated)
        ids, logprobs = self._order.push(run)
        return ids[:room], logprobs[:room]

    def close_leg(self, link: InstanceLink, finished: Finished) -> None:
        """That instance has done its part and holds nothing for it any more.

        The shorter output counts: a prefill leg that meets a stop token ends it before the decode leg knows.
        """
        self._open.discard(link.instance)
        if finished.reason is not FinishReason.HANDED_OFF and (
            self._final is None or finished.output_tokens < self._final.output_tokens
        ):
            self._final = finished

    def open_links(self) -> list[InstanceLink]:
        """Those that still hold something for it."""
        return [link for link in self.links if link.instance in self._open]
