"""The demo over Pinecone's REST. No Pinecone is asked: an emulator of ours answers, and the demo says so, first and last."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager

from vecsieve.config.values import Backend
from vecsieve.proxy.demo.children import child
from vecsieve.proxy.demo.database import Addresses, Words
from vecsieve.proxy.demo.emulating import READY
from vecsieve.proxy.demo.fronting import fronted
from vecsieve.proxy.demo.http_host import Host
from vecsieve.proxy.demo.pinecone_index import PineconeIndex
from vecsieve.proxy.demo.pinecone_keeping import Hosts, instructions
from vecsieve.proxy.demo.store import Store

_EMULATOR = (sys.executable, "-m", "vecsieve.proxy.demo.emulating")
_OPENING = (
    "This is an emulator of Pinecone's REST API, in memory on this machine. It is not Pinecone's service: no account, no "
    "key, nothing leaves this machine."
)
_CAUTION = (
    "The emulator compares with every record, and says nothing of how fast Pinecone is: there the network adds to both "
    "times, and most to the larger answer."
)


class Pinecone:
    """The emulator, in a process of its own."""

    backend: Backend = "pinecone"
    words = Words(opening=_OPENING, caution=_CAUTION, command=f"vecsieve demo --backend {backend}")

    @contextmanager
    def running(self) -> Iterator[Addresses]:
        """The emulator, and the proxy in front of its control plane: indexes are found through that."""
        with (
            child((), announces=(READY,), program=_EMULATOR, name="emulator") as emulator,
            fronted(emulator[READY], backend=self.backend) as addresses,
        ):
            yield addresses

    def opened(self, url: str) -> AbstractContextManager[Store]:
        """A client that knows a control plane and nothing else."""
        return PineconeIndex(url)

    def closing(self, at: Addresses) -> str | None:
        """Once more what it was, and what the proxy says that its larger requests weighed: Pinecone bills bytes."""
        admin = Host(at.admin)
        with closing(admin):
            spent, _ = admin.sent("GET", "/egress")
        each = spent["extra_bytes"] / max(1, spent["searches"]) / 1000
        return (
            "All of this was answered by the emulator, not by Pinecone's service. Pinecone meters what its answers weigh, "
            f"and candidates come with their vectors: over {spent['searches']} searches VecSieve fetched {each:.0f} kB a "
            "search more than it handed on."
        )

    def instructions(self, at: Addresses, *, row: int, question: int, limit: int) -> str:
        """For curl and the official client."""
        with PineconeIndex(at.engine) as direct, PineconeIndex(at.proxy) as proxied:
            hosts = Hosts(direct=direct.host, proxied=proxied.host)
        return instructions(at, hosts, row=row, question=question, limit=limit)
