"""Links under a key that a gateway has just been given: those under the key before serve until these can be used."""

from collections.abc import Iterable, Mapping

from agents.channels.address import Address
from control.gateway.instance_link import InstanceLink


class LinksToCome:
    def __init__(self) -> None:
        self._links: dict[str, InstanceLink] = {}

    def __len__(self) -> int:
        return len(self._links)

    def replace(self, links: Iterable[InstanceLink]) -> None:
        """Wait for these, and for no others."""
        self.close()
        self._links = {link.instance: link for link in links}

    def taken(self, link: InstanceLink) -> bool:
        """Tell whether a link that has changed was waited for and can be used; it is waited for no more then."""
        if self._links.get(link.instance) is not link or not link.is_usable:
            return False
        del self._links[link.instance]
        return True

    def keep(self, addresses: Mapping[str, Address]) -> None:
        """Wait no more for instances that are gone, or elsewhere."""
        for instance, link in list(self._links.items()):
            if addresses.get(instance) != link.address:
                self._links.pop(instance).close()

    def close(self) -> None:
        for link in self._links.values():
            link.close()
        self._links = {}
