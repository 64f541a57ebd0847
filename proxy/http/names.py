"""The addresses of database names: checked if a request chose the name, and cached for a while."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import socket
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from aiohappyeyeballs import AddrInfoType
from aiohttp.abc import AbstractResolver

LOGGER = logging.getLogger("vecsieve.upstream")
# RFC 6052: a NAT64 gateway translates the last four bytes to an IPv4 address on its side.
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
# All that IANA has allocated to the internet (RFC 4291 2.4). Python calls most of the rest global as well: site-local
# addresses, and 64:ff9b:1::/48, behind which RFC 8215 lets any network translate to its own private IPv4.
_INTERNET = ipaddress.IPv6Network("2000::/3")


def is_public(text: str) -> bool:
    """Whether an address is a public unicast one. False for anything else."""
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
    """The IPv4 address that packets to this IPv6 address reach: mapped, 6to4, NAT64."""
    if address in _NAT64:
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour


KNOWN_NAMES = 1000


@dataclass(slots=True)
class Addresses:
    """Cached addresses of names, for ``seconds``. Each use starts with the next address, so that all are used equally.

    ``timeout_seconds``: of a look-up. ``may_be_private``: whether a name may have a private address; None if no request names hosts. The
    checked addresses are the ones connected to; a name with others the next time (rebinding) is checked again. Routes refuse literal
    addresses.
    """

    _resolver: AbstractResolver
    seconds: float = field(kw_only=True)
    timeout_seconds: float = field(kw_only=True)
    may_be_private: Callable[[str], bool] | None = field(default=None, kw_only=True)
    _known: OrderedDict[tuple[str, int], tuple[float, deque[AddrInfoType]]] = field(default_factory=OrderedDict)
    _requests: dict[tuple[str, int], asyncio.Task[None]] = field(default_factory=dict)

    async def of(self, name: str, port: int) -> list[AddrInfoType]:
        """Raises OSError, also for a timeout or a refused name."""
        with suppress(ValueError):
            ipaddress.ip_address(name)
            return [_address(name, port)]
        key = (name, port)
        if key not in self._known or self._known[key][0] < time.monotonic():
            await self._ask(key)
        addresses = self._known[key][1]
        result = list(addresses)
        addresses.rotate(-1)
        return result

    async def _ask(self, key: tuple[str, int]) -> None:
        """Look a name up once for all who wait for it, even if some of them leave."""
        request = self._requests.get(key)
        if request is None:
            request = self._requests[key] = asyncio.create_task(self._look_up(key), name="vecsieve-name")
            request.add_done_callback(_look)
        await asyncio.shield(request)

    async def _look_up(self, key: tuple[str, int]) -> None:
        try:
            async with asyncio.timeout(self.timeout_seconds):
                results = await self._resolver.resolve(*key, family=socket.AF_UNSPEC)
        finally:
            del self._requests[key]
        if not results:
            raise OSError("the name has no address")
        may_be_private = self.may_be_private is None or self.may_be_private(key[0])
        if not may_be_private and not all(is_public(result["host"]) for result in results):
            LOGGER.warning(
                "a host that a request named has an address that is not public: no connection. If it is yours, write its "
                "whole name into pinecone.allowed_hosts"
            )
            raise OSError("the name has an address that is not public")
        self._known[key] = (
            time.monotonic() + self.seconds,
            deque(_address(result["host"], result["port"]) for result in results),
        )
        self._known.move_to_end(key)
        if len(self._known) > KNOWN_NAMES:
            self._known.popitem(last=False)

    async def close(self) -> None:
        for request in self._requests.values():
            request.cancel()
        await self._resolver.close()


def _look(request: asyncio.Task[None]) -> None:
    """Retrieve the error: if all who waited have left, asyncio would otherwise log it."""
    if not request.cancelled():
        request.exception()


def _address(host: str, port: int) -> AddrInfoType:
    if ":" in host:
        return (socket.AF_INET6, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (host, port, 0, 0))
    return (socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (host, port))
