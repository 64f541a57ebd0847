"""Generated `_search` requests on OpenSearch or Elasticsearch, directly and in each mode: bytes in off and shadow, pages in on.

`make search-nodes`: the real nodes where OPENSEARCH_SERVER and ELASTICSEARCH_SERVER name them, else the server of the tests.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection
from typing import Any
from urllib.parse import urlsplit

import msgspec
from servers.opensearch.server import serving
from servers.opensearch.store import Product

from prove.search_requests import (
    ALIAS,
    CLEAN,
    COPIED,
    COPIES,
    DIMENSION,
    EVERYTHING,
    JSON,
    NDJSON,
    PLAIN,
    Drawn,
    documents,
    drawn,
    family,
)
from support.process import real_servers, stack

Json = dict[str, Any]
MODES = ("off", "shadow", "on")
PRINTED = 12
SLICE = 500  # requests between two lines of progress
AGAIN = 4  # direct answers that are compared before an answer is said to differ
SURELY = 60  # the same, where it must not: Elasticsearch has two answers to some searches of which a shard fails
TOOK = re.compile(rb'("?took"? ?: ?)\d+')
TOTAL = re.compile(rb'("total" ?: ?(?:\{\s*"value" ?: ?)?)\d+(?!\d|,"successful)')
SCORES = re.compile(rb'("(?:_score|max_score)" ?: ?|"sort" ?: ?\[\s*)[-0-9.E]+')
SCROLL = re.compile(rb'"_scroll_id" ?: ?"[^"]*"')
PER_CONNECTION = frozenset({"date", "connection", "keep-alive", "x-vecsieve"})
VARIABLES = {Product.OPENSEARCH: real_servers.OPENSEARCH, Product.ELASTICSEARCH: real_servers.ELASTICSEARCH}


@dataclass(frozen=True, slots=True)
class Answered:
    """``whole``: the body but for the time it took, and what has a name of its own each time."""

    status: int
    headers: tuple[tuple[str, str], ...]
    whole: bytes
    report: str

    @property
    def comparable(self) -> tuple[Any, ...]:
        return self.status, self.headers, self.whole


@dataclass
class Totals:
    """What came of the requests. ``totals``: pages whose `total` is that of the wider search; ``short``: with fewer results than there are
    families, because the client's own neighbours are fewer; ``reordered``: with hits whose members have another order, as the server
    writes them for the wider search. ``faults``: differences that must not be.
    """

    made: int = 0
    refused: int = 0
    changed: int = 0
    unstable: int = 0
    totals: int = 0
    reordered: int = 0
    short: int = 0
    faults: dict[str, list[str]] = field(default_factory=lambda: {mode: [] for mode in MODES})
    notes: list[str] = field(default_factory=list)
    reasons: Counter[str] = field(default_factory=Counter)


class Connection:
    """A client on one connection."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._made = HTTPConnection(parts.hostname or "", parts.port, timeout=60)

    def ask(self, method: str, target: str, body: bytes, kind: str = JSON) -> Answered:
        self._made.request(method, target, body, {"Content-Type": kind})
        reply = self._made.getresponse()
        text = reply.read()
        length = len(text)
        whole = SCROLL.sub(b'"_scroll_id":""', TOOK.sub(rb"\g<1>0", text))
        headers = {name.lower(): value for name, value in reply.getheaders() if name.lower() not in PER_CONNECTION}
        if headers.get("content-length") == str(length):
            headers["content-length"] = "right"  # the time it took has more digits or fewer
        report = reply.getheader("x-vecsieve") or ""
        return Answered(reply.status, tuple(sorted(headers.items())), whole, report)

    def close(self) -> None:
        self._made.close()


def fill(url: str, product: Product) -> None:
    """The indices of the requests."""
    vector: Json = {
        "type": "knn_vector",
        "dimension": DIMENSION,
        "method": {"name": "hnsw", "space_type": "cosinesimil", "engine": "lucene"},
    }
    settings: Json = {"number_of_shards": 1, "number_of_replicas": 0}
    if product is Product.OPENSEARCH:
        settings = {"index": {"knn": True, **settings}}
    else:
        vector = {"type": "dense_vector", "dims": DIMENSION, "similarity": "cosine", "index_options": {"type": "hnsw"}}
    title = {"properties": {"title": {"type": "text", "store": True}}}
    properties = {
        "v": vector,
        "text": {"type": "text"},
        "tag": {"type": "keyword"},
        "n": {"type": "integer"},
        "meta": title,
    }
    for name, copies in ((COPIED, COPIES), (CLEAN, 1)):
        _sent(url, "PUT", f"/{name}", {"settings": settings, "mappings": {"properties": properties}})
        lines = [line for identifier, source in documents(copies) for line in ({"index": {"_id": identifier}}, source)]
        _sent(url, "POST", f"/{name}/_bulk?refresh=true", lines)
    _sent(url, "PUT", f"/{PLAIN}", {"settings": settings})
    _sent(url, "PUT", f"/{PLAIN}/_doc/1?refresh=true", {"text": "no vector", "n": 1})
    _sent(url, "POST", "/_aliases", {"actions": [{"add": {"index": CLEAN, "alias": ALIAS}}]})


def _sent(url: str, method: str, target: str, body: Any) -> None:
    is_list = isinstance(body, list)
    text = "".join(json.dumps(line) + "\n" for line in body) if is_list else json.dumps(body)
    answer = stack.exchange(url, method, target, text.encode(), {"Content-Type": NDJSON if is_list else JSON})
    assert answer.status < 300, answer.body
    assert b'"errors":true' not in answer.body, answer.body


@contextmanager
def started(product: Product, *, is_real: bool = True) -> Iterator[str]:
    """A filled server: the real one where its program is named, and wanted."""
    program = real_servers.program(VARIABLES[product]) if is_real else None
    with serving(product) if program is None else real_servers.search_node(program) as url:
        fill(url, product)
        yield url


@contextmanager
def tallied(product: Product, *, seed: int, count: int) -> Iterator[tuple[str, Totals]]:
    """The server, and what came of so many requests."""
    is_whole = real_servers.program(VARIABLES[product]) is not None
    with started(product) as url, ExitStack() as opened:
        proxies = {
            mode: opened.enter_context(stack.serve(url, "--backend", product.value, "--mode", mode))[0]
            for mode in MODES
        }
        totals = Totals()
        for start in range(0, count, SLICE):
            compared(totals, url, proxies, product, seed + start, min(SLICE, count - start), is_whole=is_whole)
            faults = {mode: len(messages) for mode, messages in totals.faults.items()}
            print(f"{product.value}: {totals.made} requests, {totals.changed} pages changed, {faults}", file=sys.stderr)
        yield url, totals


def compared(
    totals: Totals, url: str, proxies: dict[str, str], product: Product, seed: int, count: int, *, is_whole: bool
) -> None:
    """So many requests, directly and through each proxy."""
    rng = random.Random(seed)
    direct, through = Connection(url), {mode: Connection(proxy) for mode, proxy in proxies.items()}
    for number in range(count):
        request = drawn(rng, product, is_whole=is_whole)
        reference = direct.ask(request.method, request.target, request.body, request.kind)
        totals.made += 1
        totals.refused += reference.status != 200
        for mode, connection in through.items():
            answer = connection.ask(request.method, request.target, request.body, request.kind)
            fault = judge(direct, request, reference, answer, mode, totals)
            if fault:
                totals.faults[mode].append(
                    f"{seed}/{number}: {fault}\n    {request.method} {request.target} {request.body[:900]!r}\n    {answer.report}"
                )
    for place in (direct, *through.values()):
        place.close()


def judge(direct: Connection, request: Drawn, reference: Answered, answer: Answered, mode: str, totals: Totals) -> str:
    """What is wrong with an answer; "" where nothing is."""
    if mode == "on":
        reason = re.search(r"bypass=(\w+)|status=(\w+)", answer.report)
        totals.reasons[(reason and (reason[1] or reason[2])) or answer.report[:40]] += 1
    if answer.comparable == reference.comparable:
        return ""
    for _ in range(AGAIN if mode == "on" else SURELY):
        if direct.ask(request.method, request.target, request.body, request.kind).comparable == answer.comparable:
            totals.unstable += 1
            return ""
    if mode != "on":
        return _difference(reference, answer)
    totals.changed += 1
    return _page_fault(direct, request, reference, answer, totals)


def _difference(reference: Answered, answer: Answered) -> str:
    if reference.status != answer.status:
        return f"status {reference.status} became {answer.status}: {answer.whole[:300]!r}"
    if reference.headers != answer.headers:
        return f"headers {dict(reference.headers)} became {dict(answer.headers)}"
    place = next(
        (at for at, pair in enumerate(zip(reference.whole, answer.whole, strict=False)) if pair[0] != pair[1]),
        min(len(reference.whole), len(answer.whole)),
    )
    return (
        f"at {place}: {reference.whole[place - 60 : place + 120]!r} became {answer.whole[place - 60 : place + 120]!r}"
    )


class _Hits(msgspec.Struct):
    hits: list[msgspec.Raw] = []


def _page_fault(direct: Connection, request: Drawn, reference: Answered, answer: Answered, counts: Totals) -> str:
    if reference.status != answer.status or reference.headers != answer.headers:
        return _difference(reference, answer)
    before, after = _parts(request, reference.whole), _parts(request, answer.whole)
    if len(before) != len(after):
        return f"{len(before)} answers became {len(after)}"
    for search, one, other in zip(request.searches, before, after, strict=True):
        if one != other and (fault := _part_fault(direct, request, search, one, other, counts)):
            return fault
    around = [_without_hits(whole, parts) for whole, parts in ((reference.whole, before), (answer.whole, after))]
    if around[0] == around[1]:
        return ""
    settled = [SCORES.sub(rb"\g<1>0", TOTAL.sub(rb"\g<1>0", whole)) for whole in around]
    if settled[0] != settled[1]:
        return f"around the hits: {around[0][:500]!r} became {around[1][:500]!r}"
    totals = [[match[0] for match in TOTAL.finditer(whole)] for whole in around]
    if totals[0] != totals[1]:
        counts.totals += 1
        counts.notes.append(f"total {totals[0]} became {totals[1]}\n    {request.target} {request.body[:900]!r}")
    return ""


def _parts(request: Drawn, whole: bytes) -> list[tuple[bytes, ...]]:
    """The hits of each search, as they are written; none of a refused one."""
    document = msgspec.json.decode(whole, type=dict[str, msgspec.Raw])
    answers = [whole]
    if request.is_list:
        answers = [
            bytes(part) for part in msgspec.json.decode(document.get("responses", b"[]"), type=list[msgspec.Raw])
        ]
    made = []
    for answer in answers:
        raw = msgspec.json.decode(answer, type=dict[str, msgspec.Raw]).get("hits")
        hits = [] if raw is None else msgspec.json.decode(bytes(raw), type=_Hits).hits
        made.append(tuple(map(bytes, hits)))
    return made


def _without_hits(whole: bytes, parts: Sequence[Sequence[bytes]]) -> bytes:
    for part in parts:
        for hit in part:
            whole = whole.replace(hit, b"", 1)
    return re.sub(rb'("hits"\s*:\s*)\[[,\s]*\]', rb"\g<1>[]", whole)


def _part_fault(
    direct: Connection,
    request: Drawn,
    search: tuple[str, Json],
    reference: Sequence[bytes],
    page: Sequence[bytes],
    totals: Totals,
) -> str:
    """What is wrong with one page. ``shallow``: the client's own ranking, whole; ``deep``: with as many neighbours as there are."""
    shallow, deep = (_everything(direct, request, search, is_deep=is_deep) for is_deep in (False, True))
    given = {_unscored(hit) for hit in (*reference, *shallow, *deep)}
    if not {_unscored(hit) for hit in page} <= given:
        if not {_unordered(hit) for hit in page} <= {_unordered(hit) for hit in given}:
            return f"hits that the server does not give: {[hit[:200] for hit in page]}"
        totals.reordered += 1
        totals.notes.append(
            f"reordered\n    {request.target} {request.body[:900]!r}\n    {page[0][:300]!r}\n    {reference[0][:300]!r}"
        )
    scores = [float(score) for hit in page if (score := json.loads(hit).get("_score")) is not None]
    if scores != sorted(scores, reverse=True):
        return f"not in the server's order: {scores}"
    families, first = [_id(hit) for hit in page if _id(hit)], _first(request, search[1])
    left = [max(0, len({_id(hit) for hit in ranking}) - first) for ranking in (shallow, deep)]
    totals.short += len(page) < min(len(reference), left[1])
    if len(page) < min(len(reference), left[0]):
        return f"{len(page)} results, directly {len(reference)}, of {left} families from {first}"
    if len(set(families)) < len(families) and left[0] >= len(reference):
        return f"copies stand beside each other: {families}"
    return ""


def _unscored(hit: bytes) -> bytes:
    """Without the score: Elasticsearch gives a document one that differs by 1e-4 where more are examined, and a sum has more parts."""
    return SCORES.sub(rb"\g<1>0", hit)


def _id(hit: bytes) -> str:
    return family(json.loads(hit).get("_id", "")) if hit else ""


def _first(request: Drawn, body: Json) -> int:
    given = re.search(r"[?&]from=(\d+)", request.target)
    return int(given[1]) if given else int(float(body.get("from") or 0))


def _unordered(hit: bytes) -> str:
    return json.dumps(json.loads(_unscored(hit)), sort_keys=True)


def _everything(direct: Connection, request: Drawn, search: tuple[str, Json], *, is_deep: bool) -> list[bytes]:
    names, body = search
    size = int(float(body.get("size") or 10))
    url_size = re.search(r"[?&]size=(\d+)", request.target)
    ranked = _counted(body, None if is_deep else int(url_size[1]) if url_size else size)
    wide = {**ranked, "size": EVERYTHING, "from": 0}
    url = re.sub(r"(size|from)=\d+&?", "", request.target.partition("?")[2])
    answer = direct.ask("POST", f"/{names}/_search?{url}", json.dumps(wide).encode())
    return list(_parts(Drawn("POST", "", b"", JSON, ()), answer.whole)[0]) if answer.status == 200 else []


def _counted(value: Any, size: int | None) -> Any:
    """The same with every number of neighbours at its most, or for that size: it is what Elasticsearch takes where none is said."""
    if isinstance(value, list):
        return [_counted(item, size) for item in value]
    if not isinstance(value, dict):
        return value
    made = {name: _counted(item, size) for name, item in value.items()}
    if "vector" in made and "k" in made and size is None:
        made["k"] = EVERYTHING
    if "query_vector" in made:
        made = {**made, "k": EVERYTHING, "num_candidates": EVERYTHING} if size is None else {"k": max(size, 1), **made}
    return made


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("count", type=int, nargs="?", default=20_000)
    parser.add_argument("--seed", type=int, default=time.time_ns() % 1_000_000)
    parser.add_argument("--only", choices=[product.value for product in Product])
    given, status = parser.parse_args(), 0
    for product in Product:
        if given.only not in {None, product.value}:
            continue
        with tallied(product, seed=given.seed, count=given.count) as (_, totals):
            pass
        faults = {mode: len(messages) for mode, messages in totals.faults.items()}
        print(
            f"{product.value}, seed {given.seed}: {totals.made} requests, {totals.refused} refused, {totals.changed} pages changed, {totals.totals} with another total, {totals.short} short, {totals.reordered} reordered, {totals.unstable} unstable; differences {faults}"
        )
        print("  on:", dict(totals.reasons.most_common()))
        for mode, messages in (*totals.faults.items(), ("on, no fault:", totals.notes)):
            for fault in messages[:PRINTED]:
                print(f"  {mode} {fault}")
        status |= int(any(faults.values()) or not totals.changed)
    return status


if __name__ == "__main__":
    sys.exit(main())
