"""Write templates_lib/data/prices/{offers,zones,sources}.csv: the dated snapshot of prices that ships with Medley.

Reads the price files of the sibling directory `shared`; only machines of `data/hardware/instance_types.csv` are kept.

Run: python -m bench.extracts.make_prices
"""

import json
import re
from collections import defaultdict
from collections.abc import Iterator

from bench.extracts.csv_files import ROOT, RUNPOD, RUNPOD_SOURCE, SHARED, read, write
from bench.extracts.price_rules import (
    ALL_ZONES,
    ANYWHERE,
    ON_DEMAND,
    SPOT,
    SPOT_ONLY,
    Quote,
    believable_on_demand,
    interruptions_per_hour,
    merge,
    price,
    spot_price,
    whole_gpus,
)
from templates_lib.values.hardware import load_instance_types

OUT = ROOT / "templates_lib" / "data" / "prices"
PRICES = SHARED / "prices"
KNOWN = {(m.cloud, m.name): m for m in load_instance_types()}

# Without local and wavelength zones (us-east-1-atl-1: one or two T4 machines each) and the government's regions.
AWS_REGION = re.compile(r"(?!us-gov)[a-z]{2}-[a-z]+-\d")

SOURCES = {
    "aws-skypilot-v9": (
        "skypilot-org/skypilot-catalog catalogs/v9/aws/vms.csv @2c3d7ea7d76bf84cf80d382e946c1609571485fd, partial copy",
        "price facts",
    ),
    "aws-list": ("tsaol/aws-gpu data/all_gpu_instances.js @77fcd9fe1d0652fd07b830e5ed030d61da87923e", "MIT"),
    "aws-azure-list": ("PyPI chimeraforge 0.76.0 planner/data/cloud_prices.json (us-east-1 and eastus)", "MIT"),
    "aws-spot-advisor": (
        "alexei-led/spotinfo spot-advisor-data.json @05e933139449b888c78795b28af8e9370429a031: interruption classes; "
        "spot price = on-demand less the mean saving of 30 days, for machines without a quoted spot price",
        "Apache-2.0",
    ),
    "gcp-list": (
        "Cyclenerd/google-cloud-pricing-cost-calculator pricing.yml @fd66b26ff84fee5cdd94f341ea89206e76c06b99",
        "Apache-2.0",
    ),
    "gcp-catalog": (
        "anycloud-sh/catalog gcp/vms.csv @62ff0a987e0c257a89235415d2877812fb1aaf29, host and GPU added up per zone",
        "price facts",
    ),
    "azure-catalog": (
        "anycloud-sh/catalog azure/vms.csv @62ff0a987e0c257a89235415d2877812fb1aaf29",
        "price facts",
    ),
    "lambda-catalog": (
        "anycloud-sh/catalog lambda/vms.csv @4c0610266db3c729e55a84d8e0ffe1c96cd903ec",
        "price facts",
    ),
    "runpod-skypilot-v5": (
        "skypilot-org/skypilot-catalog catalogs/v5/runpod/vms.csv @02d7ef674b9fd299ad1fa3430f50b2f0da1d219b, spot",
        "price facts",
    ),
    "runpod-catalog": (f"{RUNPOD_SOURCE}, secure cloud; the day is not shown", "price facts"),
}


def aws() -> Iterator[Quote]:
    classes = {(r["region"], r["instance_type"]): r for r in read(PRICES / "aws_spot_advisor_gpu_2025-06-28.csv")}

    def risk(region: str, machine: str) -> float:
        return interruptions_per_hour(classes.get((region, machine), {}).get("monthly_interruption_range", ""))

    in_extract: set[tuple[str, str]] = set()
    for row in read(PRICES / "aws_skypilot_v9_2026_extract.csv"):
        machine, region, zone = row["InstanceType"], row["Region"], row["AvailabilityZone"]
        on_demand = price(row["Price"])
        if ("aws", machine) not in KNOWN or on_demand is None:
            continue
        in_extract.add((machine, region))
        yield Quote("aws", region, zone, machine, ON_DEMAND, on_demand, "aws-skypilot-v9", "2026")
        spot = spot_price(row["SpotPrice"], on_demand)
        if spot is not None:
            yield Quote("aws", region, zone, machine, SPOT, spot, "aws-skypilot-v9", "2026", risk(region, machine))
    for row in read(PRICES / "aws_ondemand_by_region_2025-11-30.csv"):
        machine, region, on_demand = row["instance_type"], row["region"], price(row["on_demand_usd_h"])
        if ("aws", machine) not in KNOWN or on_demand is None or whole_gpus(row["gpu_count"]) is None:
            continue
        if not AWS_REGION.fullmatch(region):
            continue
        yield Quote("aws", region, ALL_ZONES, machine, ON_DEMAND, on_demand, "aws-list", "2025-11-30")
        advice = classes.get((region, machine))
        if advice is not None and (machine, region) not in in_extract:
            saved = float(advice["avg_savings_pct_vs_on_demand"]) / 100
            spot = spot_price(f"{round(on_demand * (1 - saved), 5)}", on_demand)
            if spot is not None:
                source, rate = "aws-spot-advisor", risk(region, machine)
                yield Quote("aws", region, ALL_ZONES, machine, SPOT, spot, source, "2025-06-28", rate)


def aws_azure_list() -> Iterator[Quote]:
    """The newest on-demand prices, of one region each."""
    for offer in json.loads((PRICES / "aws_azure_gpu_list_2026-10-01.json").read_text())["offers"]:
        cloud, machine = offer["cloud"], offer["instance"]
        if (cloud, machine) in KNOWN:
            value = float(offer["price_per_hour"])
            yield Quote(cloud, offer["region"], ALL_ZONES, machine, ON_DEMAND, value, "aws-azure-list", "2026-10-01")


def gcp() -> Iterator[Quote]:
    """On-demand from the list; zones, and machines that the list lacks, from the catalog."""
    listed: dict[str, dict[str, tuple[float, str]]] = defaultdict(dict)
    for row in read(PRICES / "gcp_gpu_list_prices_2026-07-30.csv"):
        listed[row["instance_type"]][row["region"]] = (float(row["on_demand_usd_h"]), row["spot_usd_h"])
    catalog: dict[str, dict[str, list[dict[str, str]]]] = defaultdict(lambda: defaultdict(list))
    for row in read(PRICES / "gcp_gpu_vm_totals_2026-05-20.csv"):
        catalog[row["InstanceType"]][row["Region"]].append(row)
    risk = interruptions_per_hour("")
    for machine in (name for cloud, name in KNOWN if cloud == "gcp"):
        list_prices = {region: on_demand for region, (on_demand, _) in listed[machine].items()}
        totals = {region: float(rows[0]["Price"]) for region, rows in catalog[machine].items()}
        for region, on_demand in believable_on_demand(totals, list_prices).items():
            in_list = region in list_prices
            source, date = ("gcp-list", "2026-07-30") if in_list else ("gcp-catalog", "2026-05-20")
            zones = {row["AvailabilityZone"]: row["SpotPrice"] for row in catalog[machine][region]}
            for zone, catalog_spot in (zones or {ALL_ZONES: ""}).items():
                if machine not in SPOT_ONLY:
                    yield Quote("gcp", region, zone, machine, ON_DEMAND, on_demand, source, date)
                spot = spot_price(listed[machine][region][1] if in_list else catalog_spot, on_demand)
                if spot is not None:
                    yield Quote("gcp", region, zone, machine, SPOT, spot, source, date, risk)


def azure() -> Iterator[Quote]:
    risk = interruptions_per_hour("")
    for row in read(PRICES / "azure_vms_gpu_2026-05-20.csv"):
        machine, region, on_demand = row["InstanceType"], row["Region"], price(row["Price"])
        if ("azure", machine) not in KNOWN or on_demand is None or whole_gpus(row["AcceleratorCount"]) is None:
            continue
        yield Quote("azure", region, ALL_ZONES, machine, ON_DEMAND, on_demand, "azure-catalog", "2026-05-20")
        spot = spot_price(row["SpotPrice"], on_demand)
        if spot is not None:
            yield Quote("azure", region, ALL_ZONES, machine, SPOT, spot, "azure-catalog", "2026-05-20", risk)


def lambda_cloud() -> Iterator[Quote]:
    """One price in all 17 regions of the catalog says what is sold, not where it is to be had: kept once."""
    for row in read(PRICES / "lambda_vms_gpu_2026-05-07.csv"):
        value = price(row["Price"])
        if ("lambda", row["InstanceType"]) in KNOWN and value is not None:
            machine = row["InstanceType"]
            yield Quote("lambda", ANYWHERE, ALL_ZONES, machine, ON_DEMAND, value, "lambda-catalog", "2026-05-07")


def runpod() -> Iterator[Quote]:
    """On-demand of the secure cloud. Its spot price in the catalog is the on-demand price, so older spot is kept."""
    for row in read(RUNPOD):
        for count in (1, 2, 4, 8):
            machine, total = f"{count}x_{row['card']}_SECURE", round(float(row["usd_per_hour"]) * count, 5)
            yield Quote("runpod", ANYWHERE, ALL_ZONES, machine, ON_DEMAND, total, "runpod-catalog", "2026")
    cards = {"L40": "L40", "A40": "A40", "H100-80GB-HBM3": "H100-SXM"}
    for row in read(PRICES / "runpod_vms_gpu_skypilot_v5.csv"):
        spot, count = price(row["SpotPrice"]), whole_gpus(row["AcceleratorCount"])
        if row["AcceleratorName"] in cards and spot is not None and count in (1, 2, 4, 8):
            machine, risk = f"{count}x_{cards[row['AcceleratorName']]}_SECURE", interruptions_per_hour("")
            yield Quote("runpod", ANYWHERE, ALL_ZONES, machine, SPOT, spot, "runpod-skypilot-v5", "2024", risk)


def main() -> None:
    quotes = merge([*aws(), *aws_azure_list(), *gcp(), *azure(), *lambda_cloud(), *runpod()])
    columns = ["cloud", "region", "zone", "instance_type", "market", "usd_per_hour", "interruptions_per_hour"]
    cells = [
        (
            q.cloud,
            q.region,
            q.zone,
            q.instance_type,
            q.market,
            f"{round(q.usd_per_hour, 5)}",
            f"{q.interruptions_per_hour:.3g}",
        )
        for q in quotes
    ]
    write(
        OUT / "offers.csv",
        [*columns, "source", "date"],
        [(*c, q.source, q.date) for c, q in zip(cells, quotes, strict=True)],
    )
    zones = sorted({(q.cloud, q.region, q.zone) for q in quotes if q.zone})
    write(OUT / "zones.csv", ["cloud", "region", "zone"], zones)
    write(OUT / "sources.csv", ["source", "title", "licence"], [(k, *v) for k, v in SOURCES.items()])
    count: dict[str, int] = defaultdict(int)
    for quote in quotes:
        count[f"{quote.cloud} {quote.market}"] += 1
    print(f"{len(quotes)} quotes, {len(zones)} zones -> {OUT.relative_to(ROOT)}; {dict(count)}")


if __name__ == "__main__":
    main()
