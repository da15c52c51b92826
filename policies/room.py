"""Room for requests at an instance, as its gateways know it: what they were told last, less what they sent since.

While an instance is full for all that they know, gateways send nothing there, and calls that only it could take wait.
The instance counts along, for all its gateways together, and tells them at once when they must believe that it is full
and it is not. So nobody asks again and again, and an overloaded instance hears of no more than it takes.
"""


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
