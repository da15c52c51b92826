"""Metadata that a cloud tells its own machines, at an address that only they can reach."""

import http.client
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from urllib.parse import urlsplit

ADDRESS = "http://169.254.169.254"
"""Of AWS and of GCP alike."""
_TIMEOUT_S = 2.0
_MAX_BYTES = 1 << 16
_TOKEN_LIFE_S = 21600
_GCP_SPOT_NOTICE = timedelta(seconds=30)
"""Between the notice and the end of a preempted machine."""
_GCP_MAINTENANCE_NOTICE = timedelta(hours=1)
"""The same of a machine with GPUs on a host that is to be maintained."""


@dataclass(frozen=True, slots=True)
class InterruptionNotice:
    """The cloud will take this machine."""

    at: datetime
    reason: str


class MetadataError(Exception):
    """The address does not answer, or in another form: ask again."""


class AwsMetadata:
    """IMDSv2: a token first, then questions."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._token = ""

    def interruption(self, now: datetime) -> InterruptionNotice | None:  # noqa: ARG002 - AWS says when
        """Blocking. Raises MetadataError."""
        if not self._token:
            lifetime = {"X-aws-ec2-metadata-token-ttl-seconds": str(_TOKEN_LIFE_S)}
            status, token = _ask(self._address, "PUT", "/latest/api/token", lifetime)
            if status != http.client.OK or not token.isascii() or not token.isprintable():
                raise MetadataError(f"{self._address} gives no token (status {status})")
            self._token = token
        told = {"X-aws-ec2-metadata-token": self._token}
        status, text = _ask(self._address, "GET", "/latest/meta-data/spot/instance-action", told)
        if status == http.client.NOT_FOUND:
            return None
        if status == http.client.UNAUTHORIZED:
            self._token = ""  # it has expired
        if status != http.client.OK:
            raise MetadataError(f"{self._address} answers with status {status}")
        try:
            action = json.loads(text)
            at = datetime.fromisoformat(action["time"])
            return InterruptionNotice(at, f"spot interruption: {str(action['action'])[:40]} at {at.isoformat()}")
        except (ValueError, KeyError, TypeError):
            raise MetadataError(f"{self._address} announces something of another form") from None


class GcpMetadata:
    def __init__(self, address: str) -> None:
        self._address = address
        self._since: dict[str, datetime] = {}
        """Notice → when it was seen first: GCP says that it will happen, not when."""

    def interruption(self, now: datetime) -> InterruptionNotice | None:
        """Blocking. Raises MetadataError."""
        if self._value("preempted") == "TRUE":
            return InterruptionNotice(self._since.setdefault("preempted", now) + _GCP_SPOT_NOTICE, "spot preemption")
        if self._value("maintenance-event") == "TERMINATE_ON_HOST_MAINTENANCE":
            at = self._since.setdefault("maintenance", now) + _GCP_MAINTENANCE_NOTICE
            return InterruptionNotice(at, "host maintenance that ends the machine")
        self._since.pop("maintenance", None)  # it was called off
        return None

    def _value(self, name: str) -> str:
        path, told = f"/computeMetadata/v1/instance/{name}", {"Metadata-Flavor": "Google"}
        status, text = _ask(self._address, "GET", path, told)
        if status not in (http.client.OK, http.client.NOT_FOUND):
            raise MetadataError(f"{self._address} answers with status {status}")
        return text.strip() if status == http.client.OK else ""


Metadata = AwsMetadata | GcpMetadata


def metadata_of(cloud: str, address: str) -> Metadata | None:
    """Return the metadata of this machine; None for a cloud that gives its machines no notice. Raises ValueError for an
    address of another form."""
    parts = urlsplit(address)
    if parts.scheme != "http" or not parts.hostname or parts.path not in ("", "/"):
        raise ValueError(f"{address!r} is no address of machine metadata; it looks like {ADDRESS}")
    match cloud:
        case "aws":
            return AwsMetadata(address)
        case "gcp":
            return GcpMetadata(address)
        case _:
            return None


def _ask(address: str, method: str, path: str, headers: Mapping[str, str]) -> tuple[int, str]:
    """Ask once. Follows neither proxies nor redirects: the answer is this machine's or nobody's. Raises
    MetadataError."""
    parts = urlsplit(address)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port or 80, timeout=_TIMEOUT_S)
    try:
        connection.request(method, path, headers=dict(headers))
        answer = connection.getresponse()
        return answer.status, answer.read(_MAX_BYTES).decode("utf-8", "replace")
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise MetadataError(f"{address} does not answer: {error}") from None
    finally:
        connection.close()
