"""POST /v1/completions: from body to `GenerationParams`."""

from control.gateway.api_error import bad_request, unsupported
from control.gateway.bodies import CompletionBody
from control.gateway.generation_params import GenerationParams, refuse_unsupported, sampling_of, stops_of

_DEFAULT_MAX_TOKENS = 16
"""OpenAI's own for this endpoint."""


def completion_params(body: CompletionBody) -> GenerationParams:
    """Raises ApiError."""
    refuse_unsupported(body)
    if body.echo:
        raise unsupported("echo", "the prompt is not sent back; you have it")
    if body.suffix:
        raise unsupported("suffix", "engines only continue text")
    if body.best_of not in (None, 1):
        raise unsupported("best_of", "one candidate is generated")
    return GenerationParams(
        model=body.model,
        prompt=_prompt(body.prompt),
        sampling=sampling_of(body, body.logprobs),
        max_tokens=body.max_tokens or _DEFAULT_MAX_TOKENS,
        stop=stops_of(body),
        is_stream=bool(body.stream),
        with_usage=body.stream_options is not None and body.stream_options.include_usage,
        ignores_eos=bool(body.ignore_eos),
        service_tier=body.service_tier,
    )


def _prompt(prompt: str | list[int | str | list[int]]) -> str | tuple[int, ...]:
    """Text, tokens, or a list of exactly one of these."""
    if isinstance(prompt, str):
        return prompt
    tokens = tuple(item for item in prompt if isinstance(item, int))
    if prompt and len(tokens) == len(prompt):
        return tokens
    if len(prompt) == 1:
        only = prompt[0]
        return only if isinstance(only, str) else tuple(only) if isinstance(only, list) else (only,)
    why = "is empty" if not prompt else "holds several prompts; send one request for each"
    raise bad_request(f"`prompt` {why}", "prompt")
