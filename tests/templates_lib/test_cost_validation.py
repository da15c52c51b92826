"""Validation against measured rows: what is used, what is skipped and why, and that bad files are told apart."""

import csv
import gzip
import json
from dataclasses import replace
from pathlib import Path

import pytest

from templates_lib.cost.coefficients import load_coefficients, setup_names
from templates_lib.cost.deployment import InexpressibleRowError, UnreadableRowError, deployment_of
from templates_lib.cost.validation import group_is_held_out, is_held_out, predict, read_rows, validate_rows
from templates_lib.ports.cost_model import Parallel

# A row as aiconf_silicon_end_to_end.csv.gz has them (measured: Llama-3.1-70B fp8, H200 × 4, vLLM).
ROW = {
    "id": "x",
    "silicon_data_source": "source_file=x.csv; silicon_concurrency=16; wip=False",
    "backend": "vllm",
    "model_path": "meta-llama/Llama-3.1-70B",
    "system": "h200_sxm",
    "precision": "fp8",
    "mode": "agg",
    "isl": "1024",
    "osl": "1024",
    "gemm_quant_mode": "fp8",
    "moe_quant_mode": "fp8",
    "batch_size": "16.0",
    "tp_size": "4.0",
    "pp_size": "1.0",
    "attention_dp_size": "1.0",
    "moe_tp_size": "4.0",
    "moe_ep_size": "1.0",
    "silicon_ttft_ms": "126.0",
    "silicon_tpot_ms": "10.9",
}
APART = {
    "mode": "disagg",
    "model_path": "deepseek-ai/DeepSeek-V3",
    "system": "gb200",
    "backend": "trtllm",
    "gemm_quant_mode": "nvfp4",
    "moe_quant_mode": "nvfp4",
    "prefill_num_workers": "1.0",
    "prefill_tp_size": "1.0",
    "prefill_attention_dp_size": "4.0",
    "prefill_moe_tp_size": "1.0",
    "prefill_moe_ep_size": "4.0",
    "decode_num_workers": "4.0",
    "decode_tp_size": "8.0",
    "decode_attention_dp_size": "1.0",
    "decode_moe_tp_size": "1.0",
    "decode_moe_ep_size": "8.0",
    "silicon_ttft_ms": "150.0",
    "silicon_tpot_ms": "6.7",
}


def row(**changes: str) -> dict[str, str]:
    return {**ROW, **changes}


def test_a_plain_deployment_is_predicted_within_a_third() -> None:
    report = validate_rows([row()])
    assert (report.used, report.skipped_share) == (1, 0.0)
    assert report.overall.median_tpot_error < 0.33
    assert report.overall.median_ttft_error < 0.5


def test_report_is_json_with_the_figures_on_top() -> None:
    report = json.loads(json.dumps(validate_rows([row(), row(**APART)]).to_dict()))
    assert {"median_ttft_error", "median_tpot_error", "p90_ttft_error", "p90_tpot_error", "skipped_share"} <= set(
        report
    )
    assert set(report["per_gpu"]) == {"h200_sxm", "gb200"}
    assert set(report["per_mode"]) == {"aggregated", "disaggregated"}
    assert report["per_model"]["meta-llama/Llama-3.1-70B"]["rows"] == 1


def test_rows_are_skipped_only_for_what_cannot_be_expressed() -> None:
    report = validate_rows(
        [
            row(),
            row(system="tpu_v7"),
            row(model_path="who/knows"),
            row(moe_quant_mode="fp3"),
            row(silicon_ttft_ms="20000"),
            row(isl="many"),
            row(silicon_tpot_ms="0"),
        ]
    )
    assert (report.rows, report.used) == (7, 1)
    assert sum(report.skipped.values()) == 3
    assert sum(report.dropped.values()) == 3
    assert any("TTFT" in why for why in report.dropped)
    assert any("tpu_v7" in why for why in report.skipped)
    assert any("'isl'" in why for why in report.dropped)


def test_nothing_to_compare_is_an_error_with_the_reason() -> None:
    with pytest.raises(ValueError, match="tpu_v7"):
        validate_rows([row(system="tpu_v7")])
    with pytest.raises(ValueError, match="empty"):
        validate_rows([])


@pytest.mark.parametrize("bad", ["nan", "-1", "inf", "1e99", "", "abc"])
def test_broken_numbers_are_unreadable(bad: str) -> None:
    with pytest.raises(UnreadableRowError, match="isl"):
        deployment_of(row(isl=bad))


def test_an_absurd_number_of_gpus_is_unreadable() -> None:
    with pytest.raises(UnreadableRowError, match="GPUs"):
        deployment_of(row(tp_size="1000000"))


def test_an_unknown_precision_is_inexpressible() -> None:
    with pytest.raises(InexpressibleRowError, match="fp3"):
        deployment_of(row(moe_quant_mode="fp3"))


DEEPSEEK = {"model_path": "deepseek-ai/DeepSeek-V3", "system": "b200_sxm"}


@pytest.mark.parametrize(
    ("sizes", "meant"),
    [
        (("8.0", "1.0", "8.0", "1.0"), Parallel(tp=8)),
        (("64.0", "1.0", "8.0", "8.0"), Parallel(tp=8, ep=8)),
        (("1.0", "64.0", "8.0", "8.0"), Parallel(dp=8, ep=8)),
        (("4.0", "4.0", "1.0", "16.0"), Parallel(dp=4, ep=4)),
        (("72.0", "1.0", "72.0", "1.0"), Parallel(dp=72, ep=72)),
        (("1.0", "8.0", "8.0", "1.0"), Parallel(dp=8, ep=8)),
        (("8.0", "", "1.0", "8.0"), Parallel(tp=8, ep=8)),
        (("1.0", "1.0", "1.0", "1.0"), Parallel(dp=4, ep=4)),
        (("1.0", "", "8.0", "1.0"), Parallel(dp=8, ep=8)),
        (("2.0", "", "8.0", "1.0"), Parallel(tp=2, dp=4, ep=8)),
    ],
)
def test_parallel_shapes_are_read_as_they_can_only_be_meant(sizes: tuple[str, ...], meant: Parallel) -> None:
    names = ("tp_size", "attention_dp_size", "moe_tp_size", "moe_ep_size")
    shape = dict(zip(names, sizes, strict=True))
    assert deployment_of(row(**DEEPSEEK, **shape)).prefill.parallel == meant


def test_four_bit_checkpoints_keep_their_own_format() -> None:
    oss = deployment_of(row(model_path="openai/gpt-oss-120b", moe_quant_mode="nvfp4", gemm_quant_mode="nvfp4"))
    assert oss.model.dtype == "mxfp4"
    assert deployment_of(row()).model.dtype == "fp8"
    kimi = {
        stated: deployment_of(row(model_path="moonshotai/Kimi-K2.5", moe_quant_mode=stated)).model
        for stated in ("int4_wo", "nvfp4")
    }
    assert {stated: model.dtype for stated, model in kimi.items()} == {"int4_wo": "int4", "nvfp4": "nvfp4"}
    assert {model.attention_dtype for model in kimi.values()} == {"bf16"}, "what its publisher leaves wide stays so"
    assert deployment_of(row(precision="", gemm_quant_mode="", moe_quant_mode="")).model.dtype == "bf16"


def test_latency_grows_with_clients_and_shrinks_with_cards() -> None:
    def both(**changes: str) -> tuple[float, float]:
        ttft, tpot = predict([deployment_of(row(silicon_data_source="", **changes))], load_coefficients())
        return float(ttft[0]), float(tpot[0])

    few, many, wide = both(batch_size="4"), both(batch_size="64"), both(batch_size="64", tp_size="8.0")
    assert few[0] < many[0]
    assert few[1] < many[1]
    assert wide[1] < many[1]


def test_clients_beyond_the_cache_wait() -> None:
    long = {"isl": "100000", "osl": "1000", "tp_size": "2.0", "silicon_data_source": ""}
    fits, waits = (predict([deployment_of(row(**long, batch_size=b))], load_coefficients())[0][0] for b in ("2", "512"))
    assert waits > 10 * fits


def test_the_most_particular_setup_is_used_and_the_engine_where_none_is_known() -> None:
    known = load_coefficients()
    name = next(n for n in known.setups if n.startswith("vllm 0.19.0 on "))
    assert known.setup("vllm", "0.19.0", name.removeprefix("vllm 0.19.0 on ")) is known.setups[name]
    assert known.setup("vllm", "0.19.0", "a machine nobody measured") is known.setups["vllm 0.19.0"]
    assert known.setup("vllm", "99.0", "h200_sxm").engine is known.engines["vllm"]
    assert setup_names("trtllm", "", "gb200")[0] == "trtllm release not stated"


def test_a_release_without_measurements_is_predicted_as_planned() -> None:
    report = validate_rows([row(backend_version="99.0")])
    assert report.overall == report.as_planned
    assert validate_rows([row()]).overall != report.overall


def test_small_floats_come_with_a_small_cache() -> None:
    assert deployment_of(row()).model.kv_dtype == "fp8"
    assert deployment_of(row(precision="bf16", gemm_quant_mode="", moe_quant_mode="")).model.kv_dtype == "bf16"


def test_what_unstated_workers_hide_delays_the_first_token() -> None:
    known = load_coefficients()
    hidden = deployment_of(row(**{**APART, "prefill_num_workers": "", "decode_num_workers": ""}))
    slow = {n: replace(s, unstated_hand_off_s=s.unstated_hand_off_s + 1.0) for n, s in known.serving.items()}
    quick, late = (predict([hidden], replace(known, setups={}, serving=s))[0][0] for s in (known.serving, slow))
    assert late == pytest.approx(quick + 1.0)


def test_repeated_measurements_fall_on_one_side() -> None:
    assert is_held_out(row(id="a")) == is_held_out(row(id="b", model_path="deepseek-ai/DeepSeek-V3"))
    held_out = sum(is_held_out(row(silicon_ttft_ms=str(i + 0.5))) for i in range(2000))
    assert 500 < held_out < 700
    assert 500 < sum(group_is_held_out((str(i),)) for i in range(2000)) < 700


def test_files_are_read_gzipped_or_plain_and_bad_ones_are_named(tmp_path: Path) -> None:
    plain, packed = tmp_path / "rows.csv", tmp_path / "rows.csv.gz"
    with plain.open("w", newline="") as out:
        writer = csv.DictWriter(out, fieldnames=list(ROW))
        writer.writeheader()
        writer.writerow(ROW)
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    assert list(read_rows(plain)) == list(read_rows(packed)) == [ROW]
    missing = tmp_path / "missing.csv"
    missing.write_text("isl,osl\n1,2\n")
    with pytest.raises(ValueError, match="columns missing: backend"):
        list(read_rows(missing))
    cut = tmp_path / "cut.csv.gz"
    cut.write_bytes(packed.read_bytes()[:-20])
    with pytest.raises(ValueError, match=r"cut\.csv\.gz"):
        list(read_rows(cut))
    noise = tmp_path / "noise.csv"
    noise.write_bytes(bytes(range(128, 256)))
    with pytest.raises(ValueError, match="readable"):
        list(read_rows(noise))
