"""S2: a secret in every place of a request, under every fault of the network: in no log, metric, status page or error of ours."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from prove.faults import FAULTS, MODES
from prove.finding import Finding, Scale
from prove.security_smuggling import exchanged
from prove.toxics import ToxicRelay
from support.grpc.calls import ask
from support.grpc.upstream import Arrived, Context, grpc_upstream
from support.network.faulty_upstream import FaultyUpstream, Talk, reply
from support.process.stack import Command, exchange
from support.qdrant.scripted import JSON, honest, search
from support.qdrant.scripted_grpc import honest as honest_message

CANARY = b"s3cr3tcanary0f7e"
TIMEOUT_SECONDS = 1.5
HOST = b"Host: c\r\n"
POST = (
    b"POST /collections/c/points/query HTTP/1.1\r\n" + HOST + b"Content-Type: application/json\r\nConnection: close\r\n"
)
PAGES = (
    "/metrics",
    "/status",
    "/explain",
    "/egress",
    "/readyz",
    f"/{CANARY.decode()}",
    f"/status?key={CANARY.decode()}",
)
BODY = search(extra={"filter": {"must": [{"key": CANARY.decode(), "match": {"value": CANARY.decode()}}]}})


def _sent(body: bytes, fields: bytes = b"") -> bytes:
    return POST + fields + b"Content-Length: %d\r\n\r\n" % len(body) + body


def _get(target: bytes = b"/", fields: bytes = b"") -> bytes:
    return b"GET " + target + b" HTTP/1.1\r\n" + HOST + b"Connection: close\r\n" + fields + b"\r\n"


FIELD_NAMES = (
    b"api-key", b"authorization", b"proxy-authorization", b"cookie", b"x-auth-token", b"user-agent", b"referer", b"traceparent",
    b"tracestate", b"baggage", b"x-request-id", b"x-forwarded-for", b"x-vecsieve-mode", b"x-vecsieve-mmr-lambda", b"x-vecsieve-linkage",
    b"x-vecsieve-fetch-k", b"x-vecsieve-distance-threshold", b"x-vecsieve-unknown", b"content-encoding", b"accept-encoding", b"content-type",
    b"expect", b"upgrade", b"te", b"trailer", b"x-pinecone-api-version",
)  # fmt: skip
REQUESTS: tuple[bytes, ...] = (
    *(_sent(search(), name + b": " + CANARY + b"\r\n") for name in FIELD_NAMES),
    *(_get(b"/", name + b": " + CANARY + b"\x01\r\n") for name in FIELD_NAMES[:4]),
    _get(b"/?api-key=" + CANARY), _get(b"/" + CANARY), _get(b"/collections/" + CANARY), _get(b"http://u:" + CANARY + b"@evil/"),
    _get(CANARY), _get(b"/", CANARY + b": x\r\n"), _get(b"/", b"a b" + CANARY + b": x\r\n"), _get(b"/", b"api-key: \xff" + CANARY + b"\r\n"),
    _get(b"/", b"api-key: " + CANARY * 1_200 + b"\r\n"), _get(b"/" + CANARY * 1_200), _get(b"/", CANARY * 1_200 + b": x\r\n"),
    _get(b"/", b"x: y\r\n " + CANARY + b"\r\n"), CANARY.upper() + b" / HTTP/1.1\r\n" + HOST + b"\r\n", b"GET / HTTP/" + CANARY + b"\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: [" + CANARY + b"\r\nConnection: close\r\n\r\n", b"CONNECT " + CANARY + b":1 HTTP/1.1\r\n" + HOST + b"\r\n",
    POST + b"Content-Length: " + CANARY + b"\r\n\r\n", POST + b"Transfer-Encoding: " + CANARY + b"\r\n\r\n",
    POST + b"Transfer-Encoding: chunked\r\n\r\n" + CANARY + b"\r\n", POST + b"Transfer-Encoding: chunked\r\n\r\n1;x=" + CANARY + b"\r\na\r\n0\r\n\r\n",
    POST + b"Transfer-Encoding: chunked\r\n\r\n0\r\nX: " + CANARY + b"\r\n\r\n", _sent(BODY), _sent(CANARY), _sent(BODY[:-3]),
    _sent(b'{"query":["' + CANARY + b'"],"limit":3}'), _sent(b'{"limit":"' + CANARY + b'"}'), _sent(b'{"' + CANARY + b'":1}'),
    _sent(search(), b"Authorization: Basic " + base64.b64encode(b"u:" + CANARY) + b"\r\n"),
    b"PUT /collections/c/points?wait=" + CANARY + b" HTTP/1.1\r\n" + HOST + b"Content-Length: 99\r\n\r\n" + CANARY,
)  # fmt: skip


@dataclass
class Leaks:
    """Where the secret was seen."""

    places: list[str] = field(default_factory=list)

    def look(self, place: str, text: bytes) -> None:
        """Whether it is in there, as it is or in base64."""
        low = text.lower()
        if CANARY in low or any(form.lower() in low for form in _forms()):
            self.places.append(place)


def _forms() -> Iterable[bytes]:
    """The secret in base64, wherever in a longer text it began."""
    for shift in range(3):
        yield base64.b64encode(b"u" * shift + CANARY + b"u" * 2)[4:20]


@dataclass(frozen=True, slots=True)
class Front:
    """A proxy's own command between two relays that can be set to misbehave."""

    command: Command
    port: int
    admin: str
    relays: tuple[ToxicRelay, ToxicRelay]


@asynccontextmanager
async def front(mode: str) -> AsyncIterator[Front]:
    """The whole of it. The database repeats what it was asked: nobody may note that down either."""

    async def script(talk: Talk) -> None:
        with suppress(TimeoutError):  # the connections of the pool may idle
            while (received := await talk.request()) is not None:
                is_search = received.content == search()
                repeated = reply(received.raw[:4_000], status=b"418 " + CANARY, headers=[JSON, (b"x-secret", CANARY)])
                await talk.send(honest(received) if is_search else repeated)

    async def play(call: Arrived, context: Context) -> None:
        message = await call.read(context) or b""
        await context.write(honest_message(message) if CANARY not in message else message)

    async with (
        FaultyUpstream(script) as database,
        grpc_upstream(Query=play) as calls,
        ToxicRelay(database.port, size=20) as http,
        ToxicRelay(calls.port, size=20) as grpc,
    ):
        where = (
            "--upstream",
            f"http://127.0.0.1:{http.port}",
            "--grpc-upstream",
            f"127.0.0.1:{grpc.port}",
            "--mode",
            mode,
        )
        command = Command(
            ("serve", *where, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"),
            {"VECSIEVE_LIMITS_ATTEMPT_TIMEOUT_SECONDS": "0.3", "VECSIEVE_LIMITS_HEAD_TIMEOUT_SECONDS": "1"},
        )
        try:
            urls = await asyncio.to_thread(command.addresses, 2)
            yield Front(command, urlsplit(urls["serve"]).port or 0, urls["admin"], (http, grpc))
        finally:
            await asyncio.to_thread(command.close)


async def prove(_scale: Scale) -> list[Finding]:
    """Every request under every fault, one command a mode."""
    return [await secret(mode) for mode in MODES]


async def secret(mode: str) -> Finding:
    """Ask, then look everywhere."""
    leaks, sent, ours = Leaks(), 0, 0
    async with front(mode) as running:
        for toxic, size, seconds in FAULTS:
            for relay in running.relays:
                relay.toxic, relay.size, relay.seconds = toxic, size, seconds
            answers = await asyncio.gather(*(_answer_to(running.port, raw) for raw in REQUESTS))
            spoken = [answer for answer in answers if b"x-vecsieve-origin: proxy" in answer]
            for answer in spoken:
                leaks.look(f"an answer of ours: {answer[9:12].decode()}", answer)
            sent, ours = sent + len(answers) + await _called(running.port, leaks), ours + len(spoken)
        for path in PAGES:
            page = await asyncio.to_thread(exchange, running.admin, "GET", path)
            leaks.look(f"page {path.split('?')[0][:10]}", page.body + repr(page.headers).encode())
        await asyncio.to_thread(running.command.close)
        log = running.command.output()
    leaks.look("the log", log.encode())
    what = f"{sent} requests and calls under {len(FAULTS)} faults, mode {mode}"
    summary = "; ".join(
        [f"{len(leaks.places)} ({ours} answers of ours, {len(log.splitlines())} log lines)", *sorted(set(leaks.places))]
    )
    return Finding("S2", what, "0 occurrences", summary, not leaks.places and ours > 0 and bool(log))


async def _answer_to(port: int, raw: bytes) -> bytes:
    with suppress(OSError, TimeoutError):
        async with asyncio.timeout(TIMEOUT_SECONDS):
            return await exchanged(port, raw) or b""
    return b""


async def _called(port: int, leaks: Leaks) -> int:
    """The same over gRPC. Returns how many calls."""
    text, raw = CANARY.decode(), b"\n\x10" + CANARY
    calls = [
        *(
            ("/qdrant.Points/Query", raw, (name, value))
            for name, value in (("api-key", text), ("authorization", text), ("x-bin", CANARY))
        ),
        *((f"/qdrant.Points/Query{end}", raw, ("api-key", text)) for end in ("", text)),
        (f"/{text}/Query", raw, ("x", "y")),
        ("/qdrant.Points/Query", CANARY, ("x-vecsieve-mode", text)),
        ("/qdrant.Points/Query", raw + b"\xff\xff", ("traceparent", text)),
    ]
    requests = (
        ask(f"127.0.0.1:{port}", "unary_unary", (message,), method=method, metadata=(pair,), timeout=TIMEOUT_SECONDS)
        for method, message, pair in calls
    )
    for seen in await asyncio.gather(*requests):
        if any("vecsieve" in name for name, _ in (*seen.trailing, *seen.initial)):
            leaks.look(f"a status of ours: {seen.code.name}", f"{seen.details}{seen.trailing}{seen.initial}".encode())
    return len(calls)
