"""Which addresses a name may lead to when a request chose the name: public ones.

Checked where the connection gets its addresses from, so the address that was checked is the one connected to; a name
that answers differently the second time (rebinding) is checked the second time. A literal address never gets here:
routes refuse those.
"""

from __future__ import annotations

import ipaddress
import logging
import socket
from collections.abc import Callable

from aiohttp.abc import AbstractResolver, ResolveResult

LOGGER = logging.getLogger("vecsieve.upstream")
# RFC 6052: a NAT64 gateway makes of the last four bytes an IPv4 address on its own side.
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
# All that IANA has given out to the internet (RFC 4291 2.4). Python calls most of the rest global as well: site-local
# addresses, and 64:ff9b:1::/48, behind which RFC 8215 lets any network translate to its own private IPv4.
_INTERNET = ipaddress.IPv6Network("2000::/3")


class PublicResolver(AbstractResolver):
    """A resolver that refuses a name unless all of its addresses are public, or the settings name it themselves."""

    def __init__(self, inner: AbstractResolver, *, may_be_private: Callable[[str], bool]) -> None:
        self._inner = inner
        self._may_be_private = may_be_private

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """Look a host up. Raises OSError, which aiohttp reports as a DNS failure, also for a refused name."""
        found = await self._inner.resolve(host, port, family)
        if self._may_be_private(host) or all(is_public(result["host"]) for result in found):
            return found
        LOGGER.warning(
            "a host that a request named has an address that is not public: no connection. If that is right, write its "
            "whole name into pinecone.allowed_hosts"
        )
        raise OSError("the name leads to an address that is not public")

    async def close(self) -> None:
        """End the inner resolver."""
        await self._inner.close()


def is_public(text: str) -> bool:
    """Whether an address is a public unicast one. False for everything that is no address."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return False
    if isinstance(address, ipaddress.IPv6Address):
        inner = _embedded(address)
        if inner is not None:
            return is_public(str(inner))
        if address not in _INTERNET:
            return False
    return address.is_global and not address.is_multicast


def _embedded(address: ipaddress.IPv6Address) -> ipaddress.IPv4Address | None:
    """The IPv4 address that a packet to this IPv6 address ends at: mapped, 6to4, NAT64."""
    if address in _NAT64:
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour
