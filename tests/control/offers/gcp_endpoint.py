"""GCP on this machine: tokens, machine types, regions and the billing catalogue as its real clients ask for them."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.http_endpoint import Asked, Endpoint, Said, serving

PROJECT = "medley-test"
PAGE = 3


def machine(name: str, cpus: int, memory_gib: float, gpu: str, count: int, disks: int = 0) -> dict[str, Any]:
    found: dict[str, Any] = {
        "name": name, "guestCpus": cpus, "memoryMb": int(memory_gib * 1024),
        "accelerators": [{"guestAcceleratorType": gpu, "guestAcceleratorCount": count}],
    }  # fmt: skip
    if disks:
        found["bundledLocalSsds"] = {"defaultInterface": "NVME", "partitionCount": disks}
    return found


def sku(
    description: str, usd: float, *, spot: bool = False, group: str = "CPU", unit: str = "h", family: str = "Compute",
    regions: tuple[str, ...] = ("us-central1",), usage: str = "",
) -> dict[str, Any]:  # fmt: skip
    """As the catalogue has it: the first tier is a free allowance, money is whole dollars and billionths."""
    price = {"currencyCode": "USD", "units": str(int(usd)), "nanos": round((usd - int(usd)) * 1e9)}
    free = {"currencyCode": "USD", "units": "0", "nanos": 0}
    tiers = [{"startUsageAmount": 0, "unitPrice": free}, {"startUsageAmount": 1, "unitPrice": price}]
    return {
        "name": f"services/6F81-5844-456A/skus/{description}", "skuId": "X", "description": description,
        "category": {"resourceFamily": family, "resourceGroup": group,
                     "usageType": usage or ("Preemptible" if spot else "OnDemand")},
        "serviceRegions": list(regions),
        "pricingInfo": [{"pricingExpression": {"usageUnit": unit, "tieredRates": tiers}}],
    }  # fmt: skip


@dataclass
class GcpEndpoint:
    """What its answers are made of; change it between calls."""

    machines: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    """By zone."""
    skus: list[dict[str, Any]] = field(default_factory=list)
    quotas: dict[str, dict[str, float]] = field(default_factory=dict)
    """Region → metric → limit; `all`: of the project."""
    used: dict[str, float] = field(default_factory=dict)
    """Metric → usage, wherever it is asked for."""
    rules: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    """Network → its firewall rules."""
    policies: list[dict[str, Any]] = field(default_factory=list)
    """Firewall policies that every network has."""
    subnetworks: dict[str, dict[str, str]] = field(default_factory=dict)
    """Region → network → block of addresses."""
    unreachable: list[str] = field(default_factory=list)
    expired: bool = False
    refuse: dict[str, list[int]] = field(default_factory=dict)
    """Last word of a path → statuses of the next answers."""
    own: Endpoint = field(default_factory=lambda: Endpoint(""))

    def environment(self, folder: Path) -> dict[str, str]:
        """That Google's libraries find it by: workload identity, whose tokens are made here."""
        subject, file = folder / "subject", folder / "credentials.json"
        subject.write_text("who we are")
        identity = {
            "type": "external_account", "audience": "//iam.googleapis.com/projects/1/locations/global/x",
            "subject_token_type": "urn:ietf:params:oauth:token-type:jwt", "token_url": f"{self.own.url}/token",
            "credential_source": {"file": str(subject)},
        }  # fmt: skip
        file.write_text(json.dumps(identity))
        return {
            "GOOGLE_APPLICATION_CREDENTIALS": str(file),
            "CLOUDSDK_API_ENDPOINT_OVERRIDES_COMPUTE": f"{self.own.url}/",
            "CLOUDSDK_API_ENDPOINT_OVERRIDES_CLOUDBILLING": f"{self.own.url}/",
            "GOOGLE_CLOUD_PROJECT": PROJECT,
            "NO_GCE_CHECK": "true",
        }

    def answer(self, asked: Asked) -> Said:
        where = urlsplit(asked.path)
        last = where.path.rpartition("/")[2]
        if last == "token":
            return self._token()
        if asked.headers.get("authorization") != "Bearer ya29.ours":
            return _error(401, "no valid credentials")
        if self.refuse.get(last):
            return _error(self.refuse[last].pop(0), "as the test wants it")
        if last == "getEffectiveFirewalls":
            return self._rules(where.path.split("/")[-2])
        if last == "subnetworks":
            return self._subnetworks(where.path.split("/")[-2])
        return self._listed(last, where.query)

    def _rules(self, network: str) -> Said:
        if network not in self.rules:
            return _error(404, f"The resource 'projects/{PROJECT}/global/networks/{network}' was not found")
        return Said({"firewalls": self.rules[network], "firewallPolicys": self.policies})

    def _subnetworks(self, region: str) -> Said:
        prefix = f"https://compute/projects/{PROJECT}/global/networks/"
        blocks = self.subnetworks.get(region, {})
        return Said({"items": [{"network": prefix + name, "ipCidrRange": block} for name, block in blocks.items()]})

    def _listed(self, last: str, text: str) -> Said:
        query = {name: values[0] for name, values in parse_qs(text).items()}
        begin = int(query.get("pageToken") or 0)
        match last:
            case "machineTypes":
                return self._machine_types(query, begin)
            case "regions":
                regions = [{"name": name, "quotas": self._quotas(name)} for name in self.quotas if name != "all"]
                return Said({"items": regions[begin : begin + PAGE], **_more(begin, len(regions))})
            case "medley-test":
                return Said({"name": PROJECT, "quotas": self._quotas("all")})
            case "skus":
                return Said({"skus": self.skus[begin : begin + PAGE], **_more(begin, len(self.skus))})
            case _:
                return _error(404, last)

    def _quotas(self, where: str) -> list[dict[str, Any]]:
        listed = self.quotas.get(where, {})
        return [{"metric": m, "limit": limit, "usage": self.used.get(m, 0)} for m, limit in listed.items()]

    def _token(self) -> Said:
        if self.expired:
            return Said({"error": "invalid_grant", "error_description": "Token has been expired or revoked."}, 400)
        kind = "urn:ietf:params:oauth:token-type:access_token"
        told = {"access_token": "ya29.ours", "expires_in": 3600, "token_type": "Bearer", "issued_token_type": kind}
        return Said(told)

    def _machine_types(self, query: dict[str, str], begin: int) -> Said:
        wanted = [part.split('"')[1] for part in query["filter"].split(" OR ")]
        zones = sorted(self.machines)
        items: dict[str, Any] = {
            f"zones/{zone}": {"machineTypes": [m for m in self.machines[zone] if m["name"] in wanted]}
            for zone in zones[begin : begin + PAGE]
        }
        items |= {"zones/empty-1-a": {"warning": {"code": "NO_RESULTS_ON_PAGE"}}}
        unreachable = {"unreachables": [f"zones/{zone}" for zone in self.unreachable]} if self.unreachable else {}
        return Said({"items": items, **unreachable, **_more(begin, len(zones))})


def _more(begin: int, count: int) -> dict[str, str]:
    return {"nextPageToken": str(begin + PAGE)} if begin + PAGE < count else {}


def _error(status: int, message: str) -> Said:
    return Said({"error": {"code": status, "message": message, "errors": [{"message": message}]}}, status)


@contextmanager
def gcp() -> Iterator[GcpEndpoint]:
    endpoint = GcpEndpoint()
    with serving(endpoint.answer) as endpoint.own:
        yield endpoint
