"""Ports that several processes of a server share."""

import socket

import pytest

from control.listener import listening, reserved


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_a_reserved_port_is_shared_by_those_that_say_so_and_taken_for_all_others(host: str):
    with reserved(host, 0) as kept:
        port = kept.getsockname()[1]
        with (
            listening(host, port, is_shared=True) as one,
            listening(host, port, is_shared=True) as other,
            socket.create_connection((host, port), timeout=60),
        ):
            assert one.getsockname()[:2] == other.getsockname()[:2] == (host, port)
            for take in (listening, reserved):
                with pytest.raises(OSError, match="Address already in use"):
                    take(host, port)
    with reserved(host, port) as again:
        assert again.getsockname()[1] == port


def test_a_reserved_port_that_nobody_listens_on_takes_no_connections():
    with reserved("127.0.0.1", 0) as kept, pytest.raises(ConnectionRefusedError):
        socket.create_connection(kept.getsockname(), timeout=60)
