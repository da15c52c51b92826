"""Admission of peers: a ZAP authenticator (ZeroMQ RFC 27) over a list of public keys.

libzmq asks over an in-process socket before a connection exists for anyone else, so a stranger never reaches a decoder.
"""

import logging
from collections.abc import Mapping

import zmq
from zmq.utils import z85

from agents.channels.address import check_key
from agents.channels.pump import Pump

_log = logging.getLogger(__name__)

_ENDPOINT = "inproc://zeromq.zap.01"
_VERSION = b"1.0"
_NO_METADATA = b""


class Gatekeeper:
    """Serves one ZeroMQ context. `allowed`: public key (Z85) → the name that its owner goes by; None: every key, as its
    own name."""

    def __init__(self, context: "zmq.Context[zmq.Socket[bytes]]", allowed: Mapping[str, str] | None) -> None:
        self._allowed: dict[str, str] | None = None
        if allowed is not None:
            self.allow(allowed)
        self._socket = context.socket(zmq.REP)
        self._socket.linger = 0
        self._socket.bind(_ENDPOINT)
        self._pump = Pump(self._socket, self._answer)

    def allow(self, allowed: Mapping[str, str]) -> None:
        """Replace the list. Connections that exist are the listener's matter."""
        self._allowed = {check_key(key, f"public key of {name}"): name for key, name in allowed.items()}

    def knows(self, name: str) -> bool:
        """Tell whether the owner of that name may (still) speak."""
        return self._allowed is None or name in self._allowed.values()

    def close(self) -> None:
        self._pump.close()
        self._socket.close()

    def _answer(self) -> None:
        frames = self._socket.recv_multipart(zmq.NOBLOCK)
        self._socket.send_multipart(self._reply(frames))
        self._pump.poke()

    def _reply(self, frames: list[bytes]) -> list[bytes]:
        """version, request id, domain, address, identity, mechanism, credentials → version, request id, code, text,
        user id, metadata."""
        if len(frames) < 6 or frames[0] != _VERSION:
            return [_VERSION, frames[1] if len(frames) > 1 else b"", b"500", b"not ZAP 1.0", b"", _NO_METADATA]
        request, address, mechanism = frames[1], frames[3].decode("ascii", "replace"), frames[5]
        key = z85.encode(frames[6]).decode("ascii") if mechanism == b"CURVE" and len(frames) == 7 else ""
        name = key if self._allowed is None else self._allowed.get(key)
        if not name:
            _log.warning("refused a connection from %s: key %s is not on the list", address, key or "(none)")
            return [_VERSION, request, b"400", b"key is not on the list", b"", _NO_METADATA]
        return [_VERSION, request, b"200", b"", name.encode(), _NO_METADATA]
