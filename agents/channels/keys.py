"""CURVE key pairs (Curve25519, Z85 text) and the files that hold them."""

import os
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import zmq

from agents.channels.address import check_key
from agents.channels.errors import BadKeyError


@dataclass(frozen=True, slots=True)
class KeyPair:
    """An identity. The secret half never appears in logs."""

    public: str
    secret: str = field(repr=False)

    def __post_init__(self) -> None:
        check_key(self.public, "public key")
        check_key(self.secret, "secret key")
        if zmq.curve_public(self.secret.encode()).decode() != self.public:
            raise BadKeyError("the public key does not belong to the secret key")

    @classmethod
    def generate(cls) -> "KeyPair":
        public, secret = zmq.curve_keypair()
        return cls(public.decode(), secret.decode())

    @classmethod
    def load(cls, path: Path) -> "KeyPair":
        """Raises `BadKeyError` with the file's name and what is wrong with it."""
        try:
            return msgspec.json.decode(path.read_bytes(), type=cls)
        except (OSError, msgspec.MsgspecError, BadKeyError) as error:
            raise BadKeyError(f"key file {path}: {error}") from error

    def save(self, path: Path) -> None:
        """Write a new file that only its owner can read; an existing one is never overwritten."""
        content = msgspec.json.encode({"public": self.public, "secret": self.secret})
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(content)
