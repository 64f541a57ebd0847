"""The differential run notices every kind of difference, and ours are the listed ones."""

from __future__ import annotations

from dataclasses import replace

import pytest

from prove.differential import compared, finding, recording
from prove.differential_corpus import OK, PROBES
from prove.differential_reasons import NGINX, OURS, Reason, _table
from prove.differential_views import Message, View, differences, messages
from support.process.running import running

REQUEST = messages(b"GET /a HTTP/1.1\r\nHost: c\r\nX-a: 1\r\nX-B: 2\r\n\r\n", is_answer=False)
ANSWER = messages(b"HTTP/1.1 200 OK\r\nX-A: 1\r\nContent-Length: 2\r\n\r\nok")
DIRECT = View(REQUEST, ANSWER, is_ended=True)


@pytest.mark.parametrize(
    ("through", "words"),
    [
        (DIRECT, ""),
        (replace(DIRECT, got=()), "never arrives"),
        (replace(DIRECT, got=REQUEST * 2), "arrives 2 times"),
        (replace(DIRECT, got=(replace(REQUEST[0], line=b"GET /A HTTP/1.1"),)), "request line"),
        (replace(DIRECT, got=(replace(REQUEST[0], content=b"x"),)), "content"),
        (replace(DIRECT, got=(replace(REQUEST[0], fields=REQUEST[0].fields[:2]),)), "loses x-b"),
        (replace(DIRECT, got=(replace(REQUEST[0], fields=(*REQUEST[0].fields, (b"Via", b"a"))),)), "gains via"),
        (replace(DIRECT, got=(replace(REQUEST[0], fields=REQUEST[0].fields[::-1]),)), "order"),
        (replace(DIRECT, got=(replace(REQUEST[0], fields=tuple((n.lower(), v) for n, v in REQUEST[0].fields)),)), "case"),
        (replace(DIRECT, messages=()), "no answer"),
        (replace(DIRECT, messages=messages(OK.replace(b"200", b"502"))), "answered 502"),
        (replace(DIRECT, messages=(replace(ANSWER[0], line=b"HTTP/1.0 200 OK"),)), "status line"),
        (replace(DIRECT, messages=(replace(ANSWER[0], content=b"no"),)), "answer's content"),
        (replace(DIRECT, messages=(replace(ANSWER[0], is_whole=False),)), "answer cut"),
        (replace(DIRECT, messages=(replace(ANSWER[0], fields=((b"X-A", b"2"), *ANSWER[0].fields[1:])),)), "answer: changes x-a"),
        (replace(DIRECT, is_ended=False), "kept open"),
    ],
)  # fmt: skip
def test_each_difference_has_its_word(through: View, words: str) -> None:
    assert ", ".join(differences(DIRECT, through)) == words


def test_what_one_hop_has_alone_is_no_difference() -> None:
    closing = Message(REQUEST[0].line, (*REQUEST[0].fields, (b"Connection", b"close")), b"", is_whole=True)
    assert differences(replace(DIRECT, got=(closing,)), DIRECT) == frozenset()


def test_an_unlisted_difference_fails_and_so_does_a_reason_without_one() -> None:
    reasons = {"a": Reason(frozenset({"order"}), "why")}
    assert finding("x", {"a": frozenset({"order"})}, reasons, strict=True).met
    assert not finding("x", {"a": frozenset({"order", "case"})}, reasons, strict=False).met
    assert not finding("x", {"b": frozenset({"order"})}, reasons, strict=False).met
    assert not finding("x", {}, reasons, strict=True).met
    assert finding("x", {}, reasons, strict=False).met


def test_every_reason_is_of_a_probe_and_every_probe_has_its_own_name() -> None:
    names = [probe.name for probe in PROBES]
    assert len(names) == len(set(names))
    assert set(OURS) | set(NGINX) <= set(names)
    assert all(len(reason.why) > 5 for reason in (*OURS.values(), *NGINX.values()))
    with pytest.raises(AssertionError, match="a stands twice"):
        _table(((("a",), "order", "why"), (("a",), "case", "why")))


async def test_ours_are_the_listed_ones_on_probes_that_end_their_connection() -> None:
    few = [probe for probe in PROBES if probe.name not in {"an upgrade", "HTTP/0.9"}]  # nobody ends these two
    listed = {name: reason for name, reason in OURS.items() if name in {probe.name for probe in few}}
    async with recording() as recorder, running(f"http://127.0.0.1:{recorder.port}", mode="off") as proxy:
        result = finding("raw messages", await compared(recorder, proxy.port, few), listed, strict=True)
        assert result.met, result.measured
