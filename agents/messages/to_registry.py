"""What the registry receives: nodes that nobody knows yet, each with the token that it was started with."""

from typing import Annotated

from msgspec import Meta, Struct

MAX_TOKEN = 256
"""Characters; a token has 64."""

REGISTERED, NOT_REGISTERED = "registered as", "has not registered us"
"""What an agent logs of a registry that it has reached, and of one that it has not: a control plane that reads its log
looks for it."""


class Register(Struct, frozen=True, array_like=True, tag="register"):
    """Know me by the key that this connection is encrypted with: that I speak over it proves that the key is mine."""

    token: Annotated[str, Meta(min_length=1, max_length=MAX_TOKEN)]

    def __repr__(self) -> str:
        return "Register(***)"


ToRegistry = Register
