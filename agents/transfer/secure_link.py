"""An end of a link whose bytes are encrypted: TLS 1.3 between two processes that were given one secret.

Certificates say nothing here: each process makes one for itself. That the other end is the one which was given the
secret is shown by a proof over the certificate that this connection uses, both ways, before anything else goes over it:
whoever sits in between would have to show another certificate.
"""

import hashlib
import hmac
import os
import socket
import ssl
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from functools import cache

from agents.transfer.errors import LinkLostError
from agents.transfer.link import LinkEnd, behind

_PROOF_BYTES = hashlib.sha256().digest_size
_AT_ONCE_BYTES = 1 << 20
"""Bytes that are encrypted, or taken, while memory is held on to: a few hundred microseconds."""
_RECORD_BYTES = 1 << 14
"""The largest record of TLS. What is not sent at once has been encrypted by then: it is handed over again, or as many
other bytes in its place, and goes as it was."""
_LONG = timedelta(days=3650)
"""Nobody looks at the dates of a certificate that lives with its process."""


class SecureLinkEnd(LinkEnd):
    """Made by `secure_accept` and `secure_connect`. As with any link, one thread uses it and others may hang it up."""

    _connection: ssl.SSLSocket

    def has_more(self) -> bool:
        return self._connection.pending() > 0

    def hang_up(self) -> None:
        # An SSLSocket that is shut down by its own method forgets that it encrypts, while its thread may be sending.
        with self._closing:
            if self._connection.fileno() >= 0:
                try:
                    socket.socket.shutdown(self._connection, socket.SHUT_RDWR)
                except OSError:
                    return

    def _send(self, parts: Sequence[memoryview], done: int) -> int:
        return _moved(parts, done, lambda part: self._connection.send(part[:_RECORD_BYTES]))

    def _take(self, parts: Sequence[memoryview], done: int) -> int:
        return _moved(parts, done, self._received)

    def _received(self, part: memoryview) -> int:
        count = self._connection.recv_into(part)
        if not count:
            raise LinkLostError("the other end has closed the connection")
        return count

    def _wait_for(self, size: int, timeout_s: float | None) -> None:
        """Waits for any bytes: how many of them it takes on the wire is TLS's matter."""
        del size
        if not self._connection.pending():
            super()._wait_for(1, timeout_s)


def _moved(parts: Sequence[memoryview], done: int, move: Callable[[memoryview], int]) -> int:
    """Return how many of the bytes behind `done` go now. `move`: the first of those it is given; how many they were."""
    moved = 0
    try:
        for part in behind(parts, done):
            rest = part
            while rest:
                if moved >= _AT_ONCE_BYTES:
                    return moved
                count = move(rest)
                rest, moved = rest[count:], moved + count
    except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
        pass
    except OSError as error:
        raise LinkLostError(str(error)) from error
    return moved


def secure_accept(connection: socket.socket, secret: bytes, handshake_s: float, stall_s: float) -> LinkEnd | None:
    """Makes the end of a link for a connection that a listener has accepted; None where it is a stranger's."""
    context, certificate = _own_identity()
    connection.settimeout(handshake_s)
    try:
        end = SecureLinkEnd(context.wrap_socket(connection, server_side=True), handshake_s)
    except OSError:
        connection.close()
        return None
    try:
        if hmac.compare_digest(end.receive(_PROOF_BYTES), _proof(secret, b"connects", certificate)):
            end.send(_proof(secret, b"accepts", certificate))
            end.stall_s = stall_s
            return end
    except LinkLostError:
        pass
    end.close()
    return None


def secure_connect(at: tuple[str, int], secret: bytes, stall_s: float) -> LinkEnd:
    """Raises LinkLostError where nobody listens, and where it is not who was given the secret."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # the proof below says who it is
    try:
        connection = context.wrap_socket(socket.create_connection(at, stall_s))
        certificate = connection.getpeercert(binary_form=True) or b""
    except OSError as error:
        raise LinkLostError(f"nobody is at {at[0]}:{at[1]}: {error}") from error
    end = SecureLinkEnd(connection, stall_s)
    try:
        end.send(_proof(secret, b"connects", certificate))
        if hmac.compare_digest(end.receive(_PROOF_BYTES), _proof(secret, b"accepts", certificate)):
            return end
    except LinkLostError:
        end.close()
        raise
    end.close()
    raise LinkLostError(f"{at[0]}:{at[1]} is not whom the secret was given to")


def _proof(secret: bytes, role: bytes, certificate: bytes) -> bytes:
    return hmac.digest(secret, role + hashlib.sha256(certificate).digest(), "sha256")


@cache
def _own_identity() -> tuple[ssl.SSLContext, bytes]:
    """The process's own key and certificate, made when first needed: (context of a server, certificate in DER)."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name([])
    now = datetime.now(UTC)
    made = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number(), now - _LONG, now + _LONG)
    certificate = made.sign(key, hashes.SHA256())
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version, context.num_tickets = ssl.TLSVersion.TLSv1_3, 0
    held = os.memfd_create("medley-link", os.MFD_CLOEXEC)  # ssl reads files only, and this one has no name
    try:
        os.write(held, certificate.public_bytes(serialization.Encoding.PEM) + secret)
        context.load_cert_chain(f"/proc/self/fd/{held}")
    finally:
        os.close(held)
    return context, certificate.public_bytes(serialization.Encoding.DER)
