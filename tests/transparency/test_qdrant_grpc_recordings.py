"""Recorded calls of Qdrant's Go, JavaScript and Java clients again, through a data plane: mode off is no proxy at all."""

from __future__ import annotations

from typing import Any

import grpc
import pytest

from support.exchanges.foreign_calls import ForeignCall, foreign_calls
from support.grpc.calls import Seen, ask
from support.grpc.upstream import Arrived, Context, Script, grpc_upstream
from support.qdrant.scripted_grpc import before, messages

CALLS = foreign_calls()
METHODS = {call.path.rpartition("/")[2] for call in CALLS}


def replying(calls: list[ForeignCall]) -> Script:
    """A database that answers recorded requests as they were answered, and refuses all others."""
    replies = {(call.path, call.message): call.reply for call in calls}

    async def play(call: Arrived, context: Context) -> None:
        message = await call.read(context)
        reply = replies.get((call.method, message or b""))
        if reply is None:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "not as recorded")
            return
        await context.send_initial_metadata((("x-initial", "1"),))
        await context.write(reply)
        context.set_trailing_metadata((("x-trailing", "1"),))

    return play


async def again(address: str, call: ForeignCall) -> Seen:
    """A recorded call, made by another library with the client's own metadata."""
    metadata = tuple(pair for pair in call.metadata if pair[0] != "user-agent")
    return await ask(address, "unary_unary", (call.message,), method=call.path, metadata=metadata)


@pytest.mark.parametrize("client", ["go", "java", "node"])
async def test_in_mode_off_each_call_goes_out_once_as_it_came_and_its_answer_comes_back_so(client: str) -> None:
    calls = [call for call in CALLS if call.client == client]
    scripts: dict[str, Any] = dict.fromkeys(METHODS, replying(calls))
    async with grpc_upstream(**scripts) as database, before(database.address, mode="off") as proxy:
        for call in calls:
            direct = await again(database.address, call)
            assert direct.messages == (call.reply,), str(call)
            assert await again(f"127.0.0.1:{proxy.port}", call) == direct, str(call)
        assert messages(database) == [call.message for call in calls for _ in range(2)]
        pairs = [call.plain_metadata() for call in database.calls]
        assert pairs[::2] == pairs[1::2]


@pytest.mark.parametrize("client", ["go", "java", "node"])
async def test_in_mode_on_a_database_that_refuses_widened_calls_is_asked_as_the_client_asked(client: str) -> None:
    calls = [call for call in CALLS if call.client == client]
    scripts: dict[str, Any] = dict.fromkeys(METHODS, replying(calls))
    async with grpc_upstream(**scripts) as database, before(database.address, mode="on") as proxy:
        for call in calls:
            seen = await again(f"127.0.0.1:{proxy.port}", call)
            assert (seen.code, seen.messages) == (grpc.StatusCode.OK, (call.reply,)), str(call)
        received = messages(database)
        assert [message for message in received if message in {call.message for call in calls}] == [
            call.message for call in calls
        ]
        assert len(received) > len(calls)
