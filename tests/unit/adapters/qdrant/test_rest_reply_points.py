from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.qdrant.bodies import servers
from support.qdrant.model import Server
from vecsieve.adapters.qdrant.rest_reply import (
    _read_any,
    _read_compact,
    has_null,
    member_cut,
    read_points,
    score_of,
)
from vecsieve.adapters.wire.json import cuts, elements, members_of

POINT = b'{"id":1,"version":2,"score":0.5,"payload":{"a":1},"vector":[1,2],"shard_key":"s","order_value":3}'


def one(text: bytes) -> list[bytes | None]:
    (point,) = read_points(text, (0, len(text)))
    spans = (point.span, point.id, point.score, point.payload, point.vector)
    return [None if span is None else text[span[0] : span[1]] for span in spans]


@given(made=servers(is_old=st.booleans()), wants=st.sampled_from([b"true", b"false"]))
def test_both_readings_of_a_list_agree(made: tuple[Server, dict[str, str]], wants: bytes) -> None:
    # Invariant: whatever a server writes is compact, and walking it member by member finds the same spans.
    body = made[0].answer("search", b'{"limit":9,"with_vector":%s,"with_payload":%s}' % (wants, wants))
    body = body.replace(b"\\ud800", b"\\u0041")
    array = len(b'{"result":'), body.index(made[0].tail.encode())
    compact = _read_compact(body, array)
    assert compact is not None
    assert compact == [_read_any(body, span) for span in elements(body, array)]


def test_a_compact_point_is_read() -> None:
    text = b"[" + POINT + b"]"
    assert _read_compact(text, (0, len(text))) is not None
    assert one(text) == [POINT, b"1", b"0.5", b'{"a":1}', b"[1,2]"]


@pytest.mark.parametrize(
    "text",
    [
        b'[ {"id":1,"version":2,"score":0.5,"vector":[1,2]}]',
        b'[{"id":1,"version":2,"score":0.5,"vector":[1,2]} ]',
        b'[{"id":1, "version":2,"score":0.5,"vector":[1,2]}]',
        b'[{"version":2,"id":1,"score":0.5,"vector":[1,2]}]',
        b'[{"id":1,"version":2,"score":0.5,"new":7,"vector":[1,2]}]',
        b'[{"id":1,"score":0.5,"vector":[1,2]}]',
        b'[{"i\\u0064":1,"version":2,"score":0.5,"vector":[1,2]}]',
    ],
)
def test_a_point_in_another_order_or_style_is_walked(text: bytes) -> None:
    assert _read_compact(text, (0, len(text))) is None
    found = one(text)
    assert found[1:] == [b"1", b"0.5", None, b"[1,2]"]
    assert found[0] == text[1:-1].strip()


@pytest.mark.parametrize(
    "point",
    [
        b"1",
        b"[]",
        b"null",
        b"{}",
        b'{"id":1,"version":1}',
        b'{"score":1,"version":1}',
        b'{"id":null,"version":1,"score":1}',
        b'{"id":-1,"version":1,"score":1}',
        b'{"id":{},"version":1,"score":1}',
        b'{"id":1,"version":1,"score":"1"}',
        b'{"id":1,"version":1,"score":true}',
        b'{"id":1,"version":1,"score":1,"payload":[]}',
        b'{"id":1,"version":1,"score":1,"payload":"{}"}',
        b'{"id":1,"version":1,"score":1,"score":1}',
        b'{"id":1,"version":1,"score":1,"id":1}',
        b'{"id":1,"version":1,"score":1,"vector":[1],"vector":[1]}',
        b'{"id":1,"version":1,"score":NaN}',
        b'{"id":1,"version":1,"score":1}{}',
    ],
)
def test_what_is_no_point_is_a_value_error(point: bytes) -> None:
    text = b"[" + POINT + b"," + point + b"]"
    with pytest.raises(ValueError, match=r"\w"):
        read_points(text, (0, len(text)))


@pytest.mark.parametrize(
    ("digits", "score"), [(b"1", 1.0), (b"1e-7", 1e-7), (b"-0.0", 0.0), (b"0.99999994", 0.99999994), (b"-3", -3.0)]
)
def test_scores_are_read_as_written(digits: bytes, score: float) -> None:
    text = b'[{"id":1,"version":1,"score":%s}]' % digits
    assert score_of(text, read_points(text, (0, len(text)))[0]) == score


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        (b"", False),
        (b',"payload":{"vector":null}', False),
        (b',"payload":null', True),
        (b',"payload":{},"vector":null', True),
    ],
)
def test_nulls_of_the_server_are_told_from_nulls_of_the_user(members: bytes, expected: bool) -> None:
    text = b'[{"id":1,"version":1,"score":1%s}]' % members
    assert has_null(text, read_points(text, (0, len(text)))[0]) is expected


@pytest.mark.parametrize("name", ["payload", "vector"])
def test_a_member_that_stands_as_servers_write_it_is_cut_as_the_walk_would_cut_it(name: str) -> None:
    (point,) = read_points(b"[" + POINT + b"]", (0, len(POINT) + 2))
    value = {"payload": point.payload, "vector": point.vector}[name]
    assert value is not None
    assert [member_cut(b"[" + POINT + b"]", name, value)] == cuts(members_of(b"[" + POINT + b"]", point.span), {name})


@pytest.mark.parametrize(
    "text",
    [
        b'[{"vector":[1],"id":1,"score":1}]',
        b'[{"id":1,"score":1 ,"vector":[1]}]',
        b'[{"id":1,"score":1, "vector":[1]}]',
        b'[{"id":1,"score":1,"vector": [1]}]',
        b'[{"id":1,"score":1,"v\\u0065ctor":[1]}]',
    ],
)
def test_a_member_in_another_place_or_style_is_left_to_the_walk(text: bytes) -> None:
    (point,) = read_points(text, (0, len(text)))
    assert point.vector is not None
    assert member_cut(text, "vector", point.vector) is None
