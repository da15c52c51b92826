"""The request that T̂ is certified for: its lengths and what it was promised."""

from dataclasses import dataclass

from templates_lib.apps.served_model import ServedModel
from templates_lib.values.work import Phase


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
        percentile_prompt=shape.prompt_percentile(served.slo.percentile),
        ttft_s=served.slo_ms(Phase.PREFILL) / 1000,
        tpot_s=served.slo_ms(Phase.DECODE) / 1000,
        ttft_per_token=served.slo.ttft_ms_per_1k_prompt_tokens / 1e6,
    )
