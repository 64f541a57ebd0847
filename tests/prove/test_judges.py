"""The judges of sections tell what kept a promise from what did not."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import replace
from typing import cast

import aiohttp
import pytest

from prove.answer_faults import planned, play
from prove.costly_bodies import LATENCY_SECONDS, Watch, bounded
from prove.faults import REPORT, Seen, is_same
from prove.finding import Finding
from prove.inner_faults import stage
from prove.openload import RequestRecorder
from prove.restarts import Account, disordered, findings
from prove.soak import Course, judged
from prove.stack import Proxy
from prove.uploads import answers_once_then_dies, hashes, judged_once, takes_all, uploaded, written
from prove.usage import MIB, Usage
from prove.verdicts import is_as_broken, is_direct, is_direct_but_for_report, is_fair, is_never_whole
from prove.yardstick import BASE
from prove.yardstick import judged as nginx_comparison
from support.exchanges.widened_faults import VECTORS
from support.network.faulty_upstream import FaultyUpstream, RawClient, Received, Talk, reply
from support.network.http_scripts import Script, in_a_thread
from support.process.running import running
from support.process.stack import Command

# The judge of faults sees each difference from the direct answer.


def test_a_difference_from_the_direct_answer_is_told() -> None:
    line, kind = b"HTTP/1.1 200 OK", ((b"A", b"1"), (b"B", b"2"))
    whole, better = Seen("whole", b"a", line, kind), Seen("whole", b"b", line, (*kind, (REPORT, b"pool=8")))
    assert is_same(whole, whole, better)
    assert is_same(whole, replace(better, headers=(*kind, (REPORT, b"pool=9"))), better)
    assert not is_same(whole, replace(whole, body=b"half"), better)
    assert not is_same(whole, replace(whole, line=b"HTTP/1.1 200 Fine"), better)
    assert not is_same(whole, replace(whole, headers=kind[::-1]), better)
    assert not is_same(whole, replace(whole, headers=(*kind, (REPORT, b"pool=8"))), better)
    assert not is_same(whole, replace(better, headers=kind[:1]), better)
    assert not is_same(whole, Seen("ours", b"502"), better)
    assert not is_same(Seen("broken"), Seen("whole", b"half"), better)
    assert not is_same(Seen("broken"), Seen("silence"), better)


def unmet_of(hits: list[Finding]) -> list[str]:
    return [item.criterion for item in hits if not item.met]


def account(*acknowledged: int, **sent: list[int]) -> Account:
    return Account(set(acknowledged), dict(enumerate(sent.values())))


def test_each_write_once_in_order_keeps_the_promise() -> None:
    assert unmet_of(findings(account(1, 2, 3, a=[1, 3, 4], b=[2]), [2, 1, 3], "x", "")) == []


def test_a_write_twice_one_missing_and_one_before_its_time_are_found() -> None:
    kept = account(1, 2, a=[1, 2])
    assert unmet_of(findings(kept, [1, 2, 1], "x", "")) == ["0 arrived twice", "0 out of order on a connection"]
    assert unmet_of(findings(kept, [1], "x", "")) == ["0 acknowledged and missing"]
    assert unmet_of(findings(kept, [2, 1], "x", "")) == ["0 out of order on a connection"]


def test_a_run_that_broke_proves_nothing() -> None:
    assert unmet_of(findings(account(1, a=[1]), [1], "x", "OSError()")) == ["0 arrived twice"]


def test_the_order_is_a_connections_own() -> None:
    assert disordered({0: [1, 3], 1: [2, 4]}, [2, 4, 1, 3]) == 0
    assert disordered({0: [1, 3, 5]}, [5, 3, 1]) == 2


# The soak's judge sees growth, leaks and failures; the yardstick can be unmet.


def course(*, rising: float = 0.0, descriptors: int = 0, threads: int = 0, tasks: int = 0) -> Course:
    readings = [
        (
            60.0 * minute,
            Usage(int((100 + rising * minute / 10) * MIB), 0, 10 + descriptors * minute, 4 + threads * minute),
        )
        for minute in range(9)
    ]
    return Course(readings, [5, 5 + tasks])


def unmet(seconds: float, totals: RequestRecorder, one: Course) -> list[str]:
    return [finding.criterion for finding in judged(seconds, totals, one) if finding.met is False]


def answered(*statuses: int) -> RequestRecorder:
    return RequestRecorder(statuses=Counter(statuses))


@pytest.mark.parametrize(
    ("readings", "criterion"),
    [
        (course(), []),
        (course(rising=0.9), []),
        (course(rising=1.5), ["RSS rises ≤ 1 MiB in 10 min"]),
        (course(descriptors=1), ["descriptors ± 3"]),
        (course(threads=-1), ["threads ± 3"]),
        (course(tasks=4), ["tasks ± 3"]),
    ],
)
def test_what_grows_is_unmet(readings: Course, criterion: list[str]) -> None:
    assert unmet(600.0, answered(200), readings) == criterion


def test_a_short_soak_judges_no_slope_and_a_failure_is_one_at_any_length() -> None:
    assert unmet(10.0, answered(200), course(rising=50)) == []
    assert unmet(10.0, answered(200, 502), course()) == ["0 failed"]


def test_a_tenth_less_than_the_recorded_share_of_nginx_is_unmet() -> None:
    assert nginx_comparison([1000 * BASE] * 3, [1000.0] * 3).met
    assert nginx_comparison([890 * BASE] * 3, [1000.0] * 3).met is False
    assert nginx_comparison([500 * BASE] * 3, [500.0] * 3).met, "what slows both is not ours"


# The judges of uploads see a write that arrives twice, a shorter body, and bytes that are not the client's.


def after(upstream: FaultyUpstream) -> Proxy:
    """The upstream itself where a proxy would be."""
    return Proxy(cast(Command, None), upstream.port, "")  # the judges ask only for the port


async def test_a_client_that_sends_again_by_itself_is_found() -> None:
    async with FaultyUpstream(answers_once_then_dies) as upstream, aiohttp.ClientSession() as session:
        for number in range(2):
            async with session.put(upstream.url, data=b"{}", headers={"x-number": str(number)}) as response:
                await response.read()
        finding = judged_once(upstream, 2, "aiohttp by itself", Counter({200: 1, 502: 1}))
    assert (finding.met, finding.measured) == (False, "1 of 2 (1 × 200, 1 × 502)")


async def test_a_trap_that_nothing_fell_into_proves_nothing() -> None:
    async with FaultyUpstream(takes_all) as upstream:
        client = await RawClient.connect(upstream.port)
        await client.send(written(b"PUT", 0))
        await client.reply()
        await client.close()
        assert judged_once(upstream, 1, "no trap", Counter({200: 1})).met is False


async def test_a_body_that_arrives_otherwise_is_found() -> None:
    async def loses_a_byte(talk: Talk) -> None:
        request = await talk.request()
        assert isinstance(request, Received)
        await talk.send(reply(b"another hash"))

    async with FaultyUpstream(hashes) as honest, FaultyUpstream(loses_a_byte) as other:
        for size in (0, 1, 300_000):
            for is_chunked in (False, True):
                assert await uploaded(after(honest), size, is_chunked=is_chunked)
                assert not await uploaded(after(other), size, is_chunked=is_chunked)


# The watch of C sees a listener that is held up, and its judge a loop that is held too long.

HOLD_SECONDS = 0.2


class Hesitant(Script):
    """Answers at once, but for the third request of a connection."""

    protocol_version = "HTTP/1.1"
    answered = 0

    def do_GET(self) -> None:
        self.answered += 1
        if self.answered == 3:
            time.sleep(HOLD_SECONDS)
        self.answer()


def test_a_listener_that_is_held_up_is_seen() -> None:
    with in_a_thread(Hesitant) as url, Watch(url) as watch:
        time.sleep(2 * HOLD_SECONDS)
    assert watch.slowest >= HOLD_SECONDS


def test_a_loop_that_is_held_too_long_is_unmet() -> None:
    assert bounded("a body", 0.004, 0.004 + LATENCY_SECONDS, LATENCY_SECONDS).met
    assert not bounded("a body", 0.004, 0.005 + LATENCY_SECONDS, LATENCY_SECONDS).met


# A verdict tells what kept the promise from what did not, and a proxy that breaks it is found.

LINE, FIELDS = b"HTTP/1.1 200 OK", ((b"A", b"1"), (b"Content-Length", b"9"))


def whole(body: bytes, *more: tuple[bytes, bytes]) -> Seen:
    return Seen("whole", body, LINE, (*FIELDS, *more))


def page(*ids: int) -> bytes:
    rows = ",".join(f'{{"id":{one}}}' for one in ids)
    return f'{{"result":{{"points":[{rows}]}}}}'.encode()


def test_only_what_a_direct_call_shows_is_direct() -> None:
    assert is_direct(whole(b"a"), whole(b"a"))
    assert not is_direct(whole(b"a"), whole(b"a", (REPORT, b"pool=8")))
    assert is_direct_but_for_report(whole(b"a"), whole(b"a", (REPORT, b"pool=8")))
    assert not is_direct_but_for_report(whole(b"a"), whole(b"b", (REPORT, b"pool=8")))


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
    judge = is_direct_but_for_report if name in VECTORS else is_direct
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
