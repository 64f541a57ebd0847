"""A resolver that knows what it is told."""

from __future__ import annotations

import asyncio
import socket

from aiohttp.abc import AbstractResolver, ResolveResult


class Names(AbstractResolver):
    """A resolver that knows what it is told, counts, and waits for leave to answer."""

    def __init__(self, *hosts: str) -> None:
        self.hosts = hosts
        self.requested = 0
        self.may_answer = asyncio.Event()
        self.may_answer.set()

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        self.requested += 1
        await self.may_answer.wait()
        if "fails" in host:
            raise OSError("no such name")
        return [
            ResolveResult(hostname=host, host=address, port=port, family=socket.AF_INET, proto=0, flags=0)
            for address in self.hosts
        ]

    async def close(self) -> None:
        """Nothing is held."""
