"""The admin listener over real sockets: five pages, closed to everything else, and no echo of what was asked."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import socket
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace

import pytest

from support.network.loops import on_both_loops
from support.selection.inspections import inspector
from vecsieve.proxy.admin.recent import Recent
from vecsieve.proxy.admin.server import CONNECTIONS, AdminServer, Pages, page_file
from vecsieve.proxy.admin.status import Status
from vecsieve.proxy.telemetry.exposition import process_registry, scrape
from vecsieve.proxy.telemetry.labels import BreakerState
from vecsieve.proxy.telemetry.metrics import Metrics

CANARY = "CANARY-77aa1"
STATUS = Status(
    version="1",
    state="ready",
    uptime_seconds=1.0,
    backend="qdrant",
    mode="on",
    upstream="db:6333",
    settings_hash="0123456789ab",
    requests_in_flight=0,
    searches_in_flight=0,
    breaker=BreakerState.CLOSED,
    canary="none",
    learned_collections=0,
)


class Content:
    """What the pages show; readiness can be switched."""

    def __init__(self) -> None:
        self.is_ready = True
        self.registry = process_registry()
        self.metrics = Metrics(self.registry, backend="qdrant")
        self.recent = Recent(3, now=lambda: 1000.0)

    def pages(self) -> Pages:
        return Pages(
            is_ready=lambda: self.is_ready,
            metrics=lambda accept: scrape(self.registry, accept),
            status=lambda: STATUS,
            inspector=inspector(self.recent),
        )


@dataclass(frozen=True, slots=True)
class Raw:
    """An answer as it came."""

    head: str
    body: bytes

    @property
    def status(self) -> int:
        return int(self.head.split(" ", 2)[1])

    def field(self, name: str) -> str | None:
        fields = dict(line.split(": ", 1) for line in self.head.split("\r\n")[1:])
        return fields.get(name)


@pytest.fixture
def content() -> Content:
    return Content()


@pytest.fixture
async def port(content: Content) -> AsyncIterator[int]:
    server = AdminServer(content.pages())
    port = await server.start(("127.0.0.1", 0))
    yield port
    await server.close()


async def send(port: int, request: str) -> Raw:
    """Send bytes, read until the connection ends."""
    async with asyncio.timeout(5):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(request.encode("latin-1"))
        answer = await reader.read()
        writer.close()
        await writer.wait_closed()
    head, _, body = answer.partition(b"\r\n\r\n")
    return Raw(head.decode("latin-1"), body)


async def get(port: int, target: str, method: str = "GET") -> Raw:
    return await send(port, f"{method} {target} HTTP/1.1\r\nHost: localhost:9464\r\nx-secret: {CANARY}\r\n\r\n")


async def test_liveness_answers_while_the_loop_runs(port: int, content: Content) -> None:
    content.is_ready = False
    answer = await get(port, "/livez")
    assert (answer.status, answer.body) == (200, b"ok\n")


@pytest.mark.parametrize(("is_ready", "status"), [(True, 200), (False, 503)])
async def test_readiness_follows_the_process(port: int, content: Content, is_ready: bool, status: int) -> None:
    content.is_ready = is_ready
    assert (await get(port, "/readyz")).status == status


async def test_metrics_are_the_exposition(port: int, content: Content) -> None:
    content.metrics.refetch_total.inc(7)
    answer = await get(port, "/metrics")
    assert answer.field("Content-Type") == "text/plain; version=0.0.4; charset=utf-8"
    assert b'vecsieve_refetch_total{backend="qdrant"} 7.0\n' in answer.body
    accept = "application/openmetrics-text;version=1.0.0,text/plain;q=0.5"
    answer = await send(port, f"GET /metrics HTTP/1.1\r\nHost: x\r\nAccept: {accept}\r\n\r\n")
    assert answer.field("Content-Type") == "application/openmetrics-text; version=1.0.0; charset=utf-8"
    assert answer.body.endswith(b"# EOF\n")


@pytest.mark.parametrize(
    ("target", "members"),
    [
        ("/status", {"upstream": "db:6333"}),
        ("/explain", {"keep": 3, "records": []}),
        ("/egress", {"searches": 0, "extra_bytes": 0}),
        ("/status?verbose", {"version": "1"}),
    ],
)
async def test_the_other_pages_are_json(port: int, target: str, members: dict[str, object]) -> None:
    answer = await get(port, target)
    assert (answer.status, answer.field("Content-Type")) == (200, "application/json")
    assert members.items() <= json.loads(answer.body).items()


@pytest.mark.parametrize(
    "target",
    [
        "/static",
        "/static/",
        "/static/../server.py",
        "/static/index.html",
        "/static/vendor/README.md",
        "/static//app.js",
        "/index.html",
        "/livez/",
        "/livez/x",
        "/LIVEZ",
        "//livez",
        "/%6civez",
        "/collections/c",
    ],
)
async def test_every_other_path_is_not_found(port: int, target: str) -> None:
    assert (await get(port, target)).status == 404


@pytest.mark.parametrize("target", ["http://evil.example/status", "*", "evil.example:80"])
async def test_targets_that_are_no_path_show_no_page(port: int, target: str) -> None:
    assert (await get(port, target)).status in {400, 404}


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "PATCH"])
async def test_other_methods_are_refused(port: int, method: str) -> None:
    answer = await get(port, "/status", method)
    assert (answer.status, answer.field("Allow")) == (405, "GET, HEAD")


@pytest.mark.parametrize("target", ["/livez", "/readyz", "/metrics", "/status", "/explain", "/egress"])
async def test_head_is_the_head_of_get(port: int, target: str) -> None:
    head, full = await get(port, target, "HEAD"), await get(port, target)
    assert (head.status, head.body) == (200, b"")
    assert head.field("Content-Type") == full.field("Content-Type")
    assert int(head.field("Content-Length") or "0") > 0


@pytest.mark.parametrize("target", ["/livez", "/readyz", "/metrics", "/status", "/explain", "/nothing"])
async def test_answers_are_anonymous_uncached_and_end_their_connection(port: int, target: str) -> None:
    answer = await get(port, target)
    assert "server" not in answer.head.lower()
    assert (answer.field("Cache-Control"), answer.field("Connection")) == ("no-store", "close")


@pytest.mark.parametrize(
    "request_text",
    [
        f"GET /status HTTP/1.1\r\nHost: x\r\nbad header {CANARY}\r\n\r\n",
        f"GET /{CANARY}\x01 HTTP/1.1\r\n\r\n",
        f"{CANARY}\r\n\r\n",
        f"GET /status HTTP/1.1\r\nHost: x\r\nlong: {CANARY}{'x' * 9000}\r\n\r\n",
        f"POST /status HTTP/1.1\r\nHost: x\r\nContent-Length: {CANARY}\r\n\r\n",
        f"GET /{CANARY} HTTP/1.1\r\nHost: x\r\napi-key: {CANARY}\r\n\r\n",
    ],
)
async def test_nothing_of_a_request_is_repeated_in_answer_or_log(
    port: int, caplog: pytest.LogCaptureFixture, request_text: str
) -> None:
    caplog.set_level(logging.DEBUG)
    answer = await send(port, request_text)
    assert 400 <= answer.status < 500
    assert CANARY not in answer.head + answer.body.decode("latin-1") + caplog.text
    assert "server" not in answer.head.lower()


async def test_a_page_that_fails_is_a_500_in_fixed_words(caplog: pytest.LogCaptureFixture) -> None:
    def broken() -> Status:
        raise RuntimeError(CANARY)

    server = AdminServer(replace(Content().pages(), status=broken))
    port = await server.start(("127.0.0.1", 0))
    answer = await get(port, "/status")
    await server.close()
    assert (answer.status, answer.body) == (500, b"The proxy failed\n")
    assert CANARY not in caplog.text


@on_both_loops
async def test_a_client_that_never_finishes_its_request_is_let_go(content: Content) -> None:
    server = AdminServer(content.pages(), life_seconds=0.05)
    port = await server.start(("127.0.0.1", 0))
    assert (await unfinished(port))[:13] in {b"", b"HTTP/1.1 408 "}
    await server.close()


async def unfinished(port: int) -> bytes:
    async with asyncio.timeout(5):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /livez HTTP/1.1\r\nHo")
        seen = await rest(reader)
        writer.close()
        return seen


async def rest(reader: asyncio.StreamReader) -> bytes:
    """What comes before the connection ends, in whichever way it does."""
    try:
        return await reader.read()
    except ConnectionResetError:
        return b""


async def test_connections_beyond_the_bound_are_closed_and_places_come_back(port: int) -> None:
    connections = [await asyncio.open_connection("127.0.0.1", port) for _ in range(CONNECTIONS)]
    await asyncio.sleep(0)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    async with asyncio.timeout(5):
        assert await rest(reader) == b""
    writer.close()
    for _, open_writer in connections:
        open_writer.close()
        await open_writer.wait_closed()
    async with asyncio.timeout(5):
        while True:
            try:
                if (await get(port, "/livez")).status == 200:
                    break
            except (ConnectionResetError, IndexError):
                await asyncio.sleep(0.01)


async def test_it_listens_on_a_socket_that_was_bound_before(content: Content) -> None:
    bound = socket.create_server(("127.0.0.1", 0))
    server = AdminServer(content.pages())
    port = await server.start(bound)
    assert port == bound.getsockname()[1]
    assert (await get(port, "/livez")).status == 200
    await server.close()


async def test_a_port_in_use_is_an_error(content: Content, port: int) -> None:
    with pytest.raises(OSError, match="is in use"):
        await AdminServer(content.pages()).start(("127.0.0.1", port))


async def test_closing_frees_the_port_and_may_be_repeated(content: Content) -> None:
    server = AdminServer(content.pages())
    port = await server.start(("127.0.0.1", 0))
    await server.close()
    await server.close()
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", port)


# The page's files: all there, nothing from elsewhere, and colours that can be read in light and dark.


STYLE = (page_file("/static/style.css") or (b"", ""))[0].decode()
LIGHT, DARK = (
    dict(re.findall(r"--([\w-]+): (#\w+)", block)) for block in re.findall(r":root \{(.*?)\}", STYLE, re.DOTALL)
)
SURFACES = ("page", "card", "soft", "gone-soft", "new-soft", "warn-soft")
# A colour of words, and what it is written on.
PAIRS = [
    *(("ink", surface) for surface in SURFACES),
    *(("quiet", surface) for surface in SURFACES),
    *(("accent", surface) for surface in ("page", "card", "soft")),
    *((word, surface) for word in ("gone", "new", "warn") for surface in ("card", f"{word}-soft")),
]


def luminance(colour: str) -> float:
    digits = colour.lstrip("#")
    digits = digits if len(digits) == 6 else "".join(digit * 2 for digit in digits)
    channels = [int(digits[at : at + 2], 16) / 255 for at in (0, 2, 4)]
    red, green, blue = (
        channel / 12.92 if channel <= 0.03928 else ((channel + 0.055) / 1.055) ** 2.4 for channel in channels
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("colours", [LIGHT, DARK], ids=["light", "dark"])
def test_every_word_has_the_contrast_that_wcag_asks_for(colours: dict[str, str]) -> None:
    for word, surface in PAIRS:
        dark, light = sorted((luminance(colours[word]), luminance(colours[surface])))
        assert (light + 0.05) / (dark + 0.05) >= 4.5, (word, surface)


def test_every_file_that_the_page_names_is_served_with_its_type() -> None:
    document, kind = page_file("/") or (b"", "")
    assert kind == "text/html; charset=utf-8"
    named = re.findall(rb'(?:src|href)="(/static/[^"]+)"', document)
    scripts = [page_file(f"/static/{name}") for name in ("app.js", "requests.js", "views.js", "whatif.js")]
    imported = {name for script in scripts if script for name in re.findall(rb'from "\./([^"]+)"', script[0])}
    assert len(named) >= 4
    for path in [*named, *(b"/static/" + name for name in imported)]:
        assert page_file(path.decode()) is not None, path


def test_no_script_or_style_names_another_host() -> None:
    for name in ("app.js", "requests.js", "views.js", "whatif.js", "style.css"):
        content, _ = page_file(f"/static/{name}") or (b"", "")
        assert content
        assert re.findall(rb"https?://|@import|eval\(|innerHTML", content) == []
