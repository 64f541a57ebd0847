"""The inspector over real processes: what a search leaves there, with one process and with two workers."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from support.process import stack
from support.process.stack import eventually, exchange
from support.qdrant.embedded import start_embedded_process

COLLECTION = "c"


@pytest.fixture(scope="module")
def engine() -> Iterator[str]:
    with start_embedded_process() as url:
        vectors = {"size": 4, "distance": "Cosine"}
        exchange(url, "PUT", f"/collections/{COLLECTION}", json.dumps({"vectors": vectors}).encode())
        points = [
            {
                "id": 2 * row + copy,
                "vector": [1.0, row / 4, row * row / 16, 0.0],
                "payload": {"text": f"text {row} CANARY"},
            }
            for row in range(10)
            for copy in (0, 1)
        ]
        exchange(url, "PUT", f"/collections/{COLLECTION}/points?wait=true", json.dumps({"points": points}).encode())
        yield url


def searched(url: str, number: int = 0) -> None:
    body = json.dumps({"query": [1.0, 0.1 + number / 1e4, 0.0, 0.0], "limit": 4}).encode()
    assert exchange(url, "POST", f"/collections/{COLLECTION}/points/query", body).status == 200


def read(admin: str, path: str) -> dict[str, object]:
    answer = exchange(admin, "GET", path)
    assert answer.status == 200, answer.body
    page: dict[str, object] = json.loads(answer.body)
    return page


@pytest.mark.parametrize("workers", ["1", "2"])
def test_searches_and_their_texts_are_there_without_a_setting(engine: str, workers: str) -> None:
    with stack.serve(engine, "--workers", workers) as (proxy, admin):
        for number in range(8):  # a question asked again fetches no whole pool to look at
            searched(proxy, number)
        rows = eventually(lambda: listed(admin), lambda seen: len(seen) >= 8)
        assert [(row["collection"], row["results"], row["repeats"]) for row in rows] == [(COLLECTION, 4, 2)] * 8
        answer = exchange(admin, "GET", f"/api/searches/{rows[-1]['number']}")
        detail = json.loads(answer.body)
        assert len(detail["kept"]) == 4
        assert {candidate["reason"] for candidate in detail["left_out"]} >= {"equal_text"}
        assert b"CANARY" in answer.body
        (counted,) = json.loads(exchange(admin, "GET", "/api/collections").body)["collections"]
        assert (counted["searches"], counted["repeats"]) == (8, 16)
        assert read(admin, "/egress")["searches"] == 8
        cost = read(admin, "/api/cost")
        assert cost["outcomes"] == {"dedup": 8}
        assert len(json.loads(exchange(admin, "GET", "/explain").body)["records"]) == 8
        # Of a burst not all are taken.
        total = eventually(lambda: judged(admin, "threshold=0"), lambda seen: seen["searches"] >= 4)
        assert total["dropped_now"] == 2 * total["searches"]
        assert judged(admin, "preset=vectors&mmr_lambda=0.5")["searches"] >= total["searches"]
        assert exchange(admin, "GET", "/api/whatif?certainty=2").status == 400


def judged(admin: str, query: str) -> dict[str, int]:
    """The counts of what if."""
    totals: dict[str, int] = json.loads(exchange(admin, "GET", f"/api/whatif?{query}").body)["total"]
    return totals


def listed(admin: str) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = json.loads(exchange(admin, "GET", "/api/searches").body)["searches"]
    return rows


def test_texts_are_kept_nowhere_where_the_settings_say_so(engine: str) -> None:
    with stack.serve(engine, environment={"VECSIEVE_EXPLAIN_TEXTS": "false"}) as (proxy, admin):
        searched(proxy)
        (row,) = listed(admin)
        for path in ("/api/searches", f"/api/searches/{row['number']}", "/explain"):
            assert b"CANARY" not in exchange(admin, "GET", path).body


def test_texts_are_there_where_the_settings_ask_for_them(engine: str) -> None:
    with stack.serve(engine, environment={"VECSIEVE_EXPLAIN_TEXTS": "true"}) as (proxy, admin):
        searched(proxy)
        detail = json.loads(exchange(admin, "GET", f"/api/searches/{listed(admin)[0]['number']}").body)
        assert all(result["text"].endswith("CANARY") for result in (*detail["kept"], *detail["left_out"]))
