"""Places of an instance, prompts that it could begin now, shared between gateways so that each goes to one of them.

A gateway alone has all of them. Of several, those that have something waiting ask, with the slack of what is first: a
place goes to the least slack, and one to each before a second to any. What nobody asks for is dealt out in turns, so
that a call that comes meets a place as a rule. A place that is not used for a while is given out anew: whoever asks for
more than it needs, or dies, keeps none from the others.
"""

from dataclasses import dataclass
from math import inf
from typing import Generic, TypeVar

Gateway = TypeVar("Gateway")
GRANT_S = 0.25
"""How long a place stays with a gateway that does not use it, if another asks."""
ASK_S = 1.0
"""How long a gateway counts as asking."""
_MOST = 1024
"""Places that are given out at once."""


@dataclass(slots=True)
class _Share:
    places: int = 0
    given_s: float = -inf
    due_s: float = inf
    """When what is first there must begin."""
    calls: int = 0
    asked_s: float = -inf


class Places(Generic[Gateway]):
    def __init__(self) -> None:
        self._shares: dict[Gateway, _Share] = {}

    @property
    def are_due(self) -> bool:
        """Tell whether a gateway has used all that it was given, so that it is worth looking for more."""
        return any(share.places == 0 for share in self._shares.values())

    def is_anyone_short(self, now_s: float) -> bool:
        """Tell whether a gateway asks for more than it has."""
        return any(s.places < s.calls and s.asked_s + ASK_S > now_s for s in self._shares.values())

    def of(self, gateway: Gateway) -> int:
        """Return how many the gateway may use."""
        share = self._shares.get(gateway)
        return 0 if share is None else share.places

    def are_shared(self, gateway: Gateway) -> bool:
        """Tell whether others use them too."""
        return bool(self._shares.keys() - {gateway})

    def join(self, gateway: Gateway) -> None:
        self._shares[gateway] = _Share()

    def leave(self, gateway: Gateway) -> None:
        self._shares.pop(gateway, None)

    def ask(self, gateway: Gateway, slack_s: float, calls: int, now_s: float) -> None:
        share = self._shares[gateway]
        share.due_s, share.calls, share.asked_s = now_s + slack_s, calls, now_s

    def use(self, gateway: Gateway) -> None:
        """A prompt came from there, whether it had a place or not."""
        share = self._shares[gateway]
        share.places, share.calls = max(0, share.places - 1), max(0, share.calls - 1)

    def give_out(self, places: int, now_s: float) -> tuple[Gateway, ...]:
        """Give out what there is now; the gateways whose number has changed, and who are to be told."""
        before = {gateway: share.places for gateway, share in self._shares.items()}
        shares = sorted(self._shares.values(), key=lambda share: share.given_s)
        for share in shares:
            if len(shares) == 1 or share.given_s + GRANT_S <= now_s:
                share.places = 0
        left = min(places, _MOST) - sum(share.places for share in shares)
        asking = sorted((s for s in shares if s.asked_s + ASK_S > now_s), key=lambda share: share.due_s)
        while left > 0 and shares:
            short = [share for share in asking if share.places < share.calls]
            for share in (short or shares)[:left]:
                share.places += 1
                share.given_s = now_s
                left -= 1
        return tuple(gateway for gateway, count in before.items() if self._shares[gateway].places != count)
