"""The proxy of the demo: `vecsieve serve` with its defaults, in front of whatever is to be asked."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from vecsieve.proxy.demo.children import child
from vecsieve.proxy.demo.database import Addresses

ANY_PORT = "127.0.0.1:0"
_PROXY = "vecsieve serve listening on"
_ADMIN = "vecsieve serve admin on"


@contextmanager
def fronted(engine: str, *, backend: str) -> Iterator[Addresses]:
    """A proxy whose upstream is ``engine``, for the time of the block. Raises ChildFailed."""
    arguments = ("serve", "--backend", backend, "--upstream", engine, "--listen", ANY_PORT, "--admin", ANY_PORT)
    with child(arguments, announces=(_PROXY, _ADMIN)) as proxy:
        yield Addresses(engine=engine, proxy=proxy[_PROXY], admin=proxy[_ADMIN])
