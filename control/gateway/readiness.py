"""Which models a gateway can serve now."""

import msgspec


class Readiness(msgspec.Struct, frozen=True):
    ready: list[str]
    """Models whose requests can be served now, sorted."""
    waiting: list[str]
    """Models of the table that nothing serves, sorted."""
    problem: str
    """Trouble with the routing table; empty when all is well."""
