"""Between the provider and the API: proxies, and certificates of an authority of one's own."""

import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.http_endpoint import Asked, Said, serving
from tests.terraform.conftest import ControlPlane, Make

pytestmark = pytest.mark.needs("terraform")
PROJECT = 'resource "medley_project" "p" {\n  name = "way"\n}\n'


def test_an_authority_of_ones_own_is_named_by_ssl_cert_file(
    make: Make, control_plane: ControlPlane, tmp_path: Path
) -> None:
    with over_tls(control_plane.url, tmp_path) as (url, certificate):
        terraform = make(text=PROJECT, url=url)
        said = terraform.refused("plan")
        assert "CERTIFICATE_VERIFY_FAILED" in said
        assert "SSL_CERT_FILE names the certificate of an authority of your own" in said
        assert "1 to add" in terraform.ok("plan", SSL_CERT_FILE=str(certificate))


def test_no_proxy_is_asked_for_this_machine(make: Make) -> None:
    nobody = dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"), "socks5://127.0.0.1:1")
    assert "1 to add" in make(text=PROJECT).ok("plan", **nobody)


def test_variables_that_cannot_be_used_are_named(make: Make) -> None:
    terraform = make(text=PROJECT, url="https://medley.invalid")
    said = terraform.refused("plan", HTTPS_PROXY="gopher://127.0.0.1:1")
    assert "Variables for proxies or certificates cannot be used" in said
    assert "gopher" in said


@contextmanager
def over_tls(url: str, folder: Path) -> Iterator[tuple[str, Path]]:
    """Puts TLS in front of an API; its URL, and the certificate that it shows."""
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "an authority of one's own")])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=5))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .sign(key, hashes.SHA256())
    )
    shown, both = folder / "authority.pem", folder / "server.pem"
    shown.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    both.write_bytes(key.private_bytes(*form) + shown.read_bytes())

    def passed_on(asked: Asked) -> Said:
        headers = {"authorization": asked.headers["authorization"]}
        answer = httpx.get(f"{url}{asked.path}", headers=headers, timeout=240)
        return Said(answer.content, answer.status_code, {"content-type": answer.headers["content-type"]})

    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(both)
    with serving(passed_on, context) as endpoint:
        yield endpoint.url, shown
