"""Every target takes its own seeds, notices what it is for, and is reported as libFuzzer words it."""

from __future__ import annotations

import gzip
import time
from pathlib import Path
from typing import Any

import pytest

from fuzz import target as bounds
from fuzz import target_codings, target_protobuf, target_replies, target_requests, target_settings, target_writes
from fuzz.heard import Invalidation
from fuzz.run import outcome
from fuzz.target import NAMES, bounded, target
from support.backends.transports import REST, operation_of
from support.backends.writes import samples
from vecsieve.adapters.contract import Needs, RequestHead
from vecsieve.adapters.wire.protobuf import fields

QUERY = b'{"query":[0.5,1.0],"limit":2,"with_vector":true}'
POINT = b'{"id":%d,"version":1,"score":0.5,"vector":[1.0,0.5]}'
ANSWER = b'{"result":{"points":[%s]},"status":"ok","time":0.1}' % b",".join(POINT % number for number in range(3))


def qdrant(**laws: Any) -> Invalidation:
    adapter = REST["qdrant"].adapter()
    operation = operation_of(adapter, RequestHead(method="POST", path="/collections/c/points/query"))
    call = adapter.parse_request(operation, QUERY, Needs())
    return Invalidation(adapter=adapter, call=call, body=QUERY, answer=ANSWER, read=bytes, **laws)


def only(monkeypatch: pytest.MonkeyPatch, one: Invalidation) -> None:
    for module in (target_replies, target_requests):
        monkeypatch.setattr(module, "heard", lambda: (one,))


@pytest.mark.parametrize("name", ["codings", "settings", "writes"])
def test_a_target_takes_its_own_seeds(name: str) -> None:
    made = target(name)
    assert made.seeds
    assert made.words
    for seed in made.seeds:
        made.check(seed)


@pytest.mark.deep
@pytest.mark.parametrize("name", NAMES)
def test_every_target_takes_its_own_seeds_and_what_is_left_of_them(name: str) -> None:
    made = target(name)
    for seed in made.seeds:
        for end in (len(seed), len(seed) - 1, len(seed) // 2, 2, 0):
            made.check(seed[:end])


def test_no_other_target_is_known() -> None:
    with pytest.raises(ValueError, match="no target 'nothing'; there are requests"):
        target("nothing")


def test_a_reply_is_judged_by_what_upstream_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    only(monkeypatch, qdrant(whole=bytes))
    target_replies.check(b"\x00\x00" + ANSWER)
    only(monkeypatch, qdrant(whole=lambda body: body + b" "))
    with pytest.raises(AssertionError, match="all kept"):
        target_replies.check(b"\x00\x00" + ANSWER)
    only(monkeypatch, qdrant(hits=lambda body: [len(body)] * 9))
    with pytest.raises(AssertionError, match="hits are upstream's own"):
        target_replies.check(b"\x00\x00" + ANSWER)


def test_what_is_no_reply_is_malformed_and_no_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    only(monkeypatch, qdrant())
    for damage in (b"", b"\x00", b"\x00\x00", b"\x00\x00{", b"\x00\x00" + ANSWER[:-1]):
        target_replies.check(damage)


def test_a_piece_that_upstream_never_sent_is_noticed() -> None:
    assert list(target_replies._pieces(b'{"a":[1.5,"x\\""]}', is_text=True)) == [b'"a"', b"1.5", b'"x\\""']
    assert list(target_replies._pieces(b"\x0a\x02\x08\x01\x12\x01\xff", is_text=False)) == [b"\x08\x01", b"\xff"]


def test_a_request_is_judged_by_what_widening_left(monkeypatch: pytest.MonkeyPatch) -> None:
    only(monkeypatch, qdrant(rest=lambda body: b'"with_vector":true' in body))
    target_requests.check(b"\x00\x00" + QUERY)
    target_requests.check(b"\x00\x00/collections/c/points/query")
    only(monkeypatch, qdrant(rest=bytes))
    with pytest.raises(AssertionError, match="only what is declared"):
        target_requests.check(b"\x00\x00" + QUERY)


def test_a_write_is_judged_by_what_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    sample = samples()[0]
    target_writes.check(b"\x00\x00" + sample.body)
    monkeypatch.setattr(type(sample.adapter), "annotated", staticmethod(lambda *_: b""))
    with pytest.raises(AssertionError, match="the same bytes"):
        target_writes.check(b"\x00\x00" + sample.body)


def test_fields_are_held_against_protobufs_own_library(monkeypatch: pytest.MonkeyPatch) -> None:
    message = b"\x0a\x02\x08\x01\x10\x96\x01\x1d\x00\x00\x80\x3f"
    target_protobuf.check(message)
    monkeypatch.setattr(target_protobuf, "fields", lambda data: fields(data)[:-1])
    with pytest.raises(AssertionError, match="fields cover the message"):
        target_protobuf.check(message)


def test_a_decoder_that_returns_half_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    body = b"\x00\x03" + gzip.compress(b"{}" * 50, mtime=0)
    target_codings.check(body)
    monkeypatch.setattr(target_codings, "decoded", lambda *_, **__: b"{}")
    with pytest.raises(AssertionError, match="what one whole body holds"):
        target_codings.check(body)


def test_settings_that_do_not_read_back_the_same_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    target_settings.check(b"mode: shadow")
    target_settings.check(b"mode: [")
    monkeypatch.setattr(target_settings, "effective", lambda _: "mode: off")
    with pytest.raises(AssertionError, match="reads back the same"):
        target_settings.check(b"mode: shadow")


def test_an_input_that_computes_too_long_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    bounded(target_codings.check, b"")
    monkeypatch.setattr(bounds, "LONGEST_SECONDS", 0.0)
    with pytest.raises(AssertionError, match=r"took [0-9.]+ s for 2 bytes"):
        bounded(lambda _: time.sleep(sum(range(10_000)) * 0), b"ab")


def test_libfuzzers_words_are_read() -> None:
    output = (
        "#51\tINITED cov: 100 ft: 200 corp: 40/1Kb exec/s: 0 rss: 90Mb\n#60\tNEW    cov: 101 ft: 205 corp: 41/1Kb\n"
        "#9000\tDONE   cov: 120 ft: 300 corp: 55/2Kb\nstat::peak_rss_mb:              141\n"
    )
    quiet = outcome("codings", output, 0)
    assert (quiet.executions, quiet.covered, quiet.kept, quiet.peak_mib) == (9000, (100, 120), (40, 55), 141)
    assert quiet.row().split() == ["codings", "9000", "100", "→", "120", "40", "→", "55", "141", "none"]
    failed = outcome("codings", output + "AssertionError: the same twice\nSUMMARY: libFuzzer: fuzz target exited\n", 77)
    assert failed.finding == "AssertionError: the same twice | SUMMARY: libFuzzer: fuzz target exited"
    assert outcome("codings", "", 1).finding == "nothing was said"
    assert outcome("codings", "", 0).finding == "it never began"


def test_the_makefile_runs_it() -> None:
    assert "-m tests.fuzz" in (Path(__file__).resolve().parents[2] / "Makefile").read_text()
