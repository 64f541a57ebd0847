from __future__ import annotations

import asyncio
import gzip
import tracemalloc
import zlib
from collections.abc import Awaitable, Callable, Generator

import pytest
from aiohttp import web
from aiohttp.web_protocol import RequestPayloadError
from hypothesis import given
from hypothesis import strategies as st

from support.network.faulty_upstream import RawClient
from support.network.relay_server import Invalidation, PlainDialect
from vecsieve.config.schema import LimitSettings
from vecsieve.proxy.http.answers import LocalAnswers
from vecsieve.proxy.http.body import RequestBody, coding_of, decoded
from vecsieve.proxy.http.listener import DataServer, listen
from vecsieve.proxy.runtime.addresses import DataPort
from vecsieve.proxy.search.errors import ClientBodyError, ClientFault

SendVectorFetch = Callable[[RequestBody], Awaitable[object]]
LENGTH = b"POST / HTTP/1.1\r\nHost: c\r\nContent-Length: 10\r\n\r\n"
CHUNKED = b"POST / HTTP/1.1\r\nHost: c\r\nTransfer-Encoding: chunked\r\n\r\n"


async def looked_at(
    look: SendVectorFetch, *sent: bytes, idle_seconds: float = 5.0, fails: Exception | None = None
) -> object:
    """What ``look`` makes of the body of one request that arrives in these pieces, or ``fails`` so after the last."""
    results: asyncio.Queue[object] = asyncio.Queue()

    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        if fails is not None:
            asyncio.get_running_loop().call_later(0.05, request.content.set_exception, fails)
        try:
            results.put_nowait(await look(RequestBody(request, idle_seconds=idle_seconds)))
        except ClientBodyError as error:
            results.put_nowait(error.fault)
        return web.Response()

    limits = LimitSettings()
    listener = await listen(
        DataServer(handler, limits, LocalAnswers(PlainDialect()), Invalidation()), limits, DataPort("127.0.0.1", 0)
    )
    client = await RawClient.connect(listener.ports[0])
    for piece in sent:
        await client.send(piece)
        await asyncio.sleep(0.01)
    result = await asyncio.wait_for(results.get(), 5)
    await client.close()
    await listener.close(grace_seconds=0)
    return result


async def all_of(body: RequestBody) -> bytes:
    return b"".join([chunk async for chunk in body.chunks()])


def whole(limit_bytes: int = 100) -> SendVectorFetch:
    return lambda body: body.whole(limit_bytes=limit_bytes, deadline_seconds=5.0)


async def gathered_first(body: RequestBody) -> bytes:
    await body.gathered()
    return await all_of(body)


async def gathered_then_whole(body: RequestBody) -> bytes | None:
    await body.gathered()
    return await body.whole(limit_bytes=100, deadline_seconds=5.0)


@pytest.mark.parametrize("look", [gathered_first, gathered_then_whole])
@pytest.mark.parametrize(
    "sent", [(LENGTH, b"01234", b"56789"), (CHUNKED, b"5\r\n01234\r\n", b"5\r\n56789\r\n0\r\n\r\n")]
)
async def test_a_body_that_was_gathered_is_read_from_its_first_byte(
    look: SendVectorFetch, sent: tuple[bytes, ...]
) -> None:
    assert await looked_at(look, *sent) == b"0123456789"


async def test_who_has_sent_as_much_as_is_gathered_is_not_waited_for() -> None:
    async def look(body: RequestBody) -> str:
        await body.gathered()
        return "gathered"

    head = b"POST / HTTP/1.1\r\nHost: c\r\nContent-Length: 200000\r\n\r\n"
    assert await looked_at(look, head, b"a" * 70_000, idle_seconds=0.5) == "gathered"
    assert await looked_at(look, head, b"a" * 60_000, idle_seconds=0.5) is ClientFault.TOO_SLOW


async def test_a_body_that_stops_while_it_is_gathered_is_too_slow() -> None:
    assert await looked_at(gathered_first, LENGTH, b"0", idle_seconds=0.05) is ClientFault.TOO_SLOW


async def test_a_short_body_that_keeps_arriving_is_waited_for_beyond_the_idle_time() -> None:
    pieces = [bytes([48 + number]) for number in range(10)]  # 10 ms and more apart
    assert await looked_at(gathered_first, LENGTH, *pieces, idle_seconds=0.06) == b"0123456789"
    assert await looked_at(whole(), LENGTH, *pieces, idle_seconds=0.06) == b"0123456789"


@pytest.mark.parametrize("look", [gathered_first, whole()])
@pytest.mark.parametrize(
    ("error", "fault"),
    [(RequestPayloadError(), ClientFault.MALFORMED), (ConnectionResetError(), ClientFault.GONE)],
)
async def test_a_short_body_that_breaks_off_fails_at_once(
    look: SendVectorFetch, error: Exception, fault: ClientFault
) -> None:
    assert await looked_at(look, LENGTH, b"01234", fails=error) is fault


@pytest.mark.parametrize("look", [RequestBody.gathered, whole()])
async def test_a_short_body_in_many_segments_wakes_its_reader_once(look: SendVectorFetch) -> None:
    class Counted:
        def __init__(self, body: RequestBody) -> None:
            self.body, self.wakes = body, 0

        def __await__(self) -> Generator[object, None, int]:
            reading = look(self.body).__await__()
            for waited in reading:
                self.wakes += 1
                yield waited
            return self.wakes

    async def counted(body: RequestBody) -> int:
        return await Counted(body)

    assert await looked_at(counted, LENGTH, *[b"0"] * 10) == 1


async def test_a_request_without_a_body_has_nothing_to_gather() -> None:
    assert await looked_at(gathered_first, b"GET / HTTP/1.1\r\nHost: c\r\n\r\n") == b""


@pytest.mark.parametrize(
    "sent", [(LENGTH, b"01234", b"56789"), (CHUNKED, b"5\r\n01234\r\n", b"5\r\n56789\r\n0\r\n\r\n")]
)
async def test_a_small_body_is_read_whole(sent: tuple[bytes, ...]) -> None:
    assert await looked_at(whole(), *sent) == b"0123456789"
    assert await looked_at(whole(limit_bytes=10), *sent) == b"0123456789"


@pytest.mark.parametrize(
    "sent", [(LENGTH, b"01234", b"56789"), (CHUNKED, b"5\r\n01234\r\n", b"5\r\n56789\r\n0\r\n\r\n")]
)
@pytest.mark.parametrize("limit", [0, 4, 9, 10, 100])
async def test_whatever_was_looked_at_passes_through_complete(sent: tuple[bytes, ...], limit: int) -> None:
    async def look(body: RequestBody) -> tuple[bytes | None, bytes]:
        return await body.whole(limit_bytes=limit, deadline_seconds=5), await all_of(body)

    expected = b"0123456789"
    assert await looked_at(look, *sent) == (expected if limit >= 10 else None, expected)


async def test_a_declared_length_beyond_the_limit_is_not_even_begun() -> None:
    assert await looked_at(whole(limit_bytes=9), LENGTH) is None


async def test_a_body_slower_than_the_deadline_is_handed_over_not_refused() -> None:
    started = asyncio.Event()

    async def look(body: RequestBody) -> tuple[bytes | None, bytes]:
        first = await body.whole(limit_bytes=100, deadline_seconds=0.05)
        started.set()
        return first, await all_of(body)

    assert await looked_at(look, LENGTH, b"01234", *[b""] * 10, b"56789") == (None, b"0123456789")
    assert started.is_set()


async def test_a_silent_client_is_too_slow() -> None:
    assert await looked_at(all_of, LENGTH, b"0", idle_seconds=0.05) is ClientFault.TOO_SLOW
    assert await looked_at(whole(), LENGTH, b"0", idle_seconds=0.05) is ClientFault.TOO_SLOW


async def test_a_bad_chunk_is_the_clients_fault_at_once() -> None:
    assert await looked_at(all_of, CHUNKED, b"3\r\nabc\r\n", b"zz\r\n") is ClientFault.MALFORMED
    assert await looked_at(whole(), CHUNKED, b"3\r\nabc\r\n", b"zz\r\n") is ClientFault.MALFORMED


@pytest.mark.parametrize(
    "head", [b"POST / HTTP/1.1\r\nHost: c\r\n\r\n", b"PUT / HTTP/1.1\r\nHost: c\r\nContent-Length: 0\r\n\r\n"]
)
async def test_no_body_is_empty_and_does_not_exist(head: bytes) -> None:
    async def look(body: RequestBody) -> tuple[bool, bytes | None, bytes]:
        return body.exists, await body.whole(limit_bytes=0, deadline_seconds=1), await all_of(body)

    assert await looked_at(look, head) == (False, b"", b"")


async def test_what_is_here_already_needs_no_waiting_and_is_not_lost() -> None:
    async def look(body: RequestBody) -> tuple[bytes | None, bytes]:
        await asyncio.sleep(0.05)
        return body.arrived(), await all_of(body)

    assert await looked_at(look, LENGTH + b"0123456789") == (b"0123456789", b"0123456789")
    assert await looked_at(look, LENGTH + b"01234", *[b""] * 15, b"56789") == (None, b"0123456789")
    assert await looked_at(look, CHUNKED + b"3\r\nabc\r\n", b"zz\r\n") is ClientFault.MALFORMED


async def whole_then_replaced(body: RequestBody) -> object:
    await body.whole(limit_bytes=100, deadline_seconds=5.0)
    body.replace(b"other")
    return body.arrived(), body.content_length, body.is_chunked, await all_of(body)


@pytest.mark.parametrize("sent", [(LENGTH, b"0123456789"), (CHUNKED, b"a\r\n0123456789\r\n0\r\n\r\n")])
async def test_a_body_that_was_read_whole_can_be_replaced(sent: tuple[bytes, ...]) -> None:
    assert await looked_at(whole_then_replaced, *sent) == (b"other", 5, False, b"other")


def kept(limit_bytes: int, *, is_read: bool) -> SendVectorFetch:
    async def look(body: RequestBody) -> bytes | None:
        body.keep(limit_bytes)
        if is_read:
            await all_of(body)
        else:
            while body.arrived() is None:
                await asyncio.sleep(0.01)
        return body.kept()

    return look


@pytest.mark.parametrize("is_read", [False, True])
@pytest.mark.parametrize(("limit_bytes", "expected"), [(10, b"0123456789"), (9, None)])
async def test_what_is_sent_is_kept_up_to_a_limit(is_read: bool, limit_bytes: int, expected: bytes | None) -> None:
    assert await looked_at(kept(limit_bytes, is_read=is_read), LENGTH, b"01234", b"56789") == expected


async def test_a_body_that_was_not_read_to_its_end_is_not_kept() -> None:
    async def look(body: RequestBody) -> bytes | None:
        body.keep(100)
        await anext(body.chunks())
        return body.kept()

    assert await looked_at(look, LENGTH, b"01234", b"56789") is None


MIB = 1024 * 1024


@given(st.binary(max_size=4000), st.sampled_from([b"gzip", b"GZIP", b" x-gzip ", b"deflate", b"identity", b""]))
def test_what_was_encoded_comes_back(body: bytes, coding: bytes) -> None:
    # Invariant: decoding undoes encoding within the limit.
    name = coding.strip().lower()
    packed = gzip.compress(body) if name.endswith(b"gzip") else zlib.compress(body) if name == b"deflate" else body
    assert decoded(packed, coding, limit_bytes=4000) == body


@given(st.binary(max_size=200), st.sampled_from([b"gzip", b"deflate", b"br", b"zstd", b"gzip, gzip", b"\xff"]))
def test_arbitrary_bytes_give_bytes_or_none(body: bytes, coding: bytes) -> None:
    # Invariant: nothing is raised, and what comes back fits the limit.
    plain = decoded(body, coding, limit_bytes=100)
    assert plain is None or len(plain) <= 100


@pytest.mark.parametrize("coding", [b"br", b"zstd", b"compress", b"gzip, deflate", b"*"])
def test_other_codings_are_not_ours(coding: bytes) -> None:
    assert decoded(b"{}", coding, limit_bytes=100) is None


def test_the_limit_is_exact() -> None:
    packed = gzip.compress(b"x" * 1000)
    assert decoded(packed, b"gzip", limit_bytes=1000) == b"x" * 1000
    assert decoded(packed, b"gzip", limit_bytes=999) is None
    assert decoded(b"xx", b"", limit_bytes=1) is None


def test_a_bomb_is_given_up_before_it_fills_the_memory() -> None:
    bomb = gzip.compress(bytes(200 * MIB), compresslevel=1)
    tracemalloc.start()
    assert decoded(bomb, b"gzip", limit_bytes=8 * MIB) is None
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 24 * MIB, "the limit twice, and what zlib's growing buffer takes"


def test_a_ratio_beyond_100_is_a_bomb_however_large_the_limit() -> None:
    packed = gzip.compress(bytes(20 * MIB))
    assert len(packed) * 100 < 20 * MIB
    assert decoded(packed, b"gzip", limit_bytes=512 * MIB) is None


@pytest.mark.parametrize("damage", [slice(0, -1), slice(0, 5), slice(1, None)])
def test_damage_is_none(damage: slice) -> None:
    assert decoded(gzip.compress(b"hello world")[damage], b"gzip", limit_bytes=100) is None


def test_bytes_after_the_end_are_none() -> None:
    assert decoded(gzip.compress(b"one") + gzip.compress(b"two"), b"gzip", limit_bytes=100) is None


ACTIX = frozenset({b"gzip", b"deflate"})


@pytest.mark.parametrize(
    ("lines", "undone", "coding"),
    [
        ([], ACTIX, b""),
        ([], frozenset(), b""),
        ([b"gzip"], ACTIX, b"gzip"),
        ([b" GZip "], ACTIX, b"gzip"),
        ([b"deflate"], ACTIX, b"deflate"),
        ([b"identity"], ACTIX, b"identity"),
        ([b"identity"], frozenset(), b"identity"),
        ([b"gzip"], frozenset(), None),
        ([b"x-gzip"], ACTIX, None),
        ([b"br"], ACTIX, None),
        ([b"nonsense"], ACTIX, None),
        ([b""], ACTIX, None),
        ([b"gzip, identity"], ACTIX, None),
        ([b"identity", b"gzip"], ACTIX, None),
        ([b"gzip", b"gzip"], ACTIX, None),
    ],
)
def test_a_coding_is_undone_only_where_the_database_surely_sees_the_same_body(
    lines: list[bytes], undone: frozenset[bytes], coding: bytes | None
) -> None:
    assert coding_of(lines, undone) == coding
