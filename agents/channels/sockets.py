"""Options that both ends of a channel set before they connect or bind."""

import zmq

from agents.channels.settings import ChannelSettings


def limit(socket: "zmq.Socket[bytes]", endpoint: str, settings: ChannelSettings) -> None:
    """Bound what the socket holds and takes."""
    socket.setsockopt(zmq.IPV6, "[" in endpoint)
    socket.setsockopt(zmq.MAXMSGSIZE, settings.max_message_bytes)
    socket.setsockopt(zmq.SNDHWM, settings.queue_messages)
    socket.setsockopt(zmq.RCVHWM, settings.queue_messages)
    socket.setsockopt(zmq.LINGER, int(settings.linger_s * 1000))
    socket.setsockopt(zmq.RECONNECT_IVL, int(settings.reconnect_s * 1000))
    socket.setsockopt(zmq.RECONNECT_IVL_MAX, int(settings.reconnect_max_s * 1000))
    socket.setsockopt(zmq.HANDSHAKE_IVL, int(settings.lost_after_s * 1000))
