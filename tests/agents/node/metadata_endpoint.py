"""The metadata services of machines: of AWS (IMDSv2) and of GCP."""

import http.client
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from tests.http_endpoint import Asked, Endpoint, Said


@dataclass
class AwsMachine:
    action: dict[str, Any] | None = None
    """What will be done to it; None: nothing."""
    token: str = "AQAEA-token=="  # noqa: S105
    endpoint: Endpoint = field(default_factory=lambda: Endpoint(""))

    def answer(self, asked: Asked) -> Said:
        if (asked.method, asked.path) == ("PUT", "/latest/api/token"):
            assert int(asked.headers["x-aws-ec2-metadata-token-ttl-seconds"]) <= 21600
            return Said(self.token.encode())
        if asked.headers.get("x-aws-ec2-metadata-token") != self.token:
            return Said(b"", http.client.UNAUTHORIZED)
        if asked.path == "/latest/meta-data/spot/instance-action" and self.action is not None:
            return Said(self.action)
        return Said(b"Not Found", http.client.NOT_FOUND)


@dataclass
class GcpMachine:
    preempted: str = "FALSE"
    maintenance: str = "NONE"
    endpoint: Endpoint = field(default_factory=lambda: Endpoint(""))

    def answer(self, asked: Asked) -> Said:
        if asked.headers.get("metadata-flavor") != "Google":
            return Said(b"", http.client.FORBIDDEN)
        known = {"preempted": self.preempted, "maintenance-event": self.maintenance}
        name = urlsplit(asked.path).path.removeprefix("/computeMetadata/v1/instance/")
        return Said(known[name].encode()) if name in known else Said(b"", http.client.NOT_FOUND)
