"""Bounds of wire fields: a peer is authenticated, but it may be broken. What exceeds them is refused on decoding."""

from typing import Annotated

from msgspec import Meta

MAX_TOKENS = 1 << 20
"""Of one prompt or output: longer than any context served today."""

MAX_TOP_LOGPROBS = 20
"""The OpenAI API's own limit."""

MAX_BIASES = 1024
"""Tokens whose logit one request moves."""

MAX_GRAMMAR = 1 << 16
"""Characters."""

MAX_GIVEN = 1024
"""Tensors of rows that come with one request."""

MAX_PEERS = 64
"""Legs that one leg of a request exchanges results with."""

MAX_STATE_BYTES = 1 << 20
"""Of one hidden state: a model 262,144 wide."""

MAX_TEXT_TO_MAKE = 4096
"""Characters that one request has spoken or drawn: the OpenAI API's own limit for speech."""

MAX_PIECE_BYTES = 6 << 20
"""Of what a generator makes at once: less than a channel's longest message, and more than a minute of sound."""

MAX_RUNS = 4096
"""Sequences that get a token in one step."""

Attempt = Annotated[int, Meta(ge=0, lt=1 << 53)]
"""One try at a request on one set of instances; unique within a gateway's session. A resumed request has a new one."""

Name = Annotated[str, Meta(min_length=1, max_length=256)]
"""Of a request, model, instance or zone."""

MaybeName = Annotated[str, Meta(max_length=256)]
"""Empty where there is none."""

MaybeTrace = Annotated[str, Meta(max_length=55)]
"""A W3C `traceparent`; empty where nobody follows."""

Text = Annotated[str, Meta(max_length=4096)]
"""For people."""

_HOST = r"([\w.\-]+|\[[0-9a-fA-F:.]+\])"
_PORT = r"([1-9]\d{0,3}|[1-5]\d{4}|6[0-4]\d{3}|65[0-4]\d{2}|655[0-2]\d|6553[0-5])"
Endpoint = Annotated[str, Meta(max_length=256, pattern=rf"\Atcp://{_HOST}:{_PORT}\Z")]
"""Whole and well-formed: it is passed on to others, who dial it."""
Port = Annotated[int, Meta(gt=0, lt=1 << 16)]
PublicKey = Annotated[str, Meta(pattern=r"\A[0-9a-zA-Z.\-:+=^!/*?&<>()\[\]{}@%$#]{40}\Z")]
"""CURVE, in Z85."""

State = Annotated[bytes, Meta(max_length=MAX_STATE_BYTES)]
"""One hidden state: fp32, little-endian."""
TokenId = Annotated[int, Meta(ge=0, lt=1 << 24)]
TokenIds = Annotated[tuple[TokenId, ...], Meta(max_length=MAX_TOKENS)]
FewTokenIds = Annotated[tuple[TokenId, ...], Meta(max_length=64)]
Count = Annotated[int, Meta(ge=0, lt=1 << 48)]
Position = Annotated[int, Meta(ge=0, le=MAX_TOKENS)]
Seconds = Annotated[float, Meta(ge=0, le=86400 * 7)]
BusySeconds = Annotated[float, Meta(ge=0)]
"""Of a process's whole life."""
