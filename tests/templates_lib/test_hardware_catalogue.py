"""The hardware catalogue: what it holds, how shapes are shared, what its errors say."""

import pytest

from templates_lib.values.hardware import (
    InstanceType,
    UnknownHardwareError,
    gpu,
    instance_type,
    load_gpus,
    load_instance_types,
    node_config_from_id,
    node_configs,
)
from templates_lib.values.node_config import network_class

PAPER_AND_TODAY = [
    *("T4", "L4", "A10G", "V100", "V100-32", "A40", "L40", "L40S", "RTXPRO6000", "A100-40", "A100-80"),
    *("H100", "H200", "B200", "MI300X"),
]
GPUS_PER_NODE = {1, 2, 4, 8}


def machine(name: str, network: float, memory: float, intra: float = 256.0) -> InstanceType:
    return InstanceType("aws", name, "L4", 4, 48, memory, network, "pcie4", intra, "G-VT", "test", "2026")


def test_every_gpu_of_the_paper_and_of_todays_clouds_is_known_by_its_exact_name() -> None:
    assert list(load_gpus()) == PAPER_AND_TODAY


@pytest.mark.parametrize("name", PAPER_AND_TODAY)
def test_a_gpu_has_positive_numbers_and_a_source(name: str) -> None:
    card = gpu(name)
    assert card.memory_gib > 0
    assert card.peak_bf16_tflops > 0
    assert card.hbm_gbps > 0
    assert (card.peak_fp8_tflops > 0) == ("fp8" in card.dtypes)
    assert card.source
    assert card.vendor == ("amd" if name == "MI300X" else "nvidia")


def test_memory_bandwidth_is_in_gigabits() -> None:
    assert gpu("H100").hbm_bytes_per_s == pytest.approx(3.35e12)


def test_cards_without_bf16_say_so() -> None:
    assert {n for n, g in load_gpus().items() if "bf16" not in g.dtypes} == {"T4", "V100", "V100-32"}


def test_every_machine_has_a_known_gpu_a_possible_count_and_a_source() -> None:
    for m in load_instance_types():
        assert m.gpu in load_gpus()
        assert m.gpu_count in GPUS_PER_NODE, m.name
        assert min(m.vcpus, m.host_memory_gib, m.intra_node_gbps) > 0
        assert m.network_gbps >= 0
        assert m.source
        assert m.date
        assert "-" not in m.interconnect


def test_every_gpu_is_rented_by_somebody() -> None:
    assert {m.gpu for m in load_instance_types()} == set(PAPER_AND_TODAY)


def test_five_clouds_are_known_and_each_machine_once() -> None:
    keys = [(m.cloud, m.name) for m in load_instance_types()]
    assert {c for c, _ in keys} == {"aws", "gcp", "azure", "runpod", "lambda"}
    assert len(keys) == len(set(keys))


@pytest.mark.parametrize("cloud", ["runpod", "lambda"])
def test_clouds_that_promise_no_network_sell_single_node_machines(cloud: str) -> None:
    machines = [m for m in load_instance_types() if m.cloud == cloud]
    assert not any(c.joins_others for c in node_configs(machines).values())


def test_a_configuration_carries_the_least_shape_of_its_machines() -> None:
    shared = node_configs([machine("big", 49, 192, 512), machine("lean", 40, 384)])
    assert list(shared) == ["L4:4/n25"]
    config = shared["L4:4/n25"]
    assert (config.network_gbps, config.host_memory_gib, config.intra_node_gbps) == (40, 192, 256)


def test_machines_of_different_network_class_are_different_configurations() -> None:
    assert list(node_configs([machine("a", 40, 192), machine("b", 50, 192)])) == ["L4:4/n25", "L4:4/n50"]


def test_every_sold_configuration_is_found_again_by_its_id() -> None:
    for name, config in node_configs(load_instance_types()).items():
        assert node_config_from_id(name) == config
        assert f"{config.gpu}:{config.gpu_count}/n{network_class(config.network_gbps)}" == name


def test_a_size_that_nobody_sells_gets_the_least_shape_per_gpu() -> None:
    config = node_config_from_id("L40S:2/n25")
    assert (config.gpu, config.gpu_count, config.network_gbps) == ("L40S", 2, 25)
    assert config.host_memory_gib == 2 * min(
        m.host_memory_gib / m.gpu_count for m in load_instance_types() if m.gpu == "L40S"
    )


@pytest.mark.parametrize(
    ("name", "hint"), [("l40s", "'L40S'"), ("H10", "'H100'"), ("A100", "'A100-40' or 'A100-80'"), ("MI300", "'MI300X'")]
)
def test_an_unknown_gpu_is_answered_with_the_nearest_name(name: str, hint: str) -> None:
    with pytest.raises(UnknownHardwareError, match="did you mean " + hint):
        gpu(name)


def test_an_unknown_machine_is_answered_with_the_nearest_of_its_cloud() -> None:
    with pytest.raises(UnknownHardwareError, match=r"did you mean 'g6e\.xlarge'"):
        instance_type("aws", "g6e.xlrage")
    with pytest.raises(UnknownHardwareError, match=r"unknown cloud 'azur'; did you mean 'azure'"):
        instance_type("azur", "g6e.xlarge")


@pytest.mark.parametrize("text", ["L40S:2", "L40S/n25", "L40S:0/n25", "L40S:2/n30", "", "L40S:2/n25/x"])
def test_an_id_of_another_form_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(UnknownHardwareError, match="L40S:2/n25"):
        node_config_from_id(text)


def test_a_caller_cannot_change_the_catalogue() -> None:
    load_gpus().clear()
    assert load_gpus()
