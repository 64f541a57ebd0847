"""The gRPC relay against no relay for what only the wire shows: trailers alone, broken replies, fields no library sends."""

from __future__ import annotations

import threading

import grpc
import pytest
from h2.errors import ErrorCodes

from support.grpc.calls import ask
from support.grpc.raw import REPLY_HEAD, Fields, framed, raw_call, raw_upstream
from support.grpc.relay_server import bare_grpc_relay
from support.grpc.upstream import Arrived, Context, echo, ending, grpc_upstream

WAYS = pytest.mark.parametrize("is_unary", [False, True], ids=["relayed", "unary"])
OK: Fields = [(b"grpc-status", b"0")]
REPLIES: dict[str, tuple[tuple[Fields | bytes, ...], ErrorCodes | None]] = {
    "trailers alone": (([*REPLY_HEAD, (b"grpc-status", b"7"), (b"grpc-message", b"no"), (b"x", b"1")],), None),
    "a status nobody defined": ((REPLY_HEAD, [(b"grpc-status", b"99"), (b"grpc-message", b"odd")]), None),
    "a status that is no number": ((REPLY_HEAD, [(b"grpc-status", b"abc")]), None),
    "details that are no UTF-8": (
        (REPLY_HEAD, [(b"grpc-status", b"3"), (b"grpc-message", b"caf%E9 %zz %C3%A9")]),
        None,
    ),
    "no status": ((REPLY_HEAD, framed(b"answer"), [(b"x", b"1")]), None),
    "an answer of HTTP": (([(b":status", b"503"), (b"content-type", b"text/html")], b"<html>"), None),
    "HTTP alone": (([(b":status", b"429"), (b"retry-after", b"3")],), None),
    "reset before the head": ((), ErrorCodes.INTERNAL_ERROR),
    "refused stream": ((), ErrorCodes.REFUSED_STREAM),
    "cancelled stream": ((REPLY_HEAD,), ErrorCodes.CANCEL),
    "reset behind the head": ((REPLY_HEAD,), ErrorCodes.ENHANCE_YOUR_CALM),
    "reset behind an answer": ((REPLY_HEAD, framed(b"answer")), ErrorCodes.INTERNAL_ERROR),
    "a message cut short": ((REPLY_HEAD, framed(b"answer")[:-2], OK), None),
    "a message in two frames": ((REPLY_HEAD, framed(b"answer")[:3], framed(b"answer")[3:], OK), None),
}
# The asyncio client takes the lack of one for None, the blocking one and every other language's for INTERNAL.
NO_ANSWER = {"a message cut short"}


@WAYS
@pytest.mark.parametrize("name", REPLIES)
async def test_a_reply_is_read_as_it_would_be_without_the_relay(name: str, *, is_unary: bool) -> None:
    blocks, reset = REPLIES[name]
    async with raw_upstream(*blocks, reset=reset) as upstream:
        direct = await ask(upstream.address, "unary_unary")
        seen_directly = len(upstream.heads)
        async with bare_grpc_relay(upstream.address, is_unary=is_unary) as way:
            through = await ask(way.address, "unary_unary")
    if name in NO_ANSWER and is_unary:
        assert through.code is grpc.StatusCode.INTERNAL
    else:
        assert through == direct
    assert len(upstream.heads) == seen_directly + 1


@WAYS
async def test_status_0_without_a_message_is_no_answer(*, is_unary: bool) -> None:
    async with (
        raw_upstream(REPLY_HEAD, OK) as upstream,
        bare_grpc_relay(upstream.address, is_unary=is_unary) as way,
    ):
        reply = await raw_call(way.port, [])
    assert not reply.data
    assert reply.last(b"grpc-status") == (b"13" if is_unary else b"0")


async def test_a_reply_of_trailers_alone_stays_one_on_a_busy_machine() -> None:
    """Its head and its status are told apart in time by whoever is busy; a client's retry policy knows the difference."""
    is_over = False

    def be_busy() -> None:
        while not is_over:
            pass

    busy = threading.Thread(target=be_busy)
    script = ending(grpc.StatusCode.UNAVAILABLE, "try again")
    async with grpc_upstream(method=script) as upstream, bare_grpc_relay(upstream.address) as way:
        busy.start()
        try:
            blocks = [len((await raw_call(way.port, [])).blocks) for _ in range(30)]
        finally:
            is_over = True
            busy.join()
    assert blocks == [1] * 30


@WAYS
async def test_the_frames_of_an_answer_hold_what_they_would_without_the_relay(*, is_unary: bool) -> None:
    async with grpc_upstream(method=echo) as upstream, bare_grpc_relay(upstream.address, is_unary=is_unary) as way:
        direct, through = [await raw_call(port, []) for port in (upstream.port, way.port)]
    assert through == direct
    assert through.data == framed(b"question")


@WAYS
async def test_a_call_without_a_message_is_the_databases_to_refuse(*, is_unary: bool) -> None:
    async def refuse(call: Arrived, context: Context) -> None:
        assert await call.read(context) is None
        context.set_code(grpc.StatusCode.INTERNAL)
        context.set_details("Missing request message.")

    async with grpc_upstream(method=refuse) as upstream, bare_grpc_relay(upstream.address, is_unary=is_unary) as way:
        direct, through = [await raw_call(port, [], None) for port in (upstream.port, way.port)]
    assert through == direct
    assert through.last(b"grpc-message") == b"Missing request message."


UNSENDABLE = [("grüße".encode()), b"gr\xfc\xdfe", b"a\tb", b"a\x00b"]


@WAYS
@pytest.mark.parametrize("value", UNSENDABLE)
async def test_a_request_with_metadata_that_cannot_be_passed_on_is_refused(value: bytes, *, is_unary: bool) -> None:
    async with grpc_upstream(method=echo) as upstream, bare_grpc_relay(upstream.address, is_unary=is_unary) as way:
        reply = await raw_call(way.port, [(b"x-note", value)])
    assert reply.last(b"grpc-status") == b"3"
    assert reply.last(b"x-vecsieve-origin") == b"proxy"
    assert not upstream.calls


@WAYS
@pytest.mark.parametrize("value", UNSENDABLE)
async def test_an_answer_with_metadata_that_cannot_be_passed_on_loses_the_metadata(
    value: bytes, *, is_unary: bool
) -> None:
    """It may be the answer to a write: an error in its place would have the write sent again."""
    fields = [(b"x-note", value), (b"x-kept", b"1")]
    async with (
        raw_upstream([*REPLY_HEAD, *fields], framed(b"answer"), [*OK, *fields]) as upstream,
        bare_grpc_relay(upstream.address, is_unary=is_unary) as way,
    ):
        through = await ask(way.address, "unary_unary")
    assert through.messages == (b"answer",)
    assert through.initial == through.trailing == (("x-kept", "1"),)


@WAYS
async def test_what_belongs_to_the_hop_and_to_us_stays_here(*, is_unary: bool) -> None:
    fields: Fields = [
        (b"host", b"other.example"),
        (b"connection", b"x"),
        (b"grpc-accept-encoding", b"identity"),
        (b"grpc-trace-bin", b"AAE"),
        (b"grpc-tags-bin", b"AAE"),
        (b"grpc-previous-rpc-attempts", b"1"),
        (b"x-vecsieve-mode", b"off"),
        (b"user-agent", b"a client of its own"),
        (b"x-kept", b"1"),
    ]
    async with (
        raw_upstream(REPLY_HEAD, framed(b"answer"), OK) as upstream,
        bare_grpc_relay(upstream.address, is_unary=is_unary) as way,
    ):
        assert (await raw_call(way.port, fields)).data == framed(b"answer")
    (head,) = upstream.heads
    names = [name for name, _ in head]
    assert sorted(names) == sorted(
        b":method :scheme :path :authority te content-type user-agent grpc-accept-encoding x-kept".split()
    )
    assert dict(head)[b":authority"] == upstream.address.encode()
    assert b"a client of its own" not in dict(head)[b"user-agent"]


async def test_searches_ask_for_replies_that_are_not_compressed_and_other_calls_for_any() -> None:
    accepted = {}
    for is_search in (True, False):
        async with (
            raw_upstream(REPLY_HEAD, framed(b"answer"), OK) as upstream,
            bare_grpc_relay(upstream.address, is_unary=True, is_search=is_search) as way,
        ):
            await ask(way.address, "unary_unary")
        accepted[is_search] = dict(upstream.heads[0])[b"grpc-accept-encoding"]
    assert accepted == {True: b"identity", False: b"identity, deflate, gzip"}


GZIP = grpc.Compression.Gzip
LONG = b"q" * 100_000


@WAYS
async def test_compressed_messages_of_either_side_arrive(*, is_unary: bool) -> None:
    async with (
        grpc_upstream(method=echo, compression=GZIP) as upstream,
        bare_grpc_relay(upstream.address, is_unary=is_unary) as way,
    ):
        direct = await ask(upstream.address, "unary_unary", (LONG,), compression=GZIP)
        assert await ask(way.address, "unary_unary", (LONG,), compression=GZIP) == direct
    assert direct.messages == (LONG,)
    assert upstream.calls[0].messages == upstream.calls[1].messages == [LONG]


async def test_a_database_that_compresses_without_being_asked_fails_the_search_and_not_the_call_behind_it() -> None:
    seen = []
    async with grpc_upstream(method=echo, compression=GZIP) as upstream:
        for is_search in (True, False):
            async with bare_grpc_relay(upstream.address, is_unary=True, is_search=is_search) as way:
                seen.append(await ask(way.address, "unary_unary", (LONG,)))
    assert [answer.code for answer in seen] == [grpc.StatusCode.INTERNAL, grpc.StatusCode.OK]


@WAYS
async def test_metadata_beyond_grpcs_own_limit_passes(*, is_unary: bool) -> None:
    token = "t" * 40_000
    fields = [(b"x-token", token.encode())]
    async with (
        raw_upstream([*REPLY_HEAD, *fields], framed(b"answer"), [*OK, *fields]) as upstream,
        bare_grpc_relay(upstream.address, is_unary=is_unary) as way,
    ):
        reply = await raw_call(way.port, fields)
    assert dict(upstream.heads[0])[b"x-token"] == token.encode()
    assert [dict(block).get(b"x-token") for block in reply.blocks] == [token.encode()] * 2
