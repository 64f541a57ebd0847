"""What the data plane does with a search before selection: overrides, bypasses, limits, modes; all over real sockets."""

from __future__ import annotations

import asyncio
import gzip
import json

import pytest

from support.network.faulty_upstream import (
    FaultyUpstream,
    RawClient,
    Received,
    Talk,
    answering,
    header_list,
    raw_exchange,
    reply,
)
from support.process.running import Running, running, until
from support.qdrant.scripted import JSON, honest, is_widened, request, scripted, search
from vecsieve.config.schema import Settings
from vecsieve.proxy.http.exchange import TIMEOUT
from vecsieve.proxy.http.headers import accepts_identity, read_target


async def answer_honestly(talk: Talk, received: Received) -> bool:
    await talk.send(honest(received))
    return True


def upstream() -> FaultyUpstream:
    return FaultyUpstream(scripted(answer_honestly))


def ids(answer: bytes) -> list[int]:
    return [point["id"] for point in json.loads(answer.split(b"\r\n\r\n", 1)[1])["result"]["points"]]


def error(answer: bytes) -> str:
    words = json.loads(answer.split(b"\r\n\r\n", 1)[1])["status"]["error"]
    assert isinstance(words, str)
    return words


async def bypassed(proxy: Running, reason: str) -> float:
    return await until(lambda: proxy.count("bypass_total", backend="qdrant", reason=reason))


async def test_mode_off_by_the_settings_sends_the_clients_bytes_and_adds_no_header() -> None:
    async with upstream() as database, running(database.url, mode="off") as proxy:
        answer = await raw_exchange(proxy.port, request(search()))
        assert ids(answer) == [0, 1, 2]
        assert b"vecsieve" not in answer
        assert [received.content for received in database.requests] == [search()]
        assert await bypassed(proxy, "disabled") == 1


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        (b"x-vecsieve-mode: off", [0, 1, 2]),
        (b"X-VecSieve-Mode: off", [0, 1, 2]),
        (b"x-vecsieve-distance-threshold: 0.15", [0, 2, 3]),
        (b"x-vecsieve-distance-threshold: 2", [0, 2, 3]),
        (b"x-vecsieve-relative-threshold: 0.2", [0, 2, 3]),
        (b"x-vecsieve-linkage: single", [0, 2, 3]),
        (b"x-vecsieve-mmr-lambda: 1", [0, 2, 3]),
        (b"x-vecsieve-representative: rank", [0, 2, 3]),
        (b"x-vecsieve-order: backend", [0, 2, 3]),
        (b"x-vecsieve-fetch-k: 8", [0, 2, 3]),
    ],
)
async def test_an_override_holds_for_its_request_and_never_reaches_upstream(header: bytes, expected: list[int]) -> None:
    async with upstream() as database, running(database.url) as proxy:
        assert ids(await raw_exchange(proxy.port, request(search(), headers=header + b"\r\n"))) == expected
        assert not [
            name for received in database.requests for name, _ in received.headers if b"vecsieve" in name.lower()
        ]
        assert ids(await raw_exchange(proxy.port, request(search()))) == [0, 2, 3], (
            "the next request has the settings' policy"
        )


async def test_an_override_that_was_obeyed_is_counted_by_its_name() -> None:
    async with upstream() as database, running(database.url) as proxy:
        await raw_exchange(proxy.port, request(search(), headers=b"X-VecSieve-Linkage: single\r\n"))
        assert proxy.count("overrides_total", header="linkage") == 1
        assert proxy.count("overrides_total", header="mode") == 0


async def test_a_server_error_of_the_database_is_counted_as_its_own() -> None:
    async def broken(talk: Talk) -> None:
        while await talk.request() is not None:
            await talk.send(b"HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n")

    async with FaultyUpstream(broken) as database, running(database.url) as proxy:
        assert b" 500 " in await raw_exchange(proxy.port, request(search()))
        await asyncio.sleep(0.05)
        assert proxy.count("upstream_errors_total", backend="qdrant", kind="5xx") == 2, "widened, and replayed"
        for attempt in ("overfetch", "replay"):
            assert proxy.count("upstream_request_duration_seconds_count", backend="qdrant", attempt=attempt) == 1


async def test_fetch_k_is_the_number_that_is_fetched() -> None:
    async with upstream() as database, running(database.url) as proxy:
        await raw_exchange(proxy.port, request(search(), headers=b"x-vecsieve-fetch-k: 17\r\n"))
        assert json.loads(database.requests[0].content)["limit"] == 17


@pytest.mark.parametrize(
    "header",
    [
        b"x-vecsieve-mode: s3cret-canary",
        b"x-vecsieve-distance-threshold: s3cret-canary",
        b"x-vecsieve-mmr-lambda: 1.5",
        b"x-vecsieve-s3cret-canary: 1",
        b"x-vecsieve-linkage: single\r\nx-vecsieve-linkage: single",
    ],
)
async def test_a_bad_override_is_a_400_in_the_backends_shape_that_repeats_nothing(header: bytes) -> None:
    async with upstream() as database, running(database.url) as proxy:
        answer = await raw_exchange(proxy.port, request(search(), headers=header + b"\r\n"))
        assert answer.startswith(b"HTTP/1.1 400 ")
        assert b"x-vecsieve-origin: proxy" in answer
        assert b"s3cret" not in answer
        assert error(answer)
        assert database.requests == []
        assert proxy.count("local_errors_total", backend="qdrant", kind="bad_request") == 1


async def test_a_forbidden_override_is_refused() -> None:
    async with upstream() as database, running(database.url, forbidden_overrides=("mode",)) as proxy:
        answer = await raw_exchange(proxy.port, request(search(), headers=b"x-vecsieve-mode: off\r\n"))
        assert answer.startswith(b"HTTP/1.1 400 ")
        assert database.requests == []


async def test_override_headers_on_other_requests_are_stripped_and_change_nothing() -> None:
    async with upstream() as database, running(database.url) as proxy:
        raw = request(search(), headers=b"x-vecsieve-mode: nonsense\r\n", target=b"/collections/c/points/scroll")
        assert ids(await raw_exchange(proxy.port, raw)) == [0, 1, 2]
        assert [received.content for received in database.requests] == [search()]


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (request(b"not json"), "not_json"),
        (request(search(1)), "single_result"),
        (request(search(extra={"query": {"nearest": [1.0], "mmr": {"diversity": 0.5}}})), "ordering_chosen"),
        (request(search(extra={"never_heard_of": 1})), "unsupported_field"),
        (request(search(500)), "window_too_large"),
        (request(search(), headers=b"Accept-Encoding: gzip, identity;q=0\r\n"), "encoding"),
        (request(search(), headers=b"Content-Encoding: br\r\n"), "encoding"),
        (request(gzip.compress(search()), headers=b"Content-Encoding: x-gzip\r\n"), "encoding"),
        (request(search(), headers=b"Content-Encoding: x-gzip\r\n"), "encoding"),
        (request(search(), headers=b"Content-Encoding: gzip, identity\r\n"), "encoding"),
        (request(search(), headers=b"Content-Encoding: identity\r\nContent-Encoding: gzip\r\n"), "encoding"),
        (request(search(), headers=b"Content-Encoding: nonsense\r\n"), "encoding"),
        (request(search(), headers=b"Content-Encoding: gzip\r\n"), "encoding"),
        (request(search(), headers=b'If-None-Match: "x"\r\n'), "exact_bytes"),
        (request(search(), headers=b"If-Modified-Since: Thu, 01 Jan 1970 00:00:00 GMT\r\n"), "exact_bytes"),
        (request(search(), headers=b"Range: bytes=0-9\r\n"), "exact_bytes"),
        (request(search(), headers=b"Content-MD5: Q2hlY2s=\r\n"), "exact_bytes"),
        (request(search(), headers=b"Content-Digest: sha-256=:AA==:\r\n"), "exact_bytes"),
        (request(search(), headers=b"Signature-Input: a=()\r\nSignature: a=:AA==:\r\n"), "exact_bytes"),
        (request(search(), headers=b"Want-Repr-Digest: sha-256=5\r\n"), "exact_bytes"),
        (request(search(), headers=b"authorization: AWS4-HMAC-SHA256 Credential=x, Signature=y\r\n"), "signed"),
        (request(search() + b" " * 5_000), "too_large"),
    ],
)
async def test_what_is_left_alone_reaches_upstream_byte_for_byte_and_says_why(raw: bytes, reason: str) -> None:
    async def echo(talk: Talk) -> None:
        while (received := await talk.request()) is not None:
            await talk.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(received.body) + received.body)

    async with FaultyUpstream(echo) as database, running(database.url, limits={"request_body_bytes": 4096}) as proxy:
        body = raw.split(b"\r\n\r\n", 1)[1]
        answer = await raw_exchange(proxy.port, raw)
        assert answer.split(b"\r\n\r\n", 1)[1] == body
        assert [received.body for received in database.requests] == [body]
        assert await bypassed(proxy, reason) == 1
        assert f"\r\nx-vecsieve: bypass={reason}\r\n".encode() in answer


@pytest.mark.parametrize(
    ("settings", "sent"),
    [
        ({"report_header": False}, request(search(1))),
        ({"mode": "off"}, request(search())),
        ({"mode": "shadow"}, request(search(1))),
        ({}, request(search(), target=b"/collections/c/points/scroll")),
    ],
    ids=["no header wanted", "off", "shadow", "no search"],
)
async def test_an_answer_says_nothing_of_ours_where_nothing_is_to_be_said(
    settings: dict[str, object], sent: bytes
) -> None:
    async with upstream() as database, running(database.url, **settings) as proxy:
        assert b"x-vecsieve" not in await raw_exchange(proxy.port, sent)


async def test_a_gzipped_search_is_read_widened_and_sent_plain() -> None:
    async with upstream() as database, running(database.url) as proxy:
        raw = request(gzip.compress(search()), headers=b"Content-Encoding: gzip\r\nAccept-Encoding: gzip\r\n")
        assert ids(await raw_exchange(proxy.port, raw)) == [0, 2, 3]
        widened = database.requests[0]
        assert widened.header(b"content-encoding") is None
        assert widened.header(b"accept-encoding") == b"identity"


@pytest.mark.parametrize("coding", [b"gzip", b"GZIP", b"x-gzip"])
async def test_a_compressed_search_is_read_only_where_the_database_reads_it_itself(coding: bytes) -> None:
    """Chroma, Milvus and Pinecone answer the bytes of a compressed search themselves: they do not undo codings."""
    raw = request(gzip.compress(search()), headers=b"Content-Encoding: " + coding + b"\r\n", target=b"/query")
    sent: list[Received] = []

    async def refusing(talk: Talk) -> None:
        received = await talk.request()
        assert received is not None
        sent.append(received)
        await talk.send(reply(b"{}", status=b"400 Bad Request"))

    async with FaultyUpstream(refusing) as database:
        index = {"index_host": database.url}
        async with running(database.url, backend="pinecone", pinecone=index) as proxy:
            answer = await raw_exchange(proxy.port, raw)
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert [received.body for received in sent] == [raw.split(b"\r\n\r\n", 1)[1]]


VOUCHING = (
    b"ETag",
    b"Content-MD5",
    b"Digest",
    b"Content-Digest",
    b"Repr-Digest",
    b"Signature",
    b"Signature-Input",
    b"X-Kept",
)


@pytest.mark.parametrize(("mode", "vouched"), [("on", {b"x-kept"}), ("off", {name.lower() for name in VOUCHING})])
async def test_what_vouches_for_the_databases_bytes_leaves_with_them_alone(mode: str, vouched: set[bytes]) -> None:
    async def vouching(talk: Talk) -> None:
        while (received := await talk.request()) is not None:
            head, body = honest(received).split(b"\r\n\r\n", 1)
            fields = b"".join(b"\r\n" + name + b": one" for name in VOUCHING)
            await talk.send(head + fields + b"\r\n\r\n" + body)

    async with FaultyUpstream(vouching) as database, running(database.url, mode=mode) as proxy:
        answer = await raw_exchange(proxy.port, request(search()))
    assert ids(answer) == ([0, 2, 3] if mode == "on" else [0, 1, 2])
    assert {name.lower() for name, value in header_list(answer) if value == b"one"} == vouched


async def test_a_chunked_search_is_intercepted_too() -> None:
    body = search()
    raw = (
        b"POST /collections/c/points/query HTTP/1.1\r\nHost: db\r\nContent-Type: application/json\r\nConnection: close\r\n"
        b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
    )
    async with upstream() as database, running(database.url) as proxy:
        assert ids(await raw_exchange(proxy.port, raw)) == [0, 2, 3]


@pytest.mark.parametrize(
    "target",
    [b"//collections/c/points/query", b"/collections/c/points/query/", b"/collections//c/points/query?timeout=3"],
)
async def test_paths_are_matched_as_the_database_routes_them_and_forwarded_as_they_came(target: bytes) -> None:
    async with upstream() as database, running(database.url) as proxy:
        assert ids(await raw_exchange(proxy.port, request(search(), target=target))) == [0, 2, 3]
        assert database.requests[0].line == b"POST " + target + b" HTTP/1.1"


@pytest.mark.parametrize(
    ("path", "prefix", "sent", "forwarded"),
    [
        ("/qdrant", "", b"/collections/c/points/query?timeout=3", b"/qdrant/collections/c/points/query?timeout=3"),
        ("/qdrant/", "/vs", b"/vs/collections/c/points/query", b"/qdrant/collections/c/points/query"),
        ("/", "/vs", b"/vs/collections/c/points/query", b"/collections/c/points/query"),
    ],
)
async def test_a_database_behind_a_path_is_reached_by_its_url(
    path: str, prefix: str, sent: bytes, forwarded: bytes
) -> None:
    there = {"url": "", "path_prefix": prefix}
    async with upstream() as database:
        there["url"] = f"{database.url}{path}"
        async with running(database.url, upstream=there) as proxy:
            assert ids(await raw_exchange(proxy.port, request(search(), target=sent))) == [0, 2, 3]
            scrolled = await raw_exchange(proxy.port, request(search(), target=sent.replace(b"query", b"scroll")))
            assert b" 200 " in scrolled.split(b"\r\n")[0]
        assert [received.line.split(b" ")[1] for received in database.requests] == [
            forwarded,
            forwarded.replace(b"query", b"scroll"),
        ]


async def test_the_description_of_a_collection_is_asked_for_behind_the_prefix() -> None:
    body = b'{"collectionName":"c","data":[[0.5,0.25]],"limit":3,"outputFields":["text"]}'
    answer = reply(b'{"code":0,"data":[]}', headers=[JSON])
    prefixed = {"path_prefix": "/mv"}
    async with (
        FaultyUpstream(answering(answer)) as database,
        running(database.url, backend="milvus", upstream=prefixed) as proxy,
    ):
        await raw_exchange(proxy.port, request(body, target=b"/mv/v2/vectordb/entities/search"))
        lines = [received.line.split(b" ")[1] for received in database.requests]
    assert lines[0] == b"/mv/v2/vectordb/collections/describe"
    assert set(lines[1:]) == {b"/mv/v2/vectordb/entities/search"}


async def test_shadow_answers_with_upstreams_bytes_and_measures_behind_them() -> None:
    async with upstream() as database, running(database.url, mode="shadow") as proxy:
        answer = await raw_exchange(proxy.port, request(search()))
        assert ids(answer) == [0, 1, 2]
        assert b"vecsieve" not in answer
        assert await until(lambda: proxy.count("searches_total", backend="qdrant", outcome="shadow")) == 1
        assert proxy.count("answers_changed_total", backend="qdrant", outcome="shadow") == 1
        (row,) = proxy.process.shadow.rows
        assert (row.changed, row.arrived, row.added_ms is None) == (True, row.proven + row.judged, False)
        assert row.plain_bytes >= len(answer.partition(b"\r\n\r\n")[2])
        proxy.process.reload(Settings.model_validate({"upstream": {"url": database.url}}))
        assert not proxy.process.shadow.rows, "other settings are in force"
        assert [is_widened(received) for received in database.requests] == [False, True]


async def test_more_searches_than_selection_takes_on_pass_through() -> None:
    async def slowly(talk: Talk, received: Received) -> bool:
        await asyncio.sleep(0.3)
        await talk.send(honest(received))
        return True

    async with (
        FaultyUpstream(scripted(slowly)) as database,
        running(database.url, limits={"searches_in_flight": 1}) as proxy,
    ):
        answers = await asyncio.gather(*(raw_exchange(proxy.port, request(search())) for _ in range(4)))
        assert sorted(ids(answer) for answer in answers) == [[0, 1, 2]] * 3 + [[0, 2, 3]]
        assert proxy.failed_open() == {"overload": 3.0}


async def test_more_requests_than_the_process_takes_on_are_told_to_come_back() -> None:
    go_on = asyncio.Event()

    async def slowly(talk: Talk, received: Received) -> bool:
        await go_on.wait()
        await talk.send(honest(received))
        return True

    limits = {"in_flight": 1, "in_flight_queue_seconds": 0.05}
    async with FaultyUpstream(scripted(slowly)) as database, running(database.url, limits=limits) as proxy:
        requests = [asyncio.ensure_future(raw_exchange(proxy.port, request(search()))) for _ in range(2)]
        done, waiting = await asyncio.wait(requests, return_when=asyncio.FIRST_COMPLETED)
        go_on.set()
        refused = done.pop().result()
        assert refused.startswith(b"HTTP/1.1 503 ")
        assert b"Retry-After: 1\r\n" in refused
        assert b"x-vecsieve-origin: proxy" in refused
        assert b"200 OK" in await waiting.pop()
        assert proxy.count("requests_shed_total", reason="in_flight") == 1


async def test_policies_go_by_collection_and_a_reload_replaces_them_for_the_next_request() -> None:
    rules = ({"collection": "c", "policy": {"mode": "off"}},)
    async with upstream() as database, running(database.url, rules=rules) as proxy:
        assert ids(await raw_exchange(proxy.port, request(search()))) == [0, 1, 2]
        other = request(search(), target=b"/collections/d/points/query")
        assert ids(await raw_exchange(proxy.port, other)) == [0, 2, 3]
        proxy.process.reload(Settings.model_validate({"upstream": {"url": database.url}}))
        assert ids(await raw_exchange(proxy.port, request(search()))) == [0, 2, 3]


async def test_every_request_is_logged_once_without_what_the_client_sent() -> None:
    async with upstream() as database, running(database.url) as proxy:
        await raw_exchange(
            proxy.port,
            request(search(), headers=b"api-key: s3cret-canary\r\n", target=b"/collections/s3cret-canary/points/query"),
        )
        await raw_exchange(proxy.port, request(search(), target=b"/collections/s3cret-canary/points/scroll"))
        await asyncio.sleep(0.05)
        assert [(entry.operation, entry.outcome.value, entry.ended.status) for entry in proxy.log] == [
            ("query", "dedup", 200),
            ("other", "passthrough", 200),
        ]
        assert "s3cret" not in repr(proxy.log)


@pytest.mark.parametrize(
    ("value", "accepted"),
    [
        (b"", True),
        (b"gzip, deflate", True),
        (b"gzip;q=1, identity;q=0", False),
        (b"identity;q=0.5, *;q=0", True),
        (b"*;q=0", False),
        (b"gzip, *;q=0.0", False),
        (b"identity;q=0.001", True),
    ],
)
def test_identity_is_acceptable_unless_the_client_excludes_it(value: bytes, accepted: bool) -> None:
    assert accepts_identity([(b"Accept-Encoding", value)]) is accepted


@pytest.mark.parametrize(
    ("raw", "seconds"),
    [("/a?timeout=7", 7.0), ("/a?x=1&timeout=30&y", 30.0), ("/a", None), ("/timeout=3", None), ("/a?timeout=x", None)],
)
def test_the_clients_own_timeout_is_read_from_the_query_string(raw: str, seconds: float | None) -> None:
    target = read_target(raw)
    assert target is not None
    match = TIMEOUT.search(target.raw, len(target.path))
    assert (None if match is None else float(match[1])) == seconds


NOBODY = "http://127.0.0.1:9"  # our own answer
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    ("method", "answer"),
    [
        ("GET", reply(b"ok")),
        ("GET", reply(b"x" * 200_000)),
        ("GET", CHUNKED + b"3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"),
        ("HEAD", reply(length=500)),
        ("GET", b""),
    ],
    ids=["small", "large", "chunked", "head", "ours"],
)
async def test_the_bytes_of_an_answer_are_those_of_its_body(method: str, answer: bytes) -> None:
    """As over gRPC, and as they come from the database: heads and the framing of chunks do not count."""
    async with FaultyUpstream(answering(answer)) as database, running(database.url if answer else NOBODY) as proxy:
        client = await RawClient.connect(proxy.port)
        await client.send(f"{method} /collections HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        body = (await client.reply(bodiless=method == "HEAD")).body
        await client.close()
        assert await until(lambda: float(len(proxy.log))) == 1
        assert proxy.log[0].ended.response_bytes == len(body)
        assert proxy.count("client_response_bytes_total", backend="qdrant") == len(body)
