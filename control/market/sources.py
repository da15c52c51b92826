"""Sources of a cloud's offers."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from control.offers.live.aws import AwsOffers
from control.offers.live.gcp import GcpOffers
from control.offers.live.runpod import RunPodOffers
from control.offers.live.skypilot import SkyPilotOffers
from control.offers.live.source import LiveSource
from control.offers.prices import regions_by_cloud
from control.offers.selection import Selection
from templates_lib.values.clouds import LOCAL
from templates_lib.values.offer import Market

LIVE_SOURCES: dict[str, Callable[[Sequence[Selection], Mapping[str, str]], LiveSource]] = {
    "aws": lambda selections, _environment: AwsOffers(selections),
    "gcp": GcpOffers,
    "runpod": RunPodOffers,
}
"""Cloud → what asks its own interface, with the environment that its keys are in. Of another cloud, SkyPilot's
catalogue is read."""


def sources_of(
    clouds: Iterable[str], environment: Mapping[str, str], *, from_skypilot: bool = False
) -> tuple[LiveSource, ...]:
    """Make a source for each of `clouds` but the local one: its own interface, else (or if `from_skypilot`) SkyPilot's
    catalogue.

    All that a cloud sells in both markets is asked for: what fleets select from it differs, and changes.
    """
    listed = tuple(dict.fromkeys(cloud for cloud in clouds if cloud != LOCAL))
    return tuple(_source(cloud, environment, from_skypilot=from_skypilot) for cloud in listed)


def known_clouds() -> tuple[str, ...]:
    return tuple(sorted(regions_by_cloud()))


def askable_clouds(environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return the clouds that have an interface, or a file in SkyPilot's catalogue."""
    kept = {file.parent.name for file in _catalogues(environment).glob("v*/*/vms.csv")}
    return tuple(cloud for cloud in known_clouds() if cloud in LIVE_SOURCES or cloud in kept)


def _source(cloud: str, environment: Mapping[str, str], *, from_skypilot: bool) -> LiveSource:
    selections: Sequence[Selection] = [Selection(cloud, markets=(Market.ON_DEMAND, Market.SPOT))]
    if cloud in LIVE_SOURCES and not from_skypilot:
        return LIVE_SOURCES[cloud](selections, environment)
    return SkyPilotOffers(selections, cloud, _catalogues(environment))


def _catalogues(environment: Mapping[str, str]) -> Path:
    return Path(environment.get("HOME") or "~").expanduser() / ".sky" / "catalogs"
