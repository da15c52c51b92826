"""POST /tokenize and /detokenize: text and tokens as the model's own files have them, with the bodies of vLLM's."""

import asyncio
from collections.abc import Mapping
from typing import Any

from control.gateway.api_error import bad_request, unknown_model, unsupported
from control.gateway.bodies import DetokenizeBody, TokenizeBody
from control.gateway.chat_request import conversation, tools_of
from control.gateway.media.modality import check_modalities
from control.gateway.model_entry import ModelEntry
from control.gateway.wanted import check_tokens, rendered

_MOST_STRINGS = 16384
"""Tokens whose texts are sent one by one: about 50 ms of work."""


async def tokenize(body: TokenizeBody, models: Mapping[str, ModelEntry]) -> dict[str, Any]:
    """Raises ApiError."""
    model = _model(body.model, models)
    if (body.prompt is None) is (body.messages is None):
        raise bad_request("Send either `prompt` or `messages`", "prompt")
    if body.messages is None:
        tokens = await model.encoder.encode(body.prompt or "", is_rendered=not body.add_special_tokens)
    else:
        asked = conversation(body.messages, body.chat_template_kwargs, tools_of(body.tools))
        check_modalities(asked.media, model)
        if asked.media:
            raise unsupported("messages", "pictures and sounds have no tokens of the vocabulary; send the text alone")
        text = rendered(asked, model.tokenizer.chat_template, opens_answer=body.add_generation_prompt)
        tokens = await model.encoder.encode(text, is_rendered=True)
    if body.return_token_strs and len(tokens) > _MOST_STRINGS:
        raise bad_request(
            f"`return_token_strs`: at most {_MOST_STRINGS} tokens, of {len(tokens)}; leave it out", "return_token_strs"
        )
    strings = [model.tokenizer.token_text(token) for token in tokens] if body.return_token_strs else None
    return {
        "count": len(tokens),
        "max_model_len": model.served.most_prompt_tokens,
        "tokens": tokens,
        "token_strs": strings,
    }


async def detokenize(body: DetokenizeBody, models: Mapping[str, ModelEntry]) -> dict[str, Any]:
    """Raises ApiError."""
    model, tokens = _model(body.model, models), tuple(body.tokens)
    check_tokens(tokens, model, "tokens")
    text = await asyncio.get_running_loop().run_in_executor(None, model.tokenizer.decode, tokens)
    return {"prompt": text}


def _model(name: str, models: Mapping[str, ModelEntry]) -> ModelEntry:
    model = models.get(name)
    if model is None:
        raise unknown_model(name, models)
    return model
