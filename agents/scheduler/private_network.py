"""Whether what goes from one instance to another stays in a private network."""

from ipaddress import ip_address


def leaves_network(mine: str, theirs: str, host: str) -> bool:
    """Tell whether bytes to `host` leave the private network that the sender is in. Networks by name; empty: nobody
    said, and the address decides. An address that is no private one is public, whoever it belongs to."""
    if mine and theirs and mine != theirs:
        return True
    try:
        return ip_address(host.strip("[]")).is_global
    except ValueError:  # a name, which may lead anywhere
        return True
