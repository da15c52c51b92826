"""Our offers as the rows of SkyPilot's catalogue."""

from collections.abc import Iterable

from control.cloud.skypilot.messages import MachineRow
from templates_lib.values.clouds import cloud_kind
from templates_lib.values.hardware import gpu, load_instance_types, node_config_from_id
from templates_lib.values.offer import Market, Offer

ANYWHERE = "any"
"""Region of offers of a cloud that sells without regions; SkyPilot has to know regions."""


def machine_rows(offers: Iterable[Offer]) -> tuple[MachineRow, ...]:
    """One a machine and zone, with both its prices."""
    vcpus = {(machine.cloud, machine.name): machine.vcpus for machine in load_instance_types()}
    prices: dict[tuple[str, str, str, str, str], dict[Market, float]] = {}
    for offer in offers:
        sold = cloud_kind(offer.cloud).catalogue and offer.region != ANYWHERE and not offer.derived
        if sold and offer.market in (Market.ON_DEMAND, Market.SPOT):
            key = (offer.cloud, offer.region, offer.zone, offer.instance_type, offer.node_config)
            prices.setdefault(key, {})[offer.market] = offer.usd_per_hour
    rows = []
    for (cloud, region, zone, name, config_id), of_market in sorted(prices.items()):
        config = node_config_from_id(config_id)
        rows.append(
            MachineRow(
                cloud=cloud,
                region=region,
                zone=zone,
                instance_type=name,
                gpu=config.gpu,
                gpu_count=config.gpu_count,
                vcpus=vcpus.get((cloud, name)),
                gpu_memory_mib=round(gpu(config.gpu).memory_gib * 1024),
                host_memory_gib=config.host_memory_gib,
                usd_per_hour=of_market.get(Market.ON_DEMAND),
                spot_usd_per_hour=of_market.get(Market.SPOT),
            )
        )
    return tuple(rows)
