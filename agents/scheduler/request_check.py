"""Check for requests that an instance can never serve, whatever else it holds."""

from collections.abc import Iterator

from agents.messages.to_gateway import Failure
from agents.messages.to_scheduler import Generate, Leg
from agents.scheduler.groups import Groups
from agents.scheduler.layout import PipelineLayout


def output_limit(request: Generate, layout: PipelineLayout) -> int:
    """Tokens of the whole output: the request's own limit, or what the context leaves, which may be nothing."""
    return min(request.max_tokens, layout.max_context_tokens - len(request.prompt))


def unfit(request: Generate, layout: PipelineLayout) -> Iterator[tuple[Failure, str]]:
    """Yield why the instance can never serve it; the first reason is the one to give."""
    prompt, context = len(request.prompt), layout.max_context_tokens
    if request.model != layout.model:
        yield Failure.UNKNOWN_MODEL, f"serves {layout.model!r}, not {request.model!r}"
    if not prompt:
        yield Failure.UNSUPPORTED, "an empty prompt"
    if max((*request.prompt, *request.generated), default=0) >= layout.vocab_size:
        yield Failure.UNSUPPORTED, f"token ids must be under {layout.vocab_size}"
    if output_limit(request, layout) < 1 <= request.max_tokens:
        yield Failure.TOO_LONG, f"{prompt} prompt tokens, of a context of {context}"


def unplaceable(request: Generate, layout: PipelineLayout, groups: Groups) -> Iterator[tuple[Failure, str]]:
    """Yield why no nodes of a pipeline can take it."""
    if (request.peer is None) is not (request.leg is Leg.WHOLE):
        yield Failure.HAND_OFF, "a request of two legs has two instances, and a whole one has one"
    output = len(request.generated) if request.leg is Leg.PREFILL else output_limit(request, layout) - 1
    most_blocks = layout.blocks(len(request.prompt) + output)
    if not groups.could_ever_fit(most_blocks):
        yield Failure.TOO_LONG, f"prompt and output need {most_blocks} KV blocks of one node, which none has"
