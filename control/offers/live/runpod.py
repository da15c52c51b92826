"""Offers of RunPod through its GraphQL interface: price and stock of each GPU and size, for pods of its secure cloud.

A pod may land in any data centre, hence the region `any`, which is its own zone.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from control.offers.interruptions import interruptions_per_hour
from control.offers.live.runpod_access import ask_runpod
from control.offers.live.source import LiveAnswer
from control.offers.selection import Selection
from templates_lib.values.hardware import InstanceType, UnknownHardwareError, instance_type, node_configs
from templates_lib.values.offer import Market, Offer

CLOUD = "runpod"
SOURCE = "runpod-api"
REGION = "any"
_COUNTS = (1, 2, 4, 8)
_NAMES = {"A100-SXM": "A100-80GB-SXM", "A100-PCIe": "A100-80GB", "H100-PCIe": "H100"}
"""Display name → that of SkyPilot's catalogue, which machines are named after; the others only lose their blanks."""
_QUERY = """query {{ gpuTypes {{ id displayName securePrice secureSpotPrice {sizes} }} }}""".format(
    sizes=" ".join(
        f"x{n}: lowestPrice(input: {{gpuCount: {n}, secureCloud: true}}) "
        "{ minimumBidPrice uninterruptablePrice stockStatus }"
        for n in _COUNTS
    )
)


@dataclass(frozen=True, slots=True)
class RunPodOffers:
    """The part of RunPod that `selections` name (those of other clouds are passed over)."""

    selections: Sequence[Selection]
    environment: Mapping[str, str]
    """Environment of the process."""
    cloud: str = CLOUD
    name: str = SOURCE

    def fetch(self, now: datetime) -> LiveAnswer:
        offers: list[Offer] = []
        for kind in runpod_gpu_types(self.environment):
            for machine, size in runpod_sizes(kind):
                offers += self._offers(machine, kind, size, now)
        machines = {offer.instance_type: instance_type(CLOUD, offer.instance_type) for offer in offers}
        return LiveAnswer(tuple(offers), node_configs(machines.values()))

    def _offers(
        self, machine: InstanceType, kind: Mapping[str, Any], size: Mapping[str, Any], now: datetime
    ) -> Iterator[Offer]:
        per_gpu = {
            Market.ON_DEMAND: size.get("uninterruptablePrice") or kind.get("securePrice"),
            Market.SPOT: size.get("minimumBidPrice") or kind.get("secureSpotPrice"),
        }
        # No word on stock means that there is none now.
        available = None if size.get("stockStatus") else 0
        for market, price in per_gpu.items():
            if not isinstance(price, int | float) or not any(s.reads(REGION, machine, market) for s in self.selections):
                continue
            usd_per_hour = round(float(price) * machine.gpu_count, 6)
            often = interruptions_per_hour(CLOUD, REGION, machine.name, market)
            config, at = machine.config_id, now.isoformat()
            yield Offer(CLOUD, REGION, REGION, machine.name, config, market, usd_per_hour, available, at, often, SOURCE)


def runpod_gpu_types(environment: Mapping[str, str]) -> list[Mapping[str, Any]]:
    """Return RunPod's GPUs as it lists them, with price and stock of each size. Raises SourceError."""
    return ask_runpod(
        environment,
        _QUERY,
        lambda data: [kind for kind in data["gpuTypes"] if isinstance(kind["displayName"], str)],
    )


def runpod_sizes(kind: Mapping[str, Any]) -> Iterator[tuple[InstanceType, Mapping[str, Any]]]:
    """Machines that are known here, with their price and stock."""
    shown = kind["displayName"].replace("RTX PRO ", "RTXPRO").replace("RTX ", "RTX").replace(" ", "-")
    for count in _COUNTS:
        size = kind.get(f"x{count}")
        if not isinstance(size, Mapping):
            continue
        try:
            yield instance_type(CLOUD, f"{count}x_{_NAMES.get(shown, shown)}_SECURE"), size
        except UnknownHardwareError:
            continue
