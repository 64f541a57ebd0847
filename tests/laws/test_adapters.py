"""The laws every adapter passes on each transport, over whole conversations with a model of its backend."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.backends.grpc_dialects import GRPC_DIALECTS
from support.backends.rest_dialects import REST_DIALECTS
from support.backends.transports import GRPC, REST
from support.exchanges.adapter_laws import NEEDS, Dialect, damaged, fetched, parse
from vecsieve.adapters.contract import (
    Adapter,
    MalformedReplyError,
    Needs,
    Operation,
    Reply,
    SearchCall,
)
from vecsieve.adapters.fusions import DividesFusions

# Milvus's rows are flat, and what it shows hangs on its schema: its laws are in test_milvus.py. Weaviate has no search over REST.
DIALECTS: dict[str, tuple[Callable[[], Adapter], Dialect]] = {
    **{f"{name} over REST": (REST[name].adapter, REST_DIALECTS[name]) for name in REST.keys() - {"milvus", "weaviate"}},
    **{f"{name} over gRPC": (GRPC[name].adapter, GRPC_DIALECTS[name]) for name in GRPC.keys() - {"milvus"}},
}
every_adapter = pytest.mark.parametrize(
    ("made", "dialect"), [DIALECTS[name] for name in sorted(DIALECTS)], ids=sorted(DIALECTS)
)
Made = Callable[[], Adapter]


@every_adapter
@given(data=st.data())
def test_widening_by_nothing_gives_back_the_same_bytes(made: Made, dialect: Dialect, data: st.DataObject) -> None:
    """The client's own top_k with vectors wanted and no page leaves nothing to change."""
    adapter, talk = made(), data.draw(dialect.conversations(operation=dialect.content_of, extra=dialect.content))
    call = parse(adapter, talk, Needs())
    assert adapter.widen(call, [search.top_k for search in call.searches]) == talk.body


@every_adapter
@given(data=st.data(), needs=NEEDS, factor=st.integers(1, 9))
def test_widening_changes_only_the_declared_fields(
    made: Made, dialect: Dialect, data: st.DataObject, needs: Needs, factor: int
) -> None:
    """Without them the widened request is the client's: numbers as they were written, fields that nobody knows included."""
    adapter, talk = made(), data.draw(dialect.conversations())
    call = parse(adapter, talk, needs)
    wide = adapter.widen(call, [factor * search.top_k for search in call.searches])
    name = call.operation.name
    assert dialect.undeclared(wide, name) == dialect.undeclared(talk.body, name)


@every_adapter
@given(data=st.data(), needs=NEEDS)
def test_the_backends_own_page_cut_from_the_pool_is_the_direct_answer(
    made: Made, dialect: Dialect, data: st.DataObject, needs: Needs
) -> None:
    """Keeping ranks offset..offset+top_k of the pool gives the bytes the client would have got without us."""
    adapter, talk = made(), data.draw(dialect.conversations())
    call, _, reply = fetched(adapter, talk, needs)
    keep = [
        np.arange(min(search.offset, pool.size), min(search.offset + search.top_k, pool.size))
        for search, pool in zip(call.searches, reply.pools, strict=True)
    ]
    assert adapter.trim(call, reply, keep) == talk.answer(talk.body)


@every_adapter
@given(data=st.data(), optional=st.sampled_from([("text",), ("doc", "größe", "a.b"), ("vector", "text", "id")]))
def test_optional_fields_cost_no_search_and_no_payload_byte_of_theirs_reaches_the_client(
    made: Made, dialect: Dialect, data: st.DataObject, optional: tuple[str, ...]
) -> None:
    """Whatever the client selects, asking for optional fields refuses nothing and gives the same answer."""
    adapter, talk = made(), data.draw(dialect.conversations())
    plain, _, without = fetched(adapter, talk, Needs())
    call, _, reply = fetched(adapter, talk, Needs(optional_fields=optional))  # an UnsupportedError here would be a find
    keep = [np.array(data.draw(st.permutations(range(pool.size))), dtype=np.intp) for pool in reply.pools]
    assert adapter.trim(call, reply, keep) == adapter.trim(plain, without, keep)


def read(dialect: Dialect, reply: Reply, keys: tuple[str, ...]) -> list[dict[str, object]]:
    """The values under these keys in the one pool."""
    return [
        {key: dialect.value(raw) for key, raw in zip(keys, row, strict=True) if raw is not None}
        for row in reply.pools[0].fields
    ]


@every_adapter
@given(data=st.data(), optional=st.sampled_from([("text",), ("doc", "vector")]))
def test_optional_fields_are_read_wherever_the_payload_has_them(
    made: Made, dialect: Dialect, data: st.DataObject, optional: tuple[str, ...]
) -> None:
    """A field is None only where the stored payload lacks it or the client's own selection hides it."""
    adapter = made()
    talk = data.draw(dialect.conversations(operation="query", extra=data.draw(dialect.payloads)))
    call, _, reply = fetched(adapter, talk, Needs(optional_fields=optional))
    assert len(call.searches) == 1
    assert read(dialect, reply, optional) == dialect.stored(talk, reply.pools[0].size, optional)


@every_adapter
@given(data=st.data(), whole=st.booleans())
def test_a_text_that_points_have_had_is_fetched_and_no_byte_of_it_reaches_a_client_that_did_not_ask(
    made: Made, dialect: Dialect, data: st.DataObject, *, whole: bool
) -> None:
    """For a client that wants no payload, or another one, the field is read where it is stored, and the answer is as without it."""
    adapter, talk = made(), data.draw(dialect.conversations(operation="query", extra=dialect.bare))
    plain, _, without = fetched(adapter, talk, Needs())
    needs = Needs(optional_fields=("text",), seen_fields=("text",), whole=whole)
    call, _, reply = fetched(adapter, talk, needs)
    assert read(dialect, reply, ("text",)) == dialect.stored(talk, reply.pools[0].size, ("text",))
    rows = np.arange(min(reply.pools[0].size, without.pools[0].size), dtype=np.intp)
    assert adapter.trim(call, reply, [rows]) == adapter.trim(plain, without, [rows])


@every_adapter
@given(data=st.data())
def test_keeping_everything_that_was_wanted_gives_back_the_same_bytes(
    made: Made, dialect: Dialect, data: st.DataObject
) -> None:
    """Trim with all indices and vectors wanted is the identity, but for what any widened search adds."""
    adapter, talk = made(), data.draw(dialect.conversations(operation=dialect.content_of, extra=dialect.content))
    call, body, reply = fetched(adapter, talk, Needs())
    assert adapter.trim(call, reply, [np.arange(pool.size) for pool in reply.pools]) == dialect.added.sub(b"", body)


@every_adapter
@given(data=st.data())
def test_kept_results_are_upstreams_own_bytes_in_the_order_of_keep(
    made: Made, dialect: Dialect, data: st.DataObject
) -> None:
    """The answer's results are exactly the kept ones, in keep order, never more; all around them stays."""
    adapter, talk = made(), data.draw(dialect.conversations(operation="query", extra=dialect.content))
    call, body, reply = fetched(adapter, talk, Needs())
    order = np.array(data.draw(st.permutations(range(reply.pools[0].size)))[: call.searches[0].top_k], dtype=np.intp)
    upstream, around = dialect.listed(body)
    assert dialect.listed(adapter.trim(call, reply, [order])) == ([upstream[index] for index in order], around)


@every_adapter
@given(data=st.data(), needs=NEEDS)
def test_pools_have_one_row_for_each_candidate(made: Made, dialect: Dialect, data: st.DataObject, needs: Needs) -> None:
    """Scores, vectors and fields are as long as the list; unusable counts exactly the rows without a vector."""
    call, _, reply = fetched(made(), data.draw(dialect.conversations()), needs)
    assert len(reply.pools) == len(call.searches)
    for pool in reply.pools:
        assert pool.vectors.dtype == np.float32
        assert len(pool.vectors) == len(pool.fields) == len(pool.ids) == pool.size
        assert all(len(row) == len(needs.payload_fields + needs.optional_fields) for row in pool.fields)
        usable = np.isfinite(pool.vectors).all(axis=1) if pool.vectors.shape[1] else np.zeros(pool.size, bool)
        assert pool.unusable == pool.size - int(usable.sum())


@every_adapter
@given(data=st.data())
def test_damage_to_a_reply_never_yields_wrong_content(made: Made, dialect: Dialect, data: st.DataObject) -> None:
    """Whatever happened to the reply, it is malformed or the answer is that very document without vectors."""
    adapter, talk = made(), data.draw(dialect.conversations(operation="query", extra=dialect.plain))
    call, body, _ = fetched(adapter, talk, Needs())
    broken = damaged(data, body, data.draw(st.one_of(st.binary(max_size=6), st.sampled_from(dialect.noise))))
    try:
        reply = adapter.parse_reply(call, broken)
        for pool in reply.pools:
            assert pool.payloads is None or len(pool.payloads(range(pool.size))) == pool.size
        answer = adapter.trim(call, reply, [np.arange(pool.size) for pool in reply.pools])
    except MalformedReplyError:
        return
    seen: list[Any] = [dialect.seen(answer), dialect.seen(broken, hides=True)]
    assert None in seen or seen[0] == seen[1]


# Of every transport with searches, Milvus's too.
SEARCHED: dict[str, Made] = {
    **{f"{name} over REST": row.adapter for name, row in REST.items() if name != "weaviate"},
    **{f"{name} over gRPC": row.adapter for name, row in GRPC.items()},
}


@pytest.mark.parametrize("name", SEARCHED)
def test_a_document_of_another_adapter_is_refused(name: str) -> None:
    adapter, operation = SEARCHED[name](), Operation(backend="other", name="query", collection="c")
    call = SearchCall(operation=operation, searches=(), needs=Needs(), document=None)
    with pytest.raises(TypeError, match="another adapter"):
        adapter.widen(call, [])
    with pytest.raises(TypeError, match="another adapter"):
        adapter.parse_reply(call, b"")
    with pytest.raises(TypeError, match="another adapter"):
        adapter.trim(call, Reply(pools=(), document=None), [])


@pytest.mark.parametrize("name", [name for name in SEARCHED if name.startswith(("milvus", "qdrant"))])
def test_fusions_of_several_searches_are_divided(name: str) -> None:
    assert isinstance(SEARCHED[name](), DividesFusions)
