"""Observers of what happens to fleets."""

from typing import Protocol

from control.cloud.errors import CloudError
from control.lifecycle.history import PastTransition
from templates_lib.values.offer import Offer


class Observer(Protocol):
    """Receiver of what happens to fleets. Called from the loop's thread only."""

    def on_transition(self, fleet: str, step: PastTransition) -> None:
        """A step in an instance's life, whoever took it."""
        ...

    def refused(self, fleet: str, offer: Offer, error: CloudError) -> None:
        """A cloud did not give a node."""
        ...

    def rented(self, fleet: str, offer: Offer) -> None:
        """A cloud gave one."""
        ...

    def faulty(self, cloud: str, why: str) -> None:
        """A fault of our own stops launches at a cloud; `why` is empty when it does not (any more)."""
        ...

    def taken(self, fleet: str, offer: Offer, reason: str) -> None:
        """A cloud says that it will take one back."""
        ...


class NoObserver:
    """An observer that does nothing."""

    def on_transition(self, fleet: str, step: PastTransition) -> None: ...

    def refused(self, fleet: str, offer: Offer, error: CloudError) -> None: ...

    def rented(self, fleet: str, offer: Offer) -> None: ...

    def faulty(self, cloud: str, why: str) -> None: ...

    def taken(self, fleet: str, offer: Offer, reason: str) -> None: ...
