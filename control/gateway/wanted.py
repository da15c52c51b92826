"""The answers that a request wants, each with its prompt in tokens, its length and how its tokens are chosen."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace

from agents.messages.to_scheduler import Pooling, Sampling
from control.gateway.answer_formats.formats import KNOWN_FORMATS
from control.gateway.answer_grammar import call_schema, check_grammar, either
from control.gateway.api_error import ApiError, bad_request, unavailable, unknown_model, unsupported
from control.gateway.chat_template import ChatTemplate, ChatTemplateError
from control.gateway.generation_params import Conversation, GenerationParams, Prompt, Speech
from control.gateway.media.media_unit import MediaUnits
from control.gateway.media.placeholders import PlaceholderError, expanded
from control.gateway.media.speech_opening import speech_opening, withheld_tokens
from control.gateway.model_entry import ModelEntry
from control.gateway.sampling_defaults import AskedSampling
from policies.admission import Charge
from policies.fair_order import Account

_PARAMS: dict[type, str] = {Conversation: "messages", Speech: "file"}
"""Fields that prompts come in, where that is not `prompt`."""
_NEVER = -100.0
"""Bias of a token that is not to be chosen: the lowest that there is."""
_MOST_STOP_IDS = 64
"""Of a model and a request together: what a scheduler takes."""


@dataclass(frozen=True, slots=True)
class WantedAnswer:
    model: ModelEntry
    """Part of the model with instances for prompts of this length."""
    prompt: tuple[int, ...]
    max_tokens: int
    stop_ids: tuple[int, ...]
    sampling: Sampling
    is_first: bool
    """The first answer to its prompt: usage counts a prompt once, however many answers it has."""
    must_obey: bool
    """Its client asked for rules of sampling, and no others would do."""
    places: tuple[int | None, ...] = ()
    """First token of each picture and sound in the prompt; None: the decoder attends to its rows."""
    pooling: Pooling | None = None
    """As of `GenerationRequest`."""
    media: MediaUnits | None = None
    """What its prompt brings beside text."""

    def charges(self, account: Account) -> tuple[Charge, ...]:
        """Charges for it, by its own length and the size of what it brings."""
        media = {} if self.media is None else self.media.rows
        return self.model.charges(len(self.prompt), self.max_tokens, account, media)


async def wanted_answers(
    params: GenerationParams,
    models: Mapping[str, ModelEntry],
    media: MediaUnits | None = None,
    *,
    is_task: bool = False,
) -> list[WantedAnswer]:
    """All answers to the first prompt, then those to the next. `media`: what its conversation brings beside text.
    `is_task`: somebody encodes that, and its rows have places in the prompt. Raises ApiError."""
    model = _model(params, models)
    asked = await _asked_sampling(params, model)
    pooling = _pooling(params, model)
    param = "input" if params.is_embedding else "prompt"
    wanted: list[WantedAnswer] = []
    for prompt in params.prompts:
        tokens, places = await prompt_tokens(prompt, model, param), tuple[int | None, ...]()
        size = len(tokens) + (0 if media is None else media.pictures + media.sounds)
        if is_task and media is not None:
            tokens, places = _with_places(tokens, model, media)
            size = len(tokens)
        part = models.get(model.served.longer, model) if _is_long(model, size) else model
        most = _room(params, prompt, part, size, media, param)
        stop_ids = () if params.ignores_eos else part.stop_ids
        stop_ids = tuple(dict.fromkeys((*stop_ids, *params.stop_token_ids)))
        if len(stop_ids) > _MOST_STOP_IDS:
            own = len(part.stop_ids)
            raise bad_request(
                f"`stop_token_ids`: at most {_MOST_STOP_IDS - own} beside the model's own", "stop_token_ids"
            )
        if asked.grammar and not stop_ids:
            raise unsupported(params.form_param, "this model's files name no token that ends an answer")
        for choice in range(params.choices):
            sampling = asked.of_model(part.tokenizer.sampling_defaults, choice, stop_ids, len(tokens))
            of_it = (stop_ids, sampling, choice == 0, asked.asks_rules, places, pooling)
            wanted.append(WantedAnswer(part, tokens, most, *of_it, media))
    if media is not None and not is_task:
        raise unavailable(f"No instance encodes pictures or sounds for `{model.id}` yet; send text alone")
    return wanted


def _with_places(
    tokens: tuple[int, ...], model: ModelEntry, media: MediaUnits
) -> tuple[tuple[int, ...], tuple[int | None, ...]]:
    """The prompt with tokens for the rows of what a request brings, and where these begin. Raises ApiError."""
    reading = model.reading
    if reading is None or reading.attends:
        return tokens, (None,) * len(media.units)
    if any(unit.prompt_tokens != unit.rows for unit in media.units):
        raise unavailable(f"How prompts of `{model.id}` name the pieces of a picture is not known here")
    try:
        return expanded(tokens, reading.marks, [(unit.modality, unit.rows) for unit in media.units])
    except PlaceholderError as error:
        raise bad_request(f"The conversation does not fit the model's template: {error}", "messages") from None


def _pooling(params: GenerationParams, model: ModelEntry) -> Pooling | None:
    """Raises ApiError for a model of which no embeddings can be made."""
    embedder = model.tokenizer.embedder
    if params.is_embedding and embedder.refusal:
        raise bad_request(f"`{model.id}` makes no embeddings: {embedder.refusal}", "model", "unsupported_parameter")
    return embedder.pooling if params.is_embedding else None


async def prompt_tokens(prompt: Prompt, model: ModelEntry, param: str = "prompt") -> tuple[int, ...]:
    """Raises ApiError for what cannot be a prompt, which names `param`."""
    if isinstance(prompt, tuple):
        tokens = prompt
    elif isinstance(prompt, Speech):
        text, size = speech_opening(prompt, model.reading)
        tokens = await model.encoder.encode(text, is_rendered=True)
        if len(tokens) != size:  # a name that is no token of its own was taken for text
            raise bad_request(f"`language`: the model has no `{prompt.language}`", "language")
    else:
        is_text = isinstance(prompt, str)
        text = prompt if isinstance(prompt, str) else rendered(prompt, model.tokenizer.chat_template)
        least = model.tokenizer.least_tokens(text)
        if least > model.served.context_tokens and not model.served.longer:  # it would take seconds to count them
            raise _too_long(model, f"at least {least}", param if is_text else "messages")
        tokens = await model.encoder.encode(text, is_rendered=not is_text)
    if not tokens:
        raise bad_request(f"`{param}` has a text without tokens", param)
    if isinstance(prompt, tuple):
        check_tokens(tokens, model, param)
    return tokens


def rendered(asked: Conversation, template: ChatTemplate, *, opens_answer: bool = True) -> str:
    """Text of a conversation, as of `ChatTemplate.render`. Raises ApiError."""
    if asked.tools is not None and not template.takes_tools:
        raise unsupported("tools", "this model's chat template has no place for them; describe them in a message")
    if asked.tools is not None and template.answer_format is None:
        known = ", ".join(KNOWN_FORMATS)
        raise unsupported("tools", f"this model writes calls in a form that is not read here; {known} are")
    tools = () if asked.tools is None else asked.tools.definitions
    try:
        return template.render(asked.messages, asked.arguments, tools, opens_answer=opens_answer)
    except ChatTemplateError as error:
        raise bad_request(f"The conversation does not fit the model's template: {error}", "messages") from None


def check_tokens(tokens: tuple[int, ...], model: ModelEntry, param: str) -> None:
    """Raises ApiError for tokens that the model does not have."""
    size = model.tokenizer.vocabulary_size
    if not all(0 <= token < size for token in tokens):
        raise bad_request(f"`{param}`: tokens of this model are 0 to {size - 1}", param)


async def _asked_sampling(params: GenerationParams, model: ModelEntry) -> AskedSampling:
    """With the grammar of calls, where the answer has to be some, or may be some beside a form. Raises ApiError."""
    asked, form, prompt = params.sampling, model.tokenizer.chat_template.answer_format, params.prompts[0]
    if isinstance(prompt, Speech):
        return replace(asked, bias=tuple((token, _NEVER) for token in withheld_tokens(model.reading)))
    tools = prompt.tools if isinstance(prompt, Conversation) else None
    if asked.grammar:
        if form is not None and form.is_constant:
            raise unsupported(params.form_param, "this model writes more than its answer; ask for JSON in a message")
        await check_grammar(asked.grammar, params.form_param)
    if tools is None or form is None or not (tools.must_call or asked.grammar):
        return asked  # a form that is not known is refused with the prompt
    if not form.calls_grammar and not tools.must_call:
        why = "this model's calls are not told from a form; send `tool_choice: none`, or ask for the form in a message"
        raise unsupported(params.form_param, why)
    if not form.calls_grammar:
        why = "this model's answers are not held to a call; send `auto`, and ask for it in a message"
        raise unsupported("tool_choice", why)
    schema = json.dumps(call_schema(tools.definitions, form.arguments))
    grammar = form.grammar_of_calls(schema, is_parallel=tools.is_parallel)
    if not tools.must_call:
        grammar = either(asked.grammar, grammar)
    await check_grammar(grammar, "tools")
    return replace(asked, grammar=grammar)


def _model(params: GenerationParams, models: Mapping[str, ModelEntry]) -> ModelEntry:
    model = models.get(params.model)
    if model is None:
        raise unknown_model(params.model, models)
    top, most = params.sampling.top_logprobs, model.served.max_top_logprobs
    if top is not None and (most is None or top > most):
        why = "the engine of this model has none" if most is None else f"at most {most} alternatives can be had"
        raise unsupported("logprobs", why)
    check_tokens(tuple(token for token, _ in params.sampling.bias), model, "logit_bias")
    return model


def _is_long(model: ModelEntry, prompt_tokens: int) -> bool:
    """Whether prompts of this length are for another part of the model."""
    return bool(model.served.longer) and prompt_tokens > model.served.max_prompt_tokens


def _room(
    params: GenerationParams,
    prompt: Prompt,
    model: ModelEntry,
    prompt_tokens: int,
    media: MediaUnits | None,
    param: str,
) -> int:
    """Tokens that the answer may have. `prompt_tokens`: those of `media` included. Raises ApiError."""
    context, param = model.served.context_tokens, _PARAMS.get(type(prompt), param)
    room, most = context - prompt_tokens, model.served.most_prompt_tokens
    has = str(prompt_tokens)
    if media is not None:
        has += f", of which {media.pictures} of pictures and {media.sounds} of sounds"
    if most < prompt_tokens < context:
        raise bad_request(
            f"This model's instances have room for prompts of {most} tokens; this has {has}. Shorten it.",
            param,
            "context_length_exceeded",
        )
    if room < 1 or (params.max_tokens or 1) > room:
        asked = f" and {params.max_tokens} for the answer" if room >= 1 else ""
        raise _too_long(model, f"{has}{asked}", param)
    answer, least = params.max_tokens or room, params.sampling.min_tokens
    if least > answer:
        raise bad_request(
            f"`min_tokens` is {least}, and the answer may have {answer} tokens: ask for fewer", "min_tokens"
        )
    return answer


def _too_long(model: ModelEntry, has: str, param: str) -> ApiError:
    return bad_request(
        f"This model's context is {model.served.context_tokens} tokens; the prompt has {has}. Ask for less.",
        param,
        "context_length_exceeded",
    )
