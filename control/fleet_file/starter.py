"""A first spec, to begin from: the same on the command line and in the console."""

from collections.abc import Sequence
from dataclasses import dataclass

from templates_lib.values.clouds import LOCAL

_REGIONS = {"aws": "us-east-2", "gcp": "us-central1"}
"""One region to begin with: a fleet that may be anywhere has far more to choose from than a first look needs."""


@dataclass(frozen=True, slots=True)
class _Usual:
    """What a first fleet asks for where nobody says more."""

    model: str
    workload: str
    ttft_ms: float
    tpot_ms: float
    requests_per_s: float


_RENTED = _Usual("gpt-oss-20b", "azure-conversation", 2000.0, 100.0, 1.0)
_HERE = _Usual("smollm2-135m-instruct", "sharegpt", 20_000.0, 1500.0, 0.03)
"""On a machine with two processors."""
_SPEC = """\
# Every key is in docs/spec.md; `medley models`, `medley workloads` and `medley gpus` list what may be named.
apiVersion: medley/v1
kind: Fleet
name: {name}
models:
{models}
clouds:
{clouds}
"""
_MODEL = """\
  - model: {model}
    # The first token within ttft_ms and each one after it within tpot_ms, for 99 % of all requests.
    slo: {{ttft_ms: {ttft_ms:g}, tpot_ms: {tpot_ms:g}}}
    workload: {workload} # lengths of prompts and answers
    aggregated: true # prompts and answers on one instance where that is cheaper
    demand: {{requests_per_s: {rate:g}}} # `demand: metered`, or a `trace`, follows the day"""


def starter(
    name: str,
    models: Sequence[str] = (),
    clouds: Sequence[str] = (),
    workload: str | None = None,
    ttft_ms: float | None = None,
    tpot_ms: float | None = None,
    requests_per_s: float | None = None,
) -> str:
    """Return the text of a spec file, which is not checked. Default: what suits a first look on a cloud, or on this
    machine where `clouds` is `local` alone."""
    places = list(clouds) or ["aws"]
    usual = _HERE if places == [LOCAL] else _RENTED
    asked = {
        "workload": workload or usual.workload,
        "ttft_ms": usual.ttft_ms if ttft_ms is None else ttft_ms,
        "tpot_ms": usual.tpot_ms if tpot_ms is None else tpot_ms,
        "rate": usual.requests_per_s if requests_per_s is None else requests_per_s,
    }
    return _SPEC.format(
        name=name,
        models="\n".join(_MODEL.format(model=each, **asked) for each in models or [usual.model]),
        clouds="\n".join(_cloud(each) for each in places),
    )


def _cloud(cloud: str) -> str:
    region = _REGIONS.get(cloud)
    return f"  - cloud: {cloud}" + (f"\n    regions: [{region}] # leave it out for all of them" if region else "")
