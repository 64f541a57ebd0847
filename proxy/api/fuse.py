"""`POST /v1/fuse`: removes near-duplicates from each ranked list, fuses the lists, and removes near-duplicates from the fused list.

Different databases have different ids. So the fusion identifies a result by its text, ignoring case, layout and punctuation around
words. A result without text is identified by its id. The fused score is the sum over all lists. Near-duplicates are found by the walk of
/v1/optimize: by embeddings within one list. In the fused list it compares words only, if the lists have different models.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from vecsieve.adapters.fused_scores import Ranked, dbsf, rrf

from ..selection.values import FloatMatrix
from .messages import (
    MOST_CHUNKS,
    Chunk,
    Count,
    Distance,
    Metadata,
    OwnId,
    check_chunk,
    own_id,
    vectors_of,
    whole,
)
from .problems import decoded, invalid
from .walk import Leaders, Reader, Stage, Walk, Words

MOST_LISTS = 16
LARGEST_SCORE = 1e15  # `dbsf` sums up to 500 squared scores in 32-bit floats


class Result(Chunk, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One result of a list. Only `dbsf` uses its score."""

    score: Annotated[float, Meta(ge=-LARGEST_SCORE, le=LARGEST_SCORE, description="Higher is better.")] = 0.0


class RankedList(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The results of one search, the best first."""

    results: list[Result]
    name: str | None = None
    weight: Annotated[
        float, Meta(ge=0.0, le=1e6, description="For `rrf`: the ranks of this list are divided by the weight.")
    ] = 1.0
    model: Annotated[
        str | None, Meta(description="Embedding model. Embeddings of different models are not compared.")
    ] = None


class FuseRequest(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Lists to fuse, and how."""

    lists: Annotated[list[RankedList], Meta(min_length=1, max_length=MOST_LISTS)]
    method: Literal["rrf", "dbsf"] = "rrf"
    k: Annotated[Count, Meta(description="For `rrf`: rank r (from 1) scores 1 / (r / weight + k - 1).")] = 60
    target_k: Count = 8
    semantic_dedup_threshold: Annotated[float, Meta(gt=0.0, le=2.0)] = 0.001
    dedup_threshold: Distance = 0.15


class Place(Struct, frozen=True, kw_only=True):
    """The position of a result: number of the list (from 0), name of the list, rank (from 1), id of the result."""

    list: int
    name: str | None
    rank: int
    id: OwnId


class FusedResult(Struct, frozen=True, kw_only=True):
    """A result with its fused score. Id, text and metadata are those of the first list that has it."""

    id: OwnId
    text: str
    score: float
    metadata: Metadata
    found_in: list[Place]


class RemovedResult(Struct, frozen=True, kw_only=True):
    """A removed result, the stage that removed it, and the result that it repeats."""

    place: Place
    stage: Stage
    repeats: Place | None


class FuseStats(Struct, frozen=True, kw_only=True):
    """Figures of one request. ``removed_within``: copies removed within lists. ``removed_after``: copies removed from the fused list."""

    input_count: int
    output_count: int
    removed_within: int
    removed_after: int
    latency_ms: float


class FuseResponse(Struct, frozen=True, kw_only=True):
    """The results by fused score, the removed results with their reasons, and figures."""

    results: list[FusedResult]
    removed: list[RemovedResult]
    stats: FuseStats


Key = tuple[str, OwnId]
_DECODER = msgspec.json.Decoder(FuseRequest)


def fuse(body: bytes) -> bytes:
    """The handler of the endpoint. Raises ProblemError."""
    began = time.perf_counter()
    request = decoded(_DECODER, body)
    results, within, after = _fused(request, whole(request.k, "$.k"), whole(request.target_k, "$.target_k"))
    count = sum(len(each.results) for each in request.lists)
    answer = FuseResponse(
        results=results,
        removed=within + after,
        stats=FuseStats(
            input_count=count,
            output_count=len(results),
            removed_within=len(within),
            removed_after=sum(each.stage is not Stage.TARGET for each in after),
            latency_ms=round(1000.0 * (time.perf_counter() - began), 3),
        ),
    )
    return msgspec.json.encode(answer) + b"\n"


@dataclass(frozen=True, slots=True)
class _Item:
    """One result of one list. ``key``: results with equal keys are one result in the fusion."""

    result: Result
    place: Place
    words: Words
    vector: FloatMatrix | None

    @property
    def key(self) -> Key:
        return ("text", self.words.key) if self.words.key else ("id", self.place.id)


@dataclass(frozen=True, slots=True)
class _Removed:
    item: _Item
    stage: Stage
    repeats: _Item | None

    def told(self, place: Place) -> RemovedResult:
        repeats = None if self.repeats is None else self.repeats.place
        return RemovedResult(place=place, stage=self.stage, repeats=repeats)


def _fused(
    request: FuseRequest, k: int, target_k: int
) -> tuple[list[FusedResult], list[RemovedResult], list[RemovedResult]]:
    """The results, what was removed within lists, and what was removed from the fused list."""
    within: list[_Removed] = []
    lists: list[list[_Item]] = []
    for items in _items(request):
        kept, removed = _distinct(items, request)
        lists.append(kept)
        within += removed
    places: dict[Key, list[_Item]] = {}
    for items in lists:
        for item in items:
            places.setdefault(item.key, []).append(item)
    ranked = _ranked(request, lists, k)
    is_one_model = len({each.model for each in request.lists}) == 1
    order = [places[key][0] for key, _ in ranked]
    kept, after = _distinct(order, request, by_vectors=is_one_model)
    scores = dict(ranked)
    results = [
        FusedResult(
            id=item.place.id,
            text=item.result.text,
            score=float(str(scores[item.key])),  # the shortest decimal form of the 32-bit value
            metadata=item.result.metadata,
            found_in=[each.place for each in places[item.key]],
        )
        for item in kept[:target_k]
    ]
    after += [_Removed(item, Stage.TARGET, None) for item in kept[target_k:]]
    return (
        results,
        [removed.told(removed.item.place) for removed in within],
        [removed.told(each.place) for removed in after for each in places[removed.item.key]],
    )


def _items(request: FuseRequest) -> list[list[_Item]]:
    """The results of each list. Words are read by rank, so that the reading budget goes to the best results. Raises ProblemError."""
    count = sum(len(each.results) for each in request.lists)
    if count > MOST_CHUNKS:
        raise invalid("$.lists", f"{count} results", f"{MOST_CHUNKS} at most in all lists")
    where = [(number, rank) for number, each in enumerate(request.lists) for rank in range(len(each.results))]
    where.sort(key=lambda pair: (pair[1], pair[0]))
    words = dict(zip(where, Reader().read([request.lists[n].results[rank].text for n, rank in where]), strict=True))
    found: list[list[_Item]] = []
    for number, each in enumerate(request.lists):
        for rank, result in enumerate(each.results):
            check_chunk(result, f"$.lists[{number}].results[{rank}]")
        where_of = f"$.lists[{number}].results[{{}}].embedding".format
        vectors = vectors_of([result.embedding for result in each.results], where_of)
        places = [
            Place(list=number, name=each.name, rank=rank + 1, id=own_id(result))
            for rank, result in enumerate(each.results)
        ]
        rows = zip(each.results, places, vectors, strict=True)
        found.append([_Item(result, place, words[number, place.rank - 1], vector) for result, place, vector in rows])
    return found


def _distinct(
    items: Sequence[_Item], request: FuseRequest, *, by_vectors: bool = True
) -> tuple[list[_Item], list[_Removed]]:
    """The distinct items in rank order, and the removed ones."""
    walk = Walk(semantic=request.semantic_dedup_threshold, dimension=None)
    leaders = Leaders(request.dedup_threshold)
    heads: dict[int, _Item] = {}
    met: dict[Key, _Item] = {}
    came: list[_Item] = []
    kept: list[_Item] = []
    removed: list[_Removed] = []
    for item in items:
        head, stage = met.setdefault(item.key, item), Stage.EXACT
        if head is item:
            came.append(item)
            repeat = walk.step(item.words, item.vector if by_vectors else None)
            if repeat is not None:
                head, stage = came[repeat.of], repeat.stage
            else:
                head, stage = heads.setdefault(leaders.step(walk.distances), item), Stage.CLUSTER
        if head is item:
            kept.append(item)
        else:
            removed.append(_Removed(item, stage, head))
    return kept, removed


def _ranked(request: FuseRequest, lists: Sequence[Sequence[_Item]], k: int) -> Ranked[Key]:
    """Fuse the lists, which have no copies within."""
    keys = [[item.key for item in items] for items in lists]
    if request.method == "rrf":
        return rrf(keys, k=k, weights=[each.weight for each in request.lists])
    scores = [[item.result.score for item in items] for items in lists]
    return dbsf(list(zip(keys, scores, strict=True)))
