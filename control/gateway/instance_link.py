"""The gateway's end of the channel to one instance's scheduler, and what is known of that instance."""

from typing import Protocol

import msgspec

from agents.channels.dialer import Address, Dialer
from agents.channels.keys import KeyPair
from agents.channels.settings import ChannelSettings
from agents.messages.to_gateway import Failed, Finished, SchedulerState, Stats, Status, ToGateway, Tokens
from agents.messages.to_scheduler import OtherLeg
from policies.room import Room


class LinkOwner(Protocol):
    def changed(self, link: "InstanceLink") -> None:
        """It became usable, or ceased to be; or only its load changed."""

    def heard(self, link: "InstanceLink", message: Tokens | Finished | Failed) -> None: ...

    def lost(self, link: "InstanceLink", reason: str) -> None:
        """Whatever was under way there is lost."""


class InstanceLink:
    def __init__(
        self, instance: str, address: Address, keys: KeyPair, settings: ChannelSettings, owner: LinkOwner
    ) -> None:
        self.instance = instance
        self.address = address
        self.status: Status | None = None
        self.room = Room()
        self.is_retired = False
        """Gone from the table: takes nothing new, closes when its last request is done."""
        self._owner = owner
        self._dialer: Dialer[ToGateway] = Dialer(address, keys, "gateway", ToGateway, self, settings)

    @property
    def is_usable(self) -> bool:
        return (
            self._dialer.is_up
            and not self.is_retired
            and self.status is not None
            and self.status.state is SchedulerState.READY
        )

    def other_leg(self, hand_off: str) -> OtherLeg | None:
        """This instance, for who does another leg of a request; None where it takes no part in hand-offs."""
        endpoint = self.status.hand_off if self.status else None
        return OtherLeg(self.instance, endpoint, self.address.public_key, hand_off) if endpoint else None

    def send(self, message: msgspec.Struct) -> None:
        """Raises ChannelError."""
        self._dialer.send(message)

    def retire(self) -> None:
        self.is_retired = True
        self._owner.changed(self)

    def close(self) -> None:
        self._dialer.close()

    def up(self) -> None:
        """A welcome is not enough: the instance's own status says whether it takes requests."""

    def received(self, message: ToGateway) -> None:
        if isinstance(message, Status):
            self.status = message
            self.room.tell(message.room)
            self._owner.changed(self)
        elif not isinstance(message, Stats):  # a gateway does not ask for them
            self._owner.heard(self, message)

    def down(self, reason: str) -> None:
        self.status = None
        self._owner.lost(self, reason)
        self._owner.changed(self)
