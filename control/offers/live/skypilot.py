"""SkyPilot's catalogue: the price files that SkyPilot keeps below ~/.sky/catalogs, one folder a cloud.

A price list and no account's word: it knows neither quotas nor what an account may use.
"""

import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from control.offers.interruptions import interruptions_per_hour
from control.offers.live.bounds import MAX_BYTES, MAX_OFFERS
from control.offers.live.source import LiveAnswer, NoAnswerError
from control.offers.selection import Selection
from templates_lib.values.hardware import InstanceType, load_instance_types, node_configs
from templates_lib.values.offer import Market, Offer

SOURCE = "skypilot-catalogue"
_NEEDED = frozenset({"InstanceType", "AcceleratorName", "AcceleratorCount", "Price", "SpotPrice", "Region"})
_GPUS_OF_GCP = {
    "A100-40": "A100", "A100-80": "A100-80GB", "H100": "H100", "H200": "H200", "B200": "B200", "L4": "L4",
}  # fmt: skip
_MEGA = "a3-megagpu-8g", "H100-MEGA"

Row = Mapping[str, str | None]


@dataclass(frozen=True, slots=True)
class SkyPilotOffers:
    """One cloud's file, as far as `selections` name it."""

    selections: Sequence[Selection]
    cloud: str
    catalogues: Path
    """`~/.sky/catalogs`; the newest of its versions that has the cloud counts."""
    name: str = SOURCE

    def fetch(self, now: datetime) -> LiveAnswer:  # noqa: ARG002 - the file says when its prices held
        file = self._file()
        machines = {m.name: m for m in load_instance_types() if m.cloud == self.cloud}
        try:
            at = datetime.fromtimestamp(file.stat().st_mtime, UTC).isoformat(timespec="seconds")
            if file.stat().st_size > MAX_BYTES:
                raise NoAnswerError(f"{file}: has more than {MAX_BYTES} bytes")
            with file.open(encoding="utf-8", newline="") as opened:
                rows = list(self._rows(file, csv.DictReader(opened)))
        except (OSError, UnicodeDecodeError, csv.Error) as error:
            raise NoAnswerError(f"{file}: cannot be read: {error}") from None
        offers = tuple(
            offer
            for row in (with_gpu_prices(rows, machines) if self.cloud == "gcp" else rows)
            if (machine := machines.get(row["InstanceType"] or "")) is not None
            for offer in self._offers(machine, row, at)
        )
        used = {offer.instance_type for offer in offers}
        return LiveAnswer(offers, node_configs(m for name, m in machines.items() if name in used))

    def _file(self) -> Path:
        found = [f for f in self.catalogues.glob(f"v*/{self.cloud}/vms.csv") if f.parents[1].name[1:].isdigit()]
        if not found:
            raise NoAnswerError(
                f"SkyPilot keeps no prices of {self.cloud} below {self.catalogues}: `sky show-gpus` fetches them"
            )
        return max(found, key=lambda file: int(file.parents[1].name[1:]))

    def _rows(self, file: Path, reader: "csv.DictReader[str]") -> Iterator[Row]:
        missing = _NEEDED - set(reader.fieldnames or ())
        if missing:
            raise NoAnswerError(f"{file}: is no catalogue of SkyPilot's: no column {', '.join(sorted(missing))}")
        for number, row in enumerate(reader):
            if number >= MAX_OFFERS:
                raise NoAnswerError(f"{file}: has more than {MAX_OFFERS} lines")
            yield row

    def _offers(self, machine: InstanceType, row: Row, at: str) -> Iterator[Offer]:
        region = row["Region"] or "any"
        zone = row.get("AvailabilityZone") or region
        for market, column in ((Market.ON_DEMAND, "Price"), (Market.SPOT, "SpotPrice")):
            usd_per_hour = _number(row[column])
            if usd_per_hour is None or not any(s.reads(region, machine, market) for s in self.selections):
                continue
            often = interruptions_per_hour(self.cloud, region, machine.name, market)
            config = machine.config_id
            yield Offer(self.cloud, region, zone, machine.name, config, market, usd_per_hour, None, at, often, SOURCE)


def with_gpu_prices(rows: Sequence[Row], machines: Mapping[str, InstanceType]) -> Iterator[Row]:
    """GCP's file prices the machine without its GPUs in one line, and so many GPUs of a zone in another."""
    gpus = {
        (row["AcceleratorName"], _number(row["AcceleratorCount"]), row.get("AvailabilityZone")): row
        for row in rows
        if not row["InstanceType"]
    }
    for row in rows:
        machine = machines.get(row["InstanceType"] or "")
        if machine is None:
            continue
        gpu = _MEGA[1] if machine.name == _MEGA[0] else _GPUS_OF_GCP.get(machine.gpu)
        extra = gpus.get((gpu, float(machine.gpu_count), row.get("AvailabilityZone")))
        if extra is None:
            continue
        whole = {column: _sum(row[column], extra[column]) for column in ("Price", "SpotPrice")}
        yield {**row, **whole}


def _sum(a: str | None, b: str | None) -> str | None:
    first, second = _number(a), _number(b)
    return None if first is None or second is None else str(round(first + second, 6))


def _number(text: str | None) -> float | None:
    try:
        return float(text) if text else None
    except ValueError:
        return None
