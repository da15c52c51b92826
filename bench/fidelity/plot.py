"""Distributions side by side."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib as mpl
import numpy as np

from bench.fidelity.simulated import Latencies

mpl.use("Agg")
from matplotlib import pyplot as plt

STYLES = {"simulated": ("#d62728", "--"), "real, each pass": ("#1f77b4", "-")}


def draw(runs: Mapping[tuple[str, float], Sequence[Latencies]], path: Path) -> None:
    """`runs`: (shape, load) → simulated, then the real ones. One row a shape and phase, one column a load."""
    shapes, loads = (sorted({key[n] for key in runs}, key=[key[n] for key in runs].index) for n in (0, 1))
    rows = [(shape, phase) for shape in shapes for phase in ("prefill_s", "decode_s")]
    figure, axes = plt.subplots(
        len(rows), len(loads), figsize=(4 * len(loads), 2.6 * len(rows)), squeeze=False, layout="constrained"
    )
    for (shape, phase), line in zip(rows, axes, strict=True):
        for load, at in zip(loads, line, strict=True):
            for number, found in enumerate(runs.get((shape, load), ())):
                name, (colour, style) = list(STYLES.items())[min(number, 1)]
                seconds, label = np.sort(getattr(found, phase)), name if number < len(STYLES) else None
                at.plot(seconds, np.arange(1, len(seconds) + 1) / len(seconds), style, color=colour, label=label)
            at.set(xlim=(0, None), ylim=(0, 1), title=f"{shape}, {load:.0%}")
            at.set_xlabel("time to first token, s" if phase == "prefill_s" else "time per output token, s")
            at.grid(alpha=0.3)
    axes[0][0].legend(loc="lower right")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
    plt.close(figure)
