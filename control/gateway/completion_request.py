"""POST /v1/completions: from body to `GenerationParams`."""

from dataclasses import replace

from control.gateway.answer_grammar import STRUCTURED, check_form, structured_grammar
from control.gateway.api_error import bad_request, unsupported
from control.gateway.bodies import CompletionBody
from control.gateway.generation_params import GenerationParams, check_common, sampling_of, stop_tokens_of, stops_of

_DEFAULT_MAX_TOKENS = 16
"""OpenAI's own for this endpoint."""


def completion_params(body: CompletionBody) -> GenerationParams:
    """Raises ApiError."""
    prompts = prompts_of(body.prompt, "prompt")
    check_common(body, len(prompts))
    if body.echo and body.logprobs is not None:
        raise unsupported("echo", "there are no log-probabilities of prompts; leave one of the two out")
    if body.suffix:
        raise unsupported("suffix", "engines only continue text")
    if body.best_of not in (None, body.n or 1):
        raise unsupported("best_of", "as many answers are generated as `n` says, and all are sent; leave it out")
    grammar = structured_grammar(body.structured_outputs)
    check_form(body, is_held=bool(grammar))
    sampling = sampling_of(body, body.logprobs)
    return GenerationParams(
        model=body.model,
        prompts=prompts,
        choices=body.n or 1,
        sampling=replace(sampling, grammar=grammar) if grammar else sampling,
        max_tokens=body.max_tokens or _DEFAULT_MAX_TOKENS,
        stop=stops_of(body),
        stop_token_ids=stop_tokens_of(body),
        is_stream=bool(body.stream),
        with_usage=body.stream_options is not None and body.stream_options.include_usage,
        ignores_eos=bool(body.ignore_eos),
        service_tier=body.service_tier,
        cache_salt=body.cache_salt or "",
        form_param=STRUCTURED,
    )


def prompts_of(prompt: str | list[int | str | list[int]], param: str) -> tuple[str | tuple[int, ...], ...]:
    """One text, the tokens of one prompt, or a list of several of these. Raises ApiError that names `param`."""
    if isinstance(prompt, str):
        return (prompt,)
    if not prompt:
        raise bad_request(f"`{param}` is empty", param)
    tokens = tuple(item for item in prompt if isinstance(item, int))
    if tokens:
        if len(tokens) < len(prompt):
            raise bad_request(
                f"`{param}` mixes tokens with texts: a list is of tokens, or of texts and lists of tokens", param
            )
        return (tokens,)
    return tuple(item if isinstance(item, str) else tuple(item) for item in prompt if not isinstance(item, int))
