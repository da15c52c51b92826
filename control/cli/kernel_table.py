"""NVIDIA's kernel tables that are installed, for people and for programs."""

from typing import Any

from rich.console import Console

from control.cli.output import table
from templates_lib.cost.chosen import cards_by_kernels
from templates_lib.cost.kernel_tables import FRAMEWORKS, NOT_INSTALLED, SYSTEMS, installed_release, timed_kernels
from templates_lib.values.hardware import load_gpus
from templates_lib.values.settings import StepTimes


def kernel_document() -> dict[str, Any]:
    """`release` of the package (empty: not installed), `gpus`: GPU → framework → kind of kernel → the newest release
    that was timed, and `chosen`: engine → GPUs whose step times plans take from kernels without being asked to."""
    release, gpus = installed_release(), load_gpus()
    return {
        "release": release,
        "gpus": {gpu: timed_kernels(system) for gpu, system in sorted(SYSTEMS.items())} if release else {},
        "chosen": {engine: sorted(cards_by_kernels(gpus, engine, StepTimes.BEST)) for engine in sorted(FRAMEWORKS)},
    }


def print_kernels(document: dict[str, Any], console: Console) -> None:
    if not document["release"]:
        console.print(f"kernels: {NOT_INSTALLED}", markup=False)
        return
    frameworks = sorted({name for timed in document["gpus"].values() for name in timed})
    title = f"Kernels timed by NVIDIA (aiconfigurator-core {document['release']}): newest releases"
    shown = table("GPU", *frameworks, title=title)
    for gpu, timed in document["gpus"].items():
        shown.add_row(gpu, *(_cell(timed.get(name, {})) for name in frameworks))
    console.print(shown)
    chosen = [f"{gpu} under {engine}" for engine, gpus in document["chosen"].items() for gpu in gpus]
    console.print(
        f"plans take times from them on: {', '.join(chosen) or 'no GPU, unless solver.step_times asks for it'}"
    )


def _cell(kinds: dict[str, str]) -> str:
    """The kinds of one release together: `0.12.0: attention, gemm`."""
    by_release: dict[str, list[str]] = {}
    for kind, release in sorted(kinds.items()):
        by_release.setdefault(release, []).append(kind)
    return "\n".join(f"{release}: {', '.join(names)}" for release, names in sorted(by_release.items()))
