"""SkyPilot for one control plane: which clouds can be used through it, and their adapters."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from control.cloud.skypilot.cloud import SkyPilotCloud
from control.cloud.skypilot.failure import cloud_error
from control.cloud.skypilot.fleet import SkyPilotFleet
from control.cloud.skypilot.home import SkyPilotHome
from control.cloud.skypilot.market import machine_rows
from control.cloud.skypilot.messages import Check, Checked, Failed, WriteCatalogue
from control.cloud.skypilot.process import SdkProcess
from control.cloud.skypilot.set_up import SetUp
from control.cloud.skypilot.settings import SkyPilotSettings
from templates_lib.offer import Offer


@dataclass(frozen=True, slots=True)
class SkyPilotSite:
    clouds: Mapping[str, SkyPilotCloud]
    left_out: Mapping[str, str]
    """Cloud → why it cannot be used: credentials that are missing, expired or too weak."""


@contextmanager
def skypilot_site(
    home: SkyPilotHome, settings: SkyPilotSettings, clouds: Sequence[str], offers: Iterable[Offer]
) -> Iterator[SkyPilotSite]:
    """Find SkyPilot's server or start it, tell it of `offers`, and check the credentials of `clouds`.

    The server runs on afterwards, with what it has under way (`control.cloud.skypilot.server`). Takes up to a minute.
    Raises CloudError when there is no SkyPilot to be had at all.
    """
    process = SdkProcess(home)
    try:
        _done(process, WriteCatalogue(machine_rows(offers)), settings)
        reasons = _done(process, Check(tuple(clouds)), settings)
        usable = [cloud for cloud in clouds if not reasons[cloud]]
        fleet, set_up = SkyPilotFleet(process, settings), SetUp(home)
        yield SkyPilotSite(
            {cloud: SkyPilotCloud(cloud, fleet, set_up) for cloud in usable},
            {cloud: reason for cloud, reason in reasons.items() if reason},
        )
    finally:
        process.close()


def _done(process: SdkProcess, call: Check | WriteCatalogue, settings: SkyPilotSettings) -> Mapping[str, str]:
    reply = process.call(call, settings.query_s)
    if isinstance(reply, Failed):
        raise cloud_error("skypilot", reply)
    return reply.reasons if isinstance(reply, Checked) else {}
