"""Pictures are fetched from allowed public hosts alone, whatever a URL, a redirect or a name server leads to."""

import asyncio
import datetime
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from ipaddress import IPv4Address, ip_address
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from control.gateway.media.fetcher import FetchRules, ImageFetcher
from control.gateway.media.public_address import address_of, is_public
from templates_lib.media.media_error import MediaError, MediaFault
from tests.media_files import picture

HOST, OTHER = "images.test", "other.test"
DATA = picture("PNG")
FORBIDDEN, FAILED, TOO_LARGE = MediaFault.FORBIDDEN_URL, MediaFault.IMAGE_FETCH_FAILED, MediaFault.IMAGE_TOO_LARGE


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of both hosts, signed by itself: certificate and key in one file."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, HOST)])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(HOST), x509.DNSName(OTHER)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    path = tmp_path_factory.mktemp("tls") / "both.pem"
    plain = serialization.NoEncryption()
    private = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)
    path.write_bytes(made.public_bytes(serialization.Encoding.PEM) + private)
    return path


Answer = Callable[[asyncio.StreamWriter], Awaitable[None]]


@dataclass
class Site:
    """A real HTTPS server on loopback, names that lead to it, and a fetcher that may reach it."""

    port: int
    certificate: Path
    names: dict[str, list[str]] = field(default_factory=lambda: {HOST: ["127.0.0.1"], OTHER: ["127.0.0.1"]})
    asked: list[str] = field(default_factory=list)
    """First lines and hosts of what the server was asked."""
    connections: int = 0
    resolved: list[str] = field(default_factory=list)

    async def resolve(self, host: str, _port: int) -> list[str]:
        self.resolved.append(host)
        if host not in self.names:
            raise OSError("no such name")
        return self.names[host]

    def fetcher(self, *hosts: str, timeout_s: float = 30.0, max_bytes: int = 1 << 20) -> ImageFetcher:
        rules = FetchRules(
            frozenset(hosts or (HOST, OTHER)),
            max_bytes,
            timeout_s,
            frozenset((self.port,)),
            lambda address: address == IPv4Address("127.0.0.1") or is_public(address),
        )
        return ImageFetcher(rules, self.resolve, ssl.create_default_context(cafile=str(self.certificate)))

    def url(self, path: str = "/a.png", host: str = HOST) -> str:
        return f"https://{host}:{self.port}{path}"


def said(status: str, *headers: str, body: bytes = b"") -> Answer:
    async def answer(writer: asyncio.StreamWriter) -> None:
        lines = (f"HTTP/1.1 {status}", *headers, f"content-length: {len(body)}", "", "")
        writer.write("\r\n".join(lines).encode() + body)
        await writer.drain()

    return answer


async def endless(writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: image/png\r\n\r\n")
    while True:
        writer.write(bytes(1 << 16))
        await writer.drain()


async def silent(writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: image/png\r\n\r\n")
    await writer.drain()
    await asyncio.Event().wait()


async def nonsense(writer: asyncio.StreamWriter) -> None:
    writer.write(b"\x00\x01\x02 hello\r\n\r\n")
    await writer.drain()


@asynccontextmanager
async def site(certificate: Path, **answers: Answer) -> AsyncIterator[Site]:
    """Answers by the path's first part; `/a.png` is a picture."""
    handlers: list[asyncio.Task[None]] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        made.connections += 1
        task = asyncio.current_task()
        assert task is not None
        handlers.append(task)
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            first, *rest = head.split("\r\n")
            host = next(line[6:] for line in rest if line.lower().startswith("host: "))
            made.asked.append(f"{first} {host}")
            path = first.split()[1].strip("/").partition("?")[0]
            answer = answers.get(path, said("200 OK", "content-type: image/png", body=DATA))
            await answer(writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    made = Site(server.sockets[0].getsockname()[1], certificate)
    try:
        yield made
    finally:
        server.close()
        for task in handlers:
            task.cancel()
        await asyncio.gather(*handlers, return_exceptions=True)


async def fault_of(fetcher: ImageFetcher, url: str) -> MediaFault:
    with pytest.raises(MediaError) as refused:
        await fetcher.fetch(url)
    assert "127.0.0.1" not in refused.value.message
    return refused.value.fault


def moved(to: str) -> Answer:
    return said("302 Found", f"location: {to}")


def test_a_picture_is_fetched_under_the_hosts_own_name(certificate: Path) -> None:
    async def fetched() -> None:
        async with site(certificate) as made:
            assert await made.fetcher().fetch(made.url("/a.png?x=1")) == DATA
            assert made.asked == [f"GET /a.png?x=1 HTTP/1.1 {HOST}:{made.port}"]
            assert made.resolved == [HOST]

    asyncio.run(fetched())


def test_redirects_are_followed_hop_by_hop(certificate: Path) -> None:
    async def fetched() -> None:
        async with site(certificate) as plain:
            there = plain.url(host=OTHER)
            answers = {"away": moved(there), "near": moved("/a.png"), "round": moved("/round")}
            async with site(certificate, **answers) as made:
                both = ImageFetcher(
                    FetchRules(frozenset((HOST, OTHER)), 1 << 20, 30.0, frozenset((made.port, plain.port)), _any),
                    made.resolve,
                    ssl.create_default_context(cafile=str(certificate)),
                )
                assert await both.fetch(made.url("/away")) == DATA
                assert made.resolved == [HOST, OTHER]
                assert await both.fetch(made.url("/near")) == DATA
                assert await fault_of(both, made.url("/round")) is FAILED

    asyncio.run(fetched())


def _any(_: object) -> bool:
    return True


def test_no_byte_is_sent_where_nothing_may_be_fetched(certificate: Path) -> None:
    """Schemes, ports, hosts and addresses."""

    async def refused() -> None:
        async with site(certificate) as made:
            made.names |= {
                "inside.test": ["10.0.0.7"],
                "metadata.test": ["169.254.169.254"],
                "half.test": ["127.0.0.1", "192.168.0.1"],
                "six.test": ["fd00::1"],
                "mapped.test": ["::ffff:10.0.0.7"],
                "a.below.test": ["127.0.0.1"],
                "10.0.0.7": ["10.0.0.7"],
                "::1": ["::1"],
            }
            allowed = made.fetcher(*(name for name in made.names if "below" not in name), ".below.test")
            port = made.port
            for url in (
                f"http://{HOST}:{port}/a.png",
                f"ftp://{HOST}:{port}/a.png",
                "file:///etc/passwd",
                "gopher://x",
                f"https://{HOST}/a.png",
                f"https://{HOST}:{port + 1}/a.png",
                f"https://user:secret@{HOST}:{port}/a.png",
                f"https://inside.test:{port}/a.png",
                f"https://metadata.test:{port}/a.png",
                f"https://half.test:{port}/a.png",
                f"https://six.test:{port}/a.png",
                f"https://mapped.test:{port}/a.png",
                f"https://unlisted.test:{port}/a.png",
                f"https://{HOST}.evil.test:{port}/a.png",
                f"https://10.0.0.7:{port}/a.png",
                f"https://[::1]:{port}/a.png",
                f"https://{HOST}:{port}/{'a' * 5000}",
                f"https://:{port}/",
                "https://",
                "",
                "x" * 10_000_000,
            ):
                assert await fault_of(allowed, url) is FORBIDDEN, url[:80]
            assert made.connections == 0
            assert await fault_of(allowed, made.url(host="below.test")) is FORBIDDEN
            # What stands below an allowed name may be fetched from: the certificate alone is of other names.
            assert await fault_of(allowed, made.url(host="A.Below.test.")) is FAILED

    asyncio.run(refused())


def test_redirects_to_where_nothing_may_be_fetched_are_refused(certificate: Path) -> None:
    async def refused() -> None:
        async with site(certificate) as inner:
            answers = {
                "plain": moved(f"http://{HOST}:{inner.port}/a.png"),
                "inside": moved("https://inside.test/a.png"),
                "port": moved(f"https://{HOST}:{inner.port}/a.png"),
                "file": moved("file:///etc/passwd"),
                "nowhere": said("302 Found"),
            }
            async with site(certificate, **answers) as made:
                made.names["inside.test"] = ["10.0.0.7"]
                fetcher = made.fetcher(HOST, "inside.test")
                for path in ("plain", "inside", "port", "file"):
                    assert await fault_of(fetcher, made.url(f"/{path}")) is FORBIDDEN, path
                assert await fault_of(fetcher, made.url("/nowhere")) is FAILED
                assert inner.connections == 0

    asyncio.run(refused())


def test_a_name_whose_address_changes_is_resolved_once(certificate: Path) -> None:
    """What was checked is what is connected to: the second answer of the name server is never asked for."""

    async def fetched() -> None:
        async with site(certificate) as made:
            answers = [["127.0.0.1"], ["169.254.169.254"]]

            async def rebinding(_host: str, _port: int) -> list[str]:
                return answers.pop(0)

            rules = FetchRules(frozenset((HOST,)), 1 << 20, 30.0, frozenset((made.port,)), _any)
            fetcher = ImageFetcher(rules, rebinding, ssl.create_default_context(cafile=str(certificate)))
            assert await fetcher.fetch(made.url()) == DATA
            assert answers == [["169.254.169.254"]]

    asyncio.run(fetched())


def test_what_is_slow_endless_or_no_image_fails(certificate: Path) -> None:
    async def failed() -> None:
        image = "content-type: image/png"
        answers = {
            "endless": endless,
            "silent": silent,
            "nonsense": nonsense,
            "text": said("200 OK", "content-type: text/html", body=b"<html>"),
            "untyped": said("200 OK", body=DATA),
            "missing": said("404 Not Found", image),
            "error": said("500 Internal Server Error", image),
            "packed": said("200 OK", image, "content-encoding: gzip", body=DATA),
            "huge": said("200 OK", image, body=bytes(2000)),
        }
        async with site(certificate, **answers) as made:
            for path in ("endless", "nonsense", "text", "untyped", "missing", "error", "packed"):
                assert await fault_of(made.fetcher(), made.url(f"/{path}")) is FAILED, path
            assert await fault_of(made.fetcher(timeout_s=0.2), made.url("/silent")) is FAILED
            assert await fault_of(made.fetcher(max_bytes=1000), made.url("/huge")) is TOO_LARGE
            assert await fault_of(made.fetcher("gone.test"), made.url(host="gone.test")) is FAILED
            untrusted = ImageFetcher(
                FetchRules(frozenset((HOST,)), 1000, 30.0, frozenset((made.port,)), _any),
                made.resolve,
                ssl.create_default_context(),
            )
            assert await fault_of(untrusted, made.url()) is FAILED
        assert await fault_of(made.fetcher(), made.url()) is FAILED, "nobody listens any more"

    asyncio.run(failed())


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "0.0.0.1", "224.0.0.1",
        "255.255.255.255", "192.0.2.1", "198.18.0.1", "240.0.0.1", "::1", "::", "fe80::1", "fd00::1", "ff02::1",
        "::ffff:127.0.0.1", "64:ff9b::10.0.0.1", "2002:0a00:0001::", "2001:db8::1", "fe80::1%eth0", "fec0::1",
    ],
)  # fmt: skip
def test_addresses_that_are_not_public(address: str) -> None:
    assert not is_public(address_of(address))


@pytest.mark.parametrize("address", ["8.8.8.8", "1.1.1.1", "2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::8.8.8.8"])
def test_addresses_that_are_public(address: str) -> None:
    assert is_public(ip_address(address))
