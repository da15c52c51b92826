"""What the authors of MuxServe measured of 16 LLaMA models on 32 A100s, and the same units for the estimator."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from bench.extracts.csv_files import SHARED, read
from bench.units.profile import SHARES, Floats, Steps, model_of, node_of, profile
from templates_lib.cost.estimated import estimated_cost_model
from templates_lib.units.job_times import Lengths, MemberJobs
from templates_lib.units.member import JobTimes, UnitMember
from templates_lib.values.hardware import load_gpus

MEASURED = SHARED / "muxserve_chatlmsys_measured.csv"
PROMPT_TOKENS = 100.17
"""Mean prompt of the workload (`benchmark/chatlmsys/yamls` of the authors' repository)."""
ENGINE_GIB = 1.6
"""Memory of an engine process of one model on a GPU, beside weights and KV cache (their code)."""
ACTIVATIONS_GIB = 6.0
"""Memory of a model's activations on a GPU (their code)."""
USABLE = 0.9
LARGEST_BATCH = 512
GIB = 1024**3


@dataclass(frozen=True, slots=True)
class MeasuredModel:
    """One row: a model, where it was, and what it did."""

    llm: str
    model: str
    requests_per_s: float
    """Asked."""
    done_per_s: float
    """Served, over the whole run: until the last request was through."""
    requests: int
    gpus: int
    prefill_share: int
    decode_share: int
    """Percent."""
    tokens: float
    """Mean tokens of a request, prompt and output."""

    @property
    def lengths(self) -> Lengths:
        return Lengths(PROMPT_TOKENS, self.tokens - PROMPT_TOKENS)


@dataclass(frozen=True, slots=True)
class MeasuredUnit:
    """The models of one mesh in one run."""

    system: str
    scenario: str
    gpus: int
    models: tuple[MeasuredModel, ...]


def measured_units(system: str) -> Iterator[MeasuredUnit]:
    """Units of the five runs of `flexsm` (MuxServe), `temporal` or `spatial`."""
    found: dict[tuple[str, str, int], list[MeasuredModel]] = {}
    for row in read(MEASURED):
        if row["system"] != system:
            continue
        done, gpus = float(row["throughput_req_s"]), int(row["mesh_gpus"])
        model = MeasuredModel(
            row["llm"], row["model"], float(row["rate_req_s"]), done, int(row["requests"]), gpus,
            int(row["prefill_sm_percent"]), int(row["decode_sm_percent"]), float(row["tokens_per_s"]) / done,
        )  # fmt: skip
        found.setdefault((row["scenario_condense"], row["mesh_index"], gpus), []).append(model)
    for (scenario, _, gpus), models in sorted(found.items()):
        yield MeasuredUnit(system, scenario, gpus, tuple(models))


def profiled_times(model: str, gpus: int, prefill_share: int, decode_share: int, lengths: Lengths) -> JobTimes:
    """Times of jobs between the measured steps. Shares in percent.

    Between batches, lengths and shares along straight lines of logarithms; beyond the longest prompts and largest
    batches as long a time for each token more as the last ones took.
    """
    batches = np.arange(1.0, LARGEST_BATCH + 1)
    prefill = between(profile()[model, gpus, "prefill"], prefill_share, batches, lengths.prompt)
    context = lengths.prompt + lengths.output / 2
    decode = between(profile()[model, gpus, "decode"], decode_share, batches, context)
    spec, card = model_of(model), load_gpus()["A100-80"]
    bandwidth = gpus * card.hbm_bytes_per_s
    kv = spec.layers * spec.kv_bytes_per_token_per_layer
    reads = (spec.weight_bytes + batches * context * kv) / bandwidth / decode
    return JobTimes(prefill, decode, np.minimum(reads, 1.0), np.minimum(spec.weight_bytes / bandwidth / prefill, 1.0))


def between(steps: Steps, share: int, batches: Floats, length: float) -> Floats:
    """(batches,) seconds at one share and length."""
    table = steps.seconds[SHARES.index(share)]
    at_length = np.full(len(steps.batches), np.nan)
    for i, row in enumerate(table):
        known = np.isfinite(row)
        if known.any():
            at_length[i] = np.exp(np.interp(np.log(length), np.log(steps.lengths[known]), np.log(row[known])))
    known = np.isfinite(at_length)
    sizes, seconds = steps.batches[known], at_length[known]
    inside = np.exp(np.interp(np.log(batches), np.log(sizes), np.log(seconds)))
    slope = (seconds[-1] - seconds[-2]) / (sizes[-1] - sizes[-2])
    return np.where(batches > sizes[-1], seconds[-1] + slope * (batches - sizes[-1]), inside)


def estimated_times(model: str, gpus: int, prefill_share: int, decode_share: int, lengths: Lengths) -> JobTimes:
    """The same by the estimated cost model, which is of vLLM. Shares in percent."""
    jobs = MemberJobs(estimated_cost_model(load_gpus()), model_of(model), node_of(gpus), lengths)
    return jobs.times(prefill_share / 100, decode_share / 100, LARGEST_BATCH)


TIMES: dict[str, Callable[[str, int, int, int, Lengths], JobTimes]] = {
    "profile": profiled_times,
    "estimated": estimated_times,
}
"""Where times of jobs come from."""


def unit_members(unit: MeasuredUnit, times: str = "profile") -> tuple[UnitMember, ...]:
    """The models of a unit as members. `times`: a key of `TIMES`."""
    found = []
    for model in unit.models:
        spec, lengths = model_of(model.model), model.lengths
        jobs = TIMES[times](model.model, unit.gpus, model.prefill_share, model.decode_share, lengths)
        kv = spec.layers * spec.kv_bytes_per_token_per_layer * lengths.total
        share = model.decode_share / 100
        found.append(UnitMember(model.llm, model.requests_per_s, lengths.output, kv, share, jobs))
    return tuple(found)


def kv_bytes(unit: MeasuredUnit) -> float:
    """Memory that is left for the KV cache of a unit."""
    memory = node_of(unit.gpus).gpu_count * load_gpus()["A100-80"].memory_bytes * USABLE
    engines = unit.gpus * (ACTIVATIONS_GIB + ENGINE_GIB * len(unit.models)) * GIB
    return memory - engines - sum(model_of(each.model).weight_bytes for each in unit.models)
