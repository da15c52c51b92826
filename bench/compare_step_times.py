"""The fitted estimate against NVIDIA's measured kernels, held out by whole GPU and by whole model, GPU by GPU.

    python -m bench.compare_step_times [--write] [-o json]

Runs from a fresh clone with the extra `kernels` (`aiconfigurator-core`). What engines add to kernels is fitted, with
the estimate's kernels, without any row of the GPU (or model) that is judged, and both sources are timed with it: the
kernel-based one is never fitted to deployments. Rows that do not state their workers are left out. A100-80 and L40S, of
which there is no deployment, are judged by runs that others published (`bench.published_runs`, `bench.published_loads`)
and the engine that ships. `--write` records the outcome in templates_lib/data/perf/step_time_errors.json, which plans
print, and in bench/printed. The kernels are taken for a GPU and engine when their error is a tenth lower than the
estimate's, on the mean of the four medians (TTFT and TPOT, by GPU and by model): a smaller difference is noise, and the
estimate needs nothing installed. Two minutes.
"""

import argparse
import json
import sys
from collections.abc import Callable
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parent / "extracts"))

from fit_cost_model import BACKENDS, training_rows
from fit_engines import engine_values, predict
from fit_setups import Backend, backend_rows

from bench import published_loads, published_runs
from bench.evaluation.table import Table
from bench.figures import PRINTED
from templates_lib.cost.coefficients import Setup, load_coefficients
from templates_lib.cost.deployment import Deployment
from templates_lib.cost.kernel_tables import SYSTEMS, installed_release
from templates_lib.cost.source_comparison import kernels_for, not_timed
from templates_lib.cost.step_time_errors import FILE, Comparison, HeldOut, Medians, StepTimeErrors, judged

Floats = NDArray[np.float64]
Rows = NDArray[np.bool_]
FEWEST_ROWS = 20
"""Fewer rows of a GPU, or left to fit to, say too little."""
OUT = Path(__file__).resolve().parents[1] / "templates_lib" / "data" / FILE
GPUS = {system: gpu for gpu, system in SYSTEMS.items()}
NAMES = {"vllm": "vLLM", "sglang": "SGLang", "trtllm": "TensorRT-LLM"}
NOTHING = HeldOut(Medians(0, 0.0, 0.0), Medians(0, 0.0, 0.0))


def ratios(backend: Backend, setup: Setup, at: Rows) -> Floats:
    """(n, 2) predicted over measured TTFT and TPOT of the rows `at`."""
    rows = backend.rows.take(at).under(setup.serving)
    ttft, tpot = predict(rows, engine_values(setup.engine), setup.serving)
    return np.column_stack((ttft / rows.ttft_s, tpot / rows.tpot_s))


def left_out(estimate: Backend, kernels: Backend, timed: Rows, name_of: Callable[[Deployment], str]) -> Floats:
    """(n, 4): ratios of TTFT and TPOT by the estimate, then by kernels, each row without its name in the fit; NaN where
    too little is left, or a kernel was not timed."""
    names = np.array([name_of(d) for d in estimate.rows.deployments])
    found = np.full((len(names), 4), np.nan)
    for name in np.unique(names):
        own = names == name
        if (~own).sum() >= FEWEST_ROWS:
            setup = estimate.whole(~own)
            found[own, :2] = ratios(estimate, setup, own)
            found[own & timed, 2:] = ratios(kernels, setup, own[timed])
    return found


def compared(rows: list[tuple[dict[str, str], Deployment]], name: str) -> dict[str, Comparison]:
    """GPU (a system's name where the catalogue lacks it) → both sources on it, under one engine; `all`: together."""
    coefficients = load_coefficients()
    timed = np.array([d.backend == name and not not_timed(d) for _, d in rows])
    estimate = backend_rows(rows, coefficients, name)
    kernels = backend_rows([row for row, ok in zip(rows, timed, strict=True) if ok], coefficients, name, kernels_for)
    by_gpu = left_out(estimate, kernels, timed, lambda d: d.system.name)
    by_model = left_out(estimate, kernels, timed, lambda d: d.model_path)
    systems = np.array([d.system.name for _, d in rows])
    parts = {"all": np.ones(len(rows), dtype=bool)} | {
        GPUS.get(str(s), str(s)): systems == s for s in np.unique(systems)
    }
    return {gpu: judged(by_gpu[at], by_model[at]) for gpu, at in parts.items() if at.sum() >= FEWEST_ROWS}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--write", action="store_true", help="record the outcome, which plans print")
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table")
    asked = parser.parse_args()
    if not installed_release():
        raise SystemExit("aiconfigurator-core is not installed: pip install '.[kernels]'")
    rows = [(row, d) for row, d in training_rows() if d.decode is None or d.decode.count]
    engines = {name: compared([each for each in rows if each[1].backend == name], name) for name in BACKENDS}
    published = {each.GPU: each.medians() for each in (published_runs, published_loads)}
    engines["vllm"] |= {
        gpu: Comparison("estimated", replace(NOTHING, gpu_out=off), NOTHING, NOTHING) for gpu, off in published.items()
    }
    report = StepTimeErrors(
        date=datetime.now(UTC).date().isoformat(),
        source=f"{len(rows):,} measured deployments (silicon sample of NVIDIA aiconfigurator-core 0.12.0), whole GPUs "
        f"and whole models left out of the fit; "
        f"{', '.join(f'{off.rows} published runs of {gpu}' for gpu, off in published.items())}; kernels of "
        f"aiconfigurator-core {installed_release()}",
        command="python -m bench.compare_step_times --write",
        coefficients=load_coefficients().fingerprint,
        engines=engines,
    )
    text = json.dumps(asdict(report), indent=1) + "\n"
    if asked.write:
        OUT.write_text(text)
    if asked.output == "json":
        sys.stdout.write(text)
    else:
        print("Median relative error of TTFT / TPOT, %; left out of the fit: GPU / model")
        shown(report).show(PRINTED if asked.write else None)


def shown(report: StepTimeErrors) -> Table:
    """All rows by the estimate, which plans print; then by both sources those whose kernels were all timed."""
    left = ("GPU out", "model out")
    columns = [
        f"{what}, {each}" for what in ("estimate", "estimate, timed rows", "kernels, timed rows") for each in left
    ]
    table = Table("step-times", ("engine, GPU", "rows", *columns[:2], "timed rows", *columns[2:], "taken"))
    for engine, gpus in report.engines.items():
        for gpu, each in gpus.items():
            cells = [
                f"{100 * off.ttft:.1f} / {100 * off.tpot:.1f}" if off.rows else ""
                for found in (each.estimated, each.same_rows, each.kernels)
                for off in (found.gpu_out, found.model_out)
            ]
            counts = [str(found.gpu_out.rows) for found in (each.estimated, each.same_rows)]
            table.add(f"{NAMES[engine]}, {gpu}", counts[0], *cells[:2], counts[1], *cells[2:], each.chosen)
    return table


if __name__ == "__main__":
    main()
