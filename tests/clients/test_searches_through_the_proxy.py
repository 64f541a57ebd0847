"""Every interceptable call, over collections of the real engine, through the proxy's own process."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pytest

from support.process.stack import Answer, exchange
from support.qdrant import planted
from support.qdrant.planted import PlantedRequest

METRICS = sorted(planted.METRICS)


def everything(prefix: str) -> list[PlantedRequest]:
    return [request for metric in METRICS for request in both(f"{prefix}_{metric}")]


def both(collection: str) -> Iterator[PlantedRequest]:
    yield from planted.requests(collection)
    yield from planted.batches(collection)


def identify(search: PlantedRequest) -> str:
    return f"{search.path.split('/')[2]}-{search.name}"


def ask(url: str, search: PlantedRequest) -> Answer:
    return exchange(url, "POST", search.path, search.body)


ALL = [*everything("clean"), *everything("copied"), *planted.named_requests("named")]
ALL_ENDPOINTS = list({request.path: request for request in ALL}.values())
OTHER_METRICS = tuple(f"_{metric}" for metric in METRICS if metric != "cosine")


def parameters(requests: Iterable[PlantedRequest], always: Sequence[PlantedRequest] = ()) -> list[Any]:
    """Of metrics other than the first, `make deep` alone asks what does not stand in ``always``."""
    return [
        pytest.param(
            search,
            id=identify(search),
            marks=[pytest.mark.deep]
            if search.path.split("/")[2].endswith(OTHER_METRICS) and search not in always
            else [],
        )
        for search in requests
    ]


# What a client selects of a point does not depend on the metric: of the others, one of each endpoint is enough.
CLEAN = parameters(everything("clean"), always=ALL_ENDPOINTS)
COPIED = parameters(
    [request for metric in METRICS for request in planted.requests(f"copied_{metric}")], always=ALL_ENDPOINTS
)


@pytest.mark.parametrize("search", CLEAN)
def test_in_on_an_answer_without_duplicates_is_upstreams_own_bytes(
    engine: str, on: str, search: PlantedRequest
) -> None:
    direct, through = ask(engine, search), ask(on, search)
    assert direct.status == 200
    assert through.timeless == direct.timeless


def results(answer: Answer, search: PlantedRequest) -> list[dict[str, Any]]:
    content = json.loads(answer.body)["result"]
    return content["points"] if search.results == "points" else content  # type: ignore[no-any-return]  # - parsed JSON


def widened(search: PlantedRequest, limit: int = 240) -> PlantedRequest:
    body = json.loads(search.body)
    body.pop("top", None)
    body["limit"] = limit
    return PlantedRequest(search.name, search.path, json.dumps(body).encode(), limit, search.results)


@pytest.mark.parametrize("search", COPIED)
def test_in_on_with_planted_copies_the_results_are_distinct_in_order_full_and_upstreams_own_bytes(
    engine: str, on: str, search: PlantedRequest
) -> None:
    everyone = ask(engine, widened(search))
    ranking = [point["id"] for point in results(everyone, search)]
    through = ask(on, search)
    points = results(through, search)
    ids = [point["id"] for point in points]
    families = {planted.family(identifier) for identifier in ranking}
    assert len(ids) == min(search.top_k, len(ranking))
    assert len({planted.family(identifier) for identifier in ids}) == min(search.top_k, len(families))
    assert ids == sorted(ids, key=ranking.index), "a subsequence of upstream's order"
    assert ids[0] == ranking[0], "the first result is upstream's first"
    inside = through.body[through.body.index(b"[") + 1 : through.body.rindex(b"]")]
    pieces = inside.replace(b'},{"id":', b'}\n{"id":').split(b"\n")
    assert len(pieces) == len(points)
    assert all(piece in everyone.body for piece in pieces), "each as upstream writes it"


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("size", [0, 1, 2])
def test_batches_keep_their_count_and_order_and_leave_alone_what_is_not_ours(
    engine: str, on: str, metric: str, size: int
) -> None:
    batch = list(planted.batches(f"copied_{metric}"))[size]
    direct = json.loads(ask(engine, batch).body)["result"]
    through = json.loads(ask(on, batch).body)["result"]
    assert len(through) == len(direct)
    assert [len(_points(item)) for item in through] == [len(_points(item)) for item in direct]
    first = [planted.family(point["id"]) for point in _points(through[0])]
    assert len(set(first)) == len(first)
    if batch.name == "query-batch":
        assert through[1] == direct[1]
        assert through[3:] == direct[3:]


def _points(item: Any) -> list[dict[str, Any]]:
    hits: list[dict[str, Any]] = item["points"] if isinstance(item, dict) else item
    return hits


def test_paging_in_steps_of_several_sizes_gives_one_sequence_without_repeats_or_gaps(engine: str, on: str) -> None:
    agree(engine, on, "cosine", (3, 7, 8, 20))


@pytest.mark.deep  # 143 whole searches a metric
@pytest.mark.parametrize("metric", METRICS)
def test_paging_in_steps_of_every_size_gives_the_same_for_every_metric(engine: str, on: str, metric: str) -> None:
    agree(engine, on, metric, (1, 2, 3, 5, 7, 8, 20))


def agree(engine: str, on: str, metric: str, steps: tuple[int, ...]) -> None:
    collection = f"copied_{metric}"
    sequences = {step: paged(on, collection, step, planted.BASES) for step in (*steps, planted.BASES)}
    reference = sequences[planted.BASES]
    ranking = paged(engine, collection, 240, 240)
    assert len(reference) == planted.BASES
    assert len({planted.family(identifier) for identifier in reference}) == planted.BASES, (
        "no gaps: every base is there"
    )
    assert reference == sorted(reference, key=ranking.index)
    for step, sequence in sequences.items():
        assert sequence == reference, f"in steps of {step}"


def paged(url: str, collection: str, step: int, total: int) -> list[int]:
    ids: list[int] = []
    for offset in range(0, total, step):
        body = {"query": {"nearest": planted.query_vector(9)}, "limit": min(step, total - offset), "offset": offset}
        answer = exchange(url, "POST", f"/collections/{collection}/points/query", json.dumps(body).encode())
        ids += [point["id"] for point in json.loads(answer.body)["result"]["points"]]
    return ids
