"""Check for requests that an instance can never serve, whatever else it holds."""

from collections.abc import Iterator

from agents.messages.to_gateway import Failure
from agents.messages.to_scheduler import Generate, Leg
from agents.scheduler.layout import PipelineLayout


def output_limit(request: Generate, layout: PipelineLayout) -> int:
    """Tokens of the whole output: the request's own limit, or what the context leaves, which may be nothing."""
    return min(request.max_tokens, layout.max_context_tokens - len(request.prompt))


def unfit(request: Generate, layout: PipelineLayout) -> Iterator[tuple[Failure, str]]:
    """Yield why the instance can never serve it; the first reason is the one to give."""
    prompt, context = len(request.prompt), layout.max_context_tokens
    if request.model != layout.model:
        yield Failure.UNKNOWN_MODEL, f"serves {layout.model!r}, not {request.model!r}"
    if request.pooling is not None and (request.leg is not Leg.WHOLE or request.generated):
        yield Failure.UNSUPPORTED, "the state of a prompt is a whole leg's, and has no output behind it"
    if not prompt:
        yield Failure.UNSUPPORTED, "an empty prompt"
    if max((*request.prompt, *request.generated), default=0) >= layout.vocab_size:
        yield Failure.UNSUPPORTED, f"token ids must be under {layout.vocab_size}"
    rules = request.sampling.rules
    if rules is not None and max((token for token, _ in rules.bias), default=0) >= layout.vocab_size:
        yield Failure.UNSUPPORTED, f"tokens of `logit_bias` must be under {layout.vocab_size}"
    if output_limit(request, layout) < 1 <= request.max_tokens:
        yield Failure.TOO_LONG, f"{prompt} prompt tokens, of a context of {context}"
