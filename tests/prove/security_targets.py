"""S3: requests that name a host of their own: whatever the form, nothing connects to the listener that stands for "internal"."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from unittest.mock import patch

import aiohttp
from aiohttp.abc import ResolveResult

from prove.finding import Finding, Scale
from prove.security_smuggling import exchanged
from support.network.faulty_upstream import reply
from support.network.streams import serving
from support.process.running import running

# `{0}`: the internal listener's port. Hosts behind /_i/, which names one.
HOSTS = (
    "127.0.0.1:{0}", "127.1:{0}", "127.0.1:{0}", "2130706433:{0}", "0x7f000001:{0}", "0x7f.0.0.1:{0}", "0177.0.0.1:{0}",
    "017700000001:{0}", "0:{0}", "0.0.0.0:{0}", "[::1]:{0}", "[::]:{0}", "[::ffff:127.0.0.1]:{0}", "[::ffff:7f00:1]:{0}",
    "[0:0:0:0:0:ffff:127.0.0.1]:{0}", "[::127.0.0.1]:{0}", "[64:ff9b::7f00:1]:{0}", "[2002:7f00:1::]:{0}", "[::1%25lo]:{0}",
    "localhost:{0}", "LOCALHOST:{0}", "localhost.:{0}", "ip6-localhost:{0}", "%6c%6f%63alhost:{0}", "127.0.0.1%3a{0}",
    "127。0。0。1:{0}", "①②⑦.⓪.⓪.①:{0}", "docs.svc.x.pinecone.io@127.0.0.1:{0}", "127.0.0.1:{0}@docs.svc.x.pinecone.io",
    "127.0.0.1:{0}%40docs.svc.x.pinecone.io", "127.0.0.1:{0}%2F.svc.x.pinecone.io", "127.0.0.1:{0}%2f%2e%2e%2f", "%2f%2e:{0}",
    "127.0.0.1:{0}%23.pinecone.io", "127.0.0.1:{0}#.pinecone.io", "127.0.0.1:{0}\\.pinecone.io", "127.0.0.1:{0}%5c.pinecone.io",
    "127.0.0.1:{0}%00.svc.x.pinecone.io", "127.0.0.1:{0}%0d%0a.svc.x.pinecone.io", "docs.svc.x.pinecone.io:{0}",
    "docs.svc.x.pinecone.io.evil.example:{0}", "docs.svc.x.pinecone.io%2F..%2F..%2F127.0.0.1:{0}", "a.rebind.example:{0}",
    "b.rebind.example:{0}", "mixed.rebind.example:{0}", "x.rebind.example.:{0}", "http:%2f%2f127.0.0.1:{0}", "169.254.169.254",
)  # fmt: skip
# Whole targets, for every backend.
TARGETS = (
    "http://127.0.0.1:{0}/a", "https://127.0.0.1:{0}/a", "HTTP://127.0.0.1:{0}/a", "ftp://127.0.0.1:{0}/a", "//127.0.0.1:{0}/a",
    "///127.0.0.1:{0}/a", "/\\127.0.0.1:{0}/a", "\\\\127.0.0.1:{0}/a", "@127.0.0.1:{0}/a", "/@127.0.0.1:{0}/a", ":{0}/a", ":@127.0.0.1:{0}/a",
    "127.0.0.1:{0}", "/%2f%2e%2e/127.0.0.1:{0}", "/..//127.0.0.1:{0}/a", "/http://127.0.0.1:{0}/a", "/a?url=http://127.0.0.1:{0}/",
    "/_i/http://127.0.0.1:{0}/query", "/_i//127.0.0.1:{0}/query", "/_i/%2f/127.0.0.1:{0}/query",
)  # fmt: skip
# Fields that other proxies route by.
FIELDS = (
    "Host: 127.0.0.1:{0}", "Host: c@127.0.0.1:{0}", "X-Forwarded-Host: 127.0.0.1:{0}", "X-Original-URL: http://127.0.0.1:{0}/",
    "X-Rewrite-URL: http://127.0.0.1:{0}/", "Forwarded: host=127.0.0.1:{0}", "Destination: http://127.0.0.1:{0}/",
    "X-Forwarded-Server: 127.0.0.1:{0}", "X-Host: 127.0.0.1:{0}", "Proxy-Connection: 127.0.0.1:{0}",
)  # fmt: skip
RESOLVED = {"mixed.rebind.example": ("8.8.8.8", "127.0.0.1")}


@dataclass
class Internal:
    """What must not be reached. ``connections``: how often it was."""

    port: int = 0
    connections: int = 0

    async def serve(self, _reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Be reached."""
        self.connections += 1
        writer.write(reply(b"internal"))
        writer.close()


@asynccontextmanager
async def internal() -> AsyncIterator[Internal]:
    """A listener on every address of this machine."""
    made = Internal()
    with contextlib.closing(socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True)) as bound:
        made.port = bound.getsockname()[1]
        async with serving(made.serve, sock=bound):
            yield made


async def _resolve(
    _: aiohttp.ThreadedResolver, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
) -> list[ResolveResult]:
    """Every name leads home, as one that an attacker owns may from one question to the next."""
    addresses = RESOLVED.get(host, ("127.0.0.1",))
    return [
        ResolveResult(hostname=host, host=address, port=port, family=family, proto=0, flags=0) for address in addresses
    ]


def requests(port: int) -> list[bytes]:
    """Every form, as a raw request."""
    targets = [f"/_i/{host}/{path}" for host in HOSTS for path in ("query", "vectors/list")]
    plain = [_request(target.format(port)) for target in (*targets, *TARGETS)]
    return [*plain, *(_request("/collections", field.format(port)) for field in FIELDS)]


def _request(target: str, field: str = "Host: c") -> bytes:
    fields = field if field.startswith("Host:") else f"Host: c\r\n{field}"
    head = f"POST {target} HTTP/1.1\r\n{fields}\r\nApi-Key: k\r\nContent-Length: 2\r\nConnection: close\r\n\r\n"
    return head.encode() + b"{}"


async def prove(_scale: Scale) -> list[Finding]:
    """Pinecone, which lets a path name a host, with its own list and with a wildcard for names that lead home; and Qdrant."""
    findings = []
    async with internal() as inside:
        rebinding = {"allowed_hosts": (f"*.rebind.example:{inside.port}", "*.svc.*.pinecone.io")}
        cases: tuple[tuple[str, dict[str, object]], ...] = (
            ("qdrant", {}),
            ("pinecone", {}),
            ("pinecone, *.rebind.example allowed", {"pinecone": rebinding}),
        )
        for name, settings in cases:
            findings.append(await tried(name, inside, requests(inside.port), settings))
        return [*findings, await redirected(inside)]


async def tried(name: str, inside: Internal, sent: Sequence[bytes], settings: dict[str, object]) -> Finding:
    """Send them through one data plane whose database is nowhere."""
    before, silent = inside.connections, 0
    environment = dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"), f"http://127.0.0.1:{inside.port}")
    with patch.object(aiohttp.ThreadedResolver, "resolve", _resolve), patch.dict("os.environ", environment):
        async with running("http://127.0.0.1:1", backend=name.split(",", maxsplit=1)[0], **settings) as proxy:
            for raw in sent:
                answer = await exchanged(proxy.port, raw)
                silent += not answer or b"internal" in answer
    reached = inside.connections - before
    what = f"{len(sent)} requests that name internal hosts, {name}"
    return Finding(
        "S3", what, "0 connections to them", f"{reached}; {silent} without an answer", not reached and not silent
    )


async def redirected(inside: Internal) -> Finding:
    """A database that sends clients elsewhere."""
    before = inside.connections

    async def moved(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        location = (b"Location", b"http://127.0.0.1:%d/" % inside.port)
        writer.write(reply(b"", status=b"307 Temporary Redirect", headers=[location, (b"Connection", b"close")]))
        writer.close()

    async with serving(moved) as port, running(f"http://127.0.0.1:{port}") as proxy:
        answer = await exchanged(proxy.port, _request("/collections")) or b""
    reached = inside.connections - before
    is_passed_on = b" 307 " in answer[:13]
    measured = f"{reached}, answered {answer[9:12].decode()}"
    return Finding(
        "S3",
        "a redirect to an internal host",
        "0 connections; told to the client",
        measured,
        not reached and is_passed_on,
    )
