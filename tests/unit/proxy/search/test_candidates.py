"""Payload becomes what selection reads of it, and nothing in a payload can break that."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.selection.payloads import PATHS, SEARCH, candidates, fields, from_pool, raw_pool
from support.selection.texts import hostile_text
from vecsieve.adapters.contract import Allowance, Pool, Search
from vecsieve.proxy.search.candidates import CALL_BYTES, POOL_BYTES, TEXT_BYTES, Kind, moment, recency
from vecsieve.proxy.search.policy import Fields, keys_of
from vecsieve.proxy.selection.reading.text import UNREAD
from vecsieve.proxy.selection.values import Candidates, Metadata

NOTHING = fields()
TEXT = fields(text=("text", "body"))
EVERYTHING = Fields(
    text=("text", "m.text"),
    document=("doc", "m.doc"),
    source=("m.source.name", "source"),
    span_start=("start",),
    span_end=("end",),
    chunk_index=("index",),
    updated=("updated", "m.date"),
    citations=("url", "m.url"),
    chunk_size=100,
    chunk_overlap=20,
)


def raw(known: Metadata) -> tuple[str | None, ...]:
    """The texts as the database has them; none where there are none."""
    return tuple(None if text is None or text is UNREAD else text.raw for text in known.texts or ())


def known(looked_at: Fields, *payloads: dict[str, Any]) -> Metadata:
    return candidates(payloads, looked_at).metadata


def tenants(*rows: tuple[bytes | None, ...]) -> list[int]:
    keys = tuple(f"t{place}" for place in range(len(rows[0])))
    result = from_pool(raw_pool(rows), SEARCH, tenant_keys=keys, fields=NOTHING).tenants
    assert result is not None
    return [int(number) for number in result]


def test_equal_tenant_values_get_equal_numbers_and_different_ones_differ() -> None:
    first, second, third = tenants((b'"a"',), (b'"b"',), (b'"a"',))
    assert first == third != second


def test_a_candidate_without_its_tenant_key_shares_a_tenant_with_nobody() -> None:
    assert len(set(tenants((None,), (b'"a"',), (None,)))) == 3


def test_every_tenant_key_must_be_equal() -> None:
    first, second, third = tenants((b'"a"', b"1"), (b'"a"', b"2"), (b'"a"', b"1"))
    assert first == third != second


def test_two_spellings_of_one_value_are_kept_apart() -> None:
    first, second = tenants((b"1",), (b"1.0",))
    assert first != second


def test_without_tenant_keys_there_are_no_tenants() -> None:
    assert candidates([{"text": "a"}], TEXT).tenants is None


def test_the_keys_are_the_tenants_and_then_what_else_is_read_once_each() -> None:
    looked_at = fields(text=("text", "m.text"), document=("doc", "m.doc"), source=("tenant",))
    assert keys_of(("tenant",), looked_at) == ("tenant", "text", "m", "doc")


def test_a_tenant_key_may_also_be_the_source() -> None:
    result = candidates([{"tenant": "a"}, {"tenant": "b"}], fields(source=("tenant",)), tenant_keys=("tenant",))
    assert result.tenants is not None
    assert result.metadata.sources == ("a", "b")


def test_the_first_text_that_is_not_blank_counts_with_its_length_in_characters() -> None:
    payloads: list[dict[str, Any]] = [
        {"body": "été"}, {"text": "abcd", "body": "x"}, {"text": 12, "body": "ab"}, {}, {"text": " \n", "body": "z"},
    ]  # fmt: skip
    result = candidates(payloads, TEXT)
    assert raw(result.metadata) == ("été", "abcd", "ab", None, "z")
    assert result.text_lengths is not None
    assert result.text_lengths.tolist() == [3, 4, 2, -1, 1]


def test_a_lone_surrogate_is_passed_over_for_the_next_field() -> None:
    pool = raw_pool([(b'"\\ud800"', b'"ab"')])
    assert raw(from_pool(pool, SEARCH, tenant_keys=(), fields=TEXT).metadata) == ("ab",)


@pytest.mark.parametrize("payload", [{}, {"text": None}, {"text": ["a"]}, {"text": ""}])
def test_what_nobody_has_is_none(payload: dict[str, Any]) -> None:
    result = candidates([payload, payload], fields(text=("text",), document=("text",), updated=("text",)))
    assert (result.metadata.texts, result.text_lengths, result.metadata.recency) == (None, None, None)


def test_nothing_is_looked_at_unless_a_field_says_so() -> None:
    payload = {"text": "a", "doc": 1, "updated": 3}
    assert candidates([payload], NOTHING).metadata == Metadata()
    assert from_pool(raw_pool([(), ()]), SEARCH, tenant_keys=(), fields=NOTHING).text_lengths is None


def test_an_adapter_without_fields_gives_candidates_without_metadata() -> None:
    assert from_pool(raw_pool([]), SEARCH, tenant_keys=(), fields=EVERYTHING).metadata == Metadata()


def test_scores_vectors_and_query_pass_as_they_are() -> None:
    source = raw_pool([(), ()])
    result = from_pool(source, SEARCH, tenant_keys=(), fields=NOTHING)
    assert result.scores is source.scores
    assert result.vectors is source.vectors
    assert result.query is SEARCH.query


def test_names_are_strings_numbers_and_booleans() -> None:
    documents = known(
        fields(document=("doc", "id")), {"doc": 7}, {"doc": "7"}, {"doc": True}, {"doc": {}, "id": "x"}, {"id": 1.50}
    ).documents
    assert documents == ("7", "7", "true", "x", "1.5")


def test_dotted_paths_reach_into_objects() -> None:
    # LangChain keeps {"page_content": .., "metadata": {..}}.
    looked_at = fields(text=("page_content",), document=("metadata.doc",), source=("metadata.origin.name", "source"))
    result = known(
        looked_at,
        {"page_content": "a", "metadata": {"doc": 1, "origin": {"name": "wiki"}}},
        {"page_content": "b", "metadata": {"origin": "none"}, "source": "s"},
        {"metadata": "no object"},
    )
    assert raw(result) == ("a", "b", None)
    assert result.documents == ("1", None, None)
    assert result.sources == ("wiki", "s", None)


def spans(looked_at: Fields, *payloads: dict[str, Any]) -> list[list[float]] | None:
    result = known(looked_at, *payloads).spans
    return None if result is None else [[-1.0 if np.isnan(end) else end for end in row] for row in result.tolist()]


SPANNED = fields(span_start=("start",), span_end=("end",), chunk_index=("index",))


def test_a_span_takes_both_ends_in_order() -> None:
    payloads: list[dict[str, Any]] = [
        {"start": 0, "end": 10},
        {"start": 5},
        {"start": 7, "end": 7},
        {"start": "0", "end": 3},
        {"end": 2},
    ]
    unknown = [-1.0, -1.0]
    assert spans(SPANNED, *payloads) == [[0.0, 10.0], unknown, unknown, unknown, unknown]


def test_a_chunk_number_is_a_span_of_one_unless_the_size_is_known() -> None:
    payloads = [{"index": 0}, {"index": 3}, {}]
    assert spans(SPANNED, *payloads) == [[0.0, 1.0], [3.0, 4.0], [-1.0, -1.0]]
    sized = replace(SPANNED, chunk_size=100, chunk_overlap=20)
    assert spans(sized, *payloads) == [[0.0, 100.0], [240.0, 340.0], [-1.0, -1.0]]


def test_chunk_numbers_and_tokens_are_never_compared_with_each_other() -> None:
    # Token 3 of a document and its chunk 3 would seem to overlap.
    assert spans(SPANNED, {"start": 0, "end": 9}, {"index": 3}) == [[0.0, 9.0], [-1.0, -1.0]]


def test_no_span_at_all_is_none() -> None:
    assert spans(SPANNED, {"start": 3, "end": 1}, {}) is None


def test_filled_citations_are_counted() -> None:
    looked_at = fields(citations=("url", "m.page", "title"))
    full = {"url": "u", "m": {"page": 0}, "title": "t"}
    empty = {"url": "", "m": {"page": None}, "title": []}
    counts = known(looked_at, full, {"url": "u", "title": " "}, empty, {}).citations
    assert counts is not None
    assert counts.tolist() == [3, 1, 0, 0]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=6)
    | st.sampled_from(["3.0.3", "2024-01-02", "0001-01-01T00:00+14:00", "9" * 30, 1e308, "v1.0rc1"]),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(st.sampled_from(["doc", "text", "source", "name", "date", "url"]), inner, max_size=4),
    max_leaves=6,
)  # fmt: skip


def assert_whole(result: Candidates, n: int) -> None:
    """Every member has one entry for each candidate, of the promised kind. Candidates itself has checked the lengths."""
    has = result.metadata
    texts = None if has.texts is None else [None if text is None else text.raw for text in has.texts]
    for values in (texts, has.documents, has.sources):
        assert values is None or all(value is None or (isinstance(value, str) and value.strip()) for value in values)
    for row in [] if has.spans is None else has.spans.tolist():
        assert np.isnan(row).all() or row[0] < row[1]
    assert has.spans is None or has.spans.shape == (n, 2)
    assert has.recency is None or (has.recency.dtype == np.float64 and not np.isinf(has.recency).any())
    assert has.citations is None or has.citations.dtype == np.int64


@given(st.lists(st.dictionaries(st.sampled_from(EVERYTHING.heads), JSON), max_size=6))
def test_any_payload_is_read_without_complaint(payloads: list[dict[str, Any]]) -> None:
    """Invariant: whatever JSON stands in the payload, every member is whole, and reading it again gives the same."""
    result = candidates(payloads, EVERYTHING)
    assert_whole(result, len(payloads))
    again = candidates(payloads, EVERYTHING).metadata
    assert repr(again) == repr(result.metadata)


@given(
    st.lists(
        st.tuples(
            *[
                st.none() | st.binary(max_size=12) | st.sampled_from([b"{", b'"', b"-", b"1e999", b'{"doc":"\\ud800"}'])
                for _ in keys_of((), EVERYTHING)
            ]
        ),
        max_size=4,
    )
)
def test_any_bytes_are_read_without_complaint(rows: list[tuple[bytes | None, ...]]) -> None:
    """Invariant: bytes that are no JSON at all are unknown; nothing raises."""
    assert_whole(from_pool(raw_pool(rows), SEARCH, tenant_keys=(), fields=EVERYTHING), len(rows))


@given(st.lists(st.dictionaries(st.sampled_from(EVERYTHING.heads), JSON), min_size=1, max_size=6), st.data())
def test_a_candidates_names_and_texts_do_not_depend_on_its_neighbours(
    payloads: list[dict[str, Any]], data: st.DataObject
) -> None:
    """Invariant: texts, documents, sources and citations of one candidate are what they are in a pool of its own."""
    row = data.draw(st.integers(0, len(payloads) - 1))
    among, alone = candidates(payloads, EVERYTHING).metadata, candidates([payloads[row]], EVERYTHING).metadata
    for member in ("texts", "documents", "sources", "citations"):
        many, one = getattr(among, member), getattr(alone, member)
        assert (None if many is None else many[row]) == (None if one is None else one[0])


def test_the_support_knows_every_path_of_the_fields() -> None:
    computed = {"heads", "are_texts"}
    assert {*PATHS, *computed, "chunk_size", "chunk_overlap", "budget", "guesses", "ignored"} == set(Fields.__slots__)


def test_a_candidate_that_stands_alone_shares_a_tenant_with_nobody() -> None:
    pool = Pool(scores=np.zeros(3), vectors=np.ones((3, 2), np.float32), fields=((), (), ()), alone=(1,))
    search = Search(top_k=2, offset=0, pages=False, query=None)
    tenants = from_pool(pool, search, tenant_keys=(), fields=NOTHING).tenants
    assert tenants is not None
    assert tenants.tolist() == [0, -2, 0]


def test_a_text_beyond_any_chunk_is_unknown_and_another_field_does_not_take_its_place() -> None:
    long = "a" * TEXT_BYTES
    metadata = known(TEXT, {"text": long, "body": "short"}, {"text": "b"})
    assert raw(metadata) == (None, "b")


def test_the_best_ranked_texts_of_a_pool_are_decoded() -> None:
    text = "a" * (POOL_BYTES // 10)
    payloads = [{"text": text}] * 12 + [{"text": "short"}]
    metadata = known(TEXT, *payloads)
    assert raw(metadata) == (text,) * 9 + (None,) * 4


def test_the_searches_of_a_call_share_what_is_decoded() -> None:
    row = (b'"%s"' % (b"a" * (CALL_BYTES // 80)),)
    pool = raw_pool((row,) * 10)
    allowance = Allowance(CALL_BYTES)
    read = [
        from_pool(pool, SEARCH, tenant_keys=(), fields=fields(text=("text",)), allowance=allowance).metadata.texts
        for _ in range(9)
    ]
    assert [UNREAD not in (texts or (UNREAD,)) for texts in read] == [True] * 7 + [False] * 2


def test_the_length_of_a_text_that_is_not_read_is_unknown() -> None:
    lengths = candidates([{"text": "a" * TEXT_BYTES}, {"text": "b"}], TEXT).text_lengths
    assert lengths is not None
    assert lengths.tolist() == [-1, 1]


@given(st.lists(hostile_text(), min_size=1, max_size=5))
def test_hostile_texts_are_read_whole_or_not_at_all(texts: list[str]) -> None:
    """Invariant: each text is the payload's own or unknown; nothing raises."""
    texts_read = raw(candidates([{"text": text} for text in texts], TEXT).metadata) or (None,) * len(texts)
    assert all(result is None or result == text for result, text in zip(texts_read, texts, strict=True))


def newest_first(*values: object) -> list[int]:
    """The places of the known values, the newest first."""
    ages = recency([moment(json.dumps(value).encode()) for value in values])
    return [] if ages is None else [int(place) for place in np.argsort(-ages) if not np.isnan(ages[place])]


def test_larger_numbers_are_newer() -> None:
    assert newest_first(2023, 2024.5, -1) == [1, 0, 2]


def test_dates_and_times_are_compared_as_moments_in_utc() -> None:
    assert newest_first("2024-03-01", "2024-03-01T12:00:00+13:00", "2024-03-01T00:00:01Z", "2023-12-31 23:59") == [
        2, 0, 1, 3,
    ]  # fmt: skip


def test_a_date_without_a_zone_is_in_utc() -> None:
    assert moment(b'"1970-01-02"') == (Kind.DATE, 86400.0)
    assert moment(b'"1970-01-01T01:00:00+01:00"') == (Kind.DATE, 0.0)


def test_releases_are_compared_number_by_number() -> None:
    assert newest_first("1.9", "1.10", "v1.2.3", "2") == [3, 1, 0, 2]


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ("1.0rc1", "1.0"),
        ("1.0-beta.2", "1.0rc1"),
        ("1.0a9", "1.0b1"),
        ("1.0.dev3", "1.0a1"),
        ("1.0", "1.0.post1"),
        ("1.0-rc.1", "1.0-rc.2"),
        ("1.0.post1", "1.0.1"),
        ("2.9", "10"),
    ],
)
def test_what_comes_before_a_release_is_older(older: str, newer: str) -> None:
    assert newest_first(older, newer) == [1, 0]
    assert newest_first(newer, older) == [0, 1]


@pytest.mark.parametrize(
    ("one", "other"), [("1.0", "1.0.0"), ("V1", "1"), ("1.0+build.7", "1.0"), ("1.0-RC1", "1.0rc1")]
)
def test_two_names_of_one_release_are_equally_new(one: str, other: str) -> None:
    assert moment(json.dumps(one).encode()) == moment(json.dumps(other).encode())


def test_a_pool_is_compared_in_the_kind_of_its_best_candidate() -> None:
    assert newest_first(None, "2024-01-01", 1e12, "3.0", "2025-01-01") == [4, 1]
    assert newest_first("3.0", "2024-01-01", "2.9") == [0, 2]


@pytest.mark.parametrize("value", [None, True, "", "soon", "2024-13-01", "1..2", "1.0-what", [2024], {"a": 1}, "١٢"])
def test_anything_else_is_unknown(value: object) -> None:
    assert moment(json.dumps(value).encode()) is None


def test_where_all_are_unknown_there_is_no_order() -> None:
    assert recency([None, None]) is None
    assert recency([]) is None


@given(st.lists(st.lists(st.integers(0, 30), min_size=1, max_size=4), min_size=1, max_size=8))
def test_the_order_of_releases_is_that_of_their_numbers(parts: list[list[int]]) -> None:
    """Invariant: two releases compare as their numbers do, one after the other, whatever else is in the pool."""
    ages = recency([moment(json.dumps(".".join(map(str, part))).encode()) for part in parts])
    padded = [tuple(part + [0] * (4 - len(part))) for part in parts]
    assert ages is not None
    for first, one in zip(ages, padded, strict=True):
        for second, other in zip(ages, padded, strict=True):
            assert (first < second, first == second) == (one < other, one == other)


@given(st.binary(max_size=30) | st.text(max_size=20).map(lambda text: json.dumps(text).encode()))
def test_any_bytes_are_a_moment_or_none(raw: bytes) -> None:
    """Invariant: nothing raises, and a moment is one of three kinds with a finite value."""
    result = moment(raw)
    assert result is None or result[0] is Kind.RELEASE or np.isfinite(result[1])
