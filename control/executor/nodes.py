"""Rent a node and give one back: intent before effect, outcome after it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from control.access.secret import Secret, new_secret
from control.cloud.errors import CloudError, GiveUpError, OwnFaultError, RetryLaterError
from control.cloud.node import CloudNode, NodeRequest
from control.cloud.own_fault import own_fault
from control.cloud.port import Cloud
from control.db.errors import NotWantedError
from control.db.intents import PostgresIntents
from control.executor.bill_tags import bill_tags
from control.executor.node_start import (
    CLOUD_VARIABLE,
    NETWORK_VARIABLE,
    NODE_VARIABLE,
    PORTS_VARIABLE,
    TOKEN_VARIABLE,
    NodeStart,
)
from control.lifecycle.intent import IntentKind
from control.overlay.place import ADDRESS_VARIABLE, KEY_VARIABLE
from templates_lib.values.clouds import cloud_kind
from templates_lib.values.nearest_name import nearest_name
from templates_lib.values.offer import Offer
from templates_lib.values.reach import network_at

OWNER_TAG = "medley-owner"
"""Whose node it is: one control plane's, of several that may share an account."""
INSTANCE_TAG = "medley-instance"
TOKEN_LIFE = timedelta(hours=1)
"""A node that has not registered an hour after it was asked for will not: images are pulled in less."""


@dataclass(frozen=True, slots=True)
class NodeExecutor:
    """`owner` is what this control plane's nodes are tagged with; only nodes with that tag are ever touched."""

    intents: PostgresIntents
    clouds: Mapping[str, Cloud]
    owner: str
    clock: Callable[[], datetime]

    def rent(self, instance_id: str, place: int, offer: Offer, start: NodeStart) -> CloudNode:
        """A node of `offer` for a place of an instance that is being provisioned.

        Raises RetryLaterError: call again, for the same offer, or leave it to `recover`; OwnFaultError: the same, once
        it is mended; any other CloudError: nothing was rented, and the place is free for another offer. Also
        NotWantedError, PlaceTakenError.
        """
        cloud, token, now = self.cloud(offer.cloud), new_secret(), self.clock()
        name = self.intents.open_create(
            instance_id, place, offer.key, offer.cloud, offer.usd_per_hour, token, now + TOKEN_LIFE, now,
            start.disk_usd_per_hour,
        )  # fmt: skip
        try:
            node = cloud.create(self._request(name, instance_id, offer, start, token, now), now)
        except RetryLaterError as error:
            self.intents.unsettled(IntentKind.CREATE, name, str(error))
            raise
        except CloudError as error:
            self.intents.refused(name, f"{type(error).__name__}: {error}", self.clock())
            raise
        except (ImportError, OSError) as error:  # of this machine; nobody knows how far the call came
            why = f"{type(error).__name__}: {error}"
            self.intents.unsettled(IntentKind.CREATE, name, why)
            text = f"{offer.cloud}: the control plane's machine: {why}"
            raise own_fault(offer.cloud, why) or OwnFaultError(text) from error
        try:
            self.intents.created(name, node.provider_id, self.clock())
        except NotWantedError:
            self.give_back(name, offer.cloud)
            raise
        return node

    def give_back(self, name: str, cloud: str) -> bool:
        """Terminate a node, whether or not a row explains it; return whether the cloud lists it no more.

        False, or a CloudError: it may still be billed; call again, or leave it to `recover`.
        """
        adapter = self.cloud(cloud)
        self.intents.open_terminate(name, cloud, self.clock())
        try:
            adapter.terminate(name, self.clock())
            listed = adapter.list({OWNER_TAG: self.owner}, self.clock())
        except CloudError as error:
            self.intents.unsettled(IntentKind.TERMINATE, name, f"{type(error).__name__}: {error}")
            raise
        gone = all(node.name != name for node in listed)
        if gone:
            self.intents.terminated(name, self.clock())
        return gone

    def cloud(self, name: str) -> Cloud:
        """Raises GiveUpError for a cloud that there is no adapter for."""
        if name not in self.clouds:
            raise GiveUpError(f"no adapter for cloud {name!r}; {nearest_name(name, self.clouds)}")
        return self.clouds[name]

    def _request(
        self, name: str, instance_id: str, offer: Offer, start: NodeStart, token: Secret, now: datetime
    ) -> NodeRequest:
        usd = offer.usd_per_hour + start.disk_usd_per_hour
        ports = cloud_kind(offer.cloud).published_ports
        reached = {PORTS_VARIABLE: " ".join(map(str, ports))} if ports else {}
        overlay = None if start.overlay is None else start.overlay.place(name)
        key: dict[str, Secret] = {}
        if start.overlay is not None and overlay is not None:
            reached[ADDRESS_VARIABLE] = overlay.address
            key = {KEY_VARIABLE: start.overlay.identity.node(name).key}
        return NodeRequest(
            name=name,
            region=offer.region,
            zone=offer.zone,
            instance_type=offer.instance_type,
            market=offer.market,
            tags={OWNER_TAG: self.owner, INSTANCE_TAG: instance_id, **bill_tags(usd, now)},
            command=start.command,
            disk_gib=start.disk_gib,
            disk_usd_per_hour=start.disk_usd_per_hour,
            least_driver=start.least_driver,
            engines=start.engines,
            overlay=overlay,
            published_ports=ports,
            environment={
                **start.environment,
                **reached,
                NODE_VARIABLE: name,
                CLOUD_VARIABLE: offer.cloud,
                NETWORK_VARIABLE: network_at(offer),
            },
            secrets={**start.secrets, **key, TOKEN_VARIABLE: token},
        )
