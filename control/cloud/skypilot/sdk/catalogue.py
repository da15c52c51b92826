"""SkyPilot's catalogue, written from our own offers: it needs no download, and its prices are the plan's.

A file without a checksum beside it is the user's own to SkyPilot: it reads it and never fetches another.
"""

import csv
import hashlib
import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import msgspec
from sky.catalog import constants
from sky.catalog.gcp_catalog import _INSTANCE_TYPE_TO_ACC
from sky.clouds import AWS
from sky.exceptions import CloudUserIdentityError

from control.cloud.skypilot.messages import MachineRow
from control.cloud.skypilot.sdk.aws_zones import aws_zone, aws_zones

_MACHINES = (
    "InstanceType",
    *("AcceleratorName", "AcceleratorCount", "vCPUs", "MemoryGiB", "GpuInfo"),
    *("Price", "SpotPrice", "Region", "AvailabilityZone"),
)
_QUOTAS = {"aws": "instance_quota_mapping.csv"}
"""Tables by which SkyPilot would look at a quota before it asks for a machine. The answer to that request says as much,
and an empty table is not downloaded."""


def write_catalogue(rows: Sequence[MachineRow]) -> None:
    """Write the catalogue of the clouds that `rows` name; SkyPilot has its own of the others."""
    by_cloud: defaultdict[str, list[MachineRow]] = defaultdict(list)
    for row in rows:
        by_cloud[row.cloud].append(row)
    for cloud, machines in by_cloud.items():
        arch = ["Arch"] if cloud == "aws" else []
        if cloud == "aws":
            machines = list(_in_zones(machines))  # noqa: PLW2901
            _write_zones(machines)
        lines = [[*_line(row), *("x86_64" for _ in arch)] for row in machines]
        _write(_directory() / cloud / "vms.csv", (*_MACHINES, *arch), [*lines, *_attached(cloud, machines)])
        quotas = _directory() / cloud / _QUOTAS.get(cloud, "")
        if cloud in _QUOTAS and not quotas.exists():
            _write(quotas, ("InstanceType", "OnDemandInstanceCode", "SpotInstanceCode"), [])


def _in_zones(machines: Iterable[MachineRow]) -> Iterator[MachineRow]:
    """Yield the machines under the names that zones have for this account; a machine that is sold in all of a region is
    in each."""
    prices: dict[tuple[str, str, str], MachineRow] = {}
    for row in machines:
        zones = aws_zones(row.region).values() if row.zone == row.region else [aws_zone(row.region, row.zone)]
        for zone in zones:
            known = prices.get((row.region, zone, row.instance_type))
            on_demand, spot = row.usd_per_hour, row.spot_usd_per_hour
            if known is not None:
                on_demand = known.usd_per_hour if on_demand is None else on_demand
                spot = known.spot_usd_per_hour if spot is None else spot
            merged = msgspec.structs.replace(row, zone=zone, usd_per_hour=on_demand, spot_usd_per_hour=spot)
            prices[row.region, zone, row.instance_type] = merged
    yield from prices.values()


def instance_types(cloud: str) -> tuple[str, ...]:
    """List the machines that the catalogue has for the cloud, by name."""
    path = _directory() / cloud / "vms.csv"
    if not path.exists():
        return ()
    with path.open(newline="", encoding="utf-8") as file:
        return tuple(sorted({row["InstanceType"] for row in csv.DictReader(file)} - {""}))


def _line(row: MachineRow) -> list[object]:
    gpus = [{"Name": row.gpu, "Count": row.gpu_count, "MemoryInfo": {"SizeInMiB": row.gpu_memory_mib}}]
    info = {"Gpus": gpus, "TotalGpuMemoryInMiB": row.gpu_memory_mib * row.gpu_count}
    prices = ["" if price is None else price for price in (row.usd_per_hour, row.spot_usd_per_hour)]
    on_cloud = row.cloud != "gcp"
    gpu: list[object] = [row.gpu, float(row.gpu_count)] if on_cloud else ["", ""]
    vcpus = "" if row.vcpus is None else row.vcpus
    return [
        row.instance_type,
        *gpu,
        vcpus,
        row.host_memory_gib,
        info if on_cloud else "",
        *prices,
        row.region,
        row.zone,
    ]


def _attached(cloud: str, machines: Iterable[MachineRow]) -> list[list[object]]:
    """GCP's accelerators are rows of their own; what they cost is in our price of the machine."""
    lines: dict[tuple[str, int, str, str], list[object]] = {}
    if cloud != "gcp":
        return []
    for row in machines:
        for name, count in _INSTANCE_TYPE_TO_ACC.get(row.instance_type, {}).items():
            key = (name, count, row.region, row.zone)
            lines[key] = ["", name, float(count), "", "", "", 0.0, 0.0, row.region, row.zone]
    return list(lines.values())


def _write_zones(machines: Iterable[MachineRow]) -> None:
    """AWS numbers an account's zones as it likes; ours go by the names of this account already."""
    try:
        identity = AWS.get_active_user_identity()
    except CloudUserIdentityError:
        identity = None
    account = hashlib.md5(identity[0].encode(), usedforsecurity=False).hexdigest()[:8] if identity else "default"
    zones = [(zone, zone) for zone in sorted({row.zone for row in machines})]
    path = _directory() / "aws" / f"az_mappings-{account}.csv"
    _write(path, ("AvailabilityZone", "AvailabilityZoneName"), zones)


def _write(path: Path, columns: Sequence[str], lines: Iterable[Sequence[object]]) -> None:
    """Whole or not at all: other processes read it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_suffix(".new")
    with new.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(lines)
    new.replace(path)


def _directory() -> Path:
    return Path(os.environ["SKY_RUNTIME_DIR"]) / ".sky" / "catalogs" / str(constants.CATALOG_SCHEMA_VERSION)
