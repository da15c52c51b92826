"""Work that gateways have at a scheduler and that is not done yet, so that each of them can be told what the others
have. No socket or clock."""

from dataclasses import dataclass, field
from typing import Generic, TypeVar

Gateway = TypeVar("Gateway")


@dataclass(slots=True)
class _Work:
    units: dict[int, int] = field(default_factory=dict)
    """By attempt."""
    total: int = 0


class GatewayWork(Generic[Gateway]):
    """Units are the gateways': rows of what is encoded, tokens of prompts."""

    def __init__(self) -> None:
        self._work: dict[Gateway, _Work] = {}

    @property
    def is_of_several(self) -> bool:
        return len(self._work) > 1

    def join(self, gateway: Gateway) -> None:
        self._work[gateway] = _Work()

    def begin(self, gateway: Gateway, attempt: int, units: int) -> None:
        """Take note of work; of who has not joined it is nothing."""
        own = self._work.get(gateway)
        if own is not None and attempt not in own.units:
            own.units[attempt] = units
            own.total += units

    def end(self, gateway: Gateway, attempt: int) -> bool:
        """It is answered, or nobody waits for it any more; tells whether it was there."""
        own = self._work.get(gateway)
        units = None if own is None else own.units.pop(attempt, None)
        if own is None or units is None:
            return False
        own.total -= units
        return True

    def leave(self, gateway: Gateway) -> None:
        self._work.pop(gateway, None)

    def of_others(self, gateway: Gateway) -> int:
        """Count the units of all other gateways."""
        return sum(own.total for each, own in self._work.items() if each != gateway)
