"""POST /v1/images/generations: from body to `MadeParams`."""

import re
import secrets
from typing import Annotated, Literal

from msgspec import Meta, Struct

from agents.messages.component_work import AskedPicture, TextToMake
from control.gateway.api_error import bad_request, unsupported
from control.gateway.making.made_params import MadeParams
from control.gateway.service_tier import ServiceTier
from templates_lib.graphs.component import Modality

MOST_IMAGES = 10
"""OpenAI's own limit."""
LARGEST_SIDE = 4096
_SIZE = re.compile(r"([1-9]\d{0,4})x([1-9]\d{0,4})")
_SEED_BITS = 62


class ImageBody(Struct, kw_only=True, forbid_unknown_fields=True):
    model: Annotated[str, Meta(max_length=512)]
    prompt: TextToMake
    n: Annotated[int, Meta(ge=1, le=MOST_IMAGES)] | None = None
    size: Annotated[str, Meta(max_length=32)] | None = None
    """None, or `auto`: as large as the model makes by itself."""
    response_format: Literal["url", "b64_json"] | None = None
    """None: `b64_json`."""
    output_format: Literal["png", "jpeg", "webp"] | None = None
    """None: `png`."""
    seed: Annotated[int, Meta(ge=0, lt=1 << _SEED_BITS)] | None = None
    """This, and what follows to `guidance_scale`, as in vLLM-Omni; of the first picture, the others count on (behind
    the largest: from 0)."""
    num_inference_steps: Annotated[int, Meta(ge=1, le=1000)] | None = None
    guidance_scale: Annotated[float, Meta(ge=0, le=100)] | None = None
    user: Annotated[str, Meta(max_length=512)] | None = None
    """Accepted and not used."""
    service_tier: ServiceTier | None = None


def image_params(body: ImageBody) -> MadeParams:
    """Raises ApiError."""
    if body.response_format == "url":
        raise unsupported("response_format", "pictures are not kept here; take them as `b64_json`")
    if body.output_format not in (None, "png"):
        raise unsupported("output_format", f"pictures are `png`, not `{body.output_format}`")
    if not body.prompt.strip():
        raise bad_request("`prompt`: there is nothing to be drawn", "prompt")
    width, height = _size(body.size)
    first = secrets.randbits(_SEED_BITS) if body.seed is None else body.seed
    steps = body.num_inference_steps or 0
    asked = tuple(
        AskedPicture(body.prompt, width, height, (first + number) % (1 << _SEED_BITS), steps, body.guidance_scale)
        for number in range(body.n or 1)
    )
    return MadeParams(body.model, Modality.IMAGE, asked, body.service_tier)


def _size(text: str | None) -> tuple[int, int]:
    """Width and height; 0, 0: the model's own. Raises ApiError."""
    if text in (None, "auto"):
        return 0, 0
    found = _SIZE.fullmatch(text or "")
    width, height = (int(side) for side in found.groups()) if found else (0, 0)
    if found is None or max(width, height) > LARGEST_SIDE:
        raise bad_request(f"`size`: say `auto`, or WIDTHxHEIGHT up to {LARGEST_SIDE} pixels a side", "size")
    return width, height
