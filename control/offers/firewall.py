"""What a firewall of a cloud lets in to the machines that have it."""

from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_network

Address = IPv4Address | IPv6Address
Block = IPv4Network | IPv6Network


class NoNetworkError(Exception):
    """A network that SkyPilot's settings name for nodes is not there: nothing can be launched in it."""


@dataclass(frozen=True, slots=True)
class Opening:
    """Ports that are open to a source, or, among the closings of a firewall, shut to it."""

    first_port: int
    last_port: int
    """TCP, both included."""
    source: str
    """Block of addresses, or the name of another firewall: machines that have that one."""
    priority: int = 0
    """Of two that meet, the lower one counts; a closing does before an opening of the same."""

    @property
    def block(self) -> Block | None:
        """Block of addresses of the source; None where it is none."""
        try:
            return ip_network(self.source, strict=False)
        except ValueError:
            return None

    def covers(self, first_port: int, last_port: int) -> bool:
        return self.first_port <= first_port and last_port <= self.last_port

    def meets(self, first_port: int, last_port: int) -> bool:
        return self.first_port <= last_port and first_port <= self.last_port

    def admits(self, address: Address) -> bool:
        """Tell whether an address is in its block; of other firewalls' machines it is not known."""
        block = self.block
        return block is not None and address in block


@dataclass(frozen=True, slots=True)
class Firewall:
    name: str
    openings: tuple[Opening, ...]
    members: frozenset[str] = frozenset()
    """Addresses of machines that have it now."""
    kind: str = "security group"
    """What its cloud calls it."""
    closings: tuple[Opening, ...] = ()
    """Openings of sources that are not let in, whatever lower priorities say."""
    blocks: tuple[str, ...] = ()
    """Blocks of addresses that its machines get theirs from, where that is known."""
    is_whole: bool = True
    """False where somebody else's rules count before these, and were not read."""

    def sources(self, first_port: int, last_port: int) -> tuple[str, ...]:
        """Return what it lets in at all of these ports, machines that have it themselves left out."""
        open_ = (each for each in self.openings if each.covers(first_port, last_port))
        found = {each.source for each in open_ if not self._is_shut(each, first_port, last_port)}
        return tuple(sorted(found - {self.name}))

    def admits(self, addresses: Iterable[Address], first_port: int, last_port: int) -> bool:
        """Tell whether it lets all addresses in at all of these ports."""
        return all(self._admits(each, first_port, last_port) for each in addresses)

    def admits_own(self, first_port: int, last_port: int) -> bool:
        """Tell whether its machines let each other in at all of these ports."""
        open_ = [each for each in self.openings if each.covers(first_port, last_port)]
        if any(each.source == self.name and not self._is_shut(each, first_port, last_port) for each in open_):
            return True
        wanted = [ip_network(each) for each in self.blocks]
        return bool(wanted) and all(
            any(
                _within(block, each.block) and not self._shuts(block, each.priority, first_port, last_port)
                for each in open_
            )
            for block in wanted
        )

    def _admits(self, address: Address, first_port: int, last_port: int) -> bool:
        for each in self.openings:
            own = each.source == self.name and str(address) in self.members
            if each.covers(first_port, last_port) and (own or each.admits(address)):
                shut = self._shuts(ip_network(str(address)), each.priority, first_port, last_port)
                if not shut:
                    return True
        return False

    def _is_shut(self, opening: Opening, first_port: int, last_port: int) -> bool:
        """Tell whether all of what an opening lets in is shut out before. `opening`: of a block, or of machines with a
        firewall, whose addresses are not known: these are shut out with everybody only."""
        block = opening.block
        return any(
            closing.priority <= opening.priority
            and closing.covers(first_port, last_port)
            and (closing.source == opening.source or _within(block, closing.block) or _is_everybody(closing.block))
            for closing in self.closings
        )

    def _shuts(self, block: Block, priority: int, first_port: int, last_port: int) -> bool:
        """Tell whether some of a block is shut out at some of the ports, before an opening of this priority."""
        return any(
            closing.priority <= priority and closing.meets(first_port, last_port) and _overlap(block, closing.block)
            for closing in self.closings
        )


def _within(inner: Block | None, outer: Block | None) -> bool:
    if isinstance(inner, IPv4Network) and isinstance(outer, IPv4Network):
        return inner.subnet_of(outer)
    return isinstance(inner, IPv6Network) and isinstance(outer, IPv6Network) and inner.subnet_of(outer)


def _overlap(one: Block, other: Block | None) -> bool:
    if other is None:  # machines whose addresses are not known
        return False
    return one.version == other.version and one.overlaps(other)


def _is_everybody(block: Block | None) -> bool:
    return block is not None and block.prefixlen == 0
