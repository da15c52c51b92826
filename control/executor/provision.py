"""Rent the nodes of an instance: a gang, that is of use only whole."""

import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass

from control.cloud.errors import CloudError, OwnFaultError, RetryLaterError
from control.db.errors import NotWantedError, PlaceTakenError
from control.db.instances import PostgresInstances
from control.db.nodes import PostgresNodes
from control.executor.allowance import SpendingCheck
from control.executor.node_start import NodeStart
from control.executor.nodes import NodeExecutor
from control.lifecycle.event import Event, EventKind
from control.lifecycle.held_node import HeldNode
from control.lifecycle.state import InstanceState
from templates_lib.values.instance import Instance
from templates_lib.values.offer import Offer

_AT_ONCE = 8
"""Calls to clouds side by side."""
MENDED_S = 60.0
"""Seconds after which it is tried whether a fault of our own was mended."""
_SETTLING_S = 5.0
"""Seconds to wait for a call that another process has under way for the same place."""


@dataclass(frozen=True, slots=True)
class NodePlace:
    """Place of one node of the gang: where it goes, and from which offers, the best first, it may be rented."""

    offers: tuple[Offer, ...]
    start: NodeStart

    @property
    def stock(self) -> float:
        """Nodes that can be had for it; what is unknown counts as plenty."""
        return sum(math.inf if o.available_count is None else o.available_count for o in self.offers)


@dataclass(frozen=True, slots=True)
class RefusedOffer:
    """An offer that a cloud did not keep: to be remembered by whoever plans."""

    offer: str
    error: CloudError


@dataclass(frozen=True, slots=True)
class Provisioned:
    instance: Instance
    """Bootstrapping when the gang is whole, failed when it cannot be, else provisioning."""
    waiting: dict[int, RetryLaterError]
    """Places to try again, with why and after how long."""
    refused: tuple[RefusedOffer, ...]
    rented: tuple[str, ...] = ()
    """Keys of the offers that nodes were had of, one a node."""
    fault: OwnFaultError | None = None
    """Fault of our own because of which places wait; no offer is to blame."""


class _NoOfferLeftError(Exception):
    pass


def provision(
    instances: PostgresInstances,
    held_nodes: PostgresNodes,
    executor: NodeExecutor,
    instance_id: str,
    places: Sequence[NodePlace],
    allowance: SpendingCheck | None = None,
) -> Provisioned:
    """Rent what the instance lacks, the scarcest place first and then the others side by side, within what its fleet
    may spend (None: anything).

    A refused place goes on with its next offer; when none is left the instance fails, and with it what was rented.
    Call it again while places are waiting; an instance that is not (or no longer) to be provisioned is left alone.
    """
    instances.apply(instance_id, Event(EventKind.PROVISION, "its nodes are to be rented"), executor.clock())
    waiting: dict[int, RetryLaterError] = {}
    refused: list[RefusedOffer] = []
    rented: list[str] = []
    faults: list[OwnFaultError] = []

    def fill(place: int) -> None:
        try:
            rented.append(_fill(executor, instance_id, place, places[place], held.get(place), refused, allowance))
        except RetryLaterError as error:
            waiting[place] = error
        except OwnFaultError as error:
            faults.append(error)
            waiting[place] = RetryLaterError(str(error), MENDED_S)
        except PlaceTakenError as error:
            waiting[place] = RetryLaterError(str(error), _SETTLING_S)

    held = held_nodes.of_instance(instance_id)
    missing = [p for p in range(len(places)) if p not in held or held[p].created_at is None]
    missing.sort(key=lambda place: places[place].stock)
    try:
        if missing and instances.load(instance_id).state == InstanceState.PROVISIONING:
            fill(missing[0])
            # Without the scarcest, the others would only cost money.
            others = [] if waiting else missing[1:]
            with ThreadPoolExecutor(_AT_ONCE) as pool:
                for done in [pool.submit(fill, place) for place in others]:
                    done.result()
    except _NoOfferLeftError as error:
        instances.apply(instance_id, Event(EventKind.BROKE, str(error)), executor.clock())
    except NotWantedError:
        pass  # it was given up meanwhile, and so is what was being rented
    else:
        held = held_nodes.of_instance(instance_id)
        if all(place in held and held[place].created_at is not None for place in range(len(places))):
            instances.apply(instance_id, Event(EventKind.NODES_UP, "all nodes are rented"), executor.clock())
    refused.sort(key=lambda each: each.offer)  # places are filled side by side, in no order
    return Provisioned(
        instances.load(instance_id), waiting, tuple(refused), tuple(sorted(rented)), next(iter(faults), None)
    )


def _fill(
    executor: NodeExecutor,
    instance_id: str,
    number: int,
    place: NodePlace,
    on_its_way: HeldNode | None,
    refused: list[RefusedOffer],
    allowance: SpendingCheck | None,
) -> str:
    """Key of the offer that gave it. Raises RetryLaterError, OwnFaultError, _NoOfferLeftError, NotWantedError."""
    # What may be under way from one offer has to be settled before another is asked.
    offers = sorted(place.offers, key=lambda offer: on_its_way is None or offer.key != on_its_way.offer)
    last: CloudError | None = None
    for offer in offers:
        try:
            usd = offer.usd_per_hour + place.start.disk_usd_per_hour
            with allowance.of_node(instance_id, number, usd) if allowance else nullcontext():
                executor.rent(instance_id, number, offer, place.start)
        except (RetryLaterError, OwnFaultError):
            raise
        except CloudError as error:
            refused.append(RefusedOffer(offer.key, error))
            last = error
        else:
            return offer.key
    raise _NoOfferLeftError(f"no offer is left for node {number}: {last or 'none was given'}")
