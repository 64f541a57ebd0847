"""Sessions remember what they were given, bounded and apart by credentials, in memory and in a real Redis; failures cost the session alone."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Collection, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from support.backends.text_rankings import DATABASES, QUERY, Ranked
from support.backends.toy_exchange import ToyExchange, policy, toys
from support.network.ports import free_ports
from support.network.streams import serving
from support.process.clocks import ManualClock
from support.process.redis_server import NEEDS_REDIS, redis_server
from vecsieve.config.problems import SettingsError
from vecsieve.config.schema import SessionStoreSettings, Settings
from vecsieve.proxy.search.context.clients import Client
from vecsieve.proxy.search.context.sessions import (
    Given,
    InProcess,
    Sessions,
    Store,
    identified,
    of_question,
    store_of,
)
from vecsieve.proxy.search.policy import ResolvedPolicy
from vecsieve.proxy.search.service import SearchService

A, B, C = b"a" * 8, b"b" * 8, b"c" * 8
DATABASE = DATABASES["qdrant"]
KEY, OTHER = b"k" * 16, b"o" * 16


def named(key: bytes = KEY, **members: object) -> ResolvedPolicy:
    chosen = policy(**members)
    return replace(chosen, session_key=key)


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    with redis_server(tmp_path) as running:
        yield running


def in_process(clock: ManualClock | None = None, *, sessions: int = 9, results: int = 99) -> InProcess:
    return InProcess(sessions=sessions, results=results, clock=clock or ManualClock(0.0))


async def filled(store: Store) -> Given:
    assert await store.given(KEY) == Given() or (await store.given(KEY)).turn == 0
    await store.add(KEY, [A, B], 1, seconds=60.0)
    await store.add(KEY, [B, C], 2, seconds=60.0)
    return await store.given(KEY)


async def test_a_session_in_memory_knows_the_turn_of_each_result() -> None:
    turns = await filled(in_process())
    assert turns == Given(2, {A: 1, B: 2, C: 2})
    assert turns.since(None) == {A, B, C}
    assert turns.since(1) == {B, C}
    assert turns.since(2) == {A, B, C}


@NEEDS_REDIS
async def test_a_session_in_redis_is_the_same_and_survives_its_writer(url: str) -> None:
    settings = SessionStoreSettings(url=url, timeout_seconds=5.0)
    first, second = store_of(settings, ManualClock(0.0)), store_of(settings, ManualClock(0.0))
    assert await filled(first) == Given(2, {A: 1, B: 2, C: 2})
    await first.close()
    assert await second.given(KEY) == Given(2, {A: 1, B: 2, C: 2}), "another replica reads it"
    assert (await second.given(OTHER)).turn == 0
    await second.add(KEY, [], 3, seconds=0.05)
    await asyncio.sleep(0.2)
    assert (await second.given(KEY)).since(None) == frozenset(), "it has expired"
    await second.close()


@NEEDS_REDIS
async def test_a_session_in_redis_is_bounded(url: str) -> None:
    store = store_of(SessionStoreSettings(url=url, timeout_seconds=5.0), ManualClock(0.0), results=2)
    await store.add(KEY, [A], 1, seconds=60.0)
    await store.add(KEY, [B, C], 2, seconds=60.0)
    assert (await store.given(KEY)).since(None) == {B, C}
    await store.close()


@NEEDS_REDIS
async def test_what_others_wrote_into_redis_costs_neither_an_answer_nor_its_time(url: str) -> None:
    """A million results of a session would hold the loop for seconds; words in place of a number are no session."""
    from redis import Redis, RedisError

    store = store_of(SessionStoreSettings(url=url, timeout_seconds=5.0), ManualClock(0.0), results=2)
    await store.add(KEY, [A], 1, seconds=60.0)
    with Redis.from_url(url) as other:
        (name,) = other.keys("*:turn")
        other.zadd(name.removesuffix(b":turn"), {str(member): 0 for member in range(1000)})
        assert (await store.given(KEY)).turns == {A: 1, b"999": 0}, "no more than were asked for"
        for foreign in (b"x", b"1.5", b"\xff", b"9" * 5000):
            other.set(name, foreign)
            with pytest.raises(OSError, match="no session where one belongs"):
                await store.given(KEY)
        other.set(name, 1)
        other.zadd(name.removesuffix(b":turn"), {"x": float("inf")})
        with pytest.raises(OSError, match="no session where one belongs"):
            await store.given(KEY)
        other.set(name.removesuffix(b":turn"), "another kind")
        with pytest.raises(RedisError, match="WRONGTYPE"):
            await store.given(KEY)
    await store.close()


async def test_a_session_in_memory_expires_and_is_bounded() -> None:
    clock = ManualClock(0.0)
    store = in_process(clock, sessions=2, results=2)
    await store.add(KEY, [A], 1, seconds=10.0)
    await store.add(KEY, [B, C], 2, seconds=10.0)
    assert (await store.given(KEY)).since(None) == {B, C}, "what was given first goes first"
    clock.now = 10.0
    assert await store.given(KEY) == Given()
    for key in (b"1", b"2", b"3"):
        await store.add(key, [A], 1, seconds=10.0)
    assert [bool((await store.given(key)).turns) for key in (b"1", b"2", b"3")] == [False, True, True]


@pytest.mark.parametrize(
    "name",
    [
        *("api-key", "Authorization", "x-chroma-token", "Cookie", "X-Api-Key", "x-jwt-assertion", "x-authtoken"),
        *(
            "x-forwarded-user",
            "x-goog-iap-jwt-assertion",
            "x-ms-client-principal-id",
            "x-tenant",
            "x-amzn-oidc-identity",
        ),
    ],
)
def test_other_credentials_are_another_session(name: str) -> None:
    one, other = (identified(named(), [(name, value), ("accept", "x")]) for value in ("mine", "yours"))
    assert one.session_key != other.session_key
    assert one.session_key == identified(named(), [("accept", "y"), (name.upper(), "mine")]).session_key
    assert one.session_key != identified(named(), []).session_key
    assert one.session_key != identified(named(OTHER), [(name, "mine")]).session_key


def test_without_a_session_nothing_is_identified() -> None:
    chosen = policy()
    assert identified(chosen, [("api-key", "x")]) is chosen


def question() -> ResolvedPolicy:
    chosen = policy()
    timed = replace(chosen, session=chosen.session.model_copy(update={"question_seconds": 1.0, "keeps": 0.0}))
    return of_question(timed, Client.of([("api-key", "k")], "10.0.0.1"))


def test_a_question_is_of_one_client_and_none_where_no_setting_knows_questions_or_a_session_is_named() -> None:
    plain = policy()
    client = Client.of([("api-key", "k")], "10.0.0.1")
    assert of_question(plain, client) is plain
    timed = replace(plain, session=plain.session.model_copy(update={"question_seconds": 1.0}))
    header = replace(timed, session_key=KEY)
    assert of_question(header, client) is header
    unknown = Client.of([("user-agent", "grpc-python/1.66")], None)
    assert of_question(timed, unknown) is timed, "who sent it is unknown: it may be anybody"
    clients = [client, Client.of([("api-key", "l")], "10.0.0.1"), Client.of([("api-key", "k")], "10.0.0.2")]
    clients.append(Client.of([("api-key", "k"), ("x-forwarded-user", "u")], "10.0.0.1"))
    assert len({of_question(timed, client).session_key for client in clients}) == len(clients)
    assert of_question(timed, client).session_key == question().session_key
    assert of_question(timed, client).demotes


async def test_a_question_ends_for_each_result_after_its_time_however_busy_its_client_is() -> None:
    clock, seconds = ManualClock(50.0), [1_700_000_000.0]
    sessions = Sessions(in_process(clock), clock=clock, failed=lambda: None, now=lambda: seconds[0])
    # Four distinct texts, each twice, for pages of three.
    texts = [
        Ranked(rank, f"Part {rank // 2} of the pump is a valve number {rank // 2}.", rank // 2) for rank in range(8)
    ]
    made, pages = toys(sessions=sessions), list[list[int]]()
    service = SearchService(DATABASE.adapter, DATABASE.dialect, made.services, number_bytes=4)
    exchange = ToyExchange(
        policy=question(),
        plain=json.dumps({"query": QUERY, "limit": 3, "with_payload": True}).encode(),
        operation=DATABASE.operation,
        answering=DATABASE.holding(texts),
    )
    for _ in range(5):
        answer = await service.search(exchange, made.services.recorder.begin(), sample=0.0)
        pages.append([point["id"] for point in json.loads(answer.body)["result"]["points"]])
        clock.now += 0.6
        seconds[0] += 0.6
    # The page after 0.6 s has two results of the first one again, behind the new one: that does not hold them back any longer.
    assert pages == [[0, 2, 4], [6, 0, 2], [0, 2, 4], [6, 0, 2], [0, 2, 4]]


class Failing:
    """A store that fails, and counts how often it is asked."""

    def __init__(self, error: type[Exception]) -> None:
        self.error, self.requested = error, 0

    async def given(self, key: bytes) -> Given:
        self.requested += 1
        raise self.error

    async def add(self, key: bytes, digests: Collection[bytes], turn: int, *, seconds: float) -> None:
        raise AssertionError("nothing is written to a store that could not be read")

    async def close(self) -> None:
        raise self.error


@pytest.mark.parametrize("error", [TimeoutError, ConnectionRefusedError, OverflowError, MemoryError, RuntimeError])
async def test_a_store_that_fails_costs_the_session_and_is_left_alone_for_a_moment(error: type[Exception]) -> None:
    store, clock, failures = Failing(error), ManualClock(100.0), list[int]()
    sessions = Sessions(store, clock=clock, failed=lambda: failures.append(1))
    made = toys(sessions=sessions)
    plain = await answer_of(made, policy())
    for _ in range(3):
        assert await answer_of(made, named()) == plain
    assert (store.requested, len(failures)) == (1, 1)
    clock.now += 1.0
    assert await answer_of(made, named()) == plain
    assert store.requested == 2
    await sessions.close()


@NEEDS_REDIS
async def test_a_redis_that_is_not_there_costs_the_session() -> None:
    settings = SessionStoreSettings(url=f"redis://127.0.0.1:{free_ports(1)[0]}", timeout_seconds=2.0)
    failures = list[int]()
    sessions = Sessions(store_of(settings, ManualClock(0.0)), clock=ManualClock(0.0), failed=lambda: failures.append(1))
    made = toys(sessions=sessions)
    assert await answer_of(made, named()) == await answer_of(made, policy())
    assert failures == [1]
    await sessions.close()


WRONG_FORMS = (
    b"+OK\r\n", b":1\r\n", b"$-1\r\n", b"*-1\r\n", b"$x\r\n", b"*x\r\n", b"*2\r\n$1\r\na\r\n", b"-ERR no\r\n", b"HTTP/1.1 400 no\r\n\r\n", b"\x00" * 64,
    b"*1\r\n*1\r\n*1\r\n:1\r\n", b"*2\r\n:1000000000\r\n$1\r\n1\r\n", b"%1\r\n+a\r\n+b\r\n", b"_\r\n", b",nan\r\n",
)  # fmt: skip


@pytest.mark.parametrize("form", WRONG_FORMS)
async def test_a_store_that_answers_in_a_wrong_form_costs_the_session(form: bytes) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            while await reader.read(4096):
                writer.write(form)
                await writer.drain()

    async with serving(serve) as port:
        settings = SessionStoreSettings(url=f"redis://127.0.0.1:{port}", timeout_seconds=0.5)
        sessions = Sessions(store_of(settings, ManualClock(0.0)), clock=ManualClock(0.0), failed=lambda: None)
        made = toys(sessions=sessions)
        assert await answer_of(made, named()) == await answer_of(made, policy())
        await sessions.close()


ENDLESS = (b"$100000000000\r\n", b"*100000000000\r\n:1\r\n", b"+", b"*1\r\n", b"*-2\r\n", b"=9999999999\r\ntxt:", b"(9")


@pytest.mark.parametrize("start", ENDLESS)
async def test_a_reply_without_an_end_is_bounded_in_bytes_long_before_its_time(start: bytes) -> None:
    sent = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        with contextlib.suppress(ConnectionError):
            await reader.read(4096)
            writer.write(start)
            while True:
                writer.write(start * 1000 if start.startswith(b"*") else b"9" * 4096)
                await writer.drain()
                sent += 4096
                await asyncio.sleep(0)

    async with serving(serve) as port:
        settings = SessionStoreSettings(url=f"redis://127.0.0.1:{port}", timeout_seconds=30.0)
        sessions = Sessions(store_of(settings, ManualClock(0.0)), clock=ManualClock(0.0), failed=lambda: None)
        async with asyncio.timeout(10):
            assert await answer_of(toys(sessions=sessions), named()) == await answer_of(toys(), policy())
        await sessions.close()
    assert sent < 32 * 1024 * 1024, "what the two sockets hold comes on top of the bound"


async def answer_of(made: object, chosen: ResolvedPolicy) -> bytes:
    exchange = ToyExchange(policy=chosen)
    record = made.services.recorder.begin()  # type: ignore[attr-defined]  # - Toys
    answer = await made.service.search(exchange, record, sample=0.0)  # type: ignore[attr-defined]  # - Toys
    return bytes(answer.body)


def test_a_password_file_that_cannot_be_read_is_a_problem_of_the_settings(tmp_path: Path) -> None:
    pytest.importorskip("redis")
    settings = SessionStoreSettings(url="redis://127.0.0.1", password_file=str(tmp_path / "none"))
    with pytest.raises(SettingsError, match=r"sessions\.password_file"):
        store_of(settings, ManualClock(0.0))


@pytest.mark.parametrize(
    "url", ["redis://user:pass@host", "http://host", "redis://", "redis://host/db?x=1", "redis://host:port"]
)
def test_an_url_with_credentials_or_of_another_kind_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="url"):
        Settings.model_validate({"sessions": {"url": url}})
