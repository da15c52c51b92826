"""Have rented nodes measure themselves: what is asked for, the nodes' commands, and the profile that comes of it."""

import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from agents.messages.to_profiler import Machine, Meeting
from control.access.secret import Secret
from control.cloud.errors import CloudError
from control.cloud.node import NodeRequest
from control.cloud.port import Cloud
from control.executor.bill_tags import bill_tags
from control.executor.nodes import OWNER_TAG
from control.executor.profile_tag import profile_tags
from control.hub.gpu_check import other_gpus
from control.planning.rented_profiles import CUDA, rented_profile
from control.profiles.measurement_jobs import SweepError
from control.profiles.quotation import END_MINUTES, Quotation
from control.profiles.rentals import Rental, Rentals
from control.profiles.rented_nodes import Pace, RentedNodes
from control.profiles.rented_sweep import RentedJob, RentedSweep, sweep_rented
from control.profiles.store import ProfileStore, StoredProfile
from templates_lib.models.hub_weights import ENDPOINT_VARIABLE, TOKEN_VARIABLE
from templates_lib.models.model_spec import ModelSpec
from templates_lib.ports.source import Progress
from templates_lib.values.engines import least_driver
from templates_lib.values.offer import Offer

_LINGER_S = 30.0
"""Seconds that a node's program stays behind its last line, so that Ray passes it on: SkyPilot waits half a second for
that, and a node whose last line is lost is held for all its minutes. Once the line is read the node is given back."""


class NotGivenBackError(ValueError):
    """Nodes may still cost money; the message names them and what ends them."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """What is to be measured."""

    quotation: Quotation
    model: ModelSpec
    """As the engine holds it."""
    engine: str
    weights: str
    """`hf:ORG/NAME`, or a place on the nodes."""
    device: str = CUDA
    """`cpu`: to try the way without a GPU; no plan rests on what comes of it."""
    disk_gib: int = 0

    @property
    def tensor_parallel(self) -> int:
        """Return the devices that layers are cut over: all of the node."""
        return self.quotation.config.gpu_count if self.device == CUDA else 1

    @property
    def statement(self) -> tuple[str, ...]:
        """Say what is about to be done, how long it may take and what it may cost, a sentence a line."""
        quotation, nodes = self.quotation, self.quotation.wanted.nodes
        offer, limits = quotation.offers[0], quotation.limits
        cut = f", cut over {self.tensor_parallel} devices by heads" if self.tensor_parallel > 1 else ""
        pair = "; and what lies between two nodes: hops of activations, KV caches" if nodes == 2 else ""
        trial = "" if self.device == CUDA else f" It measures the {self.device}: a trial, which no plan rests on."
        more = len(quotation.offers) - 1
        instead = f" Where it is refused, {more} more offers are asked, the cheapest first." if more else ""
        return (
            f"Rents {nodes} x {offer.instance_type} ({quotation.config.id}) in {offer.zone_id}, {offer.market.value}, "
            f"at {quotation.usd_per_hour(offer):.2f} $/h each, for at most {limits.minutes:g} minutes, and up to "
            f"{END_MINUTES:g} more to end them: at most {quotation.most_usd:.2f} $ (--max-usd {limits.usd:g})."
            f"{instead}",
            f"Measures steps of {self.model.id} in {self.model.dtype} under engine {self.engine}{cut}: prompts, "
            f"further tokens, both in one step; what scheduler, workers and KV caches cost beside them{pair}.{trial}",
            "Stores the profile on this machine, and gives the nodes back whatever happens.",
        )

    def command(self, *of_pair: str) -> tuple[str, ...]:
        """Make a node's command. `of_pair`: its place in a pair."""
        dtype = "fp32" if self.model.activation_dtype == "fp32" else "bf16"
        what = ("--engine", self.engine, "--weights", self.weights, "--device", self.device)
        sizes = ("--tensor-parallel", str(self.tensor_parallel), "--hidden-size", str(self.model.hidden_size))
        times = ("--seconds", f"{60 * self.quotation.limits.minutes:.0f}", "--linger-s", f"{_LINGER_S:g}")
        return ("python3", "-m", "agents.profile", "--dtype", dtype, "node", *what, *sizes, *times, *of_pair)

    def differs(self, machine: Machine) -> str:
        """Say how a node differs from what is to be measured; empty: it does not."""
        if machine.device != self.device:
            return f"the node computes on its {machine.device}, and {self.device} was to be measured"
        return other_gpus(self.quotation.config.id, machine.gpus) if self.device == CUDA else ""


def measure_rented(
    measurement: Measurement, cloud: Cloud, owner: str, store: ProfileStore, pace: Pace, progress: Progress
) -> StoredProfile:
    """Rent, measure, store and give back, whatever happens. `owner`: whose nodes they are.

    Raises SweepError, which says why nothing was measured; NotGivenBackError where a node may be there still, whatever
    else came of it."""
    began = pace.now()
    nodes = nodes_of(cloud, store.rentals, owner, pace)
    try:
        swept = sweep_rented(_job(measurement, owner, began), nodes, progress)
        stored = _stored(measurement, swept, began)
        store.put(stored)
        pace.ending()  # nothing comes between this and the end of the nodes
    except BaseException as error:
        why = f"{error}; and " if str(error) else "interrupted; and "
        if left := nodes.give_back():
            raise NotGivenBackError(why + _not_given_back(left)) from error
        if isinstance(error, CloudError):
            raise SweepError(f"not measured: {error}") from error
        raise
    end_rented(nodes)
    return stored


def nodes_of(cloud: Cloud, rentals: Rentals, owner: str, pace: Pace) -> RentedNodes:
    """Return what rents nodes of a cloud, and gives them back."""
    return RentedNodes(cloud, rentals, {OWNER_TAG: owner}, pace)


def end_rented(nodes: RentedNodes) -> None:
    """Give nodes back. Raises NotGivenBackError for those that may be there still."""
    if left := nodes.give_back():
        raise NotGivenBackError(_not_given_back(left))


def _not_given_back(left: Mapping[str, str]) -> str:
    said = "; ".join(f"{name}: {why}" for name, why in left.items())
    return f"not given back yet, and may cost money: {said}. `medley profile end` tries again"


def _stored(measurement: Measurement, swept: RentedSweep, began: datetime) -> StoredProfile:
    asked = measurement.model, measurement.engine, measurement.tensor_parallel
    return rented_profile(swept, measurement.quotation.config, *asked, began.isoformat(timespec="seconds"))


def _job(measurement: Measurement, owner: str, began: datetime) -> RentedJob:
    quotation = measurement.quotation
    until = began + timedelta(minutes=quotation.limits.minutes)
    tags = {OWNER_TAG: owner, **profile_tags(until + timedelta(minutes=2 * END_MINUTES))}
    environment = {name: os.environ[name] for name in (ENDPOINT_VARIABLE,) if name in os.environ}
    hidden = {name: Secret(os.environ[name]) for name in (TOKEN_VARIABLE,) if name in os.environ}

    def request(offer: Offer, name: str, *of_pair: str) -> NodeRequest:
        billed = bill_tags(quotation.usd_per_hour(offer), began)
        return _request(measurement, offer, name, {**tags, **billed}, environment, hidden, *of_pair)

    def helper(offer: Offer, name: str, meeting: Meeting) -> NodeRequest:
        return request(offer, name, "--pair", "second", "--meet", f"{meeting.host}:{meeting.port}")

    def rental(offer: Offer, name: str) -> Rental:
        times = began.isoformat(timespec="seconds"), until.isoformat(timespec="seconds")
        usd = quotation.usd_per_hour(offer)
        return Rental(name, offer.cloud, offer.zone, offer.instance_type, offer.node_config, usd, *times)

    paired, name = quotation.wanted.nodes == 2, f"medley-profile-{secrets.token_hex(4)}"
    first = ("--pair", "first") if paired else ()
    return RentedJob(
        lambda offer, name: request(offer, name, *first), helper if paired else None, rental, quotation.offers, name,
        until, measurement.differs,
    )  # fmt: skip


def _request(
    measurement: Measurement,
    offer: Offer,
    name: str,
    tags: Mapping[str, str],
    environment: Mapping[str, str],
    hidden: Mapping[str, Secret],
    *of_pair: str,
) -> NodeRequest:
    engines = frozenset({measurement.engine})
    return NodeRequest(
        name=name,
        region=offer.region,
        zone=offer.zone,
        instance_type=offer.instance_type,
        market=offer.market,
        tags=tags,
        command=measurement.command(*of_pair),
        disk_gib=measurement.disk_gib,
        disk_usd_per_hour=measurement.quotation.wanted.disk_usd_per_hour,
        least_driver=least_driver(engines) if measurement.device == CUDA else 0,
        engines=engines,
        environment=environment,
        secrets=hidden,
    )
