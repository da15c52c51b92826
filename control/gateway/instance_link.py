"""The gateway's end of the channel to one instance's scheduler, and what is known of that instance."""

from math import inf
from typing import Protocol

import msgspec

from agents.channels.address import Address
from agents.channels.dialer import Dialer
from agents.channels.keys import KeyPair
from agents.channels.settings import ChannelSettings
from agents.messages.component_work import Encoded, Made
from agents.messages.to_gateway import Failed, Finished, SchedulerState, Stats, Status, ToGateway, Tokens
from agents.messages.to_scheduler import AskPlaces, LogitRules, OtherLeg, Pooling
from control.gateway.api_error import ApiError, of_earlier_release, without_grammars, without_states
from control.gateway.slack_rows import MemberState
from policies.later_legs import most_in_kv
from policies.pace import Pace
from policies.room import Room, TokenRoom

_MOST_PROMPTS = 64
"""Prompts that an instance has at most to compute for this gateway, whatever it says that it could begin."""
_MOST_SLACK_S = 1e6
_REST_S = 0.1
_LONGEST_REST_S = 10.0
"""How long an instance is given nothing after a failure: as a rule it is about to go, or one request was to blame."""


class LinkOwner(Protocol):
    def changed(self, link: "InstanceLink") -> None:
        """It became usable, or ceased to be; or only its load changed."""

    def heard(self, link: "InstanceLink", message: Tokens | Finished | Failed | Encoded | Made) -> None: ...

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
        self.places = Room()
        """Room for prompts that are begun at once."""
        self.tokens = TokenRoom()
        self.prompts = 0
        """Sent to be begun there, and not computed yet, as far as is known."""
        self.pace = Pace()
        self.others = 0
        """Requests of other gateways that it told of last."""
        self.pause_s = 0.0
        """How long it rested last; 0: it has served since."""
        self.is_resting = False
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

    def unable(self, rules: LogitRules | None, pooling: Pooling | None = None) -> ApiError | None:
        """The answer to who asks for tokens by these rules, or for the state of a prompt, if it cannot make them; None:
        it can."""
        status = self.status
        if pooling is not None and (status is None or not status.pools):
            return without_states(self.instance)
        if rules is None:
            return None
        if status is None or not status.obeys_rules:
            return of_earlier_release(self.instance)
        return without_grammars(self.instance) if rules.grammar and not status.obeys_grammars else None

    @property
    def takes_rows(self) -> int:
        """How often it takes each tensor of rows that comes with a request; 0: it takes none."""
        return 0 if self.status is None else self.status.takes_rows

    def state(self, held: int) -> MemberState:
        """What it could take now. `held`: what this gateway has there."""
        is_open = self.is_usable and not self.is_resting
        has_place = self.prompts < _MOST_PROMPTS and not self.places.is_full
        held, room = held + self.others, is_open and not self.room.is_full
        of = self.status
        kv_most = inf if of is None else most_in_kv(of.running, of.kv_blocks, of.kv_blocks_free)
        return MemberState(
            is_open, has_place, self.prompts == 0, held, room, self.pace.ratio, kv_most, self.tokens.left
        )

    def ask(self, slack_s: float, calls: int) -> None:
        """Ask for places, where other gateways have them. Raises ChannelError."""
        if self.is_usable and self.places.is_full and self.status is not None and self.status.is_shared:
            self._dialer.send(AskPlaces(min(max(slack_s, -_MOST_SLACK_S), _MOST_SLACK_S), min(calls, _MOST_PROMPTS)))

    def rest(self) -> float:
        """Let it rest for so many seconds, longer each time in a row."""
        self.is_resting = True
        self.pause_s = min(max(2 * self.pause_s, _REST_S), _LONGEST_REST_S)
        return self.pause_s

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
            self.places.tell(message.places)
            self.tokens.tell(message.prompt_tokens_free)
            self._owner.changed(self)
        elif not isinstance(message, Stats):  # a gateway does not ask for them
            self._owner.heard(self, message)

    def down(self, reason: str) -> None:
        self.status = None
        self._owner.lost(self, reason)
        self._owner.changed(self)
