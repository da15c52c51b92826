"""The process that Terraform starts: a gRPC server on a socket of its own, which it tells on standard output."""

import base64
import os
import signal
import sys
import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import grpc
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from tf.gen import grpc_controller_pb2 as controller_pb
from tf.gen import grpc_controller_pb2_grpc as controller_rpc
from tf.gen import grpc_stdio_pb2_grpc as stdio_rpc
from tf.gen import tfplugin_pb2_grpc as rpc

from medley_terraform.servicer import Servicer

COOKIE = ("TF_PLUGIN_MAGIC_COOKIE", "d602bf8f470bc67ca7faa0386276bbdd4330efaf76d1a219cb4d6991ca9872b2")
"""Variable of Terraform's plugin protocol and its value: whoever sets it is Terraform."""
_CORE_VERSION, _PROTOCOL = 1, 6
_THREADS = 16
_MESSAGE_BYTES = 64 << 20
_LOOK_S = 0.5
_GRACE_S = 5.0
_LONGEST_FOLDER = 70
"""Bytes, which leave room for what is made in it."""


class _Controller(controller_rpc.GRPCControllerServicer):  # type: ignore[misc]
    def __init__(self, done: threading.Event) -> None:
        self._done = done

    def Shutdown(self, request: Any, context: Any) -> Any:  # noqa: ARG002
        self._done.set()
        return controller_pb.Empty()


class _Stdio(stdio_rpc.GRPCStdioServicer):  # type: ignore[misc]
    """Nothing is printed through it, but it is asked for."""

    def StreamStdio(self, request: Any, context: Any) -> Iterator[Any]:  # noqa: ARG002
        return iter(())


def serve() -> None:
    """Serve until Terraform says that it is enough, or is gone itself."""
    # Ctrl-C reaches every process of the terminal; Terraform tells its providers itself, so that they end in order.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent, done = os.getppid(), threading.Event()
    options = [("grpc.max_receive_message_length", _MESSAGE_BYTES), ("grpc.max_send_message_length", _MESSAGE_BYTES)]
    server = grpc.server(ThreadPoolExecutor(_THREADS), options=options)
    rpc.add_ProviderServicer_to_server(Servicer(), server)
    controller_rpc.add_GRPCControllerServicer_to_server(_Controller(done), server)
    stdio_rpc.add_GRPCStdioServicer_to_server(_Stdio(), server)
    certificate, key = _certificate()
    pem = certificate.public_bytes(serialization.Encoding.PEM)
    with tempfile.TemporaryDirectory(prefix="medley-", dir=_short()) as folder:
        socket = f"{folder}/provider.sock"
        server.add_secure_port(f"unix://{socket}", grpc.ssl_server_credentials([(key, pem)]))
        server.start()
        shown = base64.b64encode(certificate.public_bytes(serialization.Encoding.DER)).decode().rstrip("=")
        sys.stdout.write(f"{_CORE_VERSION}|{_PROTOCOL}|unix|{socket}|grpc|{shown}\n")
        sys.stdout.flush()
        while not done.wait(_LOOK_S) and os.getppid() == parent:
            pass
        server.stop(_GRACE_S).wait()


def _short() -> str:
    """A folder for temporary files; where its path leaves no room for a socket's (104 bytes), the usual one."""
    try:
        folder = tempfile.gettempdir()
    except OSError:
        # Terraform shows the first line of standard output.
        sys.stdout.write("terraform-provider-medley cannot write anywhere: let TMPDIR name a folder where it can\n")
        sys.exit(1)
    return folder if len(os.fsencode(folder)) <= _LONGEST_FOLDER else "/tmp"  # noqa: S108 - what is made in it is ours


def _certificate() -> tuple[x509.Certificate, bytes]:
    """Make a certificate of this process, and its key: the socket is only for who reads our standard output."""
    key = ec.generate_private_key(ec.SECP256R1())
    name, now = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")]), datetime.now(UTC)
    usage = x509.KeyUsage(
        digital_signature=True, content_commitment=False, key_encipherment=False, data_encipherment=False,
        key_agreement=True, key_cert_sign=True, crl_sign=False, encipher_only=False, decipher_only=False,
    )  # fmt: skip
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=5))
        .not_valid_after(now + timedelta(days=30))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .add_extension(usage, critical=True)
        .sign(key, hashes.SHA256())
    )
    encoding = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return certificate, key.private_bytes(*encoding)
