"""A node that has other GPUs than it was rented with is refused; drivers have names and figures of their own."""

from dataclasses import replace

import pytest

from agents.messages.to_hub import GpuReport, NodeReport
from control.hub.gang import Gang
from control.hub.gpu_check import other_gpus
from control.lifecycle.event import EventKind
from control.lifecycle.state import InstanceState
from tests.control.hub.boards import EXECUTOR, connected, deployed, nodes

FIRST, SECOND, _ = nodes("i1")


@pytest.mark.parametrize(
    ("config", "name", "memory_mib"),
    [
        ("T4:1/n25", "Tesla T4", 15360),
        ("L4:1/n10", "NVIDIA L4", 23034),
        ("A10G:1/n10", "NVIDIA A10G", 23028),
        ("V100:1/n10", "Tesla V100-SXM2-16GB", 16160),
        ("L40S:1/n10", "NVIDIA L40S", 46068),
        ("A100-40:1/n10", "NVIDIA A100-SXM4-40GB", 40960),
        ("A100-80:1/n10", "NVIDIA A100 80GB PCIe", 81920),
        ("H100:1/n10", "NVIDIA H100 80GB HBM3", 81559),
        ("H200:1/n10", "NVIDIA H200", 143771),
        ("RTXPRO6000:1/n10", "NVIDIA RTX PRO 6000 Blackwell Server Edition", 97887),
        ("small:1/n10", "NVIDIA L4", 23034),  # nothing is known of the configuration
    ],
)
def test_a_gpu_is_known_by_its_drivers_name_and_memory(config: str, name: str, memory_mib: int) -> None:
    assert other_gpus(config, (GpuReport(name, memory_mib),)) == ""
    assert other_gpus(config, ()) == "", "a node that does not say what it has is taken at its word"


@pytest.mark.parametrize(
    ("config", "reported"),
    [
        ("L40S:1/n10", [("NVIDIA L40", 46068)]),
        ("L40:1/n10", [("NVIDIA L40S", 46068)]),
        ("L4:1/n10", [("Tesla T4", 15360)]),
        ("A100-80:1/n10", [("NVIDIA A100-SXM4-40GB", 40960)]),
        ("H100:1/n10", [("NVIDIA H100 80GB HBM3 MIG 3g.40gb", 40320)]),
        ("L4:2/n10", [("NVIDIA L4", 23034)]),
        ("L4:2/n10", [("NVIDIA L4", 23034), ("Tesla T4", 15360)]),
    ],
)
def test_another_gpu_less_memory_or_fewer_of_them_are_another_machine(
    config: str, reported: list[tuple[str, int]]
) -> None:
    why = other_gpus(config, [GpuReport(*each) for each in reported])
    assert config in why
    assert all(f"{name} with {memory_mib} MiB" in why for name, memory_mib in reported)


def test_an_instance_on_another_machine_than_was_rented_is_broken_and_the_node_is_named() -> None:
    places = tuple(replace(place, config="L4:1/n10") for place in EXECUTOR.places)
    known = replace(deployed("i1", InstanceState.LOADING), gang=Gang((replace(EXECUTOR, places=places),)))
    made = connected(known)
    made.reported(FIRST, NodeReport("i1", gpus=(GpuReport("NVIDIA L4", 23034),)))
    assert (made.events(1.0), made.other_machines()) == ([], {})
    made.reported(SECOND, NodeReport("i1", gpus=(GpuReport("Tesla T4", 15360),)))
    ((instance, event),) = made.events(1.0)
    assert (instance, event.kind) == ("i1", EventKind.BROKE)
    assert SECOND in event.reason
    assert "Tesla T4" in event.reason
    assert made.other_machines().keys() == {SECOND}
