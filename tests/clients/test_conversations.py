"""Conversations, for every database by its own client: what earlier turns were given stands behind what is new."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.backends.surrounded import DATABASES, FAMILIES, PARAMETERS, Ask
from support.process import stack
from support.process.redis_server import NEEDS_REDIS, redis_server
from support.process.stack import exchange
from support.qdrant import planted
from support.qdrant.embedded import start_embedded_process

LIMIT = 4
# The same question again is the next page.
FLOOR = "policy: {fetch: {floor: 64}, session: {keeps: 0}}\n"


@pytest.fixture(scope="module", params=PARAMETERS)
def searches(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Ask, Ask]]:
    """The proxy and the database, each as its client sees it."""
    file: Path = tmp_path_factory.mktemp("settings") / "vecsieve.yaml"
    file.write_text(FLOOR)
    with DATABASES[request.param](file) as both:
        yield both


def session(name: str) -> dict[str, str]:
    return {"x-vecsieve-session": name}


def test_a_turn_shows_what_earlier_turns_did_not(searches: tuple[Ask, Ask]) -> None:
    proxy, database = searches
    turns = [proxy([1], LIMIT, session("turns"))[0] for _ in range(3)]
    rows = [row for turn in turns for row in turn]
    assert len(rows) == len({str(one) for one, _ in rows}) == 3 * LIMIT
    texts = [text for _, text in rows if text]
    assert len(texts) == len(set(texts)), "a copy of what was given is no news"
    assert turns[0] == proxy([1], LIMIT, {})[0]
    everything = database([1], 48, {})[0]
    for turn in turns:
        places = [everything.index(row) for row in turn]
        assert places == sorted(places), "the database's own rows in its order"


def test_sessions_do_not_know_one_another_and_other_searches_none(searches: tuple[Ask, Ask]) -> None:
    proxy, _ = searches
    plain = proxy([2], LIMIT, {})
    assert proxy([2], LIMIT, session("one")) == plain
    assert proxy([2], LIMIT, session("other")) == plain
    assert proxy([2], LIMIT, session("one")) != plain
    assert proxy([2], LIMIT, {}) == plain


def test_a_session_of_other_credentials_is_another(searches: tuple[Ask, Ask]) -> None:
    proxy, _ = searches
    plain = proxy([3], LIMIT, {})
    assert proxy([3], LIMIT, session("shared") | {"x-user-token": "mine"}) == plain
    assert proxy([3], LIMIT, session("shared") | {"x-user-token": "yours"}) == plain
    assert proxy([3], LIMIT, session("shared") | {"x-user-token": "mine"}) != plain


def test_what_was_given_fills_a_page_of_which_too_little_is_new(searches: tuple[Ask, Ask]) -> None:
    proxy, _ = searches
    for _ in range(12):
        assert len(proxy([4], LIMIT, session("long"))[0]) == LIMIT


# On Qdrant alone, in processes of our own: a restart, two replicas, and a long conversation.


@pytest.fixture(scope="module")
def engine() -> Iterator[str]:
    with start_embedded_process() as url:
        points = [
            {"id": base * 10 + copy, "vector": (vector + 0.003 * copy).tolist(), "payload": {"text": f"text {base}"}}
            for base, vector in enumerate(planted.bases()[:FAMILIES])
            for copy in range(3)
        ]
        shape = {"vectors": {"size": planted.DIMENSION, "distance": "Cosine"}}
        assert exchange(url, "PUT", "/collections/docs", json.dumps(shape).encode()).status == 200
        body = json.dumps({"points": points}).encode()
        assert exchange(url, "PUT", "/collections/docs/points?wait=true", body).status == 200
        yield url


def ids(url: str, name: str | None, seed: int = 1) -> list[int]:
    body = json.dumps({"query": planted.query_vector(seed), "limit": LIMIT}).encode()
    answer = exchange(url, "POST", "/collections/docs/points/query", body, session(name) if name else {})
    assert answer.status == 200, answer.body
    return [point["id"] for point in json.loads(answer.body)["result"]["points"]]


def test_a_restart_forgets_sessions_in_memory_and_answers(engine: str, tmp_path: Path) -> None:
    file = tmp_path / "vecsieve.yaml"
    file.write_text(FLOOR)
    for _ in range(2):
        with stack.serve(engine, "--config", str(file)) as (proxy, _):
            plain = ids(proxy, None)
            assert ids(proxy, "kept") == plain
            assert set(ids(proxy, "kept")).isdisjoint(plain)


def test_the_best_results_stay_on_the_page_behind_what_is_new(engine: str) -> None:
    with stack.serve(engine) as (proxy, _):
        plain = ids(proxy, None)
        first, second = ids(proxy, "asks-again"), ids(proxy, "asks-again")
        assert ids(proxy, None) == plain, "without a session nothing is different"
    assert first == plain
    new, old = [one for one in second if one not in first], [one for one in second if one in first]
    assert second == new + old
    assert len(new) >= LIMIT - int(0.625 * LIMIT)
    assert old == [one for one in plain if one in old]
    assert plain[0] in old


def test_turns_reach_deeper_than_one_pool(engine: str, tmp_path: Path) -> None:
    file = tmp_path / "vecsieve.yaml"
    file.write_text(
        "limits: {own_reads_share: 1.0}\npolicy: {session: {keeps: 0}}\n"
    )  # each turn may grow its pool; by default one in ten
    with stack.serve(engine, "--config", str(file)) as (proxy, admin):
        turns = [ids(proxy, "deep") for _ in range(4)]
        text = exchange(admin, "GET", "/metrics").body.decode()
    assert len({one for turn in turns for one in turn}) == 4 * LIMIT, "the first pool has eight texts"
    assert 'vecsieve_own_reads_total{kind="grow"} 2' in text


@NEEDS_REDIS
def test_replicas_share_sessions_in_one_store_and_outlive_one_another_and_it(engine: str, tmp_path: Path) -> None:
    file = tmp_path / "vecsieve.yaml"
    with redis_server(tmp_path) as store:
        file.write_text(f"{FLOOR}sessions: {{url: '{store}', timeout_seconds: 5.0}}\n")
        with stack.serve(engine, "--config", str(file)) as (second, admin):
            with stack.serve(engine, "--config", str(file)) as (first, _):
                turns = [ids(replica, "moved") for replica in (first, second, first)]
            turns.append(ids(second, "moved"))
            results = [one for turn in turns for one in turn]
            assert len(results) == len(set(results)), "the second replica knows what the first gave, after its end too"
            with stack.serve(engine, "--config", str(file)) as (restarted, _):
                assert set(ids(restarted, "moved")).isdisjoint(results)
            os.kill(store_pid(store), signal.SIGKILL)
            assert ids(second, "moved") == ids(second, None), "without its store a search has no session"
            text = exchange(admin, "GET", "/metrics").body.decode()
            assert "vecsieve_session_store_failures_total 1" in text


def store_pid(url: str) -> int:
    redis = pytest.importorskip("redis")
    with redis.Redis.from_url(url) as client:
        return int(client.info("server")["process_id"])
