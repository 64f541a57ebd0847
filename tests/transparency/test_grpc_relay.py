"""The gRPC relay against no relay: a client sees the same, the database sees the same, whatever the call's shape."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import grpc
import pytest

from support.grpc.calls import SHAPES, Pairs, Seen, ask, ask_in_a_thread
from support.grpc.relay_server import bare_grpc_relay
from support.grpc.upstream import Arrived, Context, Script, echo, ending, grpc_upstream

RICH: Pairs = (
    ("api-key", "secret"),
    ("x-many", "1"),
    ("x-many", "2"),
    ("x-raw-bin", b"\x00\xff\x80"),
    ("x-raw-bin", b""),
    ("x-empty", ""),
    ("x-spaces", " a  b "),
    ("authorization", "Bearer abc"),
    ("grpc-previous-rpc-attempts", "1"),
)
BACK: Pairs = (("a", "1"), ("a", "2"), ("b-bin", b"\x00\x01"), ("date", "Sat, 21 Nov 2026 00:00:00 GMT"))
STATUS_DETAILS: Pairs = (
    ("grpc-status-details-bin", b"\x08\x05\x12\x02hi"),
    ("retry-after", "3"),
    ("c", "1"),
    ("c", "2"),
)


async def silent(_: Arrived, __: Context) -> None:
    """No message, status 0."""


async def many(call: Arrived, context: Context) -> None:
    await call.read(context)
    await context.send_initial_metadata(BACK)
    for number in range(50):
        await context.write(b"%d" % number * 100)
    context.set_trailing_metadata((("t", "1"), ("t-bin", b"\xff")))


async def one(call: Arrived, context: Context) -> None:
    await call.read(context)
    await context.send_initial_metadata(BACK)
    await context.write(b"")
    context.set_trailing_metadata((("t", "1"), ("t-bin", b"\xff"), ("t", "2")))


async def big(call: Arrived, context: Context) -> None:
    message = await call.read(context)
    assert message is not None
    await context.write(message[::-1])


async def refused_at_once(_: Arrived, context: Context) -> None:
    """Before the first message is looked at, as a missing api-key is."""
    context.set_code(grpc.StatusCode.UNAUTHENTICATED)
    context.set_details("Must provide an API key")


@dataclass(frozen=True)
class Case:
    """One call. ``only``: the shapes it makes sense in."""

    script: Script
    messages: Sequence[bytes] = (b"question",)
    metadata: Pairs = ()
    only: tuple[str, ...] = SHAPES


STREAMING = ("stream_unary", "stream_stream")
CASES = {
    "echo": Case(echo),
    "empty message": Case(echo, (b"",)),
    "metadata": Case(one, metadata=RICH),
    "no message in the request": Case(echo, (), only=("stream_stream",)),
    "no answer": Case(silent, only=("unary_stream", "stream_stream")),
    "many answers": Case(many, only=("unary_stream", "stream_stream")),
    "many questions": Case(echo, tuple(b"%d" % n for n in range(200)), only=("stream_stream",)),
    "8 MiB": Case(big, (bytes(range(256)) * 32768,)),
    "ten of 1 MiB": Case(echo, (b"m" * 2**20,) * 10, only=("stream_stream",)),
    "refused at once": Case(refused_at_once),
    "refused while much is to come": Case(refused_at_once, (b"u" * 2**16,) * 100, only=STREAMING),
    "details in other scripts": Case(ending(grpc.StatusCode.NOT_FOUND, "grüße 漢字 100% \n ☃")),
    "status details": Case(ending(grpc.StatusCode.RESOURCE_EXHAUSTED, "quota", trailing=STATUS_DETAILS)),
    "metadata before a failure": Case(ending(grpc.StatusCode.INTERNAL, "x", initial=BACK, trailing=STATUS_DETAILS)),
    "failure behind answers": Case(
        ending(grpc.StatusCode.ABORTED, "half", after=20, trailing=STATUS_DETAILS),
        only=("unary_stream", "stream_stream"),
    ),
    "failure behind the answer": Case(ending(grpc.StatusCode.DATA_LOSS, "late", after=1, trailing=STATUS_DETAILS)),
    **{
        f"status {code.name}": Case(ending(code, f"it was {code.name}"), only=("unary_unary", "stream_stream"))
        for code in grpc.StatusCode
        if code is not grpc.StatusCode.OK
    },
}
# The asyncio client reports an end before its stream is written as INTERNAL, over the status (grpcio 1.85): the blocking
# one asks where nothing is read, or not all.
UNREAD = {"no answer", "refused at once", "refused while much is to come"}
TABLE = [
    (name, shape, client, is_unary)
    for name, case in CASES.items()
    for shape in case.only
    for client in ("asyncio", "blocking")
    for is_unary in (False, True)
    if not (is_unary and shape != "unary_unary")
    if not (name in UNREAD and shape in STREAMING and client == "asyncio")
]


@pytest.mark.parametrize(("name", "shape", "client", "is_unary"), TABLE)
async def test_client_and_database_see_the_same_with_and_without_the_relay(
    name: str, shape: str, client: str, *, is_unary: bool
) -> None:
    case = CASES[name]
    client_call = ask if client == "asyncio" else ask_in_a_thread
    async with (
        grpc_upstream(method=case.script) as upstream,
        bare_grpc_relay(upstream.address, is_unary=is_unary) as way,
    ):
        direct, through = [
            await client_call(address, shape, case.messages, metadata=case.metadata)
            for address in (upstream.address, way.address)
        ]
    assert through == direct
    first, second = upstream.calls
    assert first.plain_metadata() == second.plain_metadata()
    assert first.is_cancelled is second.is_cancelled is False
    if name not in UNREAD:
        assert first.messages == second.messages
        assert first.is_whole is second.is_whole


@pytest.mark.parametrize("is_unary", [False, True], ids=["relayed", "unary"])
async def test_a_method_nobody_knows_is_refused_in_the_databases_words(*, is_unary: bool) -> None:
    async with grpc_upstream() as upstream, bare_grpc_relay(upstream.address, is_unary=is_unary) as way:
        seen: list[Seen] = [
            await ask(address, "unary_unary", method="/no.Such/Method") for address in (upstream.address, way.address)
        ]
    assert seen[1] == seen[0]
    assert seen[0].code is grpc.StatusCode.UNIMPLEMENTED
