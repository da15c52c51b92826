"""The estimate for vLLM against servers of it on L40S that others put under load; none of these runs was ever fitted.

    python -m bench.published_loads

Runs from a fresh clone: Llama 3.1 8B on one card and 70B on four (8 bits) or eight (16), prompts of 510 tokens and
answers of up to 150, Poisson arrivals for two minutes each, vLLM of August 2024 with chunked prompts
(crusoecloud/crusoe-cookbook content/vllm-l40s-fp8/raw_data @8e3fc6e, as read on 2026-11-27; means). Those of 70B at 5
requests/s and more, which the servers could not follow, are left out. Requests in flight are those that were there in
the mean, by Little's law of the measured times, as those of a deployment's clients are known. Judged are the step times
at that load, by the engine that plans have, over all releases: tokens in all runs, and in those of one request a
second, where prompts do not meet, the step with the prompt against what is left of the time to the first token behind
half an iteration that was under way. `TTFT` is beside it by the law for a deployment's clients, which plans do not use.
"""

import csv
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from templates_lib.cost.coefficients import Coefficients, load_coefficients
from templates_lib.cost.deployment import Deployment, deployment_of
from templates_lib.cost.serving import load_of, step_times
from templates_lib.cost.step_time_errors import Medians
from templates_lib.cost.validation import as_planned, estimate_for, ratios_of

Floats = NDArray[np.float64]
FILE = Path(__file__).with_name("extracts") / "published_l40s_runs.csv"
GPU = "L40S"
FEW_PER_S = 1.1
"""Requests a second up to which prompts of half a thousand tokens hardly meet."""


def deployments() -> list[tuple[str, Deployment]]:
    """What was run, with the requests per second that came, in words."""
    with FILE.open(encoding="utf-8") as lines:
        return [_deployment(row) for row in csv.DictReader(lines)]


def _deployment(row: dict[str, str]) -> tuple[str, Deployment]:
    per_s, output = float(row["requests_per_s"]), float(row["output_tokens"])
    in_flight = per_s * (float(row["ttft_ms"]) + (output - 1) * float(row["tpot_ms"])) / 1e3
    found = deployment_of(
        {
            "backend": "vllm", "model_path": row["model"], "system": GPU.lower(), "precision": row["weights"],
            "isl": row["prompt_tokens"], "osl": row["output_tokens"], "batch_size": str(in_flight),
            "tp_size": row["gpus"], "silicon_ttft_ms": row["ttft_ms"], "silicon_tpot_ms": row["tpot_ms"],
        }
    )  # fmt: skip
    named = f"{row['model'].rpartition('/')[2]} {row['weights']} x{row['gpus']}, {per_s:.1f}/s"
    return named, replace(found, model=replace(found.model, kv_dtype="bf16"))  # vLLM's default


def ratios() -> Floats:
    """(n, 3): predicted over measured step with a prompt (NaN where prompts meet), time per token, and time to the
    first token."""
    planned, runs = as_planned(load_coefficients()), [each for _, each in deployments()]
    prompts = [prompt_ratio(run, planned) for run in runs]
    ttft, tpot = ratios_of(runs, planned).T
    return np.column_stack((prompts, tpot, ttft))


def prompt_ratio(run: Deployment, coefficients: Coefficients) -> float:
    seconds = run.ttft_ms / 1e3 + (run.output_tokens - 1) * run.tpot_ms / 1e3
    if run.concurrency / seconds > FEW_PER_S:
        return float("nan")
    engine = run.backend
    running = load_of(run, coefficients.serving[engine])[0]
    _, with_prompt, _, _ = step_times(run, estimate_for(run, engine, coefficients), running)
    return with_prompt / ((run.ttft_ms - run.tpot_ms / 2) / 1e3)


def medians() -> Medians:
    """Median errors of prompts and of tokens of the runs on one card, as plans have them for vLLM.

    Over several cards all-reduces take most of the time, which is a matter of how a machine joins its PCIe slots: on
    this one they are many times as fast as on the one that NVIDIA measured (`aiconf_allreduce_vllm.csv.gz`)."""
    on_one = np.array([run.prefill.parallel.tp == 1 for _, run in deployments()])
    off = np.nanmedian(np.abs(ratios()[on_one] - 1), axis=0)
    return Medians(int(on_one.sum()), round(float(off[0]), 4), round(float(off[1]), 4))


def lines() -> Iterator[str]:
    yield f"{'':34} {'in flight':>9} {'TTFT, ms':>9} {'TPOT, ms':>9}   predicted / measured: prompt, token, TTFT"
    for (name, run), found in zip(deployments(), ratios(), strict=True):
        shown = " ".join(f"{each:5.2f}" if np.isfinite(each) else f"{'':5}" for each in found)
        yield f"{name:34} {run.concurrency:9.1f} {run.ttft_ms:9.1f} {run.tpot_ms:9.1f}   {shown}"
    found = medians()
    yield f"{found.rows} runs on one card, median error: prompt {found.ttft:.1%}, token {found.tpot:.1%}"


if __name__ == "__main__":
    print("\n".join(lines()))
