from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vecsieve.proxy.grpc.status import HOP_BY_HOP, Pairs, for_client, for_upstream, is_sendable, trace_parents, traced
from vecsieve.proxy.telemetry.tracing import sampled_trace_id

KEYS = st.sampled_from(["a", "b", "api-key", "te", "user-agent", "grpc-timeout", "host", "x-vecsieve-mode", "grpc-foo"])
TEXTS = st.sampled_from(["", "1", " a ", "a,b", "grüße", "a\tb", "\x7f", "~"])
PAIRS = st.lists(st.tuples(KEYS, TEXTS) | st.tuples(st.just("x-bin"), st.binary(max_size=4)), max_size=12)


@given(PAIRS)
def test_what_passes_keeps_its_order_and_its_values(pairs: list[tuple[str, str | bytes]]) -> None:
    """Either side's list is a subsequence of what came, and nothing in it belongs to the hop."""
    for passed in (for_upstream(pairs), for_client(pairs)):
        remaining = iter(pairs)
        assert all(pair in remaining for pair in passed)
        assert not {key for key, _ in passed} & HOP_BY_HOP


@given(PAIRS)
def test_upstream_gets_everything_else_but_our_own_keys(pairs: list[tuple[str, str | bytes]]) -> None:
    """Nothing is lost on the way up but the hop's keys and x-vecsieve-*: what cannot be sent is refused, not dropped."""
    wanted = [pair for pair in pairs if pair[0] not in {"te", "user-agent", "grpc-timeout", "host", "x-vecsieve-mode"}]
    assert list(for_upstream(pairs)) == wanted


@given(PAIRS)
def test_a_client_is_never_given_what_cannot_be_sent(pairs: list[tuple[str, str | bytes]]) -> None:
    """All that passes down is sendable, and all that is sendable and not the hop's passes."""
    passed = for_client(pairs)
    assert is_sendable(passed)
    assert list(passed) == [pair for pair in pairs if pair[0] not in HOP_BY_HOP and is_sendable((pair,))]


@given(st.text(max_size=8))
def test_sendable_text_is_printable_ascii(value: str) -> None:
    """True exactly for characters from space to tilde; bytes of a -bin key always pass."""
    assert is_sendable((("a", value),)) is all(" " <= character <= "~" for character in value)
    assert is_sendable((("a-bin", value.encode()),))


@pytest.mark.parametrize("key", ["grpc-status-details-bin", "grpc-retry-pushback-ms", "date", "server", "retry-after"])
def test_what_the_database_says_of_the_call_passes(key: str) -> None:
    pairs: Pairs = ((key, b"1" if key.endswith("-bin") else "1"),)
    assert for_client(pairs) == pairs


def test_a_call_belongs_to_the_recorded_trace_it_names() -> None:
    parent = ("traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
    assert sampled_trace_id(trace_parents([("a", "1"), parent, ("x-bin", b"1")])) == "4bf92f3577b34da6a3ce929d0e0e4736"
    assert sampled_trace_id(trace_parents([parent, parent])) is None
    assert trace_parents([]) == []
    assert for_upstream([parent]) == (parent,), "it goes on untouched"


def test_our_own_keys_stay_here_whatever_their_case() -> None:
    assert for_upstream([("X-VecSieve-Mode", "off"), ("x-vecsieve-unknown", "1"), ("a", "1")]) == (("a", "1"),)


NEW = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


@given(PAIRS, st.integers(0, 12))
def test_a_traceparent_is_replaced_where_it_stands_or_comes_last(
    pairs: list[tuple[str, str | bytes]], place: int
) -> None:
    """Every other pair stays as it is and where it is; without one to set, the very metadata."""
    before, behind = tuple(pairs[:place]), tuple(pairs[place:])
    old = (*before, ("traceparent", "00-a-b-01"), *behind)
    assert traced(old, NEW) == (*before, ("traceparent", NEW), *behind)
    assert traced((*before, *behind), NEW) == (*before, *behind, ("traceparent", NEW))


def test_every_traceparent_of_a_call_is_found() -> None:
    assert trace_parents((("a", "1"), ("traceparent", "x"), ("b", "2"), ("traceparent", "y"))) == ["x", "y"]
