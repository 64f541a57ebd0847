from __future__ import annotations

import json
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.backends.transports import reason_of
from vecsieve.adapters.base import GrpcDialect, RestWrites, WrittenRows, check_page, equal_to
from vecsieve.adapters.base_grpc import GrpcWrites
from vecsieve.adapters.contract import MalformedReplyError, NativeAnswer, Operation, Reason, UnsupportedError
from vecsieve.adapters.wire.json import elements, whole
from vecsieve.adapters.wire.json_vectors import Shortened
from vecsieve.adapters.wire.protobuf import length_field
from vecsieve.adapters.wire.schema import compiled, parsed
from vecsieve.adapters.writes import NewPoints, WriteNeeds

DIALECT = GrpcDialect()


@pytest.mark.parametrize("code", [3, 4, 8, 14])
def test_an_error_is_its_code_and_its_words(code: int) -> None:
    answer = DIALECT.error(code, "größer als erlaubt")
    assert answer == NativeAnswer(status=code, content_type="", body="größer als erlaubt".encode())


def test_words_that_are_no_unicode_are_replaced() -> None:
    assert DIALECT.error(13, "a\udcffb").body == b"a?b"


def test_no_refusal_names_a_limit_or_a_vector_by_default() -> None:
    words = b"Error, message length too large: found 5 bytes, the limit is: 4 bytes"
    assert DIALECT.refused_limit(11, words) is None
    assert not DIALECT.names_unknown_vector(3, words)


@pytest.mark.parametrize(("top_k", "offset"), [(2, 0), (1, 1), (10, 5)])
def test_a_page_beyond_the_first_result_is_worth_selecting(top_k: int, offset: int) -> None:
    check_page(top_k, offset)


@pytest.mark.parametrize(
    ("top_k", "offset", "reason"),
    [(0, 0, Reason.AMBIGUOUS_FIELD), (0, 5, Reason.AMBIGUOUS_FIELD), (1, 0, Reason.SINGLE_RESULT)],
)
def test_one_result_or_none_leaves_nothing_to_choose(top_k: int, offset: int, reason: Reason) -> None:
    assert reason_of(check_page, top_k, offset) is reason


# What adapters of writes have in common: fences around readers, points cut out of a client's bytes, a filter for a tenant.

TYPES = compiled("vecsieve.tests", {"Upsert": "1 points bytes*"})
WRITE = Operation(backend="toy", name="upsert", collection="c")
NEEDS = WriteNeeds(vector_name=None, keys=(), most=9)


def points(document: Any, count: int) -> NewPoints:
    return NewPoints(
        ids=tuple(b"%d" % row for row in range(count)),
        vectors=np.zeros((count, 1), np.float32),
        vector_name="",
        keys=(),
        fields=((),) * count,
        document=document,
    )


def read_list(_: Operation, source: Shortened, _needs: WriteNeeds) -> NewPoints:
    parts = elements(source.text, whole(source.text))
    rows = WrittenRows(source=source, arrays=[(whole(source.text), parts)], rows=parts, payloads=[None] * len(parts))
    return points(rows, len(parts))


class Lists(RestWrites):
    """A write is a list of points."""

    read_points = staticmethod(read_list)
    read_stored = staticmethod(lambda _, body: msgspec.json.decode(body, type=dict))


class Fields(GrpcWrites):
    """A write is a message of opaque messages, one for each point."""

    upsert = TYPES["Upsert"], "points"
    read_points = staticmethod(lambda _, body, _needs: points(body, len(parsed(TYPES["Upsert"], body).points)))
    data = staticmethod(lambda of: of.document)
    message = staticmethod(lambda _points, row, point: b"%d %s" % (row, point))


@given(st.lists(st.lists(st.integers(), max_size=3), min_size=1, max_size=6), st.data())
def test_what_stays_of_a_list_is_the_clients_own(values: list[list[int]], data: st.DataObject) -> None:
    gone = data.draw(st.sets(st.integers(0, len(values) - 1), max_size=len(values) - 1))
    read = Lists().parse(WRITE, json.dumps(values).encode(), NEEDS)
    assert json.loads(Lists().without(read, gone)) == [one for row, one in enumerate(values) if row not in gone]
    assert Lists().without(read, set()) == json.dumps(values).encode()
    assert [json.loads(Lists().point(read, row)) for row in range(len(values))] == values


@given(st.lists(st.binary(max_size=9), min_size=1, max_size=6), st.data())
def test_what_stays_of_a_message_is_the_clients_own(parts: list[bytes], data: st.DataObject) -> None:
    gone = data.draw(st.sets(st.integers(0, len(parts) - 1)))
    read = Fields().parse(WRITE, b"".join(length_field(1, one) for one in parts), NEEDS)
    kept = [length_field(1, one) for row, one in enumerate(parts) if row not in gone]
    assert Fields().without(read, gone) == b"".join(kept)
    merged = Fields().merged(WRITE, read, gone, {0: b"x"})
    assert merged == b"".join([length_field(1, b"0 x"), *(kept if 0 in gone else kept[1:])])


@pytest.mark.parametrize("body", [b"{", b"[1", b"", b'{"a":1,"a":2}', b"3"])
def test_a_write_that_cannot_be_read_is_unsupported(body: bytes) -> None:
    with pytest.raises(UnsupportedError):
        Lists().parse(WRITE, body, NEEDS)
    with pytest.raises(UnsupportedError):
        Fields().parse(WRITE, b"\xff" + body, NEEDS)


@pytest.mark.parametrize("body", [b"{", b"[]", b"\xff", b""])
def test_an_answer_that_cannot_be_read_is_malformed(body: bytes) -> None:
    with pytest.raises(MalformedReplyError):
        Lists().stored(points(None, 0), body)


def test_a_tenant_is_a_filter_of_all_its_keys() -> None:
    one, other = ("a", b'"x"'), ("b", b"1")
    assert equal_to(()) == b""
    assert json.loads(equal_to((one,))) == {"a": {"$eq": "x"}}
    assert json.loads(equal_to((one, other))) == {"$and": [{"a": {"$eq": "x"}}, {"b": {"$eq": 1}}]}
