"""Keys and addresses in the overlay: all follow from one secret of the control plane and the names of nodes. They are
kept nowhere else, and the next control plane that has the secret knows them too."""

import base64
import hashlib
import hmac
import os
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import IPv6Address, IPv6Network
from pathlib import Path
from typing import Self

from control.access.secret import Secret

_SECRET_BYTES = 32
_HUB_NUMBER = 1
_SUBNET_BITS, _NODE_BYTES = 64, 8


@dataclass(frozen=True, slots=True)
class OverlayMember:
    address: IPv6Address
    key: Secret
    """Private key, as WireGuard's tools write it."""
    public_key: str


@dataclass(frozen=True, slots=True)
class OverlayIdentity:
    """What a control plane is in its overlay. The network is a unique local one (RFC 4193), of the control plane's own:
    its number is a hash of the public key."""

    secret: Secret
    """Hexadecimal."""

    @classmethod
    def of_file(cls, path: Path) -> Self:
        """Read the secret, which is made where there is none. Raises OSError, and ValueError for a damaged file."""
        with (
            suppress(FileExistsError),
            os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file,
        ):
            file.write(os.urandom(_SECRET_BYTES).hex())
        text = path.read_text(encoding="ascii")
        if len(text) != 2 * _SECRET_BYTES or not set(text) <= set("0123456789abcdef"):
            raise ValueError(
                f"{path} is damaged: put back the one that the control plane had, or remove it and its nodes"
            )
        return cls(Secret(text))

    @property
    def network(self) -> IPv6Network:
        number = hashlib.sha256(_public(self._private("")).encode()).digest()[:5]
        return IPv6Network((b"\xfd" + number + bytes(10), _SUBNET_BITS))

    @property
    def hub(self) -> OverlayMember:
        """The control plane's machine."""
        return self._member("", _HUB_NUMBER)

    def node(self, name: str) -> OverlayMember:
        """A node, by its name; two share an address with probability 2⁻⁶⁴."""
        return self._member(name, int.from_bytes(hashlib.blake2b(name.encode(), digest_size=_NODE_BYTES).digest()))

    def _member(self, name: str, number: int) -> OverlayMember:
        private = self._private(name)
        return OverlayMember(self.network[number], Secret(base64.b64encode(private).decode()), _public(private))

    def _private(self, name: str) -> bytes:
        """Private key of X25519 (RFC 7748), clamped; of the hub where the name is empty."""
        key = bytearray(hmac.digest(bytes.fromhex(self.secret.reveal()), b"overlay " + name.encode(), "sha256"))
        key[0] &= 248
        key[31] = key[31] & 127 | 64
        return bytes(key)


def _public(private: bytes) -> str:
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey  # of the `serve` extra

    return base64.b64encode(X25519PrivateKey.from_private_bytes(private).public_key().public_bytes_raw()).decode()
