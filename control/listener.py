"""The socket that a server of ours listens on, and its URL."""

import socket


def listening(host: str, port: int, backlog: int | None = None) -> socket.socket:
    """Port 0: any. Raises OSError when the port is taken."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family, backlog=backlog)


def url_of(listener: socket.socket, *, is_tls: bool = False) -> str:
    host, port = listener.getsockname()[:2]
    return f"http{'s' if is_tls else ''}://{f'[{host}]' if ':' in host else host}:{port}"
