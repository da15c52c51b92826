"""Quotas of an AWS account: vCPUs of the families of machines, by region and market."""

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any

from control.offers.live.aws_access import AwsClients, asked
from control.offers.live.bounds import bounded
from control.offers.live.source import NoAccessError, SourceError
from control.offers.quota import Quota, QuotaAnswer
from templates_lib.values.hardware import instance_type, load_instance_types
from templates_lib.values.offer import Market, Offer
from templates_lib.values.supply import SupplyPool

_QUOTAS: tuple[tuple[re.Pattern[str], Market, str, tuple[str, ...]], ...] = (
    # Name of the quota, market, name of the pool, families of `data/hardware/instance_types.csv` that count against it.
    (re.compile(r"Running On-Demand G and VT instances"), Market.ON_DEMAND, "G-VT", ("G-VT",)),
    (re.compile(r"All G and VT Spot Instance Requests"), Market.SPOT, "G-VT", ("G-VT",)),
    (re.compile(r"Running On-Demand P instances"), Market.ON_DEMAND, "P", ("P", "P4", "P5", "P6")),
    (re.compile(r"All P4, P3 and P2 Spot Instance Requests"), Market.SPOT, "P4", ("P", "P4")),
    (re.compile(r"All P5 Spot Instance Requests"), Market.SPOT, "P5", ("P5",)),
    (re.compile(r"All P6 Spot Instance Requests"), Market.SPOT, "P6", ("P6",)),
)
_FAMILY = re.compile(r"(?P<letters>[a-z]+?)(?P<generation>\d+)")
_PAGE = "https://{region}.console.aws.amazon.com/servicequotas/home/services/ec2/quotas/{code}"


def aws_quotas(offers: Sequence[Offer]) -> QuotaAnswer:
    """Read the quotas that nodes of `offers` count against, and what of them is in use. Raises SourceError where none
    can be read; needed are servicequotas:ListServiceQuotas and ec2:DescribeInstances."""
    clients = AwsClients.of_environment()
    quotas: list[Quota] = []
    failures: list[SourceError] = []
    for region in sorted({offer.region for offer in offers}):
        mine = [offer for offer in offers if offer.region == region]
        service, ec2 = clients.get("service-quotas", region), clients.get("ec2", region)
        try:
            found = asked(partial(_listed, service), f"quotas of {region}")
        except SourceError as error:
            failures.append(error)
            continue
        used = None
        try:
            used = asked(partial(_used, ec2), f"instances of {region}")
        except SourceError as error:
            failures.append(error)
        for quota, pool, market, families in _pools(found, region, mine):
            in_use = None if used is None else sum(used.get((market, family), 0.0) for family in families)
            quotas.append(Quota(pool, in_use, _PAGE.format(region=region, code=quota.get("QuotaCode", ""))))
    if failures and not quotas:
        raise next((each for each in failures if isinstance(each, NoAccessError)), failures[0])
    return QuotaAnswer(tuple(quotas), tuple(f"aws: {each}" for each in failures))


def quota_pools_of(quotas: Any, region: str, offers: Iterable[Offer]) -> tuple[SupplyPool, ...]:
    """The account's limits in vCPUs. What others in the account run is not known here."""
    return tuple(pool for _, pool, _, _ in _pools(_listed(quotas), region, tuple(offers)))


def _listed(quotas: Any) -> list[dict[str, Any]]:
    pages = quotas.get_paginator("list_service_quotas").paginate(ServiceCode="ec2", PaginationConfig={"PageSize": 100})
    return [quota for page in bounded(pages, "quotas") for quota in page["Quotas"]]


def _pools(
    listed: Sequence[dict[str, Any]], region: str, offers: Sequence[Offer]
) -> Iterator[tuple[dict[str, Any], SupplyPool, Market, tuple[str, ...]]]:
    """Yield each quota that some offer counts against, with its pool, its market and the families of it."""
    for quota in sorted(listed, key=lambda each: str(each["QuotaName"])):
        for pattern, market, pool, families in _QUOTAS:
            if not pattern.fullmatch(quota["QuotaName"]):
                continue
            known = [(offer, instance_type(offer.cloud, offer.instance_type)) for offer in offers]
            members = {o.key: m.vcpus for o, m in known if o.market is market and m.quota_family in families}
            if members:
                identity, source = f"aws/{region}/{pool}/{market.value}", f"service-quotas: {quota['QuotaName']}"
                yield quota, SupplyPool(identity, float(quota["Value"]), "vcpus", members, source), market, families


def _used(ec2: Any) -> dict[tuple[Market, str], float]:
    """Return the vCPUs of all instances of the region that count, by market and family."""
    states = [{"Name": "instance-state-name", "Values": ["pending", "running"]}]
    pages = ec2.get_paginator("describe_instances").paginate(Filters=states, PaginationConfig={"PageSize": 1000})
    known = {machine.name: machine.vcpus for machine in load_instance_types() if machine.cloud == "aws"}
    used: dict[tuple[Market, str], float] = {}
    for page in bounded(pages, "instances"):
        for each in (one for reservation in page["Reservations"] for one in reservation["Instances"]):
            market = Market.SPOT if each.get("InstanceLifecycle") == "spot" else Market.ON_DEMAND
            key = market, _family(each["InstanceType"])
            options = each.get("CpuOptions", {})
            vcpus = float(options.get("CoreCount", 0) * options.get("ThreadsPerCore", 1))
            used[key] = used.get(key, 0.0) + (vcpus or known.get(each["InstanceType"], 0.0))
    return used


def _family(machine: str) -> str:
    """Return the family of any machine of AWS, by the names that `data/hardware/instance_types.csv` has for them."""
    found = _FAMILY.match(machine)
    letters, generation = (found["letters"], int(found["generation"])) if found else ("", 0)
    if letters in ("g", "gr", "vt"):
        return "G-VT"
    if letters == "p":
        return f"P{generation}" if generation >= 4 else "P"
    return ""
