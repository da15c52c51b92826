"""Cuts TCP connections of other processes, as a network that fails would: `ss -K`, for root, where the kernel can."""

import shutil
import socket
import subprocess


def abort(local_port: int, remote_port: int) -> None:
    """Of this machine's loopback; both ends see a reset."""
    match = ["dst", "127.0.0.1", "dport", "=", str(remote_port), "sport", "=", str(local_port)]
    subprocess.run(["ss", "-K", *match], capture_output=True, check=False)


def can_abort() -> bool:
    if shutil.which("ss") is None:
        return False
    with socket.create_server(("127.0.0.1", 0)) as server:
        ours = socket.create_connection(server.getsockname())
        theirs, _ = server.accept()
        with ours, theirs:
            abort(ours.getsockname()[1], server.getsockname()[1])
            theirs.settimeout(0.5)
            try:
                return theirs.recv(1) == b""
            except TimeoutError:
                return False
            except OSError:
                return True
