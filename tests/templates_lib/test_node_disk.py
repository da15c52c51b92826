"""Disks of rented nodes: what they hold fits, whatever the model."""

import pytest

from templates_lib.models.catalogue import load_models
from templates_lib.models.node_disk import GIB, IMAGE_BYTES, LEAST_GIB, STEP_GIB, disk_gib

MODELS = load_models()


@pytest.mark.parametrize("name", sorted(MODELS))
def test_a_model_fits_beside_image_and_engine_and_little_is_paid_for_nothing(name: str) -> None:
    size, needed = disk_gib([MODELS[name]]), MODELS[name].weight_bytes + IMAGE_BYTES
    assert size * GIB > needed
    assert size <= max(LEAST_GIB, 1.06 * needed / GIB + STEP_GIB)


def test_models_that_share_a_node_fit_together() -> None:
    both = [MODELS["qwen3-32b"], MODELS["gpt-oss-120b"]]
    assert disk_gib(both) * GIB > sum(model.weight_bytes for model in both) + IMAGE_BYTES
    assert disk_gib([]) == LEAST_GIB
