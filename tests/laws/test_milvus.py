"""The laws of the adapters over Milvus's gRPC, whose rows are columns: against a model that protobuf's own library writes."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from google.protobuf.message import DecodeError
from hypothesis import assume, given
from hypothesis import strategies as st

from support.backends.transports import operation_of
from support.milvus.bodies import Talk, request, talks
from support.milvus.messages import message_type
from vecsieve.adapters.contract import (
    MalformedReplyError,
    Needs,
    Operation,
    Reply,
    RequestHead,
    Search,
    SearchCall,
    UnsupportedError,
)
from vecsieve.adapters.milvus.grpc import MilvusGrpc

ADAPTER = MilvusGrpc()
PATH = "/milvus.proto.milvus.MilvusService/Search"
FIELDS = st.sampled_from([(), ("text",), ("dyn", "page"), ("big", "nobody", "flag")])


def known(talk: Talk, **needs: Any) -> Needs:
    return Needs(known=ADAPTER.parse_description(talk.server.schema.SerializeToString()), **needs)


def parse(talk: Talk, needs: Needs) -> SearchCall:
    operation = operation_of(ADAPTER, RequestHead(method="POST", path=PATH, message=talk.body))
    return ADAPTER.parse_request(operation, talk.body, needs)


def size(search: Search) -> int:
    return 3 * (search.top_k + search.offset)


def fetched(talk: Talk, needs: Needs) -> tuple[SearchCall, bytes, Reply]:
    call = parse(talk, needs)
    body = talk.answer(ADAPTER.widen(call, [size(search) for search in call.searches]))
    return call, body, ADAPTER.parse_reply(call, body)


def page(call: SearchCall, reply: Reply) -> list[np.ndarray[Any, np.dtype[np.intp]]]:
    return [
        np.arange(min(search.offset, pool.size), min(search.offset + search.top_k, pool.size), dtype=np.intp)
        for search, pool in zip(call.searches, reply.pools, strict=True)
    ]


def undeclared(body: bytes) -> bytes:
    message = message_type("SearchRequest").FromString(body)
    message.ClearField("output_fields")
    for pair in message.search_params:
        if pair.key in {"topk", "offset", "params"}:
            pair.value = ""
    stripped: bytes = message.SerializeToString(deterministic=True)
    return stripped


@given(talk=talks(), optional=FIELDS, vectors=st.booleans())
def test_the_backends_own_page_cut_from_the_pool_is_the_direct_answer(
    talk: Talk, optional: tuple[str, ...], *, vectors: bool
) -> None:
    """Keeping ranks offset..offset+top_k of each pool gives the bytes the client would have got without us."""
    call, _, reply = fetched(talk, known(talk, optional_fields=optional, vectors=vectors))
    answer, direct = ADAPTER.trim(call, reply, page(call, reply)), talk.answer(talk.body)
    if any(map(len, page(call, reply))):
        assert answer == direct
    else:  # what a server shows of nothing is not what is left of something: clients read the same
        assert [list(message_type("SearchResults").FromString(raw).results.topks) for raw in (answer, direct)] == [
            [0] * len(call.searches)
        ] * 2


@given(talk=talks(), optional=FIELDS)
def test_widening_changes_only_the_declared_fields(talk: Talk, optional: tuple[str, ...]) -> None:
    """Without names of fields, topk and offset the widened message is the client's."""
    call = parse(talk, known(talk, optional_fields=optional))
    wide = ADAPTER.widen(call, [size(search) for search in call.searches])
    assert undeclared(wide) == undeclared(talk.body)


@given(talk=talks(limit=3, offset=None, listed=["vec", "half", "brain", "tiny"]))
def test_widening_by_nothing_gives_back_the_same_bytes(talk: Talk) -> None:
    """The client's own top_k with vectors wanted and no page leaves nothing to change."""
    call = parse(talk, Needs())
    assert ADAPTER.widen(call, [3] * len(call.searches)) == talk.body
    assert ADAPTER.widen(call, [0] * len(call.searches)) == talk.body


@given(data=st.data(), talk=talks(), optional=FIELDS, vectors=st.booleans())
def test_kept_rows_are_upstreams_own_in_the_order_of_keep(
    data: st.DataObject, talk: Talk, optional: tuple[str, ...], *, vectors: bool
) -> None:
    """Any choice of rows is what a server says whose lists are those rows: every column, null and id among them."""
    call, _, reply = fetched(talk, known(talk, optional_fields=optional, vectors=vectors))
    keep = [
        np.array(data.draw(st.permutations(range(pool.size)))[: search.top_k], dtype=np.intp)
        for search, pool in zip(call.searches, reply.pools, strict=True)
    ]
    assume(any(map(len, keep)))
    lists = tuple(tuple(rows[index] for index in kept) for rows, kept in zip(talk.server.lists, keep, strict=True))
    answer = message_type("SearchResults").FromString(ADAPTER.trim(call, reply, keep))
    expected = message_type("SearchResults").FromString(replace(talk.server, lists=lists).answer(first_page(talk.body)))
    for message in (
        answer,
        expected,
    ):  # Lite's, told from the others by how few rows there are: not when there are enough
        message.results.ClearField("top_k")
    assert answer == expected


def first_page(body: bytes) -> bytes:
    message = message_type("SearchRequest").FromString(body)
    for pair in message.search_params:
        if pair.key == "offset":
            pair.value = "0"
    raw: bytes = message.SerializeToString()
    return raw


@given(talk=talks(), optional=FIELDS)
def test_pools_have_one_row_for_each_candidate(talk: Talk, optional: tuple[str, ...]) -> None:
    """Scores, vectors, ids and fields are as long as the list; unusable counts exactly the rows without a vector."""
    call, _, reply = fetched(talk, known(talk, optional_fields=optional))
    assert len(reply.pools) == len(call.searches) == len(talk.server.lists)
    for pool, stored, search in zip(reply.pools, talk.server.lists, call.searches, strict=True):
        rows = stored[: size(search)]
        assert len(pool.vectors) == len(pool.fields) == len(pool.ids) == pool.size == len(rows)
        assert [float(score) for score in pool.scores] == [row.score for row in rows]
        assert pool.unusable == sum(row.vectors[talk.vector] is None for row in rows)
        assert all(len(row) == len(optional) for row in pool.fields)
        assert search.query is not None
        assert not pool.vectors.size or pool.vectors.shape[1] == len(search.query)


@given(talk=talks(), optional=FIELDS)
def test_whole_payloads_are_every_field_of_the_schema_and_none_of_them_reaches_the_client(
    talk: Talk, optional: tuple[str, ...]
) -> None:
    """With the whole payload requested, the pages are the same, and payloads are objects with the texts that rows have."""
    call, _, reply = fetched(talk, known(talk, optional_fields=optional))
    more, _, whole = fetched(talk, known(talk, optional_fields=optional, seen_fields=optional, whole=True))
    assert ADAPTER.trim(more, whole, page(more, whole)) == ADAPTER.trim(call, reply, page(call, reply))
    for pool, rows in zip(whole.pools, talk.server.lists, strict=True):
        assert pool.payloads is not None
        payloads = [json.loads(raw or b"{}") for raw in pool.payloads(range(pool.size))]
        assert len(payloads) == pool.size
        for read, row in zip(payloads, rows, strict=False):
            assert "text" not in read or read["text"] == row.values["text"]
            assert not optional or row.values["text"] is None or "text" in read


@given(talk=talks(listed=["dyn", "text", "big", "flag"]))
def test_fields_are_read_from_columns_and_from_dynamic_keys(talk: Talk) -> None:
    """What the client asked for is read as JSON, null where a row has none."""
    _, _, reply = fetched(talk, Needs(payload_fields=("text", "big", "flag", "dyn")))
    for pool, rows in zip(reply.pools, talk.server.lists, strict=True):
        for fields, row in zip(pool.fields, rows, strict=False):
            read = [None if raw is None else json.loads(raw) for raw in fields]
            assert read == [row.values["text"], row.values["big"], row.values["flag"], row.meta.get("dyn")]


@given(
    data=st.data(), talk=talks(), noise=st.one_of(st.binary(max_size=6), st.sampled_from([b"\x0a\x00", b"\x32\x00"]))
)
def test_damage_to_a_reply_never_yields_a_row_that_did_not_come(data: st.DataObject, talk: Talk, noise: bytes) -> None:
    """Whatever happened to the reply, it is malformed, or keeping everything shows that very message without what was added."""
    call, body, _ = fetched(talk, known(talk))
    start = data.draw(st.integers(0, len(body)))
    end = data.draw(st.integers(start, min(len(body), start + 12)))
    broken = body[:start] + noise + body[end:]
    try:
        reply = ADAPTER.parse_reply(call, broken)
    except MalformedReplyError:
        return
    answer = ADAPTER.trim(call, reply, [np.arange(pool.size, dtype=np.intp) for pool in reply.pools])
    try:
        expected, through = (message_type("SearchResults").FromString(raw) for raw in (broken, answer))
    except DecodeError:  # damage to what is nobody's business here, such as a text that is no UTF-8
        return
    requested = set(message_type("SearchRequest").FromString(talk.body).output_fields)
    if talk.vector not in requested and "*" not in requested and not (talk.server.lite and not requested):
        for name in ("fields_data", "output_fields"):
            kept = [
                column
                for column in getattr(expected.results, name)
                if getattr(column, "field_name", column) != talk.vector
            ]
            del getattr(expected.results, name)[:]
            getattr(expected.results, name).extend(kept)
    for message in (expected, through):
        message.results.ClearField("top_k")
    assert through.SerializeToString(deterministic=True) == expected.SerializeToString(deterministic=True)


@given(data=st.data(), talk=talks(), noise=st.binary(max_size=6))
def test_a_damaged_request_is_left_alone_or_read_as_protobuf_reads_it(
    data: st.DataObject, talk: Talk, noise: bytes
) -> None:
    """After any damage the request is unsupported, or what is not declared goes out as it would have gone."""
    start = data.draw(st.integers(0, len(talk.body)))
    end = data.draw(st.integers(start, min(len(talk.body), start + 12)))
    body = talk.body[:start] + noise + talk.body[end:]
    operation = Operation(backend="milvus", name="search", collection="")
    try:
        call = ADAPTER.parse_request(operation, body, known(talk))
    except UnsupportedError:
        return
    wide = ADAPTER.widen(call, [search.top_k + 1 for search in call.searches])
    try:
        expected = undeclared(body)
    except DecodeError:  # the server will refuse the one as it would have refused the other
        return
    assert undeclared(wide) == expected


@given(method=st.text(max_size=8), path=st.text(max_size=60), message=st.binary(max_size=30))
def test_classify_and_question_are_total(method: str, path: str, message: bytes) -> None:
    """Classify names nothing but its own methods; any bytes have a question or none."""
    assert ADAPTER.classify(RequestHead(method=method, path=path, message=message)) is None
    assert ADAPTER.classify(RequestHead(method="GET", path=PATH)) is None
    operation = operation_of(ADAPTER, RequestHead(method="POST", path=PATH, message=message))
    ADAPTER.describe(operation, message)


@given(body=st.binary(max_size=80), talk=talks())
def test_arbitrary_bytes_raise_only_the_two_verdicts(body: bytes, talk: Talk) -> None:
    """A request is unsupported or widened; a reply and a description are malformed or read."""
    call = parse(talk, known(talk))
    with suppress(UnsupportedError):
        ADAPTER.widen(ADAPTER.parse_request(call.operation, body, Needs()), [7])
    with suppress(MalformedReplyError):
        ADAPTER.parse_reply(call, body)
    with suppress(MalformedReplyError):
        ADAPTER.parse_description(body)


def test_what_another_adapter_was_told_is_refused() -> None:
    operation = Operation(backend="milvus", name="search", collection="c")
    with pytest.raises(TypeError):
        ADAPTER.parse_request(operation, request("vec", 1, [], 3, None), Needs(known="somebody else's"))
