from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vecsieve.proxy.http.headers import (
    EXACTING,
    HOP_BY_HOP,
    VOUCHING,
    around_other_bytes,
    for_client,
    for_upstream,
    framed,
    is_forwardable,
    replaced,
    traced,
    values,
    wants_exact_bytes,
)

NAMES = st.sampled_from(
    [
        b"X-A",
        b"x-a",
        b"Accept",
        b"api-key",
        b"Connection",
        b"Keep-Alive",
        b"TE",
        b"Content-Length",
        b"Host",
        b"host",
        b"X-VecSieve-Mode",
    ]
)
VALUES = st.sampled_from([b"", b"1", b"x-a", b"api-key, close", b"caf\xc3\xa9", b"Host, content-length"])
LISTS = st.lists(st.tuples(NAMES, VALUES), max_size=12)


@given(LISTS)
def test_what_passes_keeps_its_order_case_and_bytes(raw: list[tuple[bytes, bytes]]) -> None:
    # Invariant: the client's list is a subsequence of upstream's, and nothing in it belongs to the hop.
    passed = [(name.encode(), value.encode()) for name, value in for_client(raw)]
    remaining = iter(raw)
    assert all(pair in remaining for pair in passed)
    assert not [name for name, _ in passed if name.lower() in HOP_BY_HOP]


@given(LISTS)
def test_upstream_gets_the_same_less_ours_and_its_own_host(raw: list[tuple[bytes, bytes]]) -> None:
    # Invariant: the upstream's host stands wherever one stood, or first; every other line is one that passes.
    sent = for_upstream(raw, "db:6333")
    hosts = [value for name, value in sent if name.lower() == "host"]
    assert hosts == ["db:6333"] * max(1, len(values(raw, b"host")))
    assert not [name for name, _ in sent if name.lower().startswith("x-vecsieve-")]
    others = [pair for pair in sent if pair[0].lower() != "host"]
    kept = [pair for pair in for_client(raw) if pair[0].lower() != "host"]
    assert others == [pair for pair in kept if not pair[0].lower().startswith("x-vecsieve-")]


def test_connection_cannot_remove_what_keeps_messages_apart() -> None:
    raw = [
        (b"Connection", b"content-length, HOST, transfer-encoding, x-gone"),
        (b"Content-Length", b"3"),
        (b"X-Gone", b"1"),
    ]
    assert for_client(raw) == [("Content-Length", "3")]


@given(LISTS, st.one_of(st.none(), st.integers(0, 2**40)), st.booleans())
def test_framing_is_exactly_what_the_body_has(
    raw: list[tuple[bytes, bytes]], length: int | None, chunked: bool
) -> None:
    # Invariant: one Content-Length with this value or none, one Transfer-Encoding or none, all else as before.
    head = for_client([*raw, (b"Transfer-Encoding", b"chunked"), (b"transfer-encoding", b"chunked")])
    result = framed(head, length=length, chunked=chunked)
    low = [(name.lower(), value) for name, value in result]
    assert [value for name, value in low if name == "content-length"] == ([] if length is None else [str(length)])
    assert [value for name, value in low if name == "transfer-encoding"] == (["chunked"] if chunked else [])
    framing = {"content-length", "transfer-encoding"}
    assert [p for p in result if p[0].lower() not in framing] == [p for p in head if p[0].lower() not in framing]


def test_framing_keeps_the_place_and_case_of_the_line_it_replaces() -> None:
    head = [("A", "1"), ("conTent-length", "9"), ("B", "2")]
    assert framed(head, length=4, chunked=False) == [("A", "1"), ("conTent-length", "4"), ("B", "2")]


@given(st.binary(max_size=40))
def test_forwardable_is_what_survives_the_serializer(value: bytes) -> None:
    # Invariant: true exactly for UTF-8 without control characters but the tab.
    try:
        text = value.decode("utf-8")
        fine = not any((ord(char) < 0x20 and char != "\t") or ord(char) == 0x7F for char in text)
    except UnicodeDecodeError:
        fine = False
    assert is_forwardable([(b"x", value)]) is fine


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (b"identity", [(b"A", b"1"), (b"Accept-Encoding", b"identity"), (b"B", b"2")]),
        (None, [(b"A", b"1"), (b"B", b"2")]),
    ],
)
def test_replacing_a_field_acts_on_all_its_lines(value: bytes | None, expected: list[tuple[bytes, bytes]]) -> None:
    raw = [(b"A", b"1"), (b"Accept-Encoding", b"gzip"), (b"B", b"2"), (b"accept-encoding", b"br")]
    assert replaced(raw, b"accept-encoding", value) == expected


def test_replacing_an_absent_field_adds_it_last() -> None:
    assert replaced([(b"A", b"1")], b"accept-encoding", b"identity") == [
        (b"A", b"1"),
        (b"accept-encoding", b"identity"),
    ]


PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


@given(LISTS, st.integers(0, 12), st.sampled_from([b"traceparent", b"Traceparent", b"TRACEPARENT"]))
def test_a_traceparent_is_replaced_where_it_stands(raw: list[tuple[bytes, bytes]], place: int, name: bytes) -> None:
    """Every other line stays as it is and where it is, and so do the place and the case of this one."""
    before, behind = raw[:place], raw[place:]
    assert traced([*before, (name, b"00-a-b-01"), *behind], PARENT) == [*before, (name, PARENT.encode()), *behind]


@given(LISTS)
def test_a_traceparent_that_was_not_there_comes_last(raw: list[tuple[bytes, bytes]]) -> None:
    """All that was there stays as it is and where it is; without one to set, the very list."""
    assert traced(raw, PARENT) == [*raw, (b"traceparent", PARENT.encode())]
    assert traced(raw, None) is raw


@given(LISTS, st.sampled_from(sorted(VOUCHING)))
def test_around_other_bytes_nothing_vouches_for_the_old_ones(raw: list[tuple[bytes, bytes]], name: bytes) -> None:
    """For any head: what vouches for bytes is gone in whatever case, and everything else is as for the client."""
    assert around_other_bytes([*raw, (name.title(), b"x")]) == for_client(raw)


@pytest.mark.parametrize("name", sorted(VOUCHING | EXACTING))
def test_a_head_that_speaks_of_exact_bytes_is_seen_in_any_case(name: bytes) -> None:
    assert wants_exact_bytes([(b"Host", b"db"), (name.upper(), b"x")])
    assert not wants_exact_bytes([(b"Host", b"db"), (b"X-" + name, b"x")])


def test_a_date_of_the_data_is_no_statement_about_bytes() -> None:
    raw = [(b"Last-Modified", b"Thu, 01 Jan 1970 00:00:00 GMT")]
    assert around_other_bytes(raw) == for_client(raw)
