"""Where a listener is and the key that proves it. Needs no ZeroMQ: plans and routing tables hold addresses too."""

import re
from dataclasses import dataclass

from agents.channels.errors import BadKeyError

_ENDPOINT = re.compile(r"tcp://([\w.\-]+|\[[0-9a-fA-F:.]+\]):(?P<port>\d{1,5})")
_Z85 = re.compile(r"[0-9a-zA-Z.\-:+=^!/*?&<>()\[\]{}@%$#]{40}")


def check_key(text: str, what: str) -> str:
    """Return `text`, when it is a Z85 key of 32 bytes. Raises BadKeyError."""
    if not _Z85.fullmatch(text):
        raise BadKeyError(f"{what} must be 40 characters of Z85 text, has {len(text)} characters")
    return text


@dataclass(frozen=True, slots=True)
class Address:
    """Address of a listener, and the key that proves that it is the one."""

    endpoint: str
    """tcp://host:port, an IPv6 host in brackets."""
    public_key: str

    def __post_init__(self) -> None:
        match = _ENDPOINT.fullmatch(self.endpoint)
        if match is None or not 0 < int(match["port"]) < 1 << 16:
            raise ValueError(f"endpoint must be tcp://host:port, is {self.endpoint!r}")
        check_key(self.public_key, f"public key of {self.endpoint}")
