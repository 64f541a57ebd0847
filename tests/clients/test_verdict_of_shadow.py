"""Mode shadow over a real engine: one verdict, in the same words in `/status`, in `vecsieve check --watch` and at the end; for one process and for workers."""

from __future__ import annotations

import json
from contextlib import closing
from urllib.parse import urlsplit

import pytest
from qdrant_client import QdrantClient

from support.process.commands import forked_command
from support.process.stack import command, exchange
from support.qdrant import planted
from support.qdrant.embedded import start_embedded_process

SEARCHES = 40


def fill(engine: str) -> None:
    """Twenty texts, each stored twice."""
    words = [
        "oak",
        "elm",
        "ash",
        "fir",
        "yew",
        "bay",
        "box",
        "may",
        "fig",
        "pear",
        "plum",
        "lime",
        "sloe",
        "rowan",
        "holly",
        "hazel",
        "cedar",
        "birch",
        "maple",
        "willow",
    ]
    texts = [f"The {word} in row {row} was planted by the gardener of {words[-row]}" for row, word in enumerate(words)]
    with closing(QdrantClient(url=engine, timeout=30)) as client:
        rows = [(n, [1.0, n / 10, 0.5], {"text": texts[n // 2]}) for n in range(2 * len(words))]
        planted.fill(client, "docs", rows)


def search(proxy: str, number: int) -> None:
    body = {"query": [1.0, number / 10, 0.5], "limit": 8, "with_payload": True}
    answer = exchange(proxy, "POST", "/collections/docs/points/query", json.dumps(body).encode())
    assert answer.status == 200


@pytest.mark.parametrize("workers", [1, 2])
def test_every_outlet_says_the_same(workers: int) -> None:
    address = "127.0.0.1:0"
    arguments = ("--mode", "shadow", "--workers", str(workers), "--listen", address, "--admin", address)
    with start_embedded_process() as engine:
        fill(engine)
        with command("serve", "--upstream", engine, *arguments) as served:
            urls = served.addresses(2)
            for number in range(SEARCHES):
                search(urls["serve"], number)
            watched = forked_command("check", "--watch", VECSIEVE_ADMIN=urlsplit(urls["admin"]).netloc)
            assert watched.returncode == 0, watched.stderr
            verdict = json.loads(exchange(urls["admin"], "GET", "/status").body)["verdict"]
            served.close()
            last = served.output()
    assert "verdict      Go: mode on would change 100 % (" in watched.stdout
    assert verdict["sentence"].startswith("Go: mode on would change 100 % (")
    assert [collection["collection"] for collection in verdict["collections"]] == ["docs"]
    figures = verdict["figures"]
    assert 3.0 < figures["proven"][0] == figures["arrived"][0] <= 4.0
    assert figures["judged"][0] == 0.0
    assert figures["tokens"][0] > 40
    assert f"{SEARCHES} searches. Go: mode on would change 100 % (" in last
    assert "Results that came in: 3." in last
    assert "docs" not in last.partition("searches. Go: ")[2]
