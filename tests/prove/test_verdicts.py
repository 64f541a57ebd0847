"""A verdict tells what kept the promise from what did not, and a proxy that breaks it is found."""

from __future__ import annotations

import pytest

from prove.answer_faults import planned, play
from prove.faults import REPORT, Seen
from prove.inner_faults import stage
from prove.verdicts import is_as_broken, is_direct, is_direct_beside_a_report, is_fair, is_never_whole
from support.exchanges.widened_faults import VECTORS
from support.network.faulty_upstream import FaultyUpstream
from support.process.running import running

LINE, FIELDS = b"HTTP/1.1 200 OK", ((b"A", b"1"), (b"Content-Length", b"9"))


def whole(body: bytes, *more: tuple[bytes, bytes]) -> Seen:
    return Seen("whole", body, LINE, (*FIELDS, *more))


def page(*ids: int) -> bytes:
    rows = ",".join(f'{{"id":{one}}}' for one in ids)
    return f'{{"result":{{"points":[{rows}]}}}}'.encode()


def test_only_what_a_direct_call_shows_is_direct() -> None:
    assert is_direct(whole(b"a"), whole(b"a"))
    assert not is_direct(whole(b"a"), whole(b"a", (REPORT, b"pool=8")))
    assert is_direct_beside_a_report(whole(b"a"), whole(b"a", (REPORT, b"pool=8")))
    assert not is_direct_beside_a_report(whole(b"a"), whole(b"b", (REPORT, b"pool=8")))


def test_what_is_no_answer_must_not_look_like_one() -> None:
    assert is_never_whole(whole(b""), Seen("ours", b"502"))
    assert is_never_whole(whole(b""), Seen("broken"))
    assert not is_never_whole(whole(b""), whole(b""))
    assert not is_never_whole(whole(b""), Seen("ours", b"500"))
    assert not is_never_whole(whole(b""), Seen("silence"))


def test_a_broken_answer_may_not_come_through_whole_nor_a_whole_one_broken() -> None:
    assert is_as_broken(whole(b"a"), whole(b"a"))
    assert not is_as_broken(whole(b"a"), whole(b"b"))
    assert not is_as_broken(whole(b"a"), Seen("broken"))
    assert is_as_broken(Seen("broken"), Seen("ours", b"502"))
    assert not is_as_broken(Seen("broken"), whole(b"a"))
    assert not is_as_broken(Seen("broken"), Seen("silence"))
    assert is_as_broken(Seen("silence"), Seen("silence"))


def test_an_unusual_answer_keeps_its_fields_its_count_and_its_first_result() -> None:
    direct = whole(page(1, 2))
    assert is_fair(direct, whole(page(1, 3), (REPORT, b"pool=8")))
    assert not is_fair(direct, whole(page(2, 1)))
    assert not is_fair(direct, whole(page(1)))
    assert not is_fair(direct, whole(page(1, 2), (b"B", b"2")))
    assert not is_fair(direct, whole(b"no JSON"))
    assert not is_fair(direct, Seen("broken"))


async def test_a_proxy_that_passes_the_widened_fault_on_is_found() -> None:
    async with FaultyUpstream(planned) as upstream:
        fine = await play((upstream.port, upstream.port), "html", is_direct, 2, modes=("on",), everywhere=True)
        assert fine.finding("F1", "html", "as direct").met
        # The one that passes on what a widened request met: here, the upstream itself, told to fail everything.
        passed_on = await play(
            (upstream.port, upstream.port), "html", is_never_whole, 2, modes=("on",), everywhere=True
        )
        row = passed_on.finding("F1", "html", "never whole")
        assert (row.met, row.measured) == (False, "0 of 2; 2 × on: whole HTTP/1.1 200 OK")


@pytest.mark.parametrize("name", ["length-and-chunks", "307", "brotli", "vectors named otherwise"])
async def test_a_widened_fault_is_survived_by_the_proxy_within_the_test(name: str) -> None:
    judge = is_direct_beside_a_report if name in VECTORS else is_direct
    async with FaultyUpstream(planned) as upstream, running(upstream.url) as proxy:
        done = await play((upstream.port, proxy.port), name, judge, 1, modes=("on",), everywhere=False)
        assert done.finding("F1", name, "as direct").met, done.wrong
        assert done.unwell == 0
        assert sum(proxy.failed_open().values()) == 1


async def test_an_exception_of_ours_that_is_survived_is_counted_as_such_and_one_that_never_came_is_not() -> None:
    met = await stage("vecsieve.adapters.qdrant.rest.QdrantRest.trim", 1)
    assert (met.met, met.measured) == (True, "4 of 4")
    never = await stage("vecsieve.adapters.pinecone.rest.PineconeRest.trim", 1)
    assert never.met is False
    outside = await stage("vecsieve.proxy.http.exchange.DataPlane.handle", 1)
    assert outside.met is False, outside.measured
