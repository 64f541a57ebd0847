"""The database of S7 gives each pool once, with points that nobody knows, and its template fills eight gaps."""

from __future__ import annotations

import json

import numpy as np
from qdrant_client import grpc as pb

from prove.security_texts import POINTS, POOLS, TEXTS, Hostile, question, replies, template
from support.network.faulty_upstream import Received

WIDENED = Received(0, b"POST /collections/c/points/query HTTP/1.1\r\n\r\n", b'{"with_vector":[""],"limit":50}')
PLAIN = Received(0, WIDENED.head, b'{"limit":10}')


def ids_over_http(answer: bytes) -> list[int]:
    return [point["id"] for point in json.loads(answer.split(b"\r\n\r\n", 1)[1])["result"]["points"]]


def test_each_widened_search_gets_new_points_and_is_counted() -> None:
    database = Hostile(replies("short texts of numbers", "REST", POINTS))
    found = [ids_over_http(database.answer(WIDENED)) for _ in range(POOLS)]
    assert found == [list(range(first, first + POINTS)) for first in range(POINTS, POINTS * (POOLS + 1), POINTS)]
    assert len(ids_over_http(database.answer(PLAIN))) == 10
    assert database.given == POOLS
    assert ids_over_http(database.answer(WIDENED)) == found[-1], "the last one is repeated"


def test_over_grpc_points_are_new_as_well() -> None:
    found = [pb.QueryResponse.FromString(each) for each in replies("short texts of numbers", "gRPC", 0)]
    numbers = [point.id.num for message in found for point in message.result]
    assert numbers == list(range(POINTS * POOLS))


def test_no_two_searches_have_one_query() -> None:
    assert len({tuple(question(number)) for number in range(9)}) == 9
    assert np.isfinite(question(0)).all()


def test_texts_of_a_template_differ_in_eight_words() -> None:
    one, other = (template(number, words=60, letters=12).split() for number in (1, 42))
    assert sum(mine != theirs for mine, theirs in zip(one, other, strict=True)) == 8
    assert max(map(len, one)) == 12


def test_every_pool_has_texts_that_can_be_sent() -> None:
    for made in TEXTS.values():
        assert json.dumps(made(0)).encode("utf-8")
