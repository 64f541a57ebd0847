"""The checks of transparency notice what they are for, and hold on a few messages of each kind."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from prove.hops import end_to_end
from prove.transparency_answers import Teller
from prove.transparency_answers import compared as answers_compared
from prove.transparency_answers import difference as answer_difference
from prove.transparency_requests import Sent, Tried, compared, difference
from prove.transparency_searches import everything, faults
from prove.transparency_settings import unspoken
from support.exchanges.any_message import Message
from support.exchanges.conversation import Conversation
from support.network.faulty_upstream import FaultyUpstream, RawReply, Received, answering, reply
from support.process.running import running
from support.qdrant.scripted import honest

HEAD = b"PUT /a HTTP/1.1\r\nHost: c\r\nX-a: 1\r\nX-A: 2\r\n\r\n"
SENT = Sent("PUT", "/a", [], [("X-a", "1")], Message(b"body", "chunked"))


def received(head: bytes = HEAD, body: bytes = b"") -> Received:
    return Received(connection=0, head=head, body=body)


def test_fields_of_one_hop_are_left_out_and_framing_is_not() -> None:
    fields = [(b"Connection", b"close, X-mine"), (b"x-mine", b"1"), (b"TE", b"trailers"), (b"Host", b"c"), (b"X", b"")]
    assert end_to_end(fields) == [(b"Host", b"c"), (b"X", b"")]
    fields = [(b"Connection", b"host, content-length"), (b"Host", b"c"), (b"Content-Length", b"0")]
    assert end_to_end(fields) == fields[1:]


@pytest.mark.parametrize(
    "through",
    [
        received(HEAD.replace(b"/a", b"/A")),
        received(HEAD.replace(b"X-a: 1\r\nX-A: 2", b"X-A: 2\r\nX-a: 1")),
        received(HEAD.replace(b"X-a", b"X-A")),
        received(HEAD.replace(b"X-a: 1\r\n", b"")),
        received(body=b"x"),
    ],
    ids=["target", "order", "case", "number", "body"],
)
def test_a_request_that_arrives_otherwise_is_noticed(through: Received) -> None:
    assert difference(received(), received()) == ""
    assert difference(received(), through)
    tried = Tried()
    tried.judge(SENT, [received(), through], 200)
    tried.judge(SENT, [received()], 502)
    assert [finding.met for finding in tried.findings()] == [False, True]


def test_a_request_that_must_be_refused_and_arrives_is_noticed() -> None:
    twice, tried = replace(SENT, before=[("ETag", "1")], after=[("etag", "2")]), Tried()
    assert twice.is_refused
    assert not SENT.is_refused
    tried.judge(twice, [received()], 400)
    assert tried.findings()[1].met
    tried.judge(twice, [received(), received()], 200)
    assert tried.findings()[1].met is False


async def test_a_few_requests_arrive_as_they_would_directly() -> None:
    async with FaultyUpstream(answering(reply())) as upstream, running(upstream.url, mode="off") as proxy:
        findings = await compared(25, upstream, proxy.port)
        assert [finding.met for finding in findings] == [True, True], findings


@pytest.mark.parametrize("mode", ["off", "shadow"])
async def test_a_few_answers_come_as_they_would_directly(mode: str) -> None:
    teller = Teller()
    async with FaultyUpstream(teller) as upstream, running(upstream.url, mode=mode) as proxy:
        result = await answers_compared(mode, 25, teller, (upstream, proxy.port))
        assert result.met, result


def test_an_answer_that_comes_otherwise_is_noticed() -> None:
    one = RawReply(b"HTTP/1.1 200 OK\r\nX-a: 1\r\n\r\n", b"body")
    assert answer_difference(one, one) == answer_difference(None, None) == ""
    assert answer_difference(one, None)
    assert answer_difference(one, replace(one, body=b"bod"))
    assert answer_difference(one, replace(one, head=one.head.replace(b"OK", b"Ok")))
    assert answer_difference(one, replace(one, head=one.head.replace(b"X-a", b"x-a")))


def talked(limit: int = 2) -> Conversation:
    body = json.dumps({"query": [1.0], "limit": limit}).encode()
    return Conversation(
        "/collections/c/points/query",
        body,
        lambda raw: honest(received(b"POST / HTTP/1.1\r\n\r\n", raw)).split(b"\r\n\r\n", 1)[1],
    )


def test_results_that_are_not_the_databases_own_are_noticed() -> None:
    talk = talked()
    direct, whole = talk.answer(talk.body), everything(talk)
    assert faults(talk, direct, whole, direct) == []
    assert faults(talk, direct, whole, talked(1).answer(talked(1).body)) == []
    for wrong in (
        talked(3).answer(talked(3).body),
        direct.replace(b'"id":1', b'"id":9'),
        direct.replace(b'"score":0.9', b'"score":0.90'),
        direct.replace(b'"status":"ok"', b'"status":"no"'),
        b'{"result":{"points":[]},"status":"ok","time":0.001}',
    ):
        assert faults(talk, direct, whole, wrong), wrong
    swapped = json.loads(direct)
    swapped["result"]["points"].reverse()
    assert faults(talk, direct, whole, json.dumps(swapped, separators=(",", ":")).encode())


def test_a_line_that_is_not_said_is_noticed() -> None:
    assert unspoken("f:\n  a: wanted\n   one; saw 2", ["a: wanted one; saw 2"]) == []
    assert unspoken("a: wanted one", ["2: a: wanted one"]) == ["2: a: wanted one"]
