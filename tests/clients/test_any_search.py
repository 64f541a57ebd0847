"""Any search on any collection of the real engine, as properties: off and shadow say what a direct call says, on says a
part of it.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from hypothesis import event, given, note, settings
from hypothesis import strategies as st

from support.exchanges.any_collection import Collection, collections, random_vector
from support.exchanges.any_ranking import EVERYONE, Point, Ranking, is_unordered, loaded, report_of, widest
from support.exchanges.any_request import Request, missing, requests
from support.process.stack import Answer, exchange
from support.qdrant import planted

PAGED_EXAMPLES = settings().max_examples // 6  # each asks for a hundred pages


def ask(url: str, collection: Collection, request: Request) -> Answer:
    return exchange(url, "POST", collection.path + request.path, request.text)


def same(one: Answer, other: Answer, collection: Collection, request: Request) -> bool:
    """Byte for byte; value for value where the engine shuffles members, and scores alone where it shuffles ties."""
    if one.status != other.status:
        return False
    if one.status == 200 and any("prefetch" in item for item in request.items):
        return scores(one, request) == scores(other, request)
    if collection.shuffles and one.status == 200:
        return bool(json.loads(one.timeless) == json.loads(other.timeless))
    return one.timeless == other.timeless


def scores(answer: Answer, request: Request) -> list[list[float]]:
    return [[json.loads(point)["score"] for point in points] for points in request.results(answer.body)]


@given(data=st.data())
def test_off_and_shadow_answer_what_a_direct_call_answers(
    data: st.DataObject, engine: str, off: str, shadow: str
) -> None:
    collection = data.draw(collections())
    with loaded(engine, collection):
        for request in data.draw(st.lists(requests(collection), min_size=1, max_size=4)):
            if is_unordered(request):
                continue
            direct = ask(engine, collection, request)
            note(f"{request.path} {request.text.decode()} -> {direct.status} {direct.body[:300]!r}")
            for url in (off, shadow):
                through = ask(url, collection, request)
                assert same(through, direct, collection, request), (direct, through)


@given(data=st.data())
def test_on_answers_a_part_of_what_a_direct_call_answers(data: st.DataObject, engine: str, on: str) -> None:
    collection = data.draw(collections())
    with loaded(engine, collection):
        for request in data.draw(st.lists(requests(collection), min_size=1, max_size=5)):
            direct, through = ask(engine, collection, request), ask(on, collection, request)
            note(f"{request.path} {request.text.decode()}\n-> {direct.status} {direct.body[:2000]!r}")
            note(f"through: {through.headers} {through.body[:2000]!r}")
            event(f"{request.operation} {direct.status} {'ours' if through.header('x-vecsieve') else 'not ours'}")
            check(engine, collection, request, direct=direct, through=through)


def check(engine: str, collection: Collection, request: Request, *, direct: Answer, through: Answer) -> None:
    assert through.status == direct.status
    if direct.status != 200:
        assert through.timeless == direct.timeless
        return
    assert envelope(through) == envelope(direct)
    lists = [request.results(answer.body) for answer in (direct, through)]
    report = report_of(through.header("x-vecsieve"))
    assert missing(*lists) == report.get("short", 0), "as many as a direct call gives, or said to be short"
    if is_unordered(request):
        return
    for original, result, item in zip(*lists, request.items, strict=True):
        everyone = ask(engine, collection, request.of(widest(item)))
        if everyone.status != 200:  # an unknown vector is an error only where there is a point to look for it
            assert original == result == []
            continue
        ranking = Ranking.of(request.of(item).results(everyone.body)[0], read)
        ranking.check(result, item, collection, plain=original, report=report, is_batch=request.is_batch)


def read(point: bytes) -> Point:
    value = json.loads(point)
    return Point(value["id"], value["score"], value)


def envelope(answer: Answer) -> list[tuple[str, Any]]:
    """All members but the result and the time, in their order."""
    whole = json.loads(answer.timeless)
    return [(name, None if name == "result" else value) for name, value in whole.items()]


@settings(max_examples=PAGED_EXAMPLES)
@given(data=st.data(), step=st.integers(2, 60))
def test_pages_of_every_size_are_slices_of_one_sequence_of_everyone(
    data: st.DataObject, step: int, engine: str, on: str
) -> None:
    """Each page is in upstream's order. Where scores tie, upstream's own pages disagree: then the scores are compared."""
    collection = data.draw(collections())
    name, size, _ = data.draw(st.sampled_from([shape for shape in collection.shapes if shape[1]]))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**16)))
    query = random_vector(rng, size, multi=name in collection.multi)
    item = {"query": query, **({"using": name} if name else {})}
    with loaded(engine, collection):
        everyone = Ranking.of(pages(engine, collection, item, step=EVERYONE, total=EVERYONE), read)
        count = len(everyone.scores)
        # The proxy may know another collection of this name, and what it knows costs one search its improvement.
        pages(on, collection, item, step=2, total=2)
        one_by_one = pages(on, collection, item, step=1, total=min(count, 70))
        paged = pages(on, collection, item, step=step, total=count)
    has_ties = len(set(everyone.scores)) < count
    event("ties" if has_ties else "no ties")
    order: list[Any] = everyone.scores if has_ties else list(everyone.texts.values())
    if not has_ties:
        assert sorted(paged) == sorted(everyone.texts.values()), "everyone once"
    for offset in range(0, len(one_by_one) - step + 1, step):
        slices = [
            [json.loads(point)["score"] if has_ties else point for point in sequence[offset : offset + step]]
            for sequence in (one_by_one, paged)
        ]
        assert slices[1] == sorted(slices[0], key=order.index), offset


def pages(url: str, collection: Collection, item: dict[str, Any], *, step: int, total: int) -> list[bytes]:
    results: list[bytes] = []
    for offset in range(0, total, step):
        request = Request(
            "query",
            ({**item, "limit": min(step, total - offset), "offset": offset, "with_payload": True},),
            False,
            None,
        )
        answer = ask(url, collection, request)
        assert answer.status == 200, answer.body
        results += request.results(answer.body)[0]
    return results


def test_a_batch_item_too_large_to_widen_comes_back_as_its_own_bytes_beside_one_that_is_widened(
    engine: str, on_admin: tuple[str, str]
) -> None:
    on, admin = on_admin
    vector = planted.query_vector(1)
    for large in ({"limit": 300}, {"limit": 4, "offset": 2_000}, {"limit": 2, "offset": 298, "with_vector": [""]}):
        searches = ({"query": vector, **large}, {"query": vector, "limit": 5})
        request = Request("query", searches, is_batch=True, indent=None)
        direct, through = (
            exchange(url, "POST", f"/collections/copied_cosine{request.path}", request.text) for url in (engine, on)
        )
        original, results = request.results(direct.body), request.results(through.body)
        assert results[0] == original[0]
        assert results[1] != original[1]
    assert b'candidates_unusable_total{backend="qdrant"} 0.0' in exchange(admin, "GET", "/metrics").body
