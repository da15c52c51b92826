"""The hardware that Medley knows: GPUs, and the machines that clouds rent with them (facts in `data/hardware`)."""

import csv
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from templates_lib.values.gpu import Gpu
from templates_lib.values.nearest_name import nearest_name
from templates_lib.values.node_config import NETWORK_CLASSES_GBPS, NodeConfig, config_id

_CONFIG_ID = re.compile(r"(?P<gpu>[^:/]+):(?P<count>[1-9]\d*)/n(?P<network>\d+)")


class UnknownHardwareError(LookupError):
    """A GPU, machine or configuration that is not in the catalogue; the message names the nearest one that is."""


@dataclass(frozen=True, slots=True)
class InstanceType:
    """A machine as one cloud sells it: shape only."""

    cloud: str
    name: str
    gpu: str
    gpu_count: int
    vcpus: float
    host_memory_gib: float
    network_gbps: float
    """Bandwidth as the cloud states it; of "up to 10 Gbit/s" the 10, although small machines sustain less. 0: none
    promised."""
    interconnect: str
    """Links between the GPUs of the machine: `pcie4`, `nvlink3` and so on."""
    intra_node_gbps: float
    quota_family: str
    """The cloud's own name of the quota that it counts against; empty: none known."""
    source: str
    date: str

    @property
    def config_id(self) -> str:
        return config_id(self.gpu, self.gpu_count, self.network_gbps)


def load_gpus() -> dict[str, Gpu]:
    """GPU name → GPU, in the order of `data/hardware/gpus.csv` (source and date of each figure there)."""
    return dict(_gpus())


def gpu(name: str) -> Gpu:
    """Raises UnknownHardwareError with the nearest name."""
    if name not in _gpus():
        raise UnknownHardwareError(f"unknown GPU {name!r}; {nearest_name(name, _gpus())}")
    return _gpus()[name]


def load_instance_types() -> tuple[InstanceType, ...]:
    """Every machine of `data/hardware/instance_types.csv`, by cloud and name."""
    return tuple(_instance_types().values())


def instance_type(cloud: str, name: str) -> InstanceType:
    """Raises UnknownHardwareError with the nearest cloud or machine."""
    machines = _instance_types()
    if (cloud, name) in machines:
        return machines[cloud, name]
    clouds = {c for c, _ in machines}
    if cloud not in clouds:
        raise UnknownHardwareError(f"unknown cloud {cloud!r}; {nearest_name(cloud, clouds)}")
    names = [n for c, n in machines if c == cloud]
    raise UnknownHardwareError(f"unknown instance type {name!r} of {cloud}; {nearest_name(name, names)}")


def node_configs(machines: Iterable[InstanceType]) -> dict[str, NodeConfig]:
    """Configuration id → configuration with the least network, interconnect and host memory of the machines that share
    it, so that a template built on it runs on each of them."""
    least: dict[str, NodeConfig] = {}
    for m in machines:
        config = NodeConfig(m.config_id, m.gpu, m.gpu_count, m.intra_node_gbps, m.network_gbps, m.host_memory_gib)
        known = least.get(config.id)
        least[config.id] = config if known is None else weaker(known, config)
    return dict(sorted(least.items()))


def weaker(a: NodeConfig, b: NodeConfig) -> NodeConfig:
    """The least of two shapes of one configuration, under the id of `a`."""
    intra, network = min(a.intra_node_gbps, b.intra_node_gbps), min(a.network_gbps, b.network_gbps)
    return NodeConfig(a.id, a.gpu, a.gpu_count, intra, network, min(a.host_memory_gib, b.host_memory_gib))


def node_config_from_id(config: str) -> NodeConfig:
    """The configuration that an id such as `L40S:2/n25` names.

    One that clouds sell carries their least shape; for any other (a derived size, a machine of one's own) network is
    what the class promises, and host memory and interconnect are the least that machines with that GPU have per GPU.
    Raises UnknownHardwareError for an unknown GPU or an id of another form.
    """
    match = _CONFIG_ID.fullmatch(config)
    if match is None or int(match["network"]) not in NETWORK_CLASSES_GBPS:
        classes = ", ".join(f"n{c}" for c in NETWORK_CLASSES_GBPS)
        raise UnknownHardwareError(
            f"{config!r} is no node configuration; write GPU:COUNT/CLASS such as 'L40S:2/n25' ({classes})"
        )
    name, count, network = gpu(match["gpu"]).name, int(match["count"]), float(match["network"])
    sold = node_configs(_instance_types().values())
    if config in sold:
        return sold[config]
    siblings = [m for m in _instance_types().values() if m.gpu == name]
    intra = min(m.intra_node_gbps for m in siblings)
    memory = min(m.host_memory_gib / m.gpu_count for m in siblings)
    return NodeConfig(config, name, count, intra, network, memory * count)


@cache
def _gpus() -> dict[str, Gpu]:
    return {
        row["name"]: Gpu(
            name=row["name"],
            vendor=row["vendor"],
            compute_capability=row["compute_capability"],
            dtypes=tuple(row["dtypes"].split()),
            memory_gib=float(row["memory_gib"]),
            peak_bf16_tflops=float(row["peak_bf16_tflops"]),
            peak_fp8_tflops=float(row["peak_fp8_tflops"]),
            hbm_gbps=float(row["hbm_gbps"]),
            source=f"{row['source']} ({row['date']})",
        )
        for row in _rows("gpus.csv")
    }


@cache
def _instance_types() -> dict[tuple[str, str], InstanceType]:
    machines = [
        InstanceType(
            cloud=row["cloud"],
            name=row["instance_type"],
            gpu=gpu(row["gpu"]).name,
            gpu_count=int(row["gpu_count"]),
            vcpus=float(row["vcpus"]),
            host_memory_gib=float(row["host_memory_gib"]),
            network_gbps=float(row["network_gbps"]),
            interconnect=row["interconnect"],
            intra_node_gbps=float(row["intra_node_gbps"]),
            quota_family=row["quota_family"],
            source=row["source"],
            date=row["date"],
        )
        for row in _rows("instance_types.csv")
    ]
    return {(m.cloud, m.name): m for m in machines}


def _rows(name: str) -> Iterator[dict[str, str]]:
    text = files("templates_lib").joinpath("data", "hardware", name).read_text(encoding="utf-8")
    return csv.DictReader(text.splitlines())
