"""A server's TLS certificate and key as files, which may be replaced while it serves."""

import asyncio
import logging
import ssl
from dataclasses import dataclass, field
from pathlib import Path

_log = logging.getLogger(__name__)

_POLL_S = 5.0


class TlsFilesError(ValueError):
    """The files cannot be used; the message names them and says what is wrong."""


@dataclass
class TlsFiles:
    """Certificate chain (the server's own first) and private key, both PEM. Raises TlsFilesError."""

    certificate: Path
    key: Path
    context: ssl.SSLContext = field(init=False)
    """Of TLS 1.2 and later, for connections that a server accepts: each gets the newest files that could be used."""

    def __post_init__(self) -> None:
        self._seen = self._stamps()
        self._current = self._loaded()
        self.context = self._loaded()
        self.context.sni_callback = self._switch

    def look(self) -> bool:
        """Take files that are new: connections that come from now on are served with them; tell whether they were.
        Raises TlsFilesError, and keeps what was, for files that cannot be used, or not yet: one of them is replaced
        before the other."""
        stamps = self._stamps()
        if stamps == self._seen:
            return False
        # A fresh context: one that has a certificate keeps it beside a new one whose key is of another type (ECDSA and
        # RSA), and may go on to serve it.
        self._current = self._loaded()
        self._seen = stamps
        return True

    async def watch(self, poll_s: float = _POLL_S) -> None:
        """Look for new files until cancelled."""
        problem = ""
        while True:
            await asyncio.sleep(poll_s)
            try:
                if self.look():
                    _log.info("TLS certificate %s: a new one is in use", self.certificate)
                problem = ""
            except TlsFilesError as error:
                if str(error) != problem:
                    _log.error("%s; the one before stays in use", error)
                problem = str(error)

    def _switch(self, connection: ssl.SSLObject, _name: str | None, _context: ssl.SSLContext) -> None:
        """Give a new connection the newest context. OpenSSL calls it for clients that name no server, too."""
        connection.context = self._current

    def _loaded(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_alpn_protocols(["http/1.1"])
        try:
            # A passphrase would be asked for on a terminal that a server does not have.
            context.load_cert_chain(self.certificate, self.key, password=lambda: "")
        except (OSError, ssl.SSLError) as error:
            raise TlsFilesError(f"TLS certificate {self.certificate} with key {self.key}: {error}") from error
        return context

    def _stamps(self) -> tuple[tuple[int, int], ...]:
        try:
            return tuple((stat.st_mtime_ns, stat.st_ino) for stat in (self.certificate.stat(), self.key.stat()))
        except OSError as error:
            raise TlsFilesError(f"TLS file {error.filename}: {error.strerror}") from error


def tls_files(certificate: Path | None, key: Path | None) -> TlsFiles | None:
    """None where neither is given. Raises TlsFilesError."""
    if certificate is None and key is None:
        return None
    if certificate is None or key is None:
        raise TlsFilesError("--tls-cert and --tls-key belong together: give both, or neither for plain HTTP")
    return TlsFiles(certificate, key)
