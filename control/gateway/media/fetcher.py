"""Fetches pictures from URLs that clients name, without being led to where clients may not look (SSRF).

Nothing is fetched but from hosts that the operator allows, over HTTPS. Each host on the way is resolved once, all its
addresses have to be public, and the connection goes to the one that was checked, under the host's own name: a name
whose address changes in between leads nowhere else. Redirects are followed by hand, each checked as the first URL is.
"""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass

import httpx

from control.gateway.media.public_address import Address, address_of, is_public
from templates_lib.media.media_error import MediaError, MediaFault

Resolve = Callable[[str, int], Awaitable[list[str]]]
"""Host and port → addresses. Raises OSError."""
MOST_REDIRECTS = 3
MOST_URL = 4096
MOST_AT_ONCE = 32
"""Pictures that are fetched at once, each of which may fill memory up to the limit; more wait."""
_REDIRECTS = frozenset((301, 302, 303, 307, 308))
_ALLOW = "Send the image itself as a `data:` URL"


@dataclass(frozen=True, slots=True)
class FetchRules:
    hosts: frozenset[str]
    """Names that may be fetched from; `.example.org` stands for all names below example.org."""
    max_bytes: int
    timeout_s: float = 10.0
    """From the first name that is resolved to the last byte."""
    ports: frozenset[int] = frozenset((443,))
    may_reach: Callable[[Address], bool] = is_public


async def system_resolve(host: str, port: int) -> list[str]:
    """See `Resolve`: by the system's resolver."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(address[0]) for *_, address in found]


class ImageFetcher:
    def __init__(self, rules: FetchRules, resolve: Resolve, tls: ssl.SSLContext) -> None:
        self._rules = rules
        self._resolve = resolve
        self._tls = tls
        self._slots = asyncio.Semaphore(MOST_AT_ONCE)

    async def fetch(self, url: str) -> bytes:
        """The bytes that a picture's URL leads to. Raises MediaError: FORBIDDEN_URL where a URL or a redirect may not
        be followed, IMAGE_TOO_LARGE where a server says so, IMAGE_FETCH_FAILED for all else."""
        try:
            async with asyncio.timeout(self._rules.timeout_s), self._slots:  # waiting for a slot counts
                return await self._follow(url)
        except TimeoutError:
            raise _failed(f"it was not there whole within {self._rules.timeout_s:g} s") from None
        except (httpx.HTTPError, httpx.InvalidURL, OSError):
            raise _failed("the server could not be reached, or its answer not read") from None

    async def _follow(self, url: str) -> bytes:
        for _ in range(MOST_REDIRECTS + 1):
            target = self._checked(url)
            async with self._asked(target, await self._address(target)) as response:
                if response.status_code not in _REDIRECTS:
                    return await self._read(response)
                url = str(target.join(response.headers.get("location", "")))
        raise _failed(f"it was redirected more than {MOST_REDIRECTS} times")

    def _checked(self, url: str) -> httpx.URL:
        """Raises MediaError for a URL that may not be fetched, whatever its address."""
        try:
            target = httpx.URL(url) if len(url) <= MOST_URL else None
        except (httpx.InvalidURL, ValueError):
            target = None
        if target is None or not target.host:
            raise _forbidden("is none, or too long")
        if target.scheme != "https" or (target.port or 443) not in self._rules.ports or target.userinfo:
            raise _forbidden("or a redirect from it has another scheme than https, a port, or a password")
        if not self._allows(_name(target)):
            raise _forbidden("or a redirect from it is of a host that this gateway does not fetch from")
        return target

    def _allows(self, host: str) -> bool:
        above = {host[at:] for at, character in enumerate(host) if character == "."}
        return host in self._rules.hosts or not above.isdisjoint(self._rules.hosts)

    async def _address(self, target: httpx.URL) -> Address:
        """The address to connect to: the name is resolved once, and never again. Raises MediaError."""
        try:
            found = [address_of(each) for each in await self._resolve(_name(target), target.port or 443)]
        except (OSError, ValueError):  # of a name that cannot be written as one, too
            found = []
        if not found:
            raise _failed("its host has no address")
        if not all(self._rules.may_reach(each) for each in found):
            raise _forbidden("or a redirect from it leads to a host without a public address")
        return found[0]

    @contextlib.asynccontextmanager
    async def _asked(self, target: httpx.URL, address: Address) -> AsyncIterator[httpx.Response]:
        """Ask the address, under the host's name: in the request, and in the certificate."""
        pinned = target.copy_with(host=str(address))
        headers = {"host": target.netloc.decode("ascii"), "accept": "image/*", "accept-encoding": "identity"}
        extensions = {"sni_hostname": _name(target)}
        # One client a request: no connection is kept that another name could be sent over.
        async with (
            httpx.AsyncClient(verify=self._tls, trust_env=False, timeout=self._rules.timeout_s) as client,
            client.stream("GET", pinned, headers=headers, extensions=extensions) as response,
        ):
            yield response

    async def _read(self, response: httpx.Response) -> bytes:
        """Raises MediaError."""
        if response.status_code != 200:
            raise _failed(f"the server answered with status {response.status_code}")
        if not response.headers.get("content-type", "").lower().startswith("image/"):
            raise _failed("the server does not say that it is an image")
        if response.headers.get("content-encoding", "identity").lower() != "identity":
            raise _failed("the server sent it compressed, unasked")
        most, said = self._rules.max_bytes, response.headers.get("content-length", "")
        if said.isdecimal() and len(said) < 20 and int(said) > most:
            why = f"The image has {said} bytes; {most} are the most. Name a smaller one"
            raise MediaError(MediaFault.IMAGE_TOO_LARGE, why)
        data = bytearray()
        async for some in response.aiter_raw():
            data += some
            if len(data) > most:
                raise _failed(f"it has no end within {most} bytes")
        return bytes(data)


def _name(target: httpx.URL) -> str:
    """The host as it is resolved and certified: in ASCII, without the root's dot."""
    return target.raw_host.decode("ascii").rstrip(".").lower()


def _forbidden(why: str) -> MediaError:
    return MediaError(MediaFault.FORBIDDEN_URL, f"The image's URL {why}, and is not fetched. {_ALLOW}")


def _failed(why: str) -> MediaError:
    return MediaError(MediaFault.IMAGE_FETCH_FAILED, f"The image could not be fetched: {why}. {_ALLOW}")
