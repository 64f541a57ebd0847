"""Every interceptable call, over collections of the real engine, through the proxy's own process."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pytest

from support.process.stack import Answer, exchange
from support.qdrant import planted
from support.qdrant.planted import Asked

METRICS = sorted(planted.METRICS)


def everything(prefix: str) -> list[Asked]:
    return [asked for metric in METRICS for asked in both(f"{prefix}_{metric}")]


def both(collection: str) -> Iterator[Asked]:
    yield from planted.requests(collection)
    yield from planted.batches(collection)


def identify(asked: Asked) -> str:
    return f"{asked.path.split('/')[2]}-{asked.name}"


def ask(url: str, asked: Asked) -> Answer:
    return exchange(url, "POST", asked.path, asked.body)


ALL = [*everything("clean"), *everything("copied"), *planted.named_requests("named")]
EACH_ENDPOINT = list({asked.path: asked for asked in ALL}.values())
OTHER_METRICS = tuple(f"_{metric}" for metric in METRICS if metric != "cosine")


def parameters(requests: Iterable[Asked], always: Sequence[Asked] = ()) -> list[Any]:
    """Of metrics other than the first, `make deep` alone asks what does not stand in ``always``."""
    return [
        pytest.param(
            asked,
            id=identify(asked),
            marks=[pytest.mark.deep]
            if asked.path.split("/")[2].endswith(OTHER_METRICS) and asked not in always
            else [],
        )
        for asked in requests
    ]


# What a client selects of a point does not depend on the metric: of the others, one of each endpoint is enough.
CLEAN = parameters(everything("clean"), always=EACH_ENDPOINT)
COPIED = parameters(
    [asked for metric in METRICS for asked in planted.requests(f"copied_{metric}")], always=EACH_ENDPOINT
)


@pytest.mark.parametrize("asked", CLEAN)
def test_in_on_an_answer_without_duplicates_is_upstreams_own_bytes(engine: str, on: str, asked: Asked) -> None:
    direct, through = ask(engine, asked), ask(on, asked)
    assert direct.status == 200
    assert through.timeless == direct.timeless


def results(answer: Answer, asked: Asked) -> list[dict[str, Any]]:
    found = json.loads(answer.body)["result"]
    return found["points"] if asked.results == "points" else found  # type: ignore[no-any-return]  # - parsed JSON


def widened(asked: Asked, limit: int = 240) -> Asked:
    body = json.loads(asked.body)
    body.pop("top", None)
    body["limit"] = limit
    return Asked(asked.name, asked.path, json.dumps(body).encode(), limit, asked.results)


@pytest.mark.parametrize("asked", COPIED)
def test_in_on_with_planted_copies_the_results_are_distinct_in_order_full_and_upstreams_own_bytes(
    engine: str, on: str, asked: Asked
) -> None:
    everyone = ask(engine, widened(asked))
    ranking = [point["id"] for point in results(everyone, asked)]
    through = ask(on, asked)
    points = results(through, asked)
    found = [point["id"] for point in points]
    families = {planted.family(identifier) for identifier in ranking}
    assert len(found) == min(asked.top_k, len(ranking))
    assert len({planted.family(identifier) for identifier in found}) == min(asked.top_k, len(families))
    assert found == sorted(found, key=ranking.index), "a subsequence of upstream's order"
    assert found[0] == ranking[0], "the first result is upstream's first"
    inside = through.body[through.body.index(b"[") + 1 : through.body.rindex(b"]")]
    pieces = inside.replace(b'},{"id":', b'}\n{"id":').split(b"\n")
    assert len(pieces) == len(points)
    assert all(piece in everyone.body for piece in pieces), "each as upstream writes it"


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("asked", [0, 1, 2])
def test_batches_keep_their_count_and_order_and_leave_alone_what_is_not_ours(
    engine: str, on: str, metric: str, asked: int
) -> None:
    batch = list(planted.batches(f"copied_{metric}"))[asked]
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
    found: list[dict[str, Any]] = item["points"] if isinstance(item, dict) else item
    return found


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
    found: list[int] = []
    for offset in range(0, total, step):
        body = {"query": {"nearest": planted.query_vector(9)}, "limit": min(step, total - offset), "offset": offset}
        answer = exchange(url, "POST", f"/collections/{collection}/points/query", json.dumps(body).encode())
        found += [point["id"] for point in json.loads(answer.body)["result"]["points"]]
    return found
