"""The address of a webhook, and one POST to it that goes nowhere else.

Its address is looked up once and checked before it is connected to, so that no name can point into our own network
between check and connect; redirects are not followed; certificates are verified; what is read, and
for how long, is bounded.
"""

import http.client
import ipaddress
import socket
import ssl
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from urllib.parse import urlsplit

TIMEOUT_S = 10.0
"""Seconds of the whole exchange, however slowly a receiver sends."""
_READ_BYTES = 4096
MAX_URL = 2048
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
_METADATA = frozenset(map(ipaddress.ip_address, ("100.100.100.200", "192.0.0.192", "fd00:ec2::254", "fd20:ce::254")))
"""Addresses at which clouds give out a machine's own credentials besides the link-local addresses: no webhook may be
there."""


class NotSentError(Exception):
    """The receiver has not taken it; the message says why."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Receiver of alerts. Raises ValueError for a URL that nothing is sent to: not https, unless `internal`, or with a
    user, a password, a fragment or control characters."""

    url: str
    internal: bool = False
    """http, and addresses of private networks and of this machine, are allowed."""

    def __post_init__(self) -> None:
        if len(self.url) > MAX_URL or not self.url.isprintable() or " " in self.url or not self.url.isascii():
            raise ValueError("a webhook's URL is printable ASCII without spaces, of at most 2,048 characters")
        parts = urlsplit(self.url)
        allowed = ("https", "http") if self.internal else ("https",)
        if parts.scheme not in allowed:
            hint = "" if self.internal else "; `internal` allows http inside one's own network"
            raise ValueError(f"a webhook's URL begins with {' or '.join(allowed)}://{hint}")
        if not parts.hostname or parts.username is not None or parts.password is not None or parts.fragment:
            raise ValueError("a webhook's URL has a host, and no user, password or fragment")
        if parts.port == 0:
            raise ValueError("a webhook's URL has no port 0")


def post(endpoint: Endpoint, body: bytes, headers: Mapping[str, str]) -> int:
    """The status of the answer, whatever it is. Raises NotSentError when there is none."""
    parts = urlsplit(endpoint.url)
    host, port = str(parts.hostname), parts.port or (443 if parts.scheme == "https" else 80)
    target = parts.path or "/"
    if parts.query:
        target = f"{target}?{parts.query}"
    connection = http.client.HTTPConnection(host, port, timeout=TIMEOUT_S)
    try:
        connection.sock = plain = _connected(host, port, endpoint.internal)
        with _cut_off(plain):
            if parts.scheme == "https":
                connection.sock = ssl.create_default_context().wrap_socket(plain, server_hostname=host)
            # The port only where it is not the scheme's own, as in every client.
            bare = f"[{host}]" if ":" in host else host
            named = bare if parts.port is None else f"{bare}:{port}"
            connection.putrequest("POST", target, skip_host=True, skip_accept_encoding=True)
            own = {"Host": named, "Content-Length": str(len(body)), "Connection": "close"}
            for name, value in {**own, **headers}.items():
                connection.putheader(name, value)
            connection.endheaders(body)
            answer = connection.getresponse()
            with suppress(OSError, http.client.HTTPException):  # what it says beside its status is of no interest
                answer.read(_READ_BYTES)
            return answer.status
    except (OSError, http.client.HTTPException) as error:
        raise NotSentError(f"{type(error).__name__}: {error}"[:300]) from None
    finally:
        connection.close()


@contextmanager
def _cut_off(connected: socket.socket) -> Iterator[None]:
    """Cut a connection off after TIMEOUT_S; a socket's own time-out starts again with every byte. Raises TimeoutError
    then."""
    late = threading.Event()
    copy = connected.dup()  # of the same connection; its number is ours until we close it

    def cut() -> None:
        late.set()
        with suppress(OSError):
            copy.shutdown(socket.SHUT_RDWR)

    timer = threading.Timer(TIMEOUT_S, cut)
    timer.daemon = True
    timer.start()
    try:
        yield
    except (OSError, http.client.HTTPException):
        if late.is_set():
            raise TimeoutError(f"no answer within {TIMEOUT_S:g} s") from None
        raise
    finally:
        timer.cancel()
        timer.join()
        copy.close()


def _connected(host: str, port: int, internal: bool) -> socket.socket:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise NotSentError(f"{host} has no address: {error}") from None
    addresses = [ipaddress.ip_address(str(address[4][0]).partition("%")[0]) for address in found]
    forbidden = [address for address in addresses if not _allowed(address, internal)]
    if forbidden or not addresses:
        raise NotSentError(f"{host} is {forbidden[0] if forbidden else 'nowhere'}, which nothing is sent to")
    return socket.create_connection((str(addresses[0]), port), TIMEOUT_S)


def _allowed(address: ipaddress.IPv4Address | ipaddress.IPv6Address, internal: bool) -> bool:
    if isinstance(address, ipaddress.IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour
        if inner is not None:
            return _allowed(inner, internal)
        if address in _NAT64:
            return _allowed(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF), internal)
    if address.is_loopback:
        return internal
    if address in _METADATA or address.is_link_local or address.is_multicast:
        return False
    if address.is_unspecified or address.is_reserved:
        return False
    return internal or address.is_global
