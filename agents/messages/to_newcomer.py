"""What a node that registers its key receives."""

from msgspec import Struct

from agents.messages.bounds import Name, Text


class Registered(Struct, frozen=True, array_like=True, tag="registered"):
    """From now on, here and at every other node, your key is this name."""

    node: Name


class RegistrationRefused(Struct, frozen=True, array_like=True, tag="registration_refused"):
    """For good: another try with the same token and key ends the same."""

    reason: Text


ToNewcomer = Registered | RegistrationRefused
