"""The local cloud as a market: its machines as offers, and each kind as if it were an accelerator of its own."""

from collections.abc import Iterable

from control.cloud.local.kinds import DEFAULT_MACHINES, LocalMachine
from control.fleet_file.schema import FleetFile
from control.offers.quotes import Quotes
from templates_lib.values.clouds import LOCAL
from templates_lib.values.gpu import Gpu
from templates_lib.values.node_config import NodeConfig, config_id
from templates_lib.values.offer import Market, Offer

ZONE = "here"
NETWORK_GBPS = 10.0
"""Bandwidth of the loopback interface, at least; what a node's processor makes of it is measured with its profile."""
CORE_TFLOPS = 0.1
CORE_MEMORY_GBPS = 160.0
"""A processor of today with 256-bit units in fp32, for the estimate only. Assumptions; profiles replace them."""


def local_machines(file: FleetFile) -> tuple[LocalMachine, ...]:
    """The kinds of node that a fleet may have on this machine; none where its spec names no local cloud."""
    if all(section.cloud != LOCAL for section in file.clouds):
        return ()
    kinds = (kind for section in file.clouds for kind in section.kinds or ())
    named = tuple(LocalMachine(k.name, k.cpu_cores, k.memory_mib, k.stock, k.usd_per_hour) for k in kinds)
    return named or DEFAULT_MACHINES


def local_quotes(machines: Iterable[LocalMachine]) -> Quotes:
    listed = tuple(machines)
    return Quotes(
        offers=tuple(
            Offer(
                LOCAL,
                ZONE,
                ZONE,
                machine.name,
                local_config(machine).id,
                Market.ON_DEMAND,
                machine.usd_per_hour,
                machine.stock,
                source="this machine, at nominal prices",
            )
            for machine in listed
        ),
        configs={local_config(machine).id: local_config(machine) for machine in listed},
        already_checked=True,
    )


def local_config(machine: LocalMachine) -> NodeConfig:
    name = config_id(machine.name, 1, NETWORK_GBPS)
    return NodeConfig(name, machine.name, 1, NETWORK_GBPS, NETWORK_GBPS, machine.kind.memory_mib / 1024)


def local_gpu(machine: LocalMachine) -> Gpu:
    return Gpu(
        name=machine.name,
        vendor="cpu",
        compute_capability="",
        dtypes=("fp32", "bf16"),
        memory_gib=machine.memory_mib / 1024,
        peak_bf16_tflops=CORE_TFLOPS * machine.cpu_cores,
        peak_fp8_tflops=0.0,
        hbm_gbps=CORE_MEMORY_GBPS * machine.cpu_cores,
        source="nominal figures of a processor, by share",
    )
