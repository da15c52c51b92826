"""How far the step times of a plan may be off, in lines for people."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from templates_lib.values.step_time_basis import StepTimeBasis

WORDS = {"kernels": "of measured kernels"}


def step_time_lines(bases: Sequence[StepTimeBasis]) -> Iterator[str]:
    """One for all GPUs of an engine that rest on the same: "vllm on L4, L40S: estimated, ±18% TTFT, ±9% TPOT …"."""
    alike: dict[StepTimeBasis, list[str]] = {}
    for each in bases:
        own = each.judged_on == each.gpu
        alike.setdefault(each if own else replace(each, gpu=""), []).append(each.gpu)
    for basis, gpus in alike.items():
        names = ", ".join(dict.fromkeys(gpus))
        yield f"{basis.engine} on {names}: {WORDS.get(basis.source, basis.source)}, {_error(basis)}"


def _error(basis: StepTimeBasis) -> str:
    if basis.ttft_error is None or basis.tpot_error is None:
        return f"error not known: no deployment of {basis.engine} was measured"
    if basis.judged_on == "steps":
        return f"±{basis.tpot_error:.0%} (median of steps that were not fitted)"
    whose = f"of {basis.deployments:,} deployments under {basis.judged_engine}"
    if basis.judged_on == basis.gpu:
        whose += " on it, none of them fitted"
    else:
        whose += " on GPUs that were left out of the fit; nobody measured one on these"
    if basis.judged_engine != basis.engine:
        whose += f"; servers of {basis.engine} were not measured"
    return f"±{basis.ttft_error:.0%} TTFT, ±{basis.tpot_error:.0%} TPOT (median {whose})"
