"""The laws of the adapters, as in test_adapters.py, over messages of gRPC.

A message has no end of its own: where a JSON text is refused, a message may be read for what it then says. What must hold
instead is stated in each law.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from google.protobuf import json_format
from google.protobuf.message import DecodeError
from hypothesis import assume, given
from hypothesis import strategies as st
from qdrant_client.conversions.conversion import value_to_json
from servers.pinecone.grpc_messages import message_type

from support.backends.transports import GRPC
from support.exchanges.conversation import Conversation
from support.pinecone import messages as pinecone_messages
from support.qdrant import grpc_conversations as qdrant_grpc_talks
from support.qdrant.grpc_model import BATCH_ITEMS, REQUESTS
from support.weaviate import conversations as weaviate_talks
from support.weaviate import messages as weaviate_messages
from vecsieve.adapters.base import NOTE
from vecsieve.adapters.contract import (
    Adapter,
    MalformedReplyError,
    Needs,
    NotesResults,
    Operation,
    Reply,
    RequestHead,
    Search,
    SearchCall,
    UnsupportedError,
)
from vecsieve.adapters.wire.protobuf import fields


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """What the laws must know of a backend.

    ``path``: one of its searches. ``requests``: how protobuf's own library reads each operation's request.
    ``items``: of a batch, the name of what it lists. ``declared``: the fields that widening may change in each search.
    ``content``: laid over a request of ``content_of`` (None: of any operation), it leaves nothing to widen. Over a ``query``:
    ``plain`` wants no vectors, ``bare`` no payload either, ``payloads`` want some payload, ``everything`` is the request that wants all payload of n
    results. ``result``: the number of a reply's results. ``stored``: where a result keeps its payload. ``reply``: how
    protobuf's own library reads a query's reply. ``hide``: makes a result that came for comparison what it must look like.
    """

    conversations: Callable[..., st.SearchStrategy[Conversation]]
    path: str
    requests: Mapping[str, Any]
    items: Mapping[str, str]
    declared: frozenset[str]
    content: dict[str, Any]
    content_of: str | None = None
    plain: dict[str, Any]
    bare: dict[str, Any]
    payloads: st.SearchStrategy[dict[str, Any]]
    everything: Callable[[Any, int], None]
    result: int
    results: Callable[[Any], Any]
    stored: Callable[[Any], Any]
    reply: Any
    hide: Callable[[Any], None]


def all_of_qdrant(request: Any, count: int) -> None:
    request.limit, request.offset = count, 0
    request.with_payload.enable = True


def _qdrant() -> Dialect:
    from qdrant_client import grpc

    return Dialect(
        conversations=qdrant_grpc_talks.conversations,
        path="/qdrant.Points/QueryBatch",
        requests=REQUESTS,
        items=BATCH_ITEMS,
        declared=frozenset({"limit", "offset", "with_vectors", "with_payload"}),
        content={"limit": 5, "offset": None, "with_vector": True},
        plain={"limit": 5, "offset": None, "with_vector": False, "with_payload": True},
        bare={"with_payload": False},
        payloads=st.sampled_from([True, False, None, [], ["id"], {"include": ["doc"]}]).map(
            lambda selector: {"with_payload": selector}
        ),
        everything=all_of_qdrant,
        result=1,
        results=lambda reply: reply.result,
        stored=lambda point: point.payload,
        reply=grpc.QueryResponse,
        hide=lambda point: point.ClearField("vectors"),
    )


def all_of_pinecone(request: Any, count: int) -> None:
    request.top_k, request.include_metadata = count, True


def without_values(match: Any) -> None:
    match.ClearField("values")
    match.ClearField("sparse_values")


def _pinecone() -> Dialect:
    return Dialect(
        conversations=pinecone_messages.conversations,
        path="/VectorService/Query",
        requests={"query": message_type("QueryRequest")},
        items={},
        declared=frozenset({"top_k", "include_values", "include_metadata"}),
        content={"top_k": 5, "include_values": True},
        plain={"top_k": 5, "include_values": False, "include_metadata": True},
        bare={"include_metadata": False},
        payloads=st.just({"include_metadata": True}),
        everything=all_of_pinecone,
        result=2,
        results=lambda reply: reply.matches,
        stored=lambda match: match.metadata,
        reply=message_type("QueryResponse"),
        hide=without_values,
    )


def all_of_weaviate(request: Any, count: int) -> None:
    request.limit, request.offset = count, 0
    request.ClearField("properties")


def without_own_vectors(result: Any) -> None:
    for name in ("vector", "vector_bytes", "vectors"):
        result.metadata.ClearField(name)


def _weaviate() -> Dialect:
    request = weaviate_messages.message_type("SearchRequest")
    return Dialect(
        conversations=weaviate_talks.conversations,
        path=weaviate_talks.PATH,
        requests={"search": request, "query": request},
        items={},
        declared=frozenset({"limit", "offset", "metadata", "properties"}),
        content={"limit": 5, "offset": 0, "metadata": weaviate_talks.EVERYTHING},
        plain={"limit": 5, "offset": 0, "metadata": {"uuid": True, "distance": True, "score": True}},
        bare={"properties": {"non_ref_properties": ["doc"]}},
        # A name the collection does not have would be refused: what is optional is read where it comes by itself.
        payloads=st.just({"properties": None}),
        everything=all_of_weaviate,
        result=2,
        results=lambda reply: reply.results,
        stored=weaviate_talks.stored_properties,
        reply=weaviate_messages.message_type("SearchReply"),
        hide=without_own_vectors,
    )


DIALECTS = {"pinecone": _pinecone(), "qdrant": _qdrant(), "weaviate": _weaviate()}
NEEDS = st.builds(
    Needs,
    payload_fields=st.sampled_from([(), (), (), ("text",), ("doc", "vector")]),
    optional_fields=st.sampled_from([(), ("doc",), ("größe", "text", "no such key", "vector"), ("dense", "points")]),
    seen_fields=st.sampled_from([(), (), ("text",)]),
    whole=st.booleans(),
    vectors=st.sampled_from([True, True, False]),
    query=st.booleans(),
    vector_hint=st.sampled_from([None, "dense"]),
)
# Whoever adds an adapter adds a row above.
every_adapter = pytest.mark.parametrize("backend", sorted(DIALECTS))


def parse(adapter: Adapter, talk: Conversation, needs: Needs) -> SearchCall:
    operation = adapter.classify(RequestHead(method="POST", path=talk.path, message=talk.body))
    assert operation is not None
    try:
        return adapter.parse_request(operation, talk.body, needs)
    except UnsupportedError as verdict:
        assume(verdict.reason is None)
        raise


def fetched(adapter: Adapter, talk: Conversation, needs: Needs, *, factor: int = 3) -> tuple[SearchCall, bytes, Reply]:
    call = parse(adapter, talk, needs)
    body = talk.answer(adapter.widen(call, [size(search, factor) for search in call.searches]))
    return call, body, adapter.parse_reply(call, body)


def size(search: Search, factor: int) -> int:
    wanted = factor * (search.top_k + search.offset)
    return wanted if search.most is None else max(search.top_k, min(wanted, search.most))


def results(body: bytes, number: int) -> list[bytes]:
    return [body[field.start : field.end] for field in fields(body) if field.number == number]


@every_adapter
@given(method=st.text(max_size=8), path=st.text(max_size=60), message=st.binary(max_size=30))
def test_classify_never_raises_and_names_nothing_unknown(backend: str, method: str, path: str, message: bytes) -> None:
    """Classify is total; what is not one of the adapter's own paths is None, and any message under one is named."""
    adapter = GRPC[backend].adapter()
    own = DIALECTS[backend].path
    assert adapter.classify(RequestHead(method=method, path=path, message=message)) is None
    assert adapter.classify(RequestHead(method="GET", path=own)) is None
    assert adapter.classify(RequestHead(method="POST", path=own + "/" + path)) is None
    assert adapter.classify(RequestHead(method="POST", path=own, message=message)) is not None
    assert adapter.classify(RequestHead(method="POST", path=own)) is not None


@every_adapter
@given(data=st.data())
def test_widening_by_nothing_gives_back_the_same_bytes(backend: str, data: st.DataObject) -> None:
    """The client's own top_k with vectors wanted and no page leaves nothing to change."""
    talk = data.draw(
        DIALECTS[backend].conversations(operation=DIALECTS[backend].content_of, extra=DIALECTS[backend].content)
    )
    adapter = GRPC[backend].adapter()
    call = parse(adapter, talk, Needs())
    assert adapter.widen(call, [search.top_k for search in call.searches]) == talk.body


@every_adapter
@given(data=st.data(), needs=NEEDS, factor=st.integers(1, 9))
def test_widening_changes_only_the_declared_fields(
    backend: str, data: st.DataObject, needs: Needs, factor: int
) -> None:
    """Without the declared fields the widened message is the client's, those that nobody knows included."""
    dialect = DIALECTS[backend]
    talk = data.draw(dialect.conversations())
    adapter = GRPC[backend].adapter()
    call = parse(adapter, talk, needs)
    wide = adapter.widen(call, [factor * search.top_k for search in call.searches])
    name = call.operation.name
    assert undeclared(wide, name, dialect) == undeclared(talk.body, name, dialect)
    assert ("batch" in name) or wide.startswith(talk.body)


def undeclared(body: bytes, operation: str, dialect: Dialect) -> bytes:
    message = dialect.requests[operation].FromString(body)
    listed = dialect.items.get(operation.partition("_")[0]) if "batch" in operation else None
    for item in [message] if listed is None else getattr(message, listed):
        for name in dialect.declared:
            item.ClearField(name)
    stripped: bytes = message.SerializeToString(deterministic=True)
    return stripped


@every_adapter
@given(data=st.data(), needs=NEEDS)
def test_the_backends_own_page_cut_from_the_pool_is_the_direct_answer(
    backend: str, data: st.DataObject, needs: Needs
) -> None:
    """Keeping ranks offset..offset+top_k of the pool gives the bytes the client would have got without us."""
    talk = data.draw(DIALECTS[backend].conversations())
    adapter = GRPC[backend].adapter()
    call, _, reply = fetched(adapter, talk, needs)
    keep = [
        np.arange(min(search.offset, pool.size), min(search.offset + search.top_k, pool.size))
        for search, pool in zip(call.searches, reply.pools, strict=True)
    ]
    assert adapter.trim(call, reply, keep) == talk.answer(talk.body)


@pytest.mark.parametrize("backend", ["pinecone", "qdrant"])
@given(data=st.data())
def test_a_note_is_one_more_member_of_a_payload_and_changes_nothing_else(backend: str, data: st.DataObject) -> None:
    """Without its notes the answer is the trimmed one; each payload that is not empty has its note, no other result."""
    adapter, dialect = GRPC[backend].adapter(), DIALECTS[backend]
    talk = data.draw(dialect.conversations(operation="query"))
    call, _, reply = fetched(adapter, talk, Needs())
    answer = adapter.trim(call, reply, [np.arange(pool.size, dtype=np.intp) for pool in reply.pools])
    sizes = [pool.size for pool in reply.pools]
    notes = [data.draw(st.lists(st.sampled_from([None, b"{}", b'{"a":["x"]}']), min_size=n, max_size=n)) for n in sizes]
    assert isinstance(adapter, NotesResults)
    noted = dialect.reply.FromString(adapter.noted(call, answer, notes))
    plain = dialect.reply.FromString(answer)
    for before, after, note in zip(dialect.results(plain), dialect.results(noted), notes[0], strict=True):
        stored = dialect.stored(after)
        if note is not None and len(dialect.stored(before)):
            value = json_format.MessageToDict(stored)[NOTE] if backend == "pinecone" else value_to_json(stored[NOTE])
            assert (json.loads(value) if isinstance(value, str) else value) == json.loads(note)
            del stored[NOTE]
    assert noted == plain


@every_adapter
@given(data=st.data(), optional=st.sampled_from([("text",), ("doc", "größe", "a.b"), ("vector", "text", "id")]))
def test_optional_fields_cost_no_search_and_no_payload_byte_of_theirs_reaches_the_client(
    backend: str, data: st.DataObject, optional: tuple[str, ...]
) -> None:
    """Whatever the client selects, asking for optional fields refuses nothing and gives the same answer."""
    adapter = GRPC[backend].adapter()
    talk = data.draw(DIALECTS[backend].conversations())
    plain, _, without = fetched(adapter, talk, Needs())
    call, _, reply = fetched(adapter, talk, Needs(optional_fields=optional))  # an UnsupportedError here would be a find
    keep = [np.array(data.draw(st.permutations(range(pool.size))), dtype=np.intp) for pool in reply.pools]
    assert adapter.trim(call, reply, keep) == adapter.trim(plain, without, keep)


@every_adapter
@given(data=st.data(), optional=st.sampled_from([("text",), ("doc", "vector")]))
def test_optional_fields_are_read_wherever_the_payload_has_them(
    backend: str, data: st.DataObject, optional: tuple[str, ...]
) -> None:
    """A field is None only where the stored payload lacks it: whatever the client selects, here nothing is hidden."""
    adapter = GRPC[backend].adapter()
    dialect = DIALECTS[backend]
    talk = data.draw(dialect.conversations(operation="query", extra=data.draw(dialect.payloads)))
    _, _, reply = fetched(adapter, talk, Needs(optional_fields=optional))
    request = dialect.requests["query"].FromString(talk.body)
    dialect.everything(request, reply.pools[0].size)
    everything = dialect.reply.FromString(talk.answer(request.SerializeToString()))
    stored = [[key in dialect.stored(result) for key in optional] for result in dialect.results(everything)]
    assert [[raw is not None for raw in row] for row in reply.pools[0].fields] == stored


@every_adapter
@given(data=st.data(), whole=st.booleans())
def test_a_text_that_points_have_had_is_fetched_and_no_byte_of_it_reaches_a_client_that_did_not_ask(
    backend: str, data: st.DataObject, *, whole: bool
) -> None:
    """For a client that wants no payload, or another one, the field is read where it is stored, and the answer is as without it."""
    adapter, dialect = GRPC[backend].adapter(), DIALECTS[backend]
    talk = data.draw(dialect.conversations(operation="query", extra=dialect.bare))
    plain, _, without = fetched(adapter, talk, Needs())
    needs = Needs(optional_fields=("text",), seen_fields=("text",), whole=whole)
    call, _, reply = fetched(adapter, talk, needs)
    request = dialect.requests["query"].FromString(talk.body)
    dialect.everything(request, reply.pools[0].size)
    everything = dialect.reply.FromString(talk.answer(request.SerializeToString()))
    stored = ["text" in dialect.stored(result) for result in dialect.results(everything)]
    assert [raw is not None for (raw,) in reply.pools[0].fields] == stored
    each = np.arange(min(reply.pools[0].size, without.pools[0].size), dtype=np.intp)
    assert adapter.trim(call, reply, [each]) == adapter.trim(plain, without, [each])


@every_adapter
@given(data=st.data(), needs=NEEDS, most=st.integers(0, 9))
def test_payloads_have_what_the_fields_have(backend: str, data: st.DataObject, needs: Needs, most: int) -> None:
    """Of the first candidates, each payload that has a JSON form has the values of the optional fields."""
    talk = data.draw(DIALECTS[backend].conversations())
    _, _, reply = fetched(GRPC[backend].adapter(), talk, needs)
    for pool in reply.pools:
        assert pool.payloads is not None
        rows = range(min(most, pool.size))[::-1]
        payloads = pool.payloads(rows)
        assert len(payloads) == len(rows)
        for raw, row in zip(payloads, [pool.fields[row] for row in rows] if pool.fields else (), strict=False):
            found = None if raw is None else json.loads(raw)
            optional = dict(zip(needs.optional_fields, row[len(needs.payload_fields) :], strict=True))
            assert found is None or isinstance(found, dict)
            if needs.optional_fields and found is not None:
                assert {key: json.loads(value) for key, value in optional.items() if value is not None}.items() <= {
                    key: found[key] for key in optional if key in found
                }.items() or any(isinstance(value, dict | list) for value in found.values())


@every_adapter
@given(data=st.data())
def test_keeping_everything_that_was_wanted_gives_back_the_same_bytes(backend: str, data: st.DataObject) -> None:
    """Trim with all indices and vectors wanted is the identity."""
    talk = data.draw(
        DIALECTS[backend].conversations(operation=DIALECTS[backend].content_of, extra=DIALECTS[backend].content)
    )
    adapter = GRPC[backend].adapter()
    call, body, reply = fetched(adapter, talk, Needs())
    assert adapter.trim(call, reply, [np.arange(pool.size) for pool in reply.pools]) == body


@every_adapter
@given(data=st.data())
def test_kept_results_are_upstreams_own_bytes_in_the_order_of_keep(backend: str, data: st.DataObject) -> None:
    """The answer's results are exactly the kept ones, in keep order, never more; all around them stays."""
    dialect = DIALECTS[backend]
    talk = data.draw(dialect.conversations(operation="query", extra=dialect.content))
    adapter = GRPC[backend].adapter()
    call, body, reply = fetched(adapter, talk, Needs())
    order = np.array(data.draw(st.permutations(range(reply.pools[0].size)))[: call.searches[0].top_k], dtype=np.intp)
    answer = adapter.trim(call, reply, [order])
    upstream = results(body, dialect.result)
    assert results(answer, dialect.result) == [upstream[index] for index in order]
    assert around(answer, dialect.result) == around(body, dialect.result)


def around(body: bytes, number: int) -> list[bytes]:
    return [body[field.start : field.end] for field in fields(body) if field.number != number]


@every_adapter
@given(data=st.data(), needs=NEEDS)
def test_pools_have_one_row_for_each_candidate(backend: str, data: st.DataObject, needs: Needs) -> None:
    """Scores, vectors and fields are as long as the list; unusable counts exactly the rows without a vector."""
    talk = data.draw(DIALECTS[backend].conversations())
    call, _, reply = fetched(GRPC[backend].adapter(), talk, needs)
    assert len(reply.pools) == len(call.searches)
    for pool in reply.pools:
        assert pool.vectors.dtype == np.float32
        assert len(pool.vectors) == len(pool.fields) == len(pool.ids) == pool.size
        assert all(len(row) == len(needs.payload_fields + needs.optional_fields) for row in pool.fields)
        usable = np.isfinite(pool.vectors).all(axis=1) if pool.vectors.shape[1] else np.zeros(pool.size, bool)
        assert pool.unusable == pool.size - int(usable.sum())


@every_adapter
@given(data=st.data(), body=st.binary(max_size=80))
def test_arbitrary_bytes_raise_only_the_two_verdicts(backend: str, data: st.DataObject, body: bytes) -> None:
    """A request is unsupported or goes out behind its own bytes; a reply is malformed or comes back as it is."""
    adapter = GRPC[backend].adapter()
    talk = data.draw(DIALECTS[backend].conversations(operation="query", extra=DIALECTS[backend].content))
    call = parse(adapter, talk, Needs())
    try:
        other = adapter.parse_request(call.operation, body, Needs())
    except UnsupportedError:
        pass
    else:
        assert adapter.widen(other, [7]).startswith(body)
    try:
        reply = adapter.parse_reply(call, body)
        assert adapter.trim(call, reply, [np.arange(reply.pools[0].size)]) == body
    except MalformedReplyError:
        return


@every_adapter
@given(data=st.data(), needs=NEEDS, noise=st.binary(max_size=6))
def test_a_damaged_request_is_left_alone_or_read_as_protobuf_reads_it(
    backend: str, data: st.DataObject, needs: Needs, noise: bytes
) -> None:
    """After any damage the request is unsupported, or what is not declared goes out as it would have gone."""
    dialect = DIALECTS[backend]
    adapter = GRPC[backend].adapter()
    talk = data.draw(dialect.conversations())
    operation = parse(adapter, talk, needs).operation
    body = damaged(data, talk.body, noise)
    try:
        call = adapter.parse_request(operation, body, needs)
    except UnsupportedError:
        return
    wide = adapter.widen(call, [search.top_k + 1 for search in call.searches])
    try:
        expected = undeclared(body, operation.name, dialect)
    except DecodeError:  # the server will refuse the one as it would have refused the other
        return
    assert undeclared(wide, operation.name, dialect) == expected


@every_adapter
@given(
    data=st.data(), noise=st.one_of(st.binary(max_size=6), st.sampled_from([b"\x0a\x00", b"\x32\x00", b"\x12\x02\x0a"]))
)
def test_damage_to_a_reply_never_yields_wrong_content(backend: str, data: st.DataObject, noise: bytes) -> None:
    """Whatever happened to the reply, it is malformed or the answer is that very message without vectors."""
    dialect = DIALECTS[backend]
    adapter = GRPC[backend].adapter()
    talk = data.draw(dialect.conversations(operation="query", extra=dialect.plain))
    call, body, _ = fetched(adapter, talk, Needs())
    broken = damaged(data, body, noise)
    try:
        reply = adapter.parse_reply(call, broken)
        for pool in reply.pools:
            assert pool.payloads is None or len(pool.payloads(range(pool.size))) == pool.size
        answer = adapter.trim(call, reply, [np.arange(pool.size) for pool in reply.pools])
    except MalformedReplyError:
        return
    try:
        expected, found = dialect.reply.FromString(broken), dialect.reply.FromString(answer)
    except DecodeError:  # damage to what is nobody's business here, such as a text that is no UTF-8
        return
    for result in dialect.results(expected):
        dialect.hide(result)
    assert found.SerializeToString(deterministic=True) == expected.SerializeToString(deterministic=True)


def damaged(data: st.DataObject, body: bytes, noise: bytes) -> bytes:
    """``body`` with bytes cut out at one place and ``noise`` put there."""
    start = data.draw(st.integers(0, len(body)))
    end = data.draw(st.integers(start, min(len(body), start + 12)))
    return body[:start] + noise + body[end:]


@every_adapter
def test_a_document_of_another_adapter_is_refused(backend: str) -> None:
    adapter = GRPC[backend].adapter()
    operation = Operation(backend="other", name="query", collection="c")
    call = SearchCall(operation=operation, searches=(), needs=Needs(), document=None)
    with pytest.raises(TypeError):
        adapter.widen(call, [])
    with pytest.raises(TypeError):
        adapter.trim(call, Reply(pools=(), document=None), [])
