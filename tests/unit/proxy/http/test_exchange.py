from __future__ import annotations

from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest
from aiohttp.test_utils import make_mocked_request
from multidict import CIMultiDict

from support.backends.toy_backend import OPERATION
from support.backends.toy_exchange import toys
from support.network.faulty_upstream import FaultyUpstream, answering, reply
from vecsieve.adapters.contract import Question, RequestHead
from vecsieve.config.schema import LimitSettings, UpstreamSettings
from vecsieve.proxy.http.body import RequestBody
from vecsieve.proxy.http.exchange import HttpExchange
from vecsieve.proxy.http.headers import Target, shape_of
from vecsieve.proxy.http.routes import Classified
from vecsieve.proxy.http.upstream import Upstream
from vecsieve.proxy.runtime.addresses import Origin
from vecsieve.proxy.search.errors import LostReplyError, RefusedReplyError
from vecsieve.proxy.telemetry.labels import FailOpen

QUESTION = Question(method="GET", target="/vectors/fetch?ids=a%20b&namespace=n%2Fs")
LIMIT = 100


@pytest.fixture
async def upstream() -> AsyncIterator[Upstream]:
    made = Upstream(UpstreamSettings(url="http://127.0.0.1:9"), reply_bytes=LIMIT)
    yield made
    await made.close()


async def sent(
    upstream: Upstream, to: FaultyUpstream, headers: list[tuple[bytes, bytes]], *, seconds: float = 5.0
) -> bytes:
    fields = CIMultiDict((name.decode(), value.decode()) for name, value in headers)
    target = Target("/query", "/query", Origin.of(to.url))
    classified = Classified(target, RequestHead(method="POST", path="/query"), OPERATION)
    limits = LimitSettings().model_copy(update={"reply_body_bytes": LIMIT})
    services = toys(limits=limits).services
    http: Any = SimpleNamespace(services=services, upstream=upstream)
    request, record = make_mocked_request("POST", "/query", fields), services.recorder.begin()
    exchange = HttpExchange(
        record,
        record.trace,
        http,
        request,
        shape_of(request.raw_headers),
        RequestBody(request, idle_seconds=1.0),
        classified,
        is_search=True,
    )
    return await exchange.ask(QUESTION, seconds=seconds)


async def test_it_goes_where_the_search_went_with_the_searchs_fields_but_for_those_of_its_body(
    upstream: Upstream,
) -> None:
    of_a_body = [
        (b"Content-Type", b"application/json"), (b"Content-Length", b"44"), (b"Content-Encoding", b"gzip"),
        (b"Transfer-Encoding", b"chunked"), (b"Content-MD5", b"x"), (b"Expect", b"100-continue"),
    ]  # fmt: skip
    fields_sent = [(b"Api-Key", b"k"), (b"X-Version", b"1"), (b"X-Version", b"1"), (b"Accept-Encoding", b"gzip, br")]
    async with FaultyUpstream(answering(reply(b"found"))) as database:
        assert await sent(upstream, database, [fields_sent[0], *of_a_body, *fields_sent[1:]]) == b"found"
        (request,) = database.requests
    assert request.line == b"GET /vectors/fetch?ids=a%20b&namespace=n%2Fs HTTP/1.1"
    assert request.body == b""
    fields = [(name, value) for name, value in request.headers if name.lower() != b"host"]
    assert fields == [*fields_sent[:3], (b"Accept-Encoding", b"identity")]


@pytest.mark.parametrize("status", [b"204 No Content", b"200 OK"])
async def test_every_success_is_one(upstream: Upstream, status: bytes) -> None:
    async with FaultyUpstream(answering(reply(b"", status=status))) as database:
        assert await sent(upstream, database, []) == b""


@pytest.mark.parametrize(
    ("status", "is_server_error"), [(b"404 Not Found", False), (b"429 No", False), (b"500 No", True), (b"302 X", False)]
)
async def test_what_is_no_success_is_refused_with_its_words(
    upstream: Upstream, status: bytes, *, is_server_error: bool
) -> None:
    async with FaultyUpstream(answering(reply(b"words", status=status))) as database:
        with pytest.raises(RefusedReplyError) as refused:
            await sent(upstream, database, [])
    assert (refused.value.status, refused.value.words) == (int(status[:3]), b"words")
    assert refused.value.is_server_error is is_server_error


@pytest.mark.parametrize(
    ("answer", "reason", "received_bytes"),
    [
        (reply(b"x" * (LIMIT + 1)), FailOpen.TOO_LARGE, LIMIT),
        (reply(b"zipped", headers=[(b"Content-Encoding", b"gzip")]), FailOpen.MALFORMED, 6),
        (b"no http\r\n\r\n", FailOpen.OVERFETCH_RESET, 0),
        (b"HTTP/1.1 200 OK\r\n", FailOpen.OVERFETCH_TIMEOUT, 0),
    ],
)
async def test_what_cannot_be_read_is_lost_with_its_reason(
    upstream: Upstream, answer: bytes, reason: FailOpen, received_bytes: int
) -> None:
    async with FaultyUpstream(answering(answer)) as database:
        with pytest.raises(LostReplyError) as lost:
            await sent(upstream, database, [], seconds=0.3)
    assert (lost.value.reason, lost.value.received_bytes) == (reason, received_bytes)
