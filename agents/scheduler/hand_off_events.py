"""Events that the hand-off's channels tell the scheduler."""

from typing import Protocol

from agents.messages.to_kv_source import Accept, Decline, Taken
from agents.messages.to_kv_target import Offer, Withdraw


class HandOffEvents(Protocol):
    """Receiver of a hand-off's events. Called on the loop. `key`: the public key of the other instance's scheduler."""

    def heard_target(self, key: str, message: Accept | Taken | Decline) -> None: ...

    def heard_source(self, key: str, message: Offer | Withdraw) -> None: ...

    def peer_back(self, key: str) -> None:
        """A decode leg's scheduler was out of reach for a moment: what it was told since may be lost."""

    def peer_lost(self, key: str, reason: str) -> None:
        """Take note that a peer is out of reach for good, or that its KV cache is of another kind."""

    def hand_off_stuck(self, runs: set[int], reason: str) -> None:
        """The KV cache of these cannot be sent."""
