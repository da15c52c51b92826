"""Requests of two legs, by the name of their hand-off, and what is to be said about them to the other leg's scheduler.

Theory of operation: the prefill leg offers its KV cache when the first step of its prompt begins, and again, with the
token behind it, when the prompt is computed: it keeps the cache then (`HELD`). The decode leg has been `EXPECTED` until
the first offer, and holds nothing: so that KV blocks are held by requests that go on, and two instances that wait for
each other's blocks cannot be. `OFFERED`, it waits for its turn; once its blocks are reserved (`COMING`) it accepts,
which is the prefill leg's credit to send what is computed, and the rest as it comes. When all nodes have all of it and
the token is known, it takes part in steps (`COMPUTED`), and says `Taken`, upon which the prefill leg frees its own.
Every message may come twice. Where an answer ends before its second token, what was offered is withdrawn, and the
decode leg is `EXPECTED` again: its gateway ends it.

A short output may be over before `Taken` gets through, and its gateway then cancels the prefill leg, which withdraws
what has long gone. So what was withdrawn after its credit had come is known until the other leg says what became of it,
for the count of bytes: or until its deadline, as that leg may not be there any more.
"""

from dataclasses import dataclass

from agents.messages.to_kv_source import Accept, Decline, Taken
from agents.messages.to_kv_target import Offer, Withdraw
from agents.messages.to_scheduler import Leg, OtherLeg
from agents.scheduler.sequence import Sequence, SequencePhase

_MAX_EARLY = 4096
"""Offers of requests that the gateway has not told us of yet."""
_MAX_WITHDRAWN = 4096
"""Requests of which the other leg has not said whether it took them; the oldest go uncounted."""


@dataclass(frozen=True, slots=True)
class PeerMessage:
    """A message for the scheduler of the other leg."""

    to: OtherLeg
    message: Offer | Withdraw | Accept | Taken | Decline


class HandOffs:
    def __init__(self) -> None:
        self._by_name: dict[str, Sequence] = {}
        self._early: dict[str, tuple[str, Offer]] = {}
        """Who offers, by key, and what."""
        self._withdrawn: dict[str, tuple[str, float]] = {}
        """Who may have taken it, by key, and its deadline (s)."""
        self._words: list[PeerMessage] = []

    def take_words(self) -> tuple[PeerMessage, ...]:
        """Take what is to be said since last asked, in order."""
        words, self._words = tuple(self._words), []
        return words

    def knows(self, name: str) -> bool:
        return name in self._by_name

    def begin(self, sequence: Sequence) -> Offer | None:
        """A request of two legs has come; the offer for it, where that was faster."""
        peer = _peer(sequence)
        self._by_name[peer.hand_off] = sequence
        key, offer = self._early.pop(peer.hand_off, ("", None))
        return offer if key == peer.public_key else None

    def end(self, sequence: Sequence, reason: str) -> None:
        """End a hand-off here, and for the other leg unless that knows. To be called while the request still has what
        it holds."""
        peer = sequence.request.peer
        if peer is None or self._by_name.pop(peer.hand_off, None) is None:
            return
        is_held = sequence.phase is SequencePhase.HELD
        if sequence.is_offered:
            self._say(peer, Withdraw(peer.hand_off, not is_held))
            if is_held and sequence.admission is not None and sequence.admission.target_run >= 0:
                self._withdrawn[peer.hand_off] = (peer.public_key, sequence.expires_s)
            if len(self._withdrawn) > _MAX_WITHDRAWN:
                del self._withdrawn[next(iter(self._withdrawn))]
        elif sequence.phase in (SequencePhase.OFFERED, SequencePhase.COMING):
            self._say(peer, Decline(peer.hand_off, reason))

    def find(self, key: str, name: str, leg: Leg) -> Sequence | None:
        """The request that whoever has `key` may speak of, where that is the other leg of ours."""
        sequence = self._by_name.get(name)
        if sequence is None or sequence.request.leg is not leg or _peer(sequence).public_key != key:
            return None
        return sequence

    def taken_after_all(self, key: str, message: Accept | Taken | Decline) -> int:
        """Bytes that went of a KV cache which is not ours any more, by word of whoever has `key`; counted once."""
        if isinstance(message, Accept) or self._withdrawn.get(message.hand_off, ("", 0.0))[0] != key:
            return 0
        del self._withdrawn[message.hand_off]
        return message.moved_bytes if isinstance(message, Taken) else 0

    def forget_late(self, now_s: float) -> None:
        """Forget withdrawn hand-offs of which the other leg should have spoken by now."""
        for name in [n for n, (_, expires_s) in self._withdrawn.items() if expires_s <= now_s]:
            del self._withdrawn[name]

    def of(self, key: str) -> list[Sequence]:
        """All whose other leg is there."""
        return [sequence for sequence in self._by_name.values() if _peer(sequence).public_key == key]

    def offer(self, sequence: Sequence) -> None:
        """Offer a request's KV cache, as its prompt is computed or about to be."""
        sequence.is_offered = True
        peer, tokens = _peer(sequence), sequence.tokens
        is_held = sequence.phase is SequencePhase.HELD
        self._say(peer, Offer(peer.hand_off, len(tokens) - is_held, tokens[-1] if is_held else None))

    def offer_again(self, key: str) -> None:
        """The connection was lost, and with it perhaps what was said."""
        for sequence in self.of(key):
            if sequence.is_offered:
                self.offer(sequence)

    def keep_early(self, key: str, offer: Offer) -> None:
        """Keep an offer for a request that has not come yet."""
        if len(self._early) < _MAX_EARLY or offer.hand_off in self._early:
            self._early[offer.hand_off] = (key, offer)

    def forget_early(self, key: str, name: str | None = None) -> None:
        """Forget the early offer of that name; None: all that came from there."""
        for early in [n for n, (k, _) in self._early.items() if k == key and name in (None, n)]:
            del self._early[early]

    def accept(self, sequence: Sequence) -> None:
        peer, held = _peer(sequence), sequence.admission
        if held is not None:
            self._say(peer, Accept(peer.hand_off, held.run, held.nodes))

    def taken(self, sequence: Sequence) -> None:
        peer = _peer(sequence)
        moved_bytes = sequence.admission.moved_bytes if sequence.admission else 0
        self._say(peer, Taken(peer.hand_off, moved_bytes))

    def _say(self, peer: OtherLeg, message: Offer | Withdraw | Accept | Taken | Decline) -> None:
        self._words.append(PeerMessage(peer, message))


def is_early(message: object) -> bool:
    """Tell whether a message is about a prompt that is still to be computed."""
    if isinstance(message, Withdraw):
        return message.is_early
    return isinstance(message, Offer) and message.token is None


def _peer(sequence: Sequence) -> OtherLeg:
    if sequence.request.peer is None:
        raise ValueError(f"{sequence.request.request} has no other leg")
    return sequence.request.peer
