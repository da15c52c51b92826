"""TLS of servers from files: what clients see before, while and after the files are replaced."""

import asyncio
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import NameOID

from control.tls_files import TlsFiles, TlsFilesError, tls_files
from tests.control.gateway.world import World


def made(name: str, kind: str = "ecdsa") -> tuple[bytes, bytes]:
    """A certificate of localhost that has signed itself, and its key."""
    key = ec.generate_private_key(ec.SECP256R1()) if kind == "ecdsa" else rsa.generate_private_key(65537, 2048)
    now = datetime.now(UTC)
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .sign(key, hashes.SHA256())
    )
    plain = serialization.NoEncryption()
    return (
        certificate.public_bytes(serialization.Encoding.PEM),
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain),
    )


def written(folder: Path, certificate: bytes, key: bytes) -> tuple[Path, Path]:
    paths = folder / "tls.crt", folder / "tls.key"
    for path, content in zip(paths, (certificate, key), strict=True):
        replaced(path, content)
    return paths


def replaced(path: Path, content: bytes) -> None:
    """As cert-manager and Kubernetes do it: another file takes its name."""
    new = path.with_suffix(".new")
    new.write_bytes(content)
    new.replace(path)


@pytest.mark.parametrize(("first", "second"), [("ecdsa", "ecdsa"), ("ecdsa", "rsa"), ("rsa", "ecdsa")])
def test_new_files_serve_new_connections_once_they_fit_together(tmp_path: Path, first: str, second: str) -> None:
    old, new = made("old", first), made("new", second)
    paths = written(tmp_path, *old)
    files = TlsFiles(*paths)

    async def seen(port: int, name: str | None = None) -> bytes:
        """The certificate that a client is shown now, one that names the server or does not."""
        anyone = ssl.create_default_context()
        anyone.check_hostname, anyone.verify_mode = False, ssl.CERT_NONE
        _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=anyone, server_hostname=name)
        shown = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        writer.close()
        return ssl.DER_cert_to_PEM_cert(shown).encode().strip()

    async def scenario() -> None:
        server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0, ssl=files.context)
        async with server:
            port = server.sockets[0].getsockname()[1]
            assert await seen(port) == old[0].strip()
            assert not files.look()
            replaced(paths[0], new[0])
            for broken in (None, b"", b"no key"):  # its key is not there yet, or never will be
                if broken is not None:
                    replaced(paths[1], broken)
                with pytest.raises(TlsFilesError, match=r"tls\.crt"):
                    files.look()
                assert await seen(port) == old[0].strip()
            replaced(paths[1], new[1])
            assert files.look()
            assert [await seen(port), await seen(port, "localhost")] == [new[0].strip()] * 2

    asyncio.run(scenario())


def test_files_that_cannot_serve_are_refused_by_name(tmp_path: Path) -> None:
    paths = written(tmp_path, made("one")[0], made("other")[1])
    with pytest.raises(TlsFilesError, match=r"tls\.key"):
        TlsFiles(*paths)
    with pytest.raises(TlsFilesError, match=r"none\.crt"):
        TlsFiles(tmp_path / "none.crt", paths[1])
    with pytest.raises(TlsFilesError, match="--tls-key"):
        tls_files(paths[0], None)
    assert tls_files(None, None) is None


def test_a_gateway_serves_https_and_nothing_else(tmp_path: Path) -> None:
    certificate, key = written(tmp_path, *made("gateway"))
    world = World(tmp_path)
    try:
        world.echo("e1")
        world.publish()
        world.start_gateway("--tls-cert", str(certificate), "--tls-key", str(key))
        assert world.url.startswith("https://")
        url = world.url.replace("127.0.0.1", "localhost")
        trusted = ssl.create_default_context(cafile=str(certificate))
        with httpx.Client(base_url=url, verify=trusted) as client:
            assert client.get("/healthz").json() == {"status": "ok"}
            assert client.post("/v1/completions", json={}).status_code == 401
        with pytest.raises(httpx.TransportError):
            httpx.get(url.replace("https", "http") + "/healthz")
    finally:
        world.stop()
