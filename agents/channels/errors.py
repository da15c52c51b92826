"""Errors of a channel; the type is the next step."""


class ChannelError(Exception):
    """Base of all of them."""


class PeerLostError(ChannelError):
    """The peer is gone or silent: what was under way there must go on elsewhere. The channel reconnects by itself."""


class QueueFullError(ChannelError):
    """The peer does not read: choose another one, or drop it."""


class MessageTooBigError(ChannelError):
    """Ours, and never sent: the caller must ask for less."""


class RefusedError(ChannelError):
    """The peer does not accept us (key, protocol version): an operator has to act; dialling goes on, slowly."""


class BadKeyError(ChannelError):
    """A key, or a key file, is not what it should be."""
