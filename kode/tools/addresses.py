"""Which network addresses a tool may talk to: public ones only.

Services on this machine and in its network often trust local clients; a page that a model reads
must not reach them. So names are resolved first, and the addresses are judged.
"""

import asyncio
import ipaddress
import socket
from collections.abc import Awaitable, Callable

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

Policy = Callable[[Address], str]
"""Why an address is refused; "" if it is allowed."""

Resolver = Callable[[str, int], Awaitable[list[Address]]]
"""(host, port) → addresses. Raises: OSError."""

_METADATA = {ipaddress.ip_address(text) for text in ("169.254.169.254", "168.63.129.16")}
"""Where clouds hand out credentials. The second is in public address space."""

_NAT64 = (ipaddress.ip_network("64:ff9b::/96"), ipaddress.ip_network("64:ff9b:1::/48"))


def public_only(address: Address) -> str:
    """The policy of every session."""
    for one in (address, *_embedded(address)):
        if one in _METADATA:
            return "it is a cloud's metadata address"
        if one.is_loopback:
            return "it is this machine itself"
        if one.is_multicast or one.is_unspecified or one.is_reserved or not one.is_global:
            return "it is not a public address"
        if isinstance(one, ipaddress.IPv6Address) and one.is_site_local:
            return "it is not a public address"
    return ""


def _embedded(address: Address) -> list[ipaddress.IPv4Address]:
    """The IPv4 addresses embedded in an IPv6 address."""
    if isinstance(address, ipaddress.IPv4Address):
        return []
    found = [address.ipv4_mapped, address.sixtofour, *(address.teredo or ())]
    if any(address in network for network in _NAT64) or int(address) >> 32 == 0:
        found.append(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF))
    return [one for one in found if one is not None]


async def resolve(host: str, port: int) -> list[Address]:
    """All addresses that the system has for a host name, or for an address in any spelling."""
    loop = asyncio.get_running_loop()
    rows = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    # A zone (`fe80::1%eth0`) names a link; such an address is refused in any case.
    texts = dict.fromkeys(str(row[4][0]).split("%")[0] for row in rows)
    return [ipaddress.ip_address(text) for text in texts]
