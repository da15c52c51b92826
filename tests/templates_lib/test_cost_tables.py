"""Measured kernel tables: what is read of the package, and that times stay between what was measured."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from templates_lib.cost.coefficients import load_coefficients
from templates_lib.cost.deployment import deployment_of
from templates_lib.cost.kernel_based import kernel_cost_model
from templates_lib.cost.kernel_tables import KernelTables, installed_release, kernel_tables
from templates_lib.cost.kernel_times import FittedKernels
from templates_lib.cost.log_grid import Curve, Surface, filled
from templates_lib.cost.source_comparison import compare_sources
from templates_lib.cost.step_time_errors import judged, load_step_time_errors
from templates_lib.cost.table_kernels import TableKernels
from templates_lib.models.catalogue import load_models
from templates_lib.ports.cost_model import Parallel
from templates_lib.values.hardware import load_gpus, node_config_from_id
from templates_lib.values.node_config import NodeConfig
from tests.templates_lib.test_cost_validation import row

PACKAGE = "aiconfigurator_core"
GEMM = {"gemm_dtype": ["bfloat16"] * 5, "m": [1, 64, 1, 64, 64], "n": [128, 128, 256, 256, 128], "k": [64] * 5,
        "latency": [0.01, 0.02, 0.03, 0.05, 0.015], "kernel_source": ["a", "a", "a", "a", "b"]}  # fmt: skip
EXPERTS = {"moe_dtype": ["bfloat16"] * 3, "hidden_size": [64] * 3, "inter_size": [32] * 3, "topk": [2] * 3,
           "num_experts": [8] * 3, "moe_tp_size": [1] * 3, "moe_ep_size": [1] * 3, "num_tokens": [4] * 3,
           "distribution": ["a", "b", "c"], "latency": [0.9, 0.1, 0.2]}  # fmt: skip
ALL_REDUCE = {"num_gpus": [2, 2], "message_size": [1024, 1024], "backend": ["vllm_eager", "vllm_graph"],
              "latency": [0.05, 0.01]}  # fmt: skip
ATTENTION = {"attn_dtype": ["bfloat16"] * 2, "kv_cache_dtype": ["bfloat16"] * 2, "head_dim": [64] * 2,
             "num_heads": [8] * 2, "num_key_value_heads": [2] * 2, "batch_size": [1, 1], "isl": [16, 16],
             "step": [7, 7], "window_size": [0, 128], "latency": [0.02, 0.001]}  # fmt: skip


def put(root: Path, path: str, columns: dict[str, list[Any]]) -> None:
    file = root / "aiconfigurator_core" / "systems" / "data" / path
    file.parent.mkdir(parents=True, exist_ok=True)
    parquet.write_table(pa.table(columns), file)


@pytest.fixture
def tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[KernelTables]:
    """Of a package that knows one system and a handful of kernels."""
    put(tmp_path, "l40s/gemm/vllm/0.24.0/gemm_perf.parquet", GEMM)
    put(tmp_path, "l40s/gemm/vllm/0.9.0/gemm_perf.parquet", GEMM | {"latency": [9.0] * 5})
    put(tmp_path, "l40s/moe/vllm/0.24.0/moe_perf.parquet", EXPERTS)
    put(tmp_path, "l40s/moe/vllm/0.19.0/moe_perf.parquet", EXPERTS | {"num_experts": [16] * 3})
    put(tmp_path, "l40s/comm/vllm/0.24.0/custom_allreduce_perf.parquet", ALL_REDUCE)
    for name in ("context", "generation"):
        put(tmp_path, f"l40s/attention/vllm/0.24.0/{name}_attention_perf.parquet", ATTENTION)
    (tmp_path / "aiconfigurator_core" / "__init__.py").touch()
    about = tmp_path / "aiconfigurator_core-9.9.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: aiconfigurator-core\nVersion: 9.9\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in [name for name in sys.modules if name.partition(".")[0] == PACKAGE]:  # the real one, of another test
        monkeypatch.delitem(sys.modules, name)
    kernel_tables.cache_clear()
    yield kernel_tables("l40s", "vllm")
    kernel_tables.cache_clear()
    sys.modules.pop(PACKAGE, None)


def test_the_newest_release_is_read_and_of_several_kernels_the_fastest(tables: KernelTables) -> None:
    assert (tables.release, installed_release()) == ("9.9", "9.9")
    m, n, k, seconds = tables.products["bfloat16"]
    assert (m.tolist(), n.tolist(), k.tolist()) == ([1, 64], [128, 256], [64])
    np.testing.assert_allclose(seconds[:, :, 0], [[1e-5, 3e-5], [1.5e-5, 5e-5]])


def test_older_releases_lend_experts_and_the_median_of_routings_counts(tables: KernelTables) -> None:
    assert {key[4] for key in tables.experts} == {8, 16}
    assert tables.experts["bfloat16", 64, 32, 2, 8, 1, 1].seconds.tolist() == [2e-4]


def test_all_reduces_of_graphs_count_in_bytes_and_windows_do_not(tables: KernelTables) -> None:
    assert tables.all_reduce[2].x.tolist() == [2048.0]
    assert tables.all_reduce[2].seconds.tolist() == [1e-5]
    assert tables.prefill["bfloat16", 64, 8, 2].seconds.tolist() == [2e-5]
    assert tables.decode["bfloat16", 64, 8, 2].y.tolist() == [8.0]


def test_an_all_reduce_is_never_faster_than_the_links_of_its_node(tables: KernelTables) -> None:
    gpu, nodes = load_gpus()["L40S"], [NodeConfig("n", "L40S", 2, gbps, 25.0, 64.0) for gbps in (256.0, 1.0)]
    message = np.array([2048.0, 1e9])
    fast, slow = (
        TableKernels(gpu, tables.system, tables.framework)
        .at(FittedKernels.of(gpu, load_coefficients(), node))
        .all_reduce(2, message, 1.0)
        for node in nodes
    )
    assert fast[0] == pytest.approx(1e-5)
    assert fast[1] >= 1e9 / (256e9 / 8)
    np.testing.assert_array_less(message / (1e9 / 8) * (1 - 1e-9), slow)


def test_what_was_not_timed_is_named_and_not_offered(tables: KernelTables) -> None:
    assert tables.system == "l40s"
    cost_model, model = kernel_cost_model(load_gpus()), load_models()["qwen3-32b"]
    assert "attention" in cost_model.missing(model, node_config_from_id("L40S:1/n25"), Parallel())
    assert "T4" in cost_model.missing(model, node_config_from_id("T4:1/n25"), Parallel())
    assert "products" in cost_model.missing(model, node_config_from_id("H100:1/n25"), Parallel())


def test_without_the_package_nothing_is_compared_and_the_error_says_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("templates_lib.cost.kernel_tables.find_spec", lambda _: None)
    kernel_tables.cache_clear()
    assert compare_sources([deployment_of(row())]) is None
    with pytest.raises(LookupError, match=r"\[kernels\]"):
        kernel_cost_model(load_gpus())
    with pytest.raises(LookupError, match="aiconfigurator-core"):
        kernel_tables("l40s", "vllm")


def test_times_stay_between_their_neighbours_and_a_slow_outlier_counts_for_nothing() -> None:
    curve = Curve.through(np.array([1.0, 2.0, 4.0, 8.0]), np.array([1.0, 9.0, 2.0, 4.0]))
    np.testing.assert_allclose(curve.at(np.array([0.1, 1.0, 2.0, 4.0, 8.0, 99.0])), [1, 1, 2, 2, 4, 4])
    assert 2.0 < curve.at(np.array(5.0)) < 4.0
    surface = Surface.over(
        np.array([1.0, 4.0]), np.array([1.0, 2.0, 8.0]), np.array([[1.0, 5.0, 3.0], [2.0, 4.0, 8.0]])
    )
    np.testing.assert_allclose(surface.at(np.array([1.0, 4.0, 2.0]), np.array([2.0, 8.0, 1.0])), [3.0, 8.0, np.sqrt(2)])


def test_gaps_are_as_efficient_as_their_smaller_neighbour() -> None:
    bound = np.array([[1.0, 2.0, 4.0]])
    found = filled(np.array([[2.0, np.nan, np.nan]]), bound, (1, 0))
    np.testing.assert_allclose(found, [[2.0, 4.0, 8.0]])
    with pytest.raises(ValueError, match="measured"):
        filled(np.full((1, 3), np.nan), bound, (0,))


@pytest.mark.needs("kernels")
def test_both_sources_are_compared_on_what_both_can_express() -> None:
    latent = {"model_path": "deepseek-ai/DeepSeek-V3", "tp_size": "8.0"}
    found = compare_sources([deployment_of(row()), deployment_of(row(**latent))])
    assert found is not None
    assert (found.rows, sum(found.missing.values())) == (1, 1)
    assert set(found.estimated) == set(found.kernel_based) == {"all", "h200_sxm vllm"}
    assert found.kernel_based["all"].median_tpot_error < 0.3


def test_the_kernels_are_taken_where_they_are_clearly_better_and_only_there() -> None:
    off, close = np.full((30, 2), 1.3), np.full((30, 2), 1.1)
    assert judged(np.hstack([off, close]), np.hstack([off, close])).chosen == "kernels"
    assert judged(np.hstack([off, off * 0.99]), np.hstack([off, off * 0.99])).chosen == "estimated"
    assert judged(np.hstack([close, off]), np.hstack([close, off])).chosen == "estimated"
    none = judged(np.hstack([off, np.full((30, 2), np.nan)]), np.hstack([off, close]))
    assert (none.chosen, none.kernels.gpu_out.rows, none.estimated.gpu_out.ttft) == ("estimated", 0, 0.3)


def test_the_shipped_choice_follows_from_the_shipped_errors() -> None:
    known = load_step_time_errors()
    assert {"vllm", "sglang", "trtllm"} <= set(known.engines)
    for engine in known.engines.values():
        for each in engine.values():
            better = each.kernels.gpu_out.rows > 0 and each.kernels.mean <= 0.9 * each.same_rows.mean
            assert (each.chosen == "kernels") == better
            assert each.estimated.gpu_out.rows >= each.same_rows.gpu_out.rows == each.kernels.gpu_out.rows
