"""Offers of RunPod through its GraphQL interface: price and stock of each GPU and size, for pods of its secure cloud.

The key is that of RunPod's own tools: RUNPOD_API_KEY, else `api_key` in ~/.runpod/config.toml; so is the address,
RUNPOD_API_BASE_URL. A pod may land in any data centre, hence the region `any`, which is its own zone.
"""

import json
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from control.access.secret import Secret
from control.offers.interruptions import interruptions_per_hour
from control.offers.live.bounds import MAX_BYTES
from control.offers.live.source import LiveAnswer, NoAccessError, NoAnswerError
from control.offers.selection import Selection
from templates_lib.values.hardware import InstanceType, UnknownHardwareError, instance_type, node_configs
from templates_lib.values.offer import Market, Offer

CLOUD = "runpod"
SOURCE = "runpod-api"
REGION = "any"
_ADDRESS = "https://api.runpod.io"
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
        for kind in self._gpu_types():
            for machine, size in _sizes(kind):
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

    def _gpu_types(self) -> list[Mapping[str, Any]]:
        import urllib3  # of the `clouds` extra

        address = self.environment.get("RUNPOD_API_BASE_URL") or _ADDRESS
        _check(address)
        key = _key(self.environment)
        # A read: it may be repeated although it is a POST.
        retry = urllib3.Retry(
            4, redirect=0, status_forcelist=(429, 500, 502, 503, 504), allowed_methods=None, backoff_factor=0.5,
            raise_on_status=False,
        )  # fmt: skip
        pool = urllib3.PoolManager(timeout=urllib3.Timeout(connect=5, read=20), retries=retry)
        headers = {"Authorization": f"Bearer {key.reveal()}", "Content-Type": "application/json"}
        body = json.dumps({"query": _QUERY})
        try:
            answer = pool.request("POST", f"{address}/graphql", body=body, headers=headers, preload_content=False)
            status, content = answer.status, answer.read(MAX_BYTES + 1)
            answer.release_conn()
        except urllib3.exceptions.HTTPError as error:
            raise NoAnswerError(f"RunPod at {address}: {error}") from None
        finally:
            pool.clear()
        if status in (401, 403):
            raise NoAccessError(f"RunPod does not take the API key ({status}): make another one in its settings")
        if status != 200:
            raise NoAnswerError(f"RunPod at {address} answers with status {status}")
        if len(content) > MAX_BYTES:
            raise NoAnswerError(f"RunPod at {address} answers with more than {MAX_BYTES} bytes")
        return _read(content)


def _read(content: bytes) -> list[Mapping[str, Any]]:
    try:
        said = json.loads(content)
        if said.get("errors"):
            raise NoAnswerError(f"RunPod: {str(said['errors'][0].get('message', ''))[:300]}")
        kinds = said["data"]["gpuTypes"]
        return [kind for kind in kinds if isinstance(kind["displayName"], str)]
    except (ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
        raise NoAnswerError(f"RunPod's answer is not what it documents: {type(error).__name__} {error}") from None


def _sizes(kind: Mapping[str, Any]) -> Iterator[tuple[InstanceType, Mapping[str, Any]]]:
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


def _check(address: str) -> None:
    """The key goes there."""
    parts = urlsplit(address)
    if parts.scheme != "https" and parts.hostname not in ("127.0.0.1", "::1", "localhost"):
        raise NoAccessError(f"RUNPOD_API_BASE_URL {address}: must begin with https://, or be on this machine")


def _key(environment: Mapping[str, str]) -> Secret:
    given = environment.get("RUNPOD_API_KEY")
    file = Path(environment.get("HOME") or "~").expanduser() / ".runpod" / "config.toml"
    if not given and file.exists():
        try:
            content = tomllib.loads(file.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            raise NoAccessError(f"{file} cannot be read: write it again with `runpod config`") from None
        profile = content.get("default", content)
        given = profile.get("api_key") if isinstance(profile, dict) else None
    if not isinstance(given, str) or not given.isprintable() or not given:
        raise NoAccessError(f"no RunPod API key was found: set RUNPOD_API_KEY, or api_key in {file}")
    return Secret(given)
