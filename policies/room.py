"""Room at an instance, as its gateways know it: what they were told last, less what they sent since.

While an instance is full for all that they know, gateways send nothing there, and calls that only it could take wait.
The instance counts along, for all its gateways together, and tells them at once when they must believe that it is full
and it is not. So nobody asks again and again, and an overloaded instance hears of no more than it takes.
"""

from math import inf


class Room:
    """Members with room. A member has room until it reports otherwise."""

    def __init__(self) -> None:
        self._left: int | None = None

    @property
    def is_full(self) -> bool:
        return self._left is not None and self._left <= 0

    def tell(self, room: int | None) -> None:
        """Take how many requests a scheduler would take now; None: it does not say, and there is room until it refuses
        one."""
        self._left = room

    def use(self) -> None:
        """One more was sent."""
        if self._left is not None:
            self._left -= 1

    def refuse(self) -> None:
        """One was not taken for want of room."""
        self._left = 0


class TokenRoom:
    """Tokens of prompts that an instance has KV cache for. It is not told when there is more: who sent prompts sees
    them end."""

    def __init__(self) -> None:
        self.left = inf

    def tell(self, tokens: int | None) -> None:
        """Take what a scheduler says; None: it does not, and there is room for any."""
        self.left = inf if tokens is None else tokens

    def use(self, tokens: int) -> None:
        """A prompt was sent."""
        self.left -= tokens

    def give_back(self, tokens: int) -> None:
        """A prompt that was sent has ended there, and holds nothing any more."""
        self.left += tokens
