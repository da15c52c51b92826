"""What a pipeline costs beside computing is measured on real processes, and none of it is left running."""

from pathlib import Path

import psutil
import torch

from agents.profile.pipeline_cost import measure_pipeline_cost


def test_a_pipeline_of_idle_engines_costs_something_and_leaves_nothing(tmp_path: Path) -> None:
    before = {child.pid for child in psutil.Process().children(recursive=True)}
    cost = measure_pipeline_cost(96, torch.float32, tmp_path)
    assert 0 < cost.step_cpu_s < 1
    assert cost.row_cpu_s > 0
    assert 0 < cost.waiting_cores < 1
    assert min(cost.request_cpu_s, cost.hop_wait_s) >= 0
    left = [child for child in psutil.Process().children(recursive=True) if child.pid not in before]
    assert [child for child in left if "resource_tracker" not in " ".join(child.cmdline())] == []
