"""How the two ends of a link find each other, and how everybody else is kept out: by the token of an address."""

import hmac
import secrets
import socket
from contextlib import suppress
from dataclasses import dataclass, field

from agents.transfer.errors import LinkLostError
from agents.transfer.link import LinkEnd
from agents.transfer.secure_link import secure_accept, secure_connect

_TOKEN_BYTES = 32
_INTRODUCTION_S = 1.0
"""Time that whoever connects has to present the token."""
_HANDSHAKE_S = 3.0
"""The same where it takes a handshake first, from another continent maybe."""


@dataclass(frozen=True, slots=True)
class LinkAddress:
    """Place where a listener waits, and the secret that it asks for."""

    host: str
    port: int
    token: bytes = field(repr=False)

    def connect(self, stall_s: float, secret: bytes = b"") -> LinkEnd:
        """Raises LinkLostError where nobody listens. `secret`: as of `LinkListener.admit`."""
        if secret:
            return secure_connect((self.host, self.port), secret, stall_s)
        try:
            end = LinkEnd(socket.create_connection((self.host, self.port), stall_s), stall_s)
        except OSError as error:
            raise LinkLostError(f"nobody is at {self.host}:{self.port}: {error}") from error
        end.send(self.token)
        return end


class LinkListener:
    def __init__(self, interface: str) -> None:
        """Listens on a free port of this node's private address. Raises OSError where that is not of this machine."""
        self.listening = socket.create_server((interface, 0))
        port = int(self.listening.getsockname()[1])
        self.address = LinkAddress(interface, port, secrets.token_bytes(_TOKEN_BYTES))

    def admit(self, connection: socket.socket, stall_s: float, secret: bytes = b"") -> LinkEnd | None:
        """Makes the end of a link for a connection that `listening` has accepted; None where it is a stranger's.
        `secret`: given to both ends, who encrypt; empty: they do not."""
        if secret:
            return secure_accept(connection, secret, _HANDSHAKE_S, stall_s)
        end = LinkEnd(connection, _INTRODUCTION_S)
        with suppress(LinkLostError):
            if hmac.compare_digest(end.receive(_TOKEN_BYTES), self.address.token):
                end.stall_s = stall_s
                return end
        end.close()
        return None
