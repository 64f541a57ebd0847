"""Recorded calls of the official client: what is ours of them, and that a recorded page is its own pool, cut to itself."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from support.backends.transports import reason_of
from support.milvus.captures import NEEDS_CALLS, Captured, calls, rest_calls
from support.milvus.messages import message_type
from vecsieve.adapters.contract import (
    MalformedReplyError,
    Needs,
    Operation,
    Reason,
    RequestHead,
    SearchCall,
    UnsupportedError,
)
from vecsieve.adapters.milvus.grpc import MilvusGrpc
from vecsieve.adapters.milvus.rest import MilvusRest
from vecsieve.adapters.milvus.search import Schema

pytestmark = NEEDS_CALLS

SERVERS = ("milvus_2_3_5", "milvus_lite")
CALLS = [call for server in SERVERS for call in calls(server)]
# What is left alone, by the recording's label: an order of the client's own, or what no vector decides.
LEFT_ALONE = {
    "search_range": Reason.UNSUPPORTED_FIELD,
    "search_group": Reason.ORDERING_CHOSEN,
    "search_ids": Reason.UNSUPPORTED_FIELD,
    "iterator": Reason.ORDERING_CHOSEN,
    "iterator2": Reason.ORDERING_CHOSEN,
}
REFUSED = {"milvus_2_3_5/search_badfield", "milvus_2_3_5/limit_toobig"}


def classified(call: Captured) -> Operation | None:
    return MilvusGrpc().classify(RequestHead(method="POST", path=call.path, message=call.message))


SEARCHES = [call for call in CALLS if classified(call) is not None]


def needs(call: Captured) -> Needs:
    """With the schema that the same server described for this collection."""
    adapter = MilvusGrpc()
    described = next(
        call for call in calls(call.label.partition("/")[0]) if call.label.endswith(("insert_COSINE", "describe"))
        and call.path.endswith("DescribeCollection")
    )  # fmt: skip
    return Needs(known=adapter.parse_description(described.reply))


def read(call: Captured) -> SearchCall:
    operation = classified(call)
    assert operation is not None
    return MilvusGrpc().parse_request(operation, call.message, needs(call))


def test_only_searches_are_searches() -> None:
    assert {call.path.rpartition("/")[2] for call in SEARCHES} == {"Search", "HybridSearch"}
    assert {call.path.rpartition("/")[2] for call in CALLS if call not in SEARCHES}.isdisjoint(
        {"Search", "HybridSearch"}
    )


@pytest.mark.parametrize("call", SEARCHES, ids=lambda call: call.label)
def test_what_is_ours_and_what_is_left_alone(call: Captured) -> None:
    name = call.label.partition("/")[2]
    if name in LEFT_ALONE:
        assert reason_of(read, call) is LEFT_ALONE[name]
    else:
        assert all(search.query is not None for search in read(call).searches) or name == "hybrid"


@pytest.mark.parametrize("server", SERVERS)
def test_the_description_of_each_server_is_read(server: str) -> None:
    described = next(call for call in calls(server) if call.path.endswith("DescribeCollection"))
    description = MilvusGrpc().parse_description(described.reply)
    scalars = frozenset({"id", "text", "src"})
    shows_all = "lite" in server
    assert description == Schema(
        vectors=frozenset({"vec"}), scalars=scalars, is_dynamic=True, shows_all=shows_all, primary="id"
    )


@pytest.mark.parametrize(
    "call", [call for call in SEARCHES if call.label.partition("/")[2] not in LEFT_ALONE], ids=lambda call: call.label
)
def test_a_recorded_reply_that_has_everything_is_cut_to_itself(call: Captured) -> None:
    """Where the reply has what widening would have asked for, keeping all rows changes at most the order of a message's fields."""
    adapter, search = MilvusGrpc(), read(call)
    if call.label in REFUSED:
        with pytest.raises(MalformedReplyError, match="code"):
            adapter.parse_reply(search, call.reply)
        return
    columns = {column.field_name for column in message_type("SearchResults").FromString(call.reply).results.fields_data}
    rows = sum(message_type("SearchResults").FromString(call.reply).results.topks)
    if "vec" not in columns and rows:
        with pytest.raises(MalformedReplyError, match="no column"):
            adapter.parse_reply(search, call.reply)
        return
    reply = adapter.parse_reply(search, call.reply)
    whole = [np.arange(pool.size, dtype=np.intp) for pool in reply.pools]
    answer, read_by = adapter.trim(search, reply, whole), message_type("SearchResults").FromString
    assert read_by(answer) == read_by(call.reply)
    assert sorted(answer) == sorted(call.reply)
    assert all(pool.unusable == 0 for pool in reply.pools)


@pytest.mark.parametrize("made", rest_calls(), ids=lambda made: made["label"])
def test_recorded_calls_over_rest(made: dict[str, Any]) -> None:
    adapter, body = MilvusRest(), json.dumps(made["request"]["body"]).encode()
    path, reply = str(made["request"]["path"]), str(made["response"]["body_raw"]).encode()
    operation = adapter.classify(RequestHead(method="POST", path=path))
    assert (operation is not None) == path.endswith("/search")
    if operation is None:
        return
    if made["label"] == "v2_search_nq2":  # the rows of two queries, with nothing between them
        with pytest.raises(UnsupportedError):
            adapter.parse_request(operation, body, Needs())
        return
    schema = Schema(vectors=frozenset({"vector"}), scalars=frozenset({"id"}), is_dynamic=True)
    call = adapter.parse_request(operation, body, Needs(known=schema))
    # Version 2 was not served: 404. A reply without vectors is not one to a widened request.
    if b'"code":200' not in reply or (b"distance" in reply and b'"vector"' not in reply):
        with pytest.raises(MalformedReplyError):
            adapter.parse_reply(call, reply)
        return
    read_reply = adapter.parse_reply(call, reply)
    every = np.arange(read_reply.pools[0].size, dtype=np.intp)
    trimmed = json.loads(adapter.trim(call, read_reply, [every]))
    expected = json.loads(reply)
    if b'"vector"' not in body.replace(b'"vector": [', b"") and b"*" not in body:
        for row in expected["data"]:
            row.pop("vector", None)
    assert trimmed == expected
