"""How far the estimated cost model is off measured deployments, under every split.

    python -m bench.validate_cost_model [-o json]

By row and by deployment: a fixed hash holds out three in ten.
Leave one GPU or one model out: engines are refitted without its rows; kernel efficiencies stay, as they were fitted to
kernel tables that know no model (DeepSeek-R1 and V3 are one architecture: each knows the other). Per-layer rows of T4,
L4, V100 and A100-40 are judged apart. `as planned`: held-out rows by the engine over all releases and machines, whose
release a plan cannot know. `repeated`: how far measurements of one configuration lie apart, release and GPU included;
no model can do better. `never fitted`: the two fifths of the sample that no fit ever saw, by the shipped numbers, as
planned (extra `kernels`, whose package has them). Runs from a fresh clone, but for the layers, which are read from
shared/data/perf (a sibling of the repository). About two minutes.
"""

import argparse
import json
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parent / "extracts"))

from fit_cost_model import BACKENDS, training_rows
from fit_engines import engine_values, predict
from fit_setups import Backend, backend_rows
from layer_rows import helix_errors
from perf_tables import PERF, as_sent, unseen_rows

from templates_lib.cost.coefficients import load_coefficients
from templates_lib.cost.deployment import Deployment
from templates_lib.cost.validation import (
    Errors,
    as_planned,
    comparable,
    errors,
    group_is_held_out,
    mode_of,
    ratios_of,
)
from templates_lib.values.hardware import load_gpus

Floats = NDArray[np.float64]
FEWEST_ROWS = 20
"""A GPU or model with fewer rows than this says too little to be left out on its own."""


def ratios(backend: Backend, keep: NDArray[np.bool_], planned: bool = False) -> Floats:
    """(n, 2) predicted over measured after a fit to `keep`; `planned`: by the engine over all setups."""
    whole, setups = backend.fit(keep)
    found = np.empty((len(keep), 2))
    names = zip(backend.machines, backend.releases, strict=True)
    chosen = np.array([next((n for n in pair if n in setups and not planned), "") for pair in names])
    for name in np.unique(chosen):
        at, setup = chosen == name, setups.get(str(name), whole)
        rows = backend.rows.take(at).under(setup.serving)
        ttft, tpot = predict(rows, engine_values(setup.engine), setup.serving)
        found[at] = np.column_stack((ttft / rows.ttft_s, tpot / rows.tpot_s))
    return found


def repeated(rows: list[tuple[dict[str, str], Deployment]]) -> dict[str, Errors]:
    """Each measurement against the median of the others of its deployment, lengths, clients and release."""
    cells: dict[tuple[object, ...], set[tuple[float, float]]] = {}
    for _, d in rows:
        key = (d.group, d.release, d.prompt_tokens, d.output_tokens, d.concurrency)
        cells.setdefault(key, set()).add((d.ttft_ms, d.tpot_ms))
    found = [
        np.median(np.delete(values, i, axis=0), axis=0) / values[i]
        for values in (np.array(sorted(cell)) for cell in cells.values() if len(cell) > 1)
        for i in range(len(values))
    ]
    return {"all": errors(np.array(found))}


def held_out_by(
    backends: list[Backend], training: Callable[[Backend], NDArray[np.bool_]], planned: bool = False
) -> dict[str, Errors]:
    """Errors of what `training` leaves out, in all, by mode and by engine."""
    left: list[Floats] = []
    names: list[tuple[str, str]] = []
    for backend in backends:
        keep = training(backend)
        left.append(ratios(backend, keep, planned)[~keep])
        names += [(mode_of(d), backend.name) for d, k in zip(backend.rows.deployments, keep, strict=True) if not k]
    together, labels = np.concatenate(left), np.array(names)
    parts = {str(n): errors(together[column == n]) for column in labels.T for n in np.unique(column)}
    return {"all": errors(together)} | parts


def leave_one_out(backends: list[Backend], name_of: Callable[[Deployment], str]) -> dict[str, Errors]:
    """Errors over the rows of each name after a fit without any of them."""
    found: dict[str, list[Floats]] = {}
    for backend in backends:
        names = np.array([name_of(d) for d in backend.rows.deployments])
        for name in np.unique(names):
            other = names != name
            if (other & backend.rows.load.stated).sum() >= FEWEST_ROWS:
                found.setdefault(str(name), []).append(ratios(backend, other)[~other])
    each = {name: np.concatenate(parts) for name, parts in found.items()}
    large = {name: errors(part) for name, part in sorted(each.items()) if len(part) >= FEWEST_ROWS}
    return {"all": errors(np.concatenate(list(each.values()))), **large}


def never_fitted() -> dict[str, Errors]:
    """Errors of what plans are made with on rows that no fit saw and that state their workers: in all, by engine, and
    by engine and machine. Nothing where the package with these rows is not installed."""
    try:
        kept, _, _ = comparable(unseen_rows())
    except LookupError as error:
        print(error, file=sys.stderr)
        return {}
    found = [as_sent(row, d) for row, d in kept if d.decode is None or d.decode.count]
    off = ratios_of(found, as_planned(load_coefficients()))
    engines = np.array([d.backend for d in found])
    machines = np.array([f"{d.backend} {d.system.name}" for d in found])
    parts = {str(n): errors(off[names == n]) for names in (engines, machines) for n in np.unique(names)}
    return {"all": errors(off), **{name: e for name, e in parts.items() if e.rows >= FEWEST_ROWS}}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table")
    as_json = parser.parse_args().output == "json"
    coefficients = load_coefficients()
    rows = training_rows()
    backends = [backend_rows(rows, coefficients, name) for name in BACKENDS]
    by_group = [np.array([not group_is_held_out(d.group) for d in b.rows.deployments]) for b in backends]
    chosen = {b.name: keep for b, keep in zip(backends, by_group, strict=True)}
    report = {
        "held out by row": held_out_by(backends, lambda b: b.training),
        "held out by row, as planned": held_out_by(backends, lambda b: b.training, planned=True),
        "held out by deployment": held_out_by(backends, lambda b: chosen[b.name]),
        "leave one GPU out": leave_one_out(backends, lambda d: d.system.name),
        "leave one model out": leave_one_out(backends, lambda d: d.model_path),
        "never fitted, as planned": never_fitted(),
        "repeated": repeated(rows),
    }
    layers = helix_errors(load_gpus(), coefficients) if PERF.exists() else {}
    if as_json:
        split = {name: {k: asdict(v) for k, v in part.items()} for name, part in report.items()}
        json.dump({**split, "layers": {f"{g} ×{n} {p}": e for (g, n, p), (e, _) in layers.items()}}, sys.stdout)
        return
    for title, part in report.items():
        print(f"{title:36} {'rows':>6} {'TTFT':>7} {'p90':>7} {'TPOT':>7} {'p90':>7}   (relative error)")
        for name, e in part.items():
            figures = (e.median_ttft_error, e.p90_ttft_error, e.median_tpot_error, e.p90_tpot_error)
            print(f"  {name:34} {e.rows:6}" + "".join(f" {100 * f:6.1f}%" for f in figures))
    print("held-out layers: median relative error")
    for (gpu, count, phase), (error, number) in layers.items():
        print(f"  {f'{gpu} ×{count} {phase}':34} {number:6} {100 * error:6.1f}%")


if __name__ == "__main__":
    main()
