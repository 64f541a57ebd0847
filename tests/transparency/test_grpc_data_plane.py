"""Every road through the data plane over gRPC, in one process: overrides, policies, modes, and what is counted of them."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import grpc
import pytest
from qdrant_client import grpc as pb

from support.grpc.calls import Pairs, ask
from support.grpc.raw import framed, raw_call
from support.grpc.upstream import echo, ending, grpc_upstream
from support.network.faulty_upstream import FaultyUpstream, raw_exchange
from support.process.running import Running, running, until
from support.qdrant.scripted import honest as honest_rest
from support.qdrant.scripted import request as rest_request
from support.qdrant.scripted import scripted as scripted_rest
from support.qdrant.scripted import search as rest_search
from support.qdrant.scripted_grpc import (
    INITIAL,
    QUERY,
    UPSERT,
    before,
    ids,
    in_front,
    messages,
    query,
    scripted,
    search,
    widened,
)

CANARY = "s3cret-canary"


async def test_mode_off_sends_the_clients_message_and_adds_no_metadata() -> None:
    async with in_front(mode="off") as (database, proxy):
        direct = await query(database.port, metadata=(("api-key", "k"), ("x-bin", b"\xff")))
        through = await query(proxy.port, metadata=(("api-key", "k"), ("x-bin", b"\xff")))
        assert through == direct
        first, second = database.calls
        assert second.messages == first.messages == [search()]
        assert second.plain_metadata() == first.plain_metadata()
        assert proxy.count("bypass_total", backend="qdrant", reason="disabled") == 1


async def test_shadow_answers_with_upstreams_own_and_measures_behind_it() -> None:
    async with in_front(mode="shadow") as (database, proxy):
        metadata: Pairs = (("api-key", "k"), ("x-many", "1"), ("x-many", "2"))
        direct = await query(database.port, metadata=metadata)
        assert await query(proxy.port, metadata=metadata) == direct
        measured = await database.next_call(3)
        assert await until(lambda: proxy.count("searches_total", backend="qdrant", outcome="shadow")) == 1
        assert proxy.count("answers_changed_total", backend="qdrant", outcome="shadow") == 1
        (row,) = proxy.process.shadow.rows
        assert (row.changed, row.arrived, row.added_ms is None) == (True, row.proven + row.judged, False)
        assert row.plain_bytes > 0
        assert measured.messages == widened(database)
        assert measured.plain_metadata() == database.calls[0].plain_metadata(), (
            "asked as the client, whose call is over"
        )


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("mode", "off", [0, 1, 2]),
        ("distance-threshold", "0.15", [0, 2, 3]),
        ("distance-threshold", "0", [0, 2, 3]),
        ("relative-threshold", "0.2", [0, 2, 3]),
        ("linkage", "single", [0, 2, 3]),
        ("mmr-lambda", "1", [0, 2, 3]),
        ("representative", "rank", [0, 2, 3]),
        ("order", "backend", [0, 2, 3]),
        ("fetch-k", "8", [0, 2, 3]),
    ],
)
async def test_an_override_holds_for_its_call_and_never_reaches_upstream(
    name: str, value: str, expected: list[int]
) -> None:
    async with in_front() as (database, proxy):
        assert ids(await query(proxy.port, metadata=((f"x-vecsieve-{name}", value), ("x-own", "1")))) == expected
        assert [call.plain_metadata() for call in database.calls] == [(("x-own", "1"),)]
        assert ids(await query(proxy.port)) == [0, 2, 3], "the next call has the settings' policy"
        assert proxy.count("overrides_total", header=name.replace("-", "_")) == 1


@pytest.mark.parametrize(
    "metadata",
    [
        (("x-vecsieve-mode", CANARY),),
        (("x-vecsieve-distance-threshold", CANARY),),
        (("x-vecsieve-mmr-lambda", "1.5"),),
        ((f"x-vecsieve-{CANARY}", "1"),),
        (("x-vecsieve-mode-bin", CANARY.encode()),),
        (("x-vecsieve-linkage", "single"), ("x-vecsieve-linkage", "single")),
    ],
)
async def test_a_bad_override_is_an_invalid_argument_that_repeats_nothing(metadata: Pairs) -> None:
    async with in_front() as (database, proxy):
        refused = await query(proxy.port, metadata=metadata)
        assert refused.code is grpc.StatusCode.INVALID_ARGUMENT
        assert refused.trailing == (("x-vecsieve-origin", "proxy"),)
        assert CANARY not in repr(refused)
        assert refused.details
        assert not database.calls
        assert proxy.count("local_errors_total", backend="qdrant", kind="bad_request") == 1


MMR = pb.Query(
    nearest_with_mmr=pb.NearestInputWithMmr(
        nearest=pb.VectorInput(dense=pb.DenseVector(data=[1.0] * 4)), mmr=pb.Mmr(diversity=0.5)
    )
)


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (search() + b"\xff", "unsupported_field"),
        (search() + b"\xfa\x7f\x01x", "unsupported_field"),
        (search(1), "single_result"),
        (search(query=MMR), "ordering_chosen"),
        (search(query=None), "ordering_chosen"),
        (search() + b"\x0a\x01d", "ambiguous_field"),
        (search(500), "window_too_large"),
    ],
)
async def test_what_is_left_alone_reaches_upstream_byte_for_byte_and_says_why(message: bytes, reason: str) -> None:
    async with grpc_upstream(Query=echo) as database, before(database.address) as proxy:
        answer = await query(proxy.port, message)
        assert answer.messages == (message,)
        assert ("x-vecsieve", f"bypass={reason}") in answer.initial
        assert messages(database) == [message]
        assert proxy.count("bypass_total", backend="qdrant", reason=reason) == 1


async def test_of_a_number_that_is_set_twice_the_last_counts_as_for_every_reader_of_protobuf() -> None:
    async with in_front() as (_, proxy):
        twice, once = [await query(proxy.port, message) for message in (search() + b"\x40\x02", search(2))]
    assert ids(twice) == ids(once) == [0, 2]


def counted(proxy: Running) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """Every counter that says how many, and every histogram's number of observations."""
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for metric in proxy.registry.collect()
        for sample in metric.samples
        if sample.name.endswith(("_total", "_count")) and "bytes" not in sample.name and sample.value
    }


@pytest.mark.parametrize("settings", [{}, {"mode": "off"}, {"mode": "shadow"}])
async def test_a_search_counts_as_it_does_over_http(settings: dict[str, Any]) -> None:
    async def honestly(talk: Any, received: Any) -> bool:
        await talk.send(honest_rest(received))
        return True

    async with (
        FaultyUpstream(scripted_rest(honestly)) as rest,
        grpc_upstream(Query=scripted()) as database,
        running(rest.url, **settings) as over_http,
        before(database.address, **settings) as over_grpc,
    ):
        await raw_exchange(over_http.port, rest_request(rest_search()))
        await query(over_grpc.port)
        await asyncio.sleep(0.1)
        assert counted(over_grpc) == counted(over_http)
        (one,), (other,) = over_http.log, over_grpc.log
        assert (one.ended.method, one.operation, one.outcome, one.ended.origin, one.ended.status) == (
            other.ended.method,
            other.operation,
            other.outcome,
            other.ended.origin,
            other.ended.status,
        )
        # Every call comes in by the socket behind the port: to say whose it is would be a guess.
        assert (one.ended.is_loopback, other.ended.is_loopback) == (True, None)
        assert (one.report is None) is (other.report is None)
        if one.report is not None and other.report is not None:
            for mine, its in zip(one.report.figures, other.report.figures, strict=True):
                assert mine._replace(score_loss=0) == its._replace(score_loss=0)
                assert mine.score_loss == pytest.approx(its.score_loss, rel=1e-5), "a float in gRPC, a decimal in JSON"


@pytest.mark.parametrize(("code", "kind"), [(grpc.StatusCode.INTERNAL, "5xx"), (grpc.StatusCode.UNAVAILABLE, "5xx")])
async def test_a_server_error_of_the_database_is_counted_as_its_own(code: grpc.StatusCode, kind: str) -> None:
    script = ending(code, "oops", trailing=(("x-why-bin", b"\x01"),))
    async with grpc_upstream(Query=script) as database, before(database.address) as proxy:
        direct = await query(database.port)
        assert await query(proxy.port) == direct
        assert proxy.count("upstream_errors_total", backend="qdrant", kind=kind) == 2, "widened, and replayed"
        for attempt in ("overfetch", "replay"):
            assert proxy.count("upstream_request_duration_seconds_count", backend="qdrant", attempt=attempt) == 1
        assert [entry.ended.status for entry in proxy.log] == [{"INTERNAL": 500, "UNAVAILABLE": 503}[code.name]]
        assert proxy.count("local_errors_total", backend="qdrant", kind="no_upstream") == 0


@pytest.mark.parametrize("code", [code for code in grpc.StatusCode if code is not grpc.StatusCode.OK])
@pytest.mark.parametrize("mode", ["on", "off"])
async def test_a_refusal_of_a_search_is_the_databases_own_whatever_its_code(code: grpc.StatusCode, mode: str) -> None:
    trailing: Pairs = (("grpc-status-details-bin", b"\x08\x05\x12\x02hi"), ("retry-after", "3"), ("c", "1"), ("c", "2"))
    script = ending(code, "grüße 漢字 100% ☃", initial=INITIAL, trailing=trailing)
    async with grpc_upstream(Query=script) as database, before(database.address, mode=mode) as proxy:
        assert await query(proxy.port) == await query(database.port)


async def test_every_call_is_logged_once_without_what_the_client_sent(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with grpc_upstream(Query=scripted(), Upsert=echo) as database, before(database.address) as proxy:
        key: Pairs = (("api-key", CANARY),)
        await query(proxy.port, search(collection=CANARY), metadata=key)
        for method in (UPSERT, f"/{CANARY}/Upsert"):
            await ask(f"127.0.0.1:{proxy.port}", "unary_unary", (b"w" + CANARY.encode(),), method=method, metadata=key)
        assert [(entry.operation, entry.outcome.value, entry.ended.status) for entry in proxy.log] == [
            ("query", "dedup", 200),
            ("other", "passthrough", 200),
            ("other", "passthrough", 200),
        ]
        assert [entry.ended.request_bytes for entry in proxy.log][1:] == [1 + len(CANARY)] * 2
        assert [entry.ended.response_bytes for entry in proxy.log][1:] == [1 + len(CANARY)] * 2
        assert CANARY not in repr(proxy.log)
        assert CANARY not in caplog.text


async def test_metadata_that_cannot_be_passed_on_is_refused_once_and_nothing_is_sent() -> None:
    async with in_front() as (database, proxy):
        reply = await raw_call(proxy.port, [(b"x-own", "grüße".encode())], framed(search()))
        assert reply.last(b"grpc-status") == b"3"
        assert not database.calls


async def test_a_search_that_comes_compressed_is_read_as_any_other() -> None:
    async with in_front() as (database, proxy):
        through = await ask(
            f"127.0.0.1:{proxy.port}", "unary_unary", (search(),), method=QUERY, compression=grpc.Compression.Gzip
        )
        assert ids(through) == [0, 2, 3]
        assert len(widened(database)) == 1
