"""Write templates_lib/data/prices/{traffic_zones,traffic_regions}.csv: what clouds charge for moving bytes.

Zone crossings and internet egress come from the shared data; its tables between regions are the zone prices over again,
so the prices between regions are given here, each with its source.

Run: python -m bench.extracts.make_traffic
"""

import csv
import json

from bench.extracts.csv_files import ROOT, SHARED, write

OUT = ROOT / "templates_lib" / "data" / "prices"
COROOT = "coroot/cloud-pricing @af03eada15b25d80863f2547ba281e71af9d5c91 (Infracost)"
SKYPLANE = "skyplane-project/skyplane skyplane/data/aws_transfer_costs.csv @3b82dcc1a273701ec8bc5c3ef28f5c65ea62e093"
AWS_PAGE = "aws.amazon.com/ec2/pricing/on-demand, data transfer"
GCP_PAGE = "cloud.google.com/vpc/network-pricing"
AZURE_PAGE = "azure.microsoft.com/pricing/details/bandwidth"

# Price of a GB out of an AWS region to any other one.
AWS_REGION_OUT = {
    0.02: "us-east-1 us-east-2 us-west-1 us-west-2 ca-central-1 eu-central-1 eu-west-1 eu-west-2 eu-west-3 eu-south-1 "
    "eu-north-1",
    0.08: "ap-northeast-2",
    0.086: "ap-south-1",
    0.09: "ap-east-1 ap-northeast-1 ap-northeast-3 ap-southeast-1",
    0.098: "ap-southeast-2",
    0.10: "ap-southeast-3",
    0.1105: "me-south-1",
    0.138: "sa-east-1",
    0.147: "af-south-1",
}
AWS_REGION_OUT_LATER = {
    0.02: "eu-central-2 eu-south-2 ca-west-1",
    0.08: "il-central-1",
    0.085: "me-central-1",
    0.086: "ap-south-2",
    0.10: "ap-southeast-4",
}
CONTINENT = {
    "aws": {"us": "NA", "ca": "NA", "mx": "NA", "eu": "EU", "ap": "AS", "sa": "SA", "me": "ME", "il": "ME", "af": "AF"},
    "gcp": {
        "us": "NA", "northamerica": "NA", "europe": "EU", "asia": "AS", "australia": "OC", "southamerica": "SA",
        "me": "ME", "africa": "AF",
    },
}  # fmt: skip
AZURE_CONTINENT = {
    "NA": "canada centralus eastus mexico northcentralus southcentralus westcentralus westus",
    "EU": "france germany italy northeurope norway poland spain sweden switzerland uk westeurope",
    "AS": "centralindia eastasia indonesia japan jioindia korea malaysia southeastasia southindia westindia",
    "OC": "australia newzealand",
    "SA": "brazil chile",
    "ME": "israel qatar uae",
    "AF": "southafrica",
}
# Google: within a continent, and the dearer end's price between two (Europe and North America: 0.05).
GCP_CONTINENT_USD = {"NA": 0.02, "EU": 0.02, "AS": 0.08, "OC": 0.10, "ME": 0.11, "AF": 0.11, "SA": 0.14}
# Azure: the source's price, (within the continent, out of it).
AZURE_CONTINENT_USD = {
    "NA": (0.02, 0.05), "EU": (0.02, 0.05), "AS": (0.08, 0.08), "OC": (0.08, 0.08), "ME": (0.08, 0.08),
    "AF": (0.08, 0.08), "SA": (0.16, 0.16),
}  # fmt: skip


def azure_continent(region: str) -> str:
    return next((c for c, names in AZURE_CONTINENT.items() if region.startswith(tuple(names.split()))), "")


def continent(cloud: str, region: str) -> str:
    return azure_continent(region) if cloud == "azure" else CONTINENT[cloud].get(region.partition("-")[0], "")


def zones() -> list[tuple[object, ...]]:
    data = json.loads((SHARED / "prices" / "data_transfer_2024-08-09.json").read_text())
    inter, internet = data["inter_region_data_transfer_usd_per_gb"], data["internet_egress_usd_per_gb_by_start_gb"]
    with (OUT / "offers.csv").open() as file:
        sold = sorted({(row["cloud"], row["region"]) for row in csv.DictReader(file)})
    made: list[tuple[object, ...]] = []
    for cloud, region in sold:
        if cloud not in inter:
            # Neither RunPod nor Lambda charges for traffic in or out (docs.runpod.io, lambda.ai/pricing).
            made.append((cloud, region, "", 0, 0, 0, f"{cloud} pricing page: no charge for traffic", "2026"))
            continue
        # A region younger than the data pays its cloud's commonest zone price and dearest egress price.
        zone = inter[cloud].get(region) or next(iter(inter[cloud].values()))
        tiers = internet[cloud].get(region)
        known = tiers or {
            r: max(t.values()) for r, t in internet[cloud].items() if not r.startswith(("us-gov", "usgov"))
        }
        egress = round(max(known.values()), 4)
        source = COROOT if tiers else f"{COROOT}; region not in it: the cloud's dearest egress"
        zone_prices = (zone["egress_per_gb"], zone["ingress_per_gb"])
        made.append((cloud, region, continent(cloud, region), *zone_prices, egress, source, "2024-08-09"))
    return made


def regions() -> list[tuple[object, ...]]:
    made: list[tuple[object, ...]] = []
    for table, source, date in ((AWS_REGION_OUT, SKYPLANE, "2023"), (AWS_REGION_OUT_LATER, AWS_PAGE, "2024")):
        made += [("aws", region, "*", usd, source, date) for usd, names in table.items() for region in names.split()]
    made += [("aws", a, b, 0.01, SKYPLANE, "2023") for a, b in (("us-east-1", "us-east-2"), ("us-east-2", "us-east-1"))]
    for a, a_usd in GCP_CONTINENT_USD.items():
        for b, b_usd in GCP_CONTINENT_USD.items():
            made.append(("gcp", a, b, a_usd if a == b else max(a_usd, b_usd, 0.05), GCP_PAGE, "2024-02"))
    for a, (near, far) in AZURE_CONTINENT_USD.items():
        made += [("azure", a, a, near, AZURE_PAGE, "2024"), ("azure", a, "*", far, AZURE_PAGE, "2024")]
    return sorted(made, key=lambda row: row[:3])  # type: ignore[arg-type, return-value]


def main() -> None:
    zone_columns = ["cloud", "region", "continent", "zone_egress_usd_per_gb", "zone_ingress_usd_per_gb"]
    by_zone, by_region = zones(), regions()
    write(OUT / "traffic_zones.csv", [*zone_columns, "internet_egress_usd_per_gb", "source", "date"], by_zone)
    write(OUT / "traffic_regions.csv", ["cloud", "from", "to", "usd_per_gb", "source", "date"], by_region)
    print(f"{len(by_zone)} regions, {len(by_region)} prices between regions -> {OUT.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
