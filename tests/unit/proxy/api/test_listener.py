"""The API's listener over real sockets, with an endpoint that says what it was sent."""

from __future__ import annotations

import asyncio
import logging
import threading
from pathlib import Path

import httpx
import msgspec
import pytest

from support.network.api import TOKEN, Served, served, token_file
from support.network.faulty_upstream import RawClient, raw_exchange
from support.process.running import until
from vecsieve.config.problems import SettingsError
from vecsieve.proxy.api.problems import Kind, ProblemError
from vecsieve.proxy.api.routes import Route
from vecsieve.proxy.telemetry.labels import ApiRoute

PROBLEM = "application/problem+json"


class Word(msgspec.Struct):
    stated: str


def echo(body: bytes) -> bytes:
    if body == b"break":
        raise ZeroDivisionError("CANARY-51")
    if body == b"refuse":
        raise ProblemError(Kind.INVALID, "no", where="$.said", saw="refuse", wanted="a word", fields=(("x-own", "1"),))
    return body


def route(work: object = echo) -> tuple[Route, ...]:
    made = Route(name=ApiRoute.OPTIMIZE, path="/v1/echo", summary="", description="", work=work, gives=Word, takes=Word)  # type: ignore[arg-type]  # - any work
    return (made,)


def problem(answer: httpx.Response) -> dict[str, object]:
    assert answer.headers["Content-Type"] == PROBLEM
    content: dict[str, object] = answer.json()
    assert content["status"] == answer.status_code
    assert str(content["type"]).startswith("https://") or content["type"] == "about:blank"
    assert content["title"]
    assert content["detail"]
    return content


async def ask(api: Served, body: bytes = b"{}", **fields: str) -> httpx.Response:
    head = {"Content-Type": "application/json", **{name.replace("_", "-"): value for name, value in fields.items()}}
    return await api.client.post("/v1/echo", content=body, headers=head)


async def test_a_request_is_answered_with_what_the_work_makes_of_its_body() -> None:
    async with served(route()) as api:
        answer = await ask(api, b'{"said":"a"}')
        assert (answer.status_code, answer.content) == (200, b'{"said":"a"}')
        assert answer.headers["Content-Type"] == "application/json"
        assert answer.headers["Cache-Control"] == "no-store"
        assert answer.headers["x-vecsieve-origin"] == "proxy"


async def test_a_connection_is_used_again() -> None:
    async with served(route()) as api:
        for number in range(3):
            assert (await ask(api, b"%d" % number)).content == b"%d" % number
        assert (await ask(api, b"refuse")).status_code == 400
        assert (await ask(api, b"4")).status_code == 200
        (only,) = api.client._transport._pool.connections  # type: ignore[attr-defined]  # - httpx's own pool
        assert only


async def test_a_query_is_no_part_of_the_path() -> None:
    async with served(route()) as api:
        assert (await api.client.get("/openapi.json?x=1")).status_code == 200


@pytest.mark.parametrize("path", ["/", "/v1/echo/", "/health%20", "/v1/Echo", "//health"])
async def test_a_path_without_an_endpoint_is_not_found_and_told_what_there_is(path: str) -> None:
    async with served(route()) as api:
        answer = await raw_exchange(
            api.port, b"GET %s HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n" % path.encode()
        )
        assert answer.startswith(b"HTTP/1.1 404 ")
        assert b"/v1/echo, /openapi.json" in answer


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [("GET", "/v1/echo", "POST"), ("POST", "/openapi.json", "GET, HEAD"), ("DELETE", "/v1/echo", "POST")],
)
async def test_another_method_is_refused_with_those_that_are_allowed(method: str, path: str, allowed: str) -> None:
    async with served(route()) as api:
        answer = await api.client.request(method, path)
        assert problem(answer)["status"] == 405
        assert answer.headers["Allow"] == allowed


async def test_head_has_the_fields_of_get_and_no_body() -> None:
    async with served(route()) as api:
        got, head = await api.client.get("/openapi.json"), await api.client.head("/openapi.json")
        assert head.content == b""
        assert head.headers["Content-Length"] == got.headers["Content-Length"] == str(len(got.content))


async def test_a_problem_says_what_was_seen_wanted_and_where() -> None:
    async with served(route()) as api:
        answer = await ask(api, b"refuse")
        content = problem(answer)
        assert (content["where"], content["saw"], content["wanted"]) == ("$.said", "refuse", "a word")
        assert answer.headers["x-own"] == "1"


async def test_a_failure_of_ours_is_a_500_without_a_word_of_it(caplog: pytest.LogCaptureFixture) -> None:
    async with served(route()) as api:
        with caplog.at_level(logging.ERROR):
            answer = await ask(api, b"break")
        assert problem(answer)["status"] == 500
        assert "CANARY-51" not in answer.text + caplog.text
        assert (await ask(api)).status_code == 200


@pytest.mark.parametrize(
    ("fields", "where"),
    [
        ({"Content_Type": "text/plain"}, "Content-Type"),
        ({"Content_Type": ""}, "Content-Type"),
        ({"Content_Encoding": "gzip"}, "Content-Encoding"),
    ],
)
async def test_a_body_of_another_form_is_refused_unread(fields: dict[str, str], where: str) -> None:
    async with served(route()) as api:
        content = problem(await ask(api, b"x", **fields))
        assert (content["status"], content["where"]) == (415, where)


@pytest.mark.parametrize("chunked", [False, True])
async def test_a_body_beyond_the_limit_is_refused_and_one_at_the_limit_is_not(chunked: bool) -> None:
    async def pieces(count: int) -> object:
        for _ in range(count):
            yield b"x" * 10

    async with served(route(), body_bytes=100) as api:
        for count, status in ((10, 200), (11, 413)):
            content = pieces(count) if chunked else b"x" * 10 * count
            head = {"Content-Type": "application/json"}
            answer = await api.client.post("/v1/echo", content=content, headers=head)  # type: ignore[arg-type]  # - bytes or their pieces
            assert answer.status_code == status
        assert problem(answer)["wanted"] == "100 bytes at most"


async def test_a_body_that_does_not_arrive_in_time_is_refused() -> None:
    async with served(route(), limits={"body_timeout_seconds": 0.1}) as api:
        client = await RawClient.connect(api.port)
        await client.send(
            b"POST /v1/echo HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{"
        )
        assert (await client.reply()).head.startswith(b"HTTP/1.1 408 ")
        await client.close()


async def test_a_head_that_does_not_arrive_in_time_ends_the_connection() -> None:
    async with served(route(), limits={"head_timeout_seconds": 0.1}) as api:
        client = await RawClient.connect(api.port)
        await client.send(b"POST /v1/echo HTT")
        assert (await client.rest()).startswith(b"HTTP/1.1 408 ")
        await client.close()


async def test_what_is_no_http_is_answered_with_a_problem_that_does_not_repeat_it() -> None:
    async with served(route()) as api:
        answer = await raw_exchange(api.port, b"CANARY-52\r\n\r\n")
        assert b" 400 Bad Request\r\n" in answer
        assert PROBLEM.encode() in answer
        assert b"CANARY-52" not in answer


async def test_further_requests_wait_for_a_place_and_are_refused_after_a_moment() -> None:
    go = threading.Event()

    def wait(body: bytes) -> bytes:
        go.wait(10)
        return body

    async with served(route(wait), in_flight=1, limits={"in_flight_queue_seconds": 0.1}) as api:
        first = asyncio.create_task(ask(api))
        await asyncio.sleep(0.2)
        refused = await ask(api)
        assert problem(refused)["status"] == 503
        assert refused.headers["Retry-After"] == "1"
        assert api.api.in_flight == 1
        go.set()
        assert (await first).status_code == 200
        assert (await ask(api)).status_code == 200


@pytest.mark.parametrize(("resident", "status"), [(79, 200), (80, 503), (99, 503)])
async def test_under_memory_pressure_the_api_gives_way(resident: int, status: int) -> None:
    async with served(route(), resident_bytes=resident) as api:
        assert (await ask(api)).status_code == status
        assert (await api.client.get("/openapi.json")).status_code == 200


@pytest.mark.parametrize("host", ["example.com", "127.0.0.1.example.com"])
async def test_without_a_token_a_request_must_name_this_machine(host: str) -> None:
    async with served(route()) as api:
        assert problem(await ask(api, Host=host))["status"] == 403
        assert (await ask(api, Host="localhost")).status_code == 200


async def test_without_a_token_no_page_of_another_site_may_ask() -> None:
    """Such a page could hold the places of all readers of events."""
    async with served(route()) as api:
        for site in ("cross-site", "same-site"):
            assert problem(await ask(api, b"{}", **{"Sec-Fetch-Site": site}))["status"] == 403
        for site in ("none", "same-origin"):
            assert (await ask(api, b"{}", **{"Sec-Fetch-Site": site})).status_code == 200


async def test_with_a_token_every_request_needs_it_and_any_host_will_do(tmp_path: Path) -> None:
    async with served(route(), token_file=token_file(tmp_path)) as api:
        for header in ("", "Bearer wrong", TOKEN):
            refused = await ask(api, Authorization=header, Host="example.com")
            assert problem(refused)["status"] == 401
            assert refused.headers["WWW-Authenticate"] == "Bearer"
        assert (await ask(api, Authorization=f"Bearer {TOKEN}", Host="example.com")).status_code == 200
        assert (await api.client.get("/openapi.json")).status_code == 401


async def test_a_token_file_that_cannot_be_used_ends_the_start(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"api\.token_file"):
        async with served(route(), token_file=str(tmp_path / "nothing")):
            raise AssertionError("it started")


async def test_requests_are_counted_by_endpoint_and_status_and_timed() -> None:
    async with served(route()) as api:
        assert "vecsieve_api" not in "".join(line for line in api.exposed().splitlines() if line[0] != "#")
        await ask(api)
        await ask(api, b"refuse")
        await api.client.get("/nowhere")
        for counted in (
            'vecsieve_api_requests_total{route="optimize",status="2xx"} 1.0',
            'vecsieve_api_requests_total{route="optimize",status="4xx"} 1.0',
            'vecsieve_api_requests_total{route="other",status="4xx"} 1.0',
            'vecsieve_api_request_duration_seconds_count{route="optimize"} 2.0',
        ):
            await api.until_exposed(counted)


async def test_draining_closes_connections_with_their_answers_and_opens_no_new_ones() -> None:
    async with served(route()) as api:
        assert "Connection" not in (await ask(api)).headers
        api.api.drain()
        assert (await ask(api)).headers["Connection"] == "close"
        api.api.stop_accepting()
        with pytest.raises(httpx.ConnectError):
            await ask(api)


async def test_a_client_that_leaves_ends_its_request() -> None:
    async with served(route()) as api:
        client = await RawClient.connect(api.port)
        await client.send(
            b"POST /v1/echo HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{"
        )
        await asyncio.sleep(0.05)
        client.reset()
        await client.close()
        assert await until(lambda: not api.api.in_flight)


async def test_a_client_that_reads_nothing_loses_its_connection() -> None:
    large = b"x" * (8 << 20)
    async with served(route(lambda _body: large), limits={"stream_idle_timeout_seconds": 0.2}) as api:
        client = await RawClient.connect(api.port)
        client.writer.transport.pause_reading()  # type: ignore[attr-defined]  # - a transport of a socket has it
        await client.send(
            b"POST /v1/echo HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
        )
        await asyncio.sleep(0.1)
        assert api.api.in_flight == 1
        assert await until(lambda: not api.api.in_flight)
        client.reset()
        await client.close()
