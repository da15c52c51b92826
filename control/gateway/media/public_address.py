"""Which addresses are those of the public Internet: a URL of a client never leads to any other."""

from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address

Address = IPv4Address | IPv6Address
_TRANSLATED = IPv6Network("64:ff9b::/96")
"""IPv6 addresses whose last 32 bits are an IPv4 address that a NAT64 reaches (RFC 6052)."""


def is_public(address: Address) -> bool:
    """Neither private, loopback, link-local (where clouds keep their secrets), shared, reserved nor multicast, also
    inside of an IPv6 address that stands for an IPv4 one."""
    if isinstance(address, IPv6Address):
        inside = _inside(address)
        if inside is not None:
            return is_public(inside)
        if address.is_site_local:
            return False
    return address.is_global and not address.is_multicast and not address.is_reserved


def address_of(text: str) -> Address:
    """Raises ValueError for what is no address. A zone (`fe80::1%eth0`) is left out."""
    return ip_address(text.partition("%")[0])


def _inside(address: IPv6Address) -> IPv4Address | None:
    """The IPv4 address that it stands for: mapped, 6to4, of Teredo, or translated."""
    if address in _TRANSLATED:
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour or (address.teredo[1] if address.teredo else None)
