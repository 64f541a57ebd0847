"""The laws every adapter passes, over whole conversations with a model of its backend."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from support.backends.transports import REST
from support.chroma import bodies as chroma_bodies
from support.exchanges.conversation import Conversation
from support.opensearch import bodies as opensearch_bodies
from support.pinecone import bodies as pinecone_bodies
from support.qdrant import bodies as qdrant_bodies
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """What the laws must know of a backend.

    ``path``: one of its searches. ``declared``: the members that widening may change, in a search or in a ``nested`` part.
    ``content``: laid over a request of ``content_of`` (None: of any operation), it leaves nothing to widen. Over a ``query``:
    ``plain`` wants no vectors, ``bare`` no payload either, ``payloads`` want some payload, ``everything`` wants all payload of ``limit`` results.
    ``stored``: where a result keeps its payload. ``by_get``: whether a search may be a GET with a body. ``hidden``: makes of a document what it must look like without what came
    for comparison alone.
    """

    conversations: Callable[..., st.SearchStrategy[Conversation]]
    path: str
    declared: frozenset[str]
    nested: frozenset[str] = frozenset()
    content: dict[str, Any]
    content_of: str | None = None
    plain: dict[str, Any]
    bare: dict[str, Any]
    payloads: st.SearchStrategy[dict[str, Any]]
    everything: Callable[[int], dict[str, Any]]
    results: Callable[[Any], list[dict[str, Any]]]
    stored: str
    hidden: Callable[[Any], None]
    by_get: bool = False


def without_vectors(document: Any) -> None:
    """As Qdrant writes them: left out, or null where this server writes null."""
    points = document["result"]["points"]
    nulls = any(point.get("vector", 0) is None or point.get("payload", 0) is None for point in points)
    for point in points:
        if nulls and "vector" in point:
            point["vector"] = None
        elif not nulls:
            point.pop("vector", None)


def without_values(document: Any) -> None:
    """As Pinecone writes them: an empty list, and no sparse ones at all."""
    for match in document["matches"]:
        match.pop("sparseValues", None)
        if "values" in match:
            match["values"] = []


def without_embeddings(document: Any) -> None:
    """As Chroma writes them: null, and not among what was included."""
    document["embeddings"] = None
    document["included" if "included" in document else "include"].remove("embeddings")


def without_fields(document: Any) -> None:
    """As both servers write them: no member, if there are no fields."""
    for hit in document["hits"]["hits"]:
        fields = hit.get("fields", {})
        fields.pop("vec", None)
        if not fields:
            hit.pop("fields", None)


def rows(document: Any) -> list[dict[str, Any]]:
    """The first search's results of a table, each with what its columns have for it."""
    columns = {name: column[0] for name, column in document.items() if isinstance(column, list) and name[:3] != "inc"}
    return [dict(zip(columns, cells, strict=True)) for cells in zip(*columns.values(), strict=True)]


DIALECTS = {
    "chroma": Dialect(
        conversations=chroma_bodies.conversations,
        path=chroma_bodies.PATHS[0],
        declared=frozenset({"n_results", "include"}),
        content={"n_results": 5, "include": ["embeddings", "metadatas", "distances"], "ids": None},
        plain={"n_results": 5, "include": ["documents", "metadatas", "distances"], "ids": None},
        bare={"include": ["distances"], "ids": None},
        payloads=st.sampled_from([{"include": ["metadatas"]}, {"include": []}, {"include": ["uris", "documents"]}]),
        everything=lambda limit: {"n_results": limit, "include": ["metadatas"]},
        results=rows,
        stored="metadatas",
        hidden=without_embeddings,
    ),
    "qdrant": Dialect(
        conversations=qdrant_bodies.conversations,
        path="/collections/c/points/query/batch",
        declared=frozenset({"limit", "top", "offset", "with_vector", "with_vectors", "with_payload"}),
        content={"limit": 5, "offset": None, "with_vector": True},
        plain={"limit": 5, "offset": None, "with_vector": False, "with_payload": True},
        bare={"with_payload": False},
        payloads=st.sampled_from([True, False, None, [], ["id"], {"include": ["doc"]}]).map(
            lambda selector: {"with_payload": selector}
        ),
        everything=lambda limit: {"limit": limit, "offset": 0, "with_payload": True},
        results=lambda document: document["result"]["points"],
        stored="payload",
        hidden=without_vectors,
    ),
    "pinecone": Dialect(
        conversations=pinecone_bodies.conversations,
        path="/query",
        declared=frozenset(
            {
                "topK",
                "top_k",
                "top_n",
                "includeValues",
                "include_values",
                "includeMetadata",
                "include_metadata",
                "fields",
                "include_fields",
            }
        ),
        nested=frozenset({"query", "rerank"}),
        content={"topK": 5, "includeValues": True},
        content_of="query",
        plain={"topK": 5, "includeValues": False, "includeMetadata": True},
        bare={"includeMetadata": False},
        payloads=st.just({"includeMetadata": True}),
        everything=lambda limit: {"topK": limit, "includeMetadata": True},
        results=lambda document: document["matches"],
        stored="metadata",
        hidden=without_values,
    ),
}
DIALECTS["elasticsearch"] = Dialect(
    conversations=opensearch_bodies.conversations,
    path=opensearch_bodies.PATHS[0],
    declared=frozenset({"size", "from", "_source", "fields", "k", "num_candidates", "pagination_depth"}),
    nested=frozenset({"query", "knn", "neural", "vec", "retriever", "hybrid"}),
    content={"size": 5, "from": "absent", "_source": True, "fields": ["vec"]},
    plain={"size": 5, "from": "absent", "_source": True, "fields": "absent", "stored_fields": "absent"},
    bare={"_source": False},
    payloads=st.sampled_from([True, ["id"], ["m*"], {"includes": ["größe"], "excludes": ["id"]}, []]).map(
        lambda selection: {"_source": selection}
    ),
    everything=lambda limit: {"size": limit, "from": 0, "_source": True},
    results=lambda document: document["hits"]["hits"],
    stored="_source",
    hidden=without_fields,
    by_get=True,
)
DIALECTS["opensearch"] = replace(
    DIALECTS["elasticsearch"], conversations=partial(opensearch_bodies.conversations, is_opensearch=True)
)
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
NOTES = [None, b'{"collapsed_ids":[1,"\xc3\xa4 \\"b\\""]}', b'{"collapsed_ids":[],"omitted":2}']
# Milvus's rows are flat, and what it shows hangs on its schema: its laws are in test_milvus.py. Weaviate has no search here.
every_adapter = pytest.mark.parametrize("backend", sorted(REST.keys() - {"milvus", "weaviate"}))


def parse(adapter: Adapter, talk: Conversation, needs: Needs) -> SearchCall:
    operation = adapter.classify(RequestHead(method="POST", path=talk.path))
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


def exact(body: bytes) -> Any:
    """The document with its numbers as they are written, and bytes that are no UTF-8 kept apart."""
    text = body.decode(errors="surrogateescape")
    return json.loads(text, parse_float=lambda digits: ("number", digits), parse_int=lambda digits: ("number", digits))


@every_adapter
@given(method=st.text(max_size=8), path=st.text(max_size=60), content_type=st.text(max_size=30))
def test_classify_never_raises_and_names_nothing_unknown(
    backend: str, method: str, path: str, content_type: str
) -> None:
    # Invariant: classify is total; what is not one of the adapter's own paths is None.
    adapter = REST[backend].adapter()
    assert adapter.classify(RequestHead(method=method, path=path, content_type=content_type)) is None
    is_search = adapter.classify(RequestHead(method="GET", path=DIALECTS[backend].path)) is not None
    assert is_search == DIALECTS[backend].by_get
    assert (
        adapter.classify(RequestHead(method="POST", path=DIALECTS[backend].path + "/x" + path.replace("/", ""))) is None
    )


@every_adapter
@given(data=st.data())
def test_widening_by_nothing_gives_back_the_same_bytes(backend: str, data: st.DataObject) -> None:
    # Invariant: the client's own top_k with vectors wanted and no page leaves nothing to change.
    talk = data.draw(
        DIALECTS[backend].conversations(operation=DIALECTS[backend].content_of, extra=DIALECTS[backend].content)
    )
    adapter = REST[backend].adapter()
    call = parse(adapter, talk, Needs())
    assert adapter.widen(call, [search.top_k for search in call.searches]) == talk.body


@every_adapter
@given(data=st.data(), needs=NEEDS, factor=st.integers(1, 9))
def test_widening_changes_only_the_declared_fields(
    backend: str, data: st.DataObject, needs: Needs, factor: int
) -> None:
    # Invariant: without the declared members, the widened document is the client's, numbers as they were written.
    talk = data.draw(DIALECTS[backend].conversations())
    adapter = REST[backend].adapter()
    call = parse(adapter, talk, needs)
    wide = adapter.widen(call, [factor * search.top_k for search in call.searches])
    before, after = exact(talk.body), exact(wide)
    assert undeclared(before, DIALECTS[backend]) == undeclared(after, DIALECTS[backend])


def undeclared(item: dict[str, Any], dialect: Dialect) -> list[Any]:
    """What must stay, in order; of a batch and of nested parts what must stay in each."""
    if isinstance(item.get("searches"), list):
        inner = [undeclared(search, dialect) if isinstance(search, dict) else search for search in item["searches"]]
        return [("searches", inner)]
    return [
        (key, undeclared(value, dialect) if key in dialect.nested and isinstance(value, dict) else value)
        for key, value in item.items()
        if key not in dialect.declared
    ]


@every_adapter
@given(data=st.data(), needs=NEEDS)
def test_the_backends_own_page_cut_from_the_pool_is_the_direct_answer(
    backend: str, data: st.DataObject, needs: Needs
) -> None:
    # Invariant: keeping ranks offset..offset+top_k of the pool gives the bytes the client would have got without us.
    talk = data.draw(DIALECTS[backend].conversations())
    adapter = REST[backend].adapter()
    call, _, reply = fetched(adapter, talk, needs)
    keep = [
        np.arange(min(search.offset, pool.size), min(search.offset + search.top_k, pool.size))
        for search, pool in zip(call.searches, reply.pools, strict=True)
    ]
    assert adapter.trim(call, reply, keep) == talk.answer(talk.body)


@every_adapter
@given(data=st.data(), optional=st.sampled_from([("text",), ("doc", "größe", "a.b"), ("vector", "text", "id")]))
def test_optional_fields_cost_no_search_and_no_payload_byte_of_theirs_reaches_the_client(
    backend: str, data: st.DataObject, optional: tuple[str, ...]
) -> None:
    # Invariant: whatever the client selects, asking for optional fields refuses nothing and gives the same answer.
    adapter = REST[backend].adapter()
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
    # Invariant: a field is None only where the stored payload lacks it or the client's own selection hides it.
    adapter = REST[backend].adapter()
    dialect = DIALECTS[backend]
    extra = data.draw(dialect.payloads)
    talk = data.draw(DIALECTS[backend].conversations(operation="query", extra=extra))
    call, _, reply = fetched(adapter, talk, Needs(optional_fields=optional))
    document = json.loads(talk.body)
    everything = talk.answer(json.dumps({**document, **dialect.everything(reply.pools[0].size)}).encode())
    stored = [result.get(dialect.stored) or {} for result in dialect.results(exact(everything))]
    read = [
        {key: exact(raw) for key, raw in zip(optional, fields, strict=True) if raw is not None}
        for fields in reply.pools[0].fields
    ]
    assert len(call.searches) == 1
    assert read == [{key: payload[key] for key in optional if key in payload} for payload in stored]


@every_adapter
@given(data=st.data(), whole=st.booleans())
def test_a_text_that_points_have_had_is_fetched_and_no_byte_of_it_reaches_a_client_that_did_not_ask(
    backend: str, data: st.DataObject, *, whole: bool
) -> None:
    # Invariant: for a client that wants no payload the field is read as stored, and the answer is as without it.
    adapter, dialect = REST[backend].adapter(), DIALECTS[backend]
    talk = data.draw(dialect.conversations(operation="query", extra=dialect.bare))
    plain, _, without = fetched(adapter, talk, Needs())
    needs = Needs(optional_fields=("text",), seen_fields=("text",), whole=whole)
    call, _, reply = fetched(adapter, talk, needs)
    everything = talk.answer(json.dumps({**json.loads(talk.body), **dialect.everything(reply.pools[0].size)}).encode())
    stored = [(result.get(dialect.stored) or {}).get("text") for result in dialect.results(exact(everything))]
    assert [None if raw is None else exact(raw) for (raw,) in reply.pools[0].fields] == stored
    each = np.arange(min(reply.pools[0].size, without.pools[0].size), dtype=np.intp)
    assert adapter.trim(call, reply, [each]) == adapter.trim(plain, without, [each])


@every_adapter
@given(data=st.data(), needs=NEEDS, most=st.integers(0, 9))
def test_payloads_have_what_the_fields_have(backend: str, data: st.DataObject, needs: Needs, most: int) -> None:
    # Invariant: of the first candidates, each payload is an object or nothing, and has the values of the optional fields.
    talk = data.draw(DIALECTS[backend].conversations())
    _, _, reply = fetched(REST[backend].adapter(), talk, needs)
    for pool in reply.pools:
        assert pool.payloads is not None
        rows = range(min(most, pool.size))[::-1]
        payloads = pool.payloads(rows)
        assert len(payloads) == len(rows)
        for raw, fields in zip(payloads, [pool.fields[row] for row in rows] if pool.fields else (), strict=False):
            optional = dict(zip(needs.optional_fields, fields[len(needs.payload_fields) :], strict=True))
            found = exact(raw) if raw is not None and raw != b"null" else {}
            assert isinstance(found, dict)
            assert {key for key, value in optional.items() if value is not None} <= found.keys()
            assert all(found[key] == exact(value) for key, value in optional.items() if value is not None)


@every_adapter
@given(data=st.data())
def test_keeping_everything_that_was_wanted_gives_back_the_same_bytes(backend: str, data: st.DataObject) -> None:
    # Invariant: trim with all indices and vectors wanted is the identity.
    talk = data.draw(
        DIALECTS[backend].conversations(operation=DIALECTS[backend].content_of, extra=DIALECTS[backend].content)
    )
    adapter = REST[backend].adapter()
    call, body, reply = fetched(adapter, talk, Needs())
    assert adapter.trim(call, reply, [np.arange(pool.size) for pool in reply.pools]) == body


@every_adapter
@given(data=st.data())
def test_kept_results_are_upstreams_own_bytes_in_the_order_of_keep(backend: str, data: st.DataObject) -> None:
    # Invariant: the answer's results are exactly the kept ones, in keep order, never more.
    talk = data.draw(DIALECTS[backend].conversations(operation="query", extra=DIALECTS[backend].content))
    adapter = REST[backend].adapter()
    call, body, reply = fetched(adapter, talk, Needs())
    order = np.array(data.draw(st.permutations(range(reply.pools[0].size)))[: call.searches[0].top_k], dtype=np.intp)
    answer = adapter.trim(call, reply, [order])
    upstream, client = DIALECTS[backend].results(exact(body)), DIALECTS[backend].results(exact(answer))
    assert client == [upstream[index] for index in order]


@every_adapter
@given(data=st.data())
def test_a_note_is_one_more_member_of_a_payload_and_changes_nothing_else(backend: str, data: st.DataObject) -> None:
    # Invariant: without its notes the answer is the trimmed one; each payload that is an object has its note, no other result.
    adapter, dialect = REST[backend].adapter(), DIALECTS[backend]
    talk = data.draw(dialect.conversations(operation="query"))
    call, _, reply = fetched(adapter, talk, Needs())
    answer = adapter.trim(call, reply, [np.arange(pool.size, dtype=np.intp) for pool in reply.pools])
    told = [data.draw(st.lists(st.sampled_from(NOTES), min_size=pool.size, max_size=pool.size)) for pool in reply.pools]
    assert isinstance(adapter, NotesResults)
    noted = adapter.noted(call, answer, told)
    plain, found = dialect.results(exact(answer)), dialect.results(exact(noted))
    for before, after, note in zip(plain, found, told[0], strict=True):
        if note is not None and isinstance(before.get(dialect.stored), dict) and NOTE not in before[dialect.stored]:
            value = after[dialect.stored].pop(NOTE)
            assert (exact(value.encode()) if isinstance(value, str) else value) == exact(note)
        assert after == before
    assert adapter.noted(call, answer, [[None] * len(each) for each in told]) == answer


@every_adapter
@given(data=st.data(), needs=NEEDS)
def test_pools_have_one_row_for_each_candidate(backend: str, data: st.DataObject, needs: Needs) -> None:
    # Invariant: scores, vectors and fields are as long as the list; unusable counts exactly the rows without a vector.
    talk = data.draw(DIALECTS[backend].conversations())
    call, _, reply = fetched(REST[backend].adapter(), talk, needs)
    assert len(reply.pools) == len(call.searches)
    for pool in reply.pools:
        assert pool.vectors.dtype == np.float32
        assert len(pool.vectors) == len(pool.fields) == pool.size
        assert all(len(fields) == len(needs.payload_fields + needs.optional_fields) for fields in pool.fields)
        assert len(pool.ids) == pool.size
        usable = np.isfinite(pool.vectors).all(axis=1) if pool.vectors.shape[1] else np.zeros(pool.size, bool)
        assert pool.unusable == pool.size - int(usable.sum())


@every_adapter
@given(data=st.data(), body=st.binary(max_size=80))
def test_arbitrary_bytes_raise_only_the_two_verdicts(backend: str, data: st.DataObject, body: bytes) -> None:
    # Invariant: a request is unsupported, a reply malformed; nothing else is ever raised.
    adapter = REST[backend].adapter()
    talk = data.draw(DIALECTS[backend].conversations())
    call = parse(adapter, talk, Needs())
    with pytest.raises(UnsupportedError):
        adapter.parse_request(call.operation, body, Needs())
    with pytest.raises(MalformedReplyError):
        adapter.parse_reply(call, body)


@every_adapter
@given(data=st.data(), needs=NEEDS, noise=st.binary(max_size=6))
def test_a_damaged_request_is_left_alone_or_read_as_it_stands(
    backend: str, data: st.DataObject, needs: Needs, noise: bytes
) -> None:
    # Invariant: after any damage the request is unsupported, or widening it yields a document the damage still shows in.
    adapter = REST[backend].adapter()
    talk = data.draw(DIALECTS[backend].conversations())
    operation = parse(adapter, talk, needs).operation
    body = damaged(data, talk.body, noise)
    try:
        call = adapter.parse_request(operation, body, needs)
    except UnsupportedError:
        return
    assert adapter.widen(call, [search.top_k for search in call.searches])
    exact(body)


@every_adapter
@given(
    data=st.data(),
    noise=st.one_of(st.binary(max_size=6), st.sampled_from([b'"', b"]", b"{", b",", b'"vector":[', b'"id":1,'])),
)
def test_damage_to_a_reply_never_yields_wrong_content(backend: str, data: st.DataObject, noise: bytes) -> None:
    # Invariant: whatever happened to the reply, it is malformed or the answer is that very document without vectors.
    adapter = REST[backend].adapter()
    talk = data.draw(DIALECTS[backend].conversations(operation="query", extra=DIALECTS[backend].plain))
    call, body, _ = fetched(adapter, talk, Needs())
    broken = damaged(data, body, noise)
    try:
        reply = adapter.parse_reply(call, broken)
        for pool in reply.pools:
            assert pool.payloads is None or len(pool.payloads(range(pool.size))) == pool.size
        answer = exact(adapter.trim(call, reply, [np.arange(pool.size) for pool in reply.pools]))
    except MalformedReplyError:
        return
    expected = exact(broken)
    DIALECTS[backend].hidden(expected)
    assert answer == expected


def damaged(data: st.DataObject, body: bytes, noise: bytes) -> bytes:
    """``body`` with bytes cut out at one place and ``noise`` put there."""
    start = data.draw(st.integers(0, len(body)))
    end = data.draw(st.integers(start, min(len(body), start + 12)))
    return body[:start] + noise + body[end:]


@every_adapter
def test_a_document_of_another_adapter_is_refused(backend: str) -> None:
    adapter = REST[backend].adapter()
    operation = Operation(backend="other", name="query", collection="c")
    call = SearchCall(operation=operation, searches=(), needs=Needs(), document=None)
    with pytest.raises(TypeError):
        adapter.widen(call, [])
    with pytest.raises(TypeError):
        adapter.trim(call, Reply(pools=(), document=None), [])
