from __future__ import annotations

import json
from string import ascii_letters
from typing import Any
from urllib.parse import parse_qs, urlsplit

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.backends.transports import operation_of
from vecsieve.adapters.contract import (
    Lookup,
    LookupReply,
    MalformedReplyError,
    Needs,
    Pool,
    Reply,
    RequestHead,
    SearchCall,
)
from vecsieve.adapters.pinecone.rest import MOST_IDS, TARGET_BYTES, PineconeRest, joined, lookups, parse_lookup
from vecsieve.adapters.wire.json_vectors import Matrix

ADAPTER = PineconeRest()
WIDE = Needs(lookups=True, optional_fields=("text",))
IDS = st.text(st.characters(codec="utf-8"), min_size=1, max_size=40)
SPARSE = {"indices": [3, 70_000], "values": [0.5, 1.5]}


def encoded(*ids: str) -> tuple[bytes, ...]:
    return tuple(json.dumps(one).encode() for one in ids)


def pool(*ids: str) -> Pool:
    size = len(ids)
    none = np.full((size, 0), np.nan, np.float32)
    return Pool(scores=np.zeros(size), vectors=none, ids=encoded(*ids), unusable=size)


def lookup(*ids: str) -> Lookup:
    return Lookup(method="GET", target="/vectors/fetch", ids=ids)


def body(vectors: dict[str, Any], **usage: Any) -> bytes:
    records = {one: {"id": one, **record} for one, record in vectors.items()}
    return json.dumps({"vectors": records, "namespace": "", "usage": usage}, separators=(",", ":")).encode()


def dense(**vectors: list[float]) -> dict[str, Any]:
    return {one: {"values": values, "metadata": {"text": "t"}} for one, values in vectors.items()}


def vectors_of(ids: tuple[str, ...], *bodies: bytes) -> Matrix:
    return joined(pool(*ids), [parse_lookup(lookup(*ids), text) for text in bodies]).vectors


def call(path: str = "/records/namespaces/ns/search", needs: Needs = WIDE, **members: Any) -> SearchCall:
    operation = operation_of(ADAPTER, RequestHead(method="POST", path=path))
    query: dict[str, Any] = {"query": {"top_k": 2, "inputs": {"text": "a"}}, **members}
    sent = {"topK": 2, "vector": [1.0]} if path == "/query" else query
    return ADAPTER.parse_request(operation, json.dumps(sent).encode(), needs)


def reply(search: SearchCall, *, usage: str = '{"read_units":5,"embed_total_tokens":10}', before: str = "") -> Reply:
    hits = '{"_id":"a","_score":1,"fields":{"text":"x"}},{"_id":"b","_score":0.5,"fields":{"text":"\\ud83d"}}'
    text = f'{{{before}"result":{{"hits":[{hits}]}},"usage":{usage}}}'
    return ADAPTER.parse_reply(search, text.encode())


def answer(search: SearchCall, read: Reply) -> bytes:
    return ADAPTER.trim(search, read, [np.arange(read.pools[0].size)])


def test_ids_and_namespace_are_asked_for_as_a_query_string() -> None:
    (one,) = lookups("a%2Fb%20c%25d", encoded("x y", "ü&=", "x y"), frozenset())
    assert one.method == "GET"
    assert one.target == "/vectors/fetch?ids=x%20y&ids=%C3%BC%26%3D&namespace=a%2Fb%20c%25d"
    assert one.ids == ("x y", "ü&=")


@pytest.mark.parametrize(
    ("spelled", "parameter"),
    [("", ""), ("ns", "&namespace=ns"), ("a/b%20c%d", "&namespace=a%2Fb%20c%25d"), ("a+b", "&namespace=a%2Bb"),
     ("%2E%2E", "&namespace=.."), ("%ff", "&namespace=%FF"), ("größe", "&namespace=gr%C3%B6%C3%9Fe")],
)  # fmt: skip
def test_a_namespace_is_the_one_of_the_searchs_path_however_that_spells_it(spelled: str, parameter: str) -> None:
    search = call(f"/records/namespaces/{spelled}/search")
    (one,) = ADAPTER.lookups(search, reply(search), frozenset())
    assert one.target == f"/vectors/fetch?ids=a&ids=b{parameter}"


@pytest.mark.parametrize("ids", [(), (b'"a"',)])
def test_less_than_two_candidates_are_compared_with_nobody(ids: tuple[bytes, ...]) -> None:
    assert lookups("", ids, frozenset()) == ()


def test_an_id_that_no_request_can_name_is_left_out() -> None:
    assert [one.ids for one in lookups("", (b'"\\ud800"', b'""', b'"a"'), frozenset())] == [("a",)]
    assert [one.ids for one in lookups("", encoded("x" * TARGET_BYTES, "a"), frozenset())] == [("a",)]


@given(
    ids=st.lists(st.one_of(IDS, st.integers(0, 5000).map(str)), min_size=2, max_size=60), repeated=st.integers(1, 40)
)
def test_requests_stay_below_their_limits_and_ask_for_each_id_once(ids: list[str], repeated: int) -> None:
    """Invariant: every target fits, no more than 1,000 ids each, together all ids in their order, each read back as it was."""
    expected = [f"{one}{copy}" for copy in range(repeated) for one in ids]
    requests = lookups("n%20s", encoded(*expected), frozenset())
    assert [one for read in requests for one in read.ids] == list(dict.fromkeys(expected))
    for read in requests:
        assert len(read.target) <= TARGET_BYTES
        assert 1 <= len(read.ids) <= MOST_IDS
        assert read.target.isascii()
        parts = parse_qs(urlsplit(read.target).query, keep_blank_values=True, strict_parsing=True)
        assert parts == {"ids": list(read.ids), "namespace": ["n s"]}


def test_a_thousand_ids_are_the_most_of_one_request() -> None:
    two_letters = [one + other for one in ascii_letters for other in ascii_letters]
    requests = lookups("", encoded(*two_letters), frozenset())
    assert [len(one.ids) for one in requests] == [MOST_IDS, MOST_IDS, 704]


def test_dense_values_become_rows_in_the_pools_order() -> None:
    filled = joined(pool("a", "b"), [parse_lookup(lookup("a", "b"), body(dense(b=[0, -2], a=[1, 0.5])))])
    assert filled.vectors.dtype == np.float32
    assert filled.vectors.tolist() == [[1, 0.5], [0, -2]]
    assert (filled.unusable, filled.compared_by) == (0, "")


def test_who_is_gone_is_compared_with_nobody_and_counted() -> None:
    filled = joined(pool("a", "b"), [parse_lookup(lookup("a", "b"), body(dense(b=[0, -2])))])
    assert np.isnan(filled.vectors[0]).all()
    assert filled.vectors[1].tolist() == [0, -2]
    assert filled.unusable == 1


def test_where_nobody_is_left_nothing_is_compared() -> None:
    filled = joined(pool("a", "b"), [parse_lookup(lookup("a", "b"), body({}))])
    assert (filled.unusable, filled.compared_by) == (2, None)


def test_where_nobody_has_dense_values_sparse_ones_are_compared() -> None:
    records = {"a": {"values": [], "sparseValues": SPARSE}, "b": {"sparseValues": SPARSE}, "c": {"values": None}}
    rows = vectors_of(("a", "b", "c"), body(records))
    assert rows[:2].tolist() == [[0.5, 1.5], [0.5, 1.5]]
    assert np.isnan(rows[2]).all()


def test_ids_are_the_same_in_every_spelling() -> None:
    written = b'{"vectors":{"\\u003ca":{"values":[1,2]},"\\ud83d\\ude00":{"values":[3,4]}}}'
    assert vectors_of(("<a", "😀"), written).tolist() == [[1, 2], [3, 4]]


def test_metadata_that_looks_like_values_is_none() -> None:
    record = {"values": [1, 2], "metadata": {"values": [7, 8], "text": '"values":[5,6]', "x": {"values": [9]}}}
    assert vectors_of(("a", "b"), body({"a": record, "b": {"values": [3, 4]}})).tolist() == [[1, 2], [3, 4]]


@pytest.mark.parametrize(
    ("usage", "ids", "units"),
    [
        ({"readUnits": 7}, 1, 7),
        ({"readUnits": 0}, 1, 0),
        ({}, 1, 1),
        ({}, 10, 1),
        ({}, 11, 2),
        ({"readUnits": "7"}, 25, 3),
        ({"readUnits": 1.5}, 25, 3),
        ({"readUnits": -1}, 25, 3),
        ({"readUnits": 10**12}, 25, 3),
    ],
)
def test_the_price_is_what_the_service_says_else_what_its_price_list_does(
    usage: dict[str, Any], ids: int, units: int
) -> None:
    assert parse_lookup(lookup(*map(str, range(ids))), body({}, **usage)).read_units == units


@pytest.mark.parametrize("usage", [b"", b',"usage":null', b',"usage":[]', b',"usage":7'])
def test_without_a_usage_the_price_list_counts(usage: bytes) -> None:
    assert parse_lookup(lookup("a", "b"), b'{"vectors":{}' + usage + b"}").read_units == 1


@pytest.mark.parametrize(
    "damaged",
    [
        b"", b"[]", b"{}", b"null", b'{"vectors":null}', b'{"vectors":[]}', b'{"vectors":{"a":null}}',
        b'{"vectors":{"a":[]}}', b'{"vectors":{"a":{"values":7}}}', b'{"vectors":{"a":{"values":["x"]}}}',
        b'{"vectors":{"a":{"values":[[1]]}}}', b'{"vectors":{"a":{"values":[1,]}}}',
        b'{"vectors":{"a":{"values":[1]},"a":{"values":[2]}}}', b'{"vectors":{"a":{"values":[1],"values":[2]}}}',
        b'{"vectors":{"a":{"values":[1]}}', b'{"vectors":{"a":{"values":[1]}}}}', b'{"vectors":{"\\ud800":{}}}',
    ],
)  # fmt: skip
def test_what_is_no_reply_to_a_fetch_is_malformed(damaged: bytes) -> None:
    with pytest.raises(MalformedReplyError):
        parse_lookup(lookup("a"), damaged)


def test_sparse_values_that_cannot_be_read_with_certainty_are_malformed() -> None:
    repeated = b'{"vectors":{"a":{"sparseValues":{"indices":[1],"indices":[2],"values":[1]}}}}'
    with pytest.raises(MalformedReplyError):
        vectors_of(("a", "b"), repeated)


RECORDS = st.dictionaries(
    IDS, st.lists(st.floats(-1e6, 1e6, width=32), min_size=3, max_size=3), min_size=2, max_size=12
)


@given(records=RECORDS, shuffle=st.randoms(use_true_random=False), missing=st.integers(0, 3), chunks=st.integers(1, 4))
def test_every_candidate_gets_its_own_vector_in_whatever_order_and_number_of_replies_they_come(
    records: dict[str, list[float]], shuffle: Any, missing: int, chunks: int
) -> None:
    """Invariant: row i is the vector stored under id i, or NaN; what was not asked for changes nothing."""
    ids = tuple(records)
    present = list(ids[missing:])
    shuffle.shuffle(present)
    extra = {"\x00nobody's": {"values": [9.0, 9.0, 9.0, 9.0]}}
    runs = [present[start::chunks] for start in range(chunks)]
    results: list[LookupReply] = [
        parse_lookup(lookup(*ids), body({**{one: {"values": records[one]} for one in run}, **extra})) for run in runs
    ]
    filled = joined(pool(*ids), results)
    assert filled.unusable == len(ids) - len(present)
    for one, row in zip(ids, filled.vectors, strict=True):
        if one in present:
            assert row.tolist() == records[one]
        else:
            assert np.isnan(row).all()


WHOLE = body({**dense(a=[1.5, -2.0], b=[0.25, 4.0]), "c": {"values": [], "sparseValues": SPARSE}}, readUnits=1)


@given(start=st.integers(0, len(WHOLE)), length=st.integers(0, 12), by=st.binary(max_size=6))
def test_arbitrary_damage_is_malformed_or_leaves_a_vector_for_each_candidate(
    start: int, length: int, by: bytes
) -> None:
    """Invariant: nothing but MalformedReplyError is raised; what is read has a row for every candidate, of numbers or of NaN."""
    damaged = WHOLE[:start] + by + WHOLE[start + length :]
    try:
        filled = joined(pool("a", "b", "c"), [parse_lookup(lookup("a", "b", "c"), damaged)])
    except MalformedReplyError:
        return
    assert len(filled.vectors) == 3
    is_number = np.isfinite(filled.vectors)
    assert (is_number.all(axis=1) | ~is_number.any(axis=1)).all()
    assert is_number.any(axis=1).sum() == 3 - filled.unusable


@given(st.binary(max_size=200))
def test_arbitrary_bytes_raise_nothing_but_malformed(garbage: bytes) -> None:
    """Invariant: `neighbours` is total but for MalformedReplyError."""
    try:
        parse_lookup(lookup("a"), garbage)
    except MalformedReplyError:
        return
    assert garbage.strip().startswith(b"{")


def test_only_a_records_search_whose_policy_says_so_is_looked_up() -> None:
    search = call()
    assert ADAPTER.lookups(search, reply(search), frozenset()) != ()
    text = call(needs=Needs(optional_fields=("text",)))
    assert ADAPTER.lookups(text, reply(text), frozenset()) == ()
    query = call("/query")
    read = ADAPTER.parse_reply(query, b'{"matches":[{"id":"a","score":1},{"id":"b","score":1}]}')
    assert ADAPTER.lookups(query, read, frozenset()) == ()


@pytest.mark.parametrize(
    ("before", "usage", "charged"),
    [
        ("", '{"read_units":5,"embed_total_tokens":10}', '{"read_units":12,"embed_total_tokens":10}'),
        ("", '{"embed_total_tokens":10,"read_units" : 0 }', '{"embed_total_tokens":10,"read_units" : 7 }'),
        ("", '{"read_units":"5"}', None),
        ("", '{"read_units":5.0}', None),
        ("", '{"read_units":null}', None),
        ("", '{"read_units":-5}', None),
        ("", '{"read_units":12345678901}', None),
        ("", '{"readUnits":5}', None),
        ("", "[5]", None),
        ("", "null", None),
        ('"x":{"usage":{"read_units":1}},', '{"read_units":5}', '{"read_units":12}'),
    ],
)
def test_what_lookups_cost_is_added_to_a_plain_number_and_to_nothing_else(
    before: str, usage: str, charged: str | None
) -> None:
    search = call()
    read = reply(search, usage=usage, before=before)
    plain = answer(search, read)
    assert plain.count(usage.encode()) == 1
    expected = plain if charged is None else plain.replace(usage.encode(), charged.encode())
    assert answer(search, ADAPTER.charged(read, 7)) == expected
    assert answer(search, ADAPTER.charged(read, 0)) == plain


def test_a_reply_of_another_adapter_is_a_mistake_of_ours() -> None:
    with pytest.raises(TypeError):
        ADAPTER.charged(Reply(pools=(), document=None), 1)
    with pytest.raises(TypeError):
        joined(pool("a", "b"), [LookupReply(read_units=1, document=None)])
