"""What a firewall of a cloud lets in to the machines that have it."""

from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_network


@dataclass(frozen=True, slots=True)
class Opening:
    first_port: int
    last_port: int
    """TCP, both included."""
    source: str
    """Block of addresses, or the name of another firewall: machines that have that one."""

    def covers(self, first_port: int, last_port: int) -> bool:
        return self.first_port <= first_port and last_port <= self.last_port

    def admits(self, address: IPv4Address | IPv6Address) -> bool:
        """Tell whether an address is in its block; of other firewalls' machines it is not known."""
        try:
            return address in ip_network(self.source, strict=False)
        except ValueError:
            return False


@dataclass(frozen=True, slots=True)
class Firewall:
    name: str
    openings: tuple[Opening, ...]
    members: frozenset[str] = frozenset()
    """Addresses of machines that have it now."""

    def sources(self, first_port: int, last_port: int) -> tuple[str, ...]:
        """Return what it lets in at all of these ports, machines that have it themselves left out."""
        found = {each.source for each in self.openings if each.covers(first_port, last_port)}
        return tuple(sorted(found - {self.name}))

    def admits(self, addresses: Iterable[IPv4Address | IPv6Address], first_port: int, last_port: int) -> bool:
        """Tell whether it lets all addresses in at all of these ports."""
        open_ = [each for each in self.openings if each.covers(first_port, last_port)]
        own = any(each.source == self.name for each in open_)
        return all(any(e.admits(a) for e in open_) or (own and str(a) in self.members) for a in addresses)
