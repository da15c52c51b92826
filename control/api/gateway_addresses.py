"""Gateways behind one name, as service discovery gives them: each address of it is one."""

import asyncio
import socket
from collections.abc import Iterable
from ipaddress import ip_address
from urllib.parse import urlsplit


async def each_gateway(url: str) -> list[str]:
    """URLs of all gateways that `url` leads to: one where TLS is spoken, since the certificate is the name's, and where
    nobody knows the name."""
    parts = urlsplit(url)
    if parts.scheme != "http" or parts.hostname is None:
        return [url]
    try:
        found = await asyncio.get_running_loop().getaddrinfo(parts.hostname, None, type=socket.SOCK_STREAM)
    except OSError:
        return [url]
    return at_addresses(url, {str(place[0]) for *_, place in found})


def at_addresses(url: str, addresses: Iterable[str]) -> list[str]:
    """A gateway has one address of a family: with one of each, it is one gateway."""
    both = sorted(addresses)
    old, new = ([each for each in both if ip_address(each).version == version] for version in (4, 6))
    most = max(old, new, key=len)
    if len(most) < 2:
        return [url]
    parts = urlsplit(url)
    port = "" if parts.port is None else f":{parts.port}"
    hosts = most if most is old else [f"[{each}]" for each in most]
    return [parts._replace(netloc=f"{host}{port}").geturl() for host in hosts]
