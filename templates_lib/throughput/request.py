"""The request that T̂ is certified for: its lengths and what it was promised."""

from dataclasses import dataclass

from templates_lib.apps.served_model import ServedModel
from templates_lib.values.slo import Slo
from templates_lib.values.work import Phase

LATE_ALONE = 0.8
"""Of the requests that may be late, the share that may be so alone on a template."""
OWN_SHARES = (0.65, 0.8, 0.9, 1.0)
"""Shares of the time to first token that the computation of a prompt may take, the rest is for its wait: the least that
any nodes keep is the one that templates of a class are made for. Of 0.5, 0.6, 0.65, 0.7 and 0.8 as the first, 0.65 made
the plans of `bench.evaluation promise` cheapest in the median."""


@dataclass(frozen=True, slots=True)
class MeanRequest:
    """Means over a shape's requests, its percentile prompt, and the objectives, each computed once."""

    prompt: float
    output: float
    prefill_context: float
    decode_context: float
    percentile_prompt: float
    ttft_s: float
    """Seconds to the first token of the percentile prompt."""
    tpot_s: float
    ttft_per_token: float
    """Seconds more for each token of a prompt."""


def request_of(served: ServedModel) -> MeanRequest:
    shape = served.shape
    return MeanRequest(
        prompt=shape.mean_prompt_tokens,
        output=shape.mean_output_tokens,
        prefill_context=shape.prefill_context,
        decode_context=shape.decode_context,
        percentile_prompt=shape.prompt_percentile(_percentile(served.slo)),
        ttft_s=served.slo_ms(Phase.PREFILL) / 1000,
        tpot_s=served.slo_ms(Phase.DECODE) / 1000,
        ttft_per_token=served.slo.ttft_ms_per_1k_prompt_tokens / 1e6,
    )


def own_shares(served: ServedModel, phase: Phase) -> tuple[float, ...]:
    """Shares of the objective of a phase that its own work may take, in the order in which they are tried."""
    return OWN_SHARES if served.slo.queueing and phase is Phase.PREFILL else (1.0,)


def _percentile(slo: Slo) -> float:
    """The percentile of prompts that have to be in time alone. Where waiting is allowed for, it may make some of those
    late, too: for a fifth of what may be late, length is not the cause."""
    return 100 - LATE_ALONE * (100 - slo.percentile) if slo.queueing else slo.percentile
