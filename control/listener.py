"""The socket that a server of ours listens on, and its URL."""

import socket


def listening(host: str, port: int, backlog: int | None = None, *, is_shared: bool = False) -> socket.socket:
    """Port 0: any. `is_shared`: other processes of this user may listen there too, and the system gives each of them
    its part of the connections (SO_REUSEPORT). Raises OSError when the port is taken."""
    return socket.create_server((host, port), family=_family(host), backlog=backlog, reuse_port=is_shared)


def reserved(host: str, port: int) -> socket.socket:
    """Return a socket without connections of its own which keeps the port for processes that share it. Port 0: any.
    Raises OSError when the port is taken, by those that would share it too."""
    if port:
        with _bound(host, port):
            pass
    return _bound(host, port, socket.SO_REUSEPORT)


def _bound(host: str, port: int, *options: int) -> socket.socket:
    """Return a socket that does not listen. Raises OSError."""
    found = socket.socket(_family(host), socket.SOCK_STREAM)
    try:
        for option in (socket.SO_REUSEADDR, *options):
            found.setsockopt(socket.SOL_SOCKET, option, 1)
        if found.family == socket.AF_INET6:  # as `create_server` has it
            found.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        found.bind((host, port))
    except OSError:
        found.close()
        raise
    return found


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET


def url_of(listener: socket.socket, *, is_tls: bool = False) -> str:
    host, port = listener.getsockname()[:2]
    return f"http{'s' if is_tls else ''}://{f'[{host}]' if ':' in host else host}:{port}"
