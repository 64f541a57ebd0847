"""Shadow's verdict beside the truth: the same searches through mode shadow and through mode on, over the demo's corpus and its real engine.

    PYTHONPATH=tests:. python -m prove.shadow_verdict [runs]

Each run draws its own searches: questions by Zipf's law, pages of 5 to 20. In mode on each search is also sent with the override `off`; the differences are the
truth. Prints for each figure in how many runs the truth is within the verdict's interval.
"""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from statistics import fmean, median
from typing import Any
from urllib.parse import urlsplit

import numpy as np

from support.qdrant.embedded import start_embedded_process
from vecsieve.proxy.demo.backends import QdrantCollection
from vecsieve.proxy.demo.corpus import Corpus, load
from vecsieve.proxy.demo.database import ANY_PORT, NAME, child

SEARCHES = 400
SIZES = (5, 8, 10, 20)
RUNS = 10
THINKING_SECONDS = (
    0.03  # a client embeds its question before it searches; without a pause every search would wait for a measurement
)
PATH = f"/collections/{NAME}/points/query"
Search = tuple[int, int]
NO_OVERRIDE: Mapping[str, str] = {}
OFF: Mapping[str, str] = {"x-vecsieve-mode": "off"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Truth:
    """What mode on did: a share of pages, and figures per page. ``added_ms``: the median of the differences in pairs."""

    changed: float
    removed: float
    arrived: float
    added_ms: float


class Client:
    """One connection."""

    def __init__(self, url: str, corpus: Corpus) -> None:
        self._connection = HTTPConnection(urlsplit(url).netloc, timeout=60)
        self._corpus = corpus

    def texts(self, search: Search, headers: Mapping[str, str] = NO_OVERRIDE) -> tuple[list[str], float]:
        """The texts of a page, and its milliseconds."""
        question, limit = search
        body = {"query": self._corpus.question_vectors[question].tolist(), "limit": limit, "with_payload": True}
        started = time.perf_counter()
        self._connection.request("POST", PATH, json.dumps(body), {"Content-Type": "application/json", **headers})
        answer = self._connection.getresponse().read()
        took = (time.perf_counter() - started) * 1000
        return [point["payload"]["text"] for point in json.loads(answer)["result"]["points"]], took

    def close(self) -> None:
        self._connection.close()


def drawn(corpus: Corpus, seed: int) -> list[Search]:
    """Popular questions come often; which ones are popular differs between runs."""
    draw, count = np.random.default_rng(seed), len(corpus.questions)
    weights = 1.0 / np.arange(1, count + 1)
    questions = draw.permutation(count)[draw.choice(count, size=SEARCHES, p=weights / weights.sum())]
    return [*zip(questions.tolist(), draw.choice(SIZES, size=SEARCHES).tolist(), strict=True)]


@contextmanager
def served(engine: str, mode: str) -> Iterator[list[str]]:
    """One VecSieve; its data and admin URLs."""
    arguments = ("serve", "--upstream", engine, "--mode", mode, "--listen", ANY_PORT, "--admin", ANY_PORT)
    announces = ("vecsieve serve listening on", "vecsieve serve admin on")
    with child(arguments, announces=announces) as urls:
        yield [urls[each] for each in announces]


def status(url: str) -> dict[str, Any]:
    with closing(HTTPConnection(urlsplit(url).netloc, timeout=60)) as connection:
        connection.request("GET", "/status")
        found: dict[str, Any] = json.loads(connection.getresponse().read())
        return found


def measured(engine: str, corpus: Corpus, searches: Sequence[Search]) -> tuple[dict[str, Any], Truth]:
    """The verdict once all measurements have ended, and the truth. Both take turns, because a shared machine is not as fast all the time."""
    changed, removed, arrived, added = list[bool](), list[int](), list[int](), list[float]()
    with served(engine, "shadow") as shadow, served(engine, "on") as on:
        with closing(Client(shadow[0], corpus)) as observed, closing(Client(on[0], corpus)) as client:
            for number, search in enumerate(searches):
                observed.texts(search)
                time.sleep(THINKING_SECONDS)
                order = (OFF, NO_OVERRIDE) if number % 2 else (NO_OVERRIDE, OFF)
                pages = {bool(headers): client.texts(search, headers) for headers in order}
                (plain, plain_ms), (page, page_ms) = pages[True], pages[False]
                changed.append(plain != page)
                removed.append((Counter(plain) - Counter(page)).total())
                arrived.append((Counter(page) - Counter(plain)).total())
                added.append(page_ms - plain_ms)
        count, before = -1, -2
        while count != before:
            time.sleep(1.0)  # a measurement takes some milliseconds
            verdict: dict[str, Any] = status(shadow[1])["verdict"]
            count, before = verdict["figures"]["pages"], count
    return verdict, Truth(
        changed=fmean(changed), removed=fmean(removed), arrived=fmean(arrived), added_ms=median(added)
    )


def compared(figures: dict[str, Any], truth: Truth) -> dict[str, tuple[float, list[float]]]:
    """The truth beside each estimate: value, low, high. What left is proven or judged; nearly all is proven here."""
    judged = figures["judged"][0]
    removed = [value + judged for value in figures["proven"]]
    rows = {
        "changed": (truth.changed, figures["changed"]),
        "removed": (truth.removed, removed),
        "arrived": (truth.arrived, figures["arrived"]),
    }
    times = figures["warm_ms"] or figures["cold_ms"]
    return rows if times is None else {**rows, "added_ms": (truth.added_ms, times)}


def main(runs: int) -> None:
    corpus, within = load(), Counter[str]()
    with start_embedded_process() as url:
        with closing(QdrantCollection(url)) as store:
            store.load(corpus, progress=lambda _: None)
        for seed in range(runs):
            searches = drawn(corpus, seed)
            verdict, truth = measured(url, corpus, searches)
            print(f"run {seed}: {verdict['sentence']}")
            for name, (value, (estimate, low, high)) in compared(verdict["figures"], truth).items():
                within[name] += low <= value <= high
                print(f"  {name:9} truth {value:7.3f}  verdict {estimate:7.3f} ({low:.3f} to {high:.3f})")
    print("within the interval:", ", ".join(f"{name} {count} of {runs}" for name, count in within.items()))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else RUNS)
