"""`POST /v1/fuse`: removes what is said above from each ranked list, fuses the lists, and removes it from the fused list.

Different databases have different ids. So the fusion identifies a result by its text, as the judge reads it: without case, layout of prose and
marks of formatting. A result without text is identified by its id. The fused score is the sum over all lists. What leaves is decided as in
/v1/optimize. In the fused list embeddings are not compared if the lists have different models.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

import msgspec
import numpy as np
from msgspec import Meta, Struct

from vecsieve.adapters.fused_scores import Ranked, dbsf, rrf

from ..selection.reading.bounds import readable
from ..selection.reading.text import Text
from ..selection.values import FloatMatrix, Link
from .messages import (
    MOST_CHUNKS,
    NEARLY_EQUAL,
    TIERS,
    Chunk,
    ChunkId,
    Count,
    Cut,
    Metadata,
    Texts,
    check_chunk,
    chunk_id,
    vectors_of,
    whole,
)
from .problems import decoded, invalid
from .walk import REASONS, Decided, Repeat, Rules, Stage, candidates_of, matrix_of, text_of

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
    texts: Texts = "edited"
    dedup_threshold: Cut = NEARLY_EQUAL


class Place(Struct, frozen=True, kw_only=True):
    """The position of a result: number of the list (from 0), name of the list, rank (from 1), id of the result."""

    list: int
    name: str | None
    rank: int
    id: ChunkId


class FusedResult(Struct, frozen=True, kw_only=True):
    """A result with its fused score. Id, text and metadata are those of the first list that has it."""

    id: ChunkId
    text: str
    score: float
    metadata: Metadata
    found_in: list[Place]


class RemovedResult(Struct, frozen=True, kw_only=True):
    """A removed result, the stage that removed it, the results that say all of it, and the reason in words."""

    place: Place
    stage: Stage
    covered_by: list[Place]
    reason: str


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


Key = tuple[str, object]
_DECODER = msgspec.json.Decoder(FuseRequest)


def fuse(body: bytes) -> bytes:
    """The handler of the endpoint. Raises ProblemError."""
    began = time.perf_counter()
    request = decoded(_DECODER, body)
    results, within, after = _fused(request, whole(request.k, "$.k"), whole(request.target_k, "$.target_k"))
    count = sum(len(listed.results) for listed in request.lists)
    answer = FuseResponse(
        results=results,
        removed=within + after,
        stats=FuseStats(
            input_count=count,
            output_count=len(results),
            removed_within=len(within),
            removed_after=sum(repeat.stage is not Stage.TARGET for repeat in after),
            latency_ms=round(1000.0 * (time.perf_counter() - began), 3),
        ),
    )
    return msgspec.json.encode(answer) + b"\n"


@dataclass(frozen=True, slots=True)
class _Item:
    """One result of one list. ``text``: None for blanks. ``key``: results with equal keys are one result in the fusion."""

    result: Result
    place: Place
    text: Text | None
    vector: FloatMatrix | None
    key: Key


@dataclass(frozen=True, slots=True)
class _Removed:
    item: _Item
    stage: Stage
    covered_by: tuple[_Item, ...]
    reason: str

    def at(self, place: Place) -> RemovedResult:
        covered_by = [holder.place for holder in self.covered_by]
        return RemovedResult(place=place, stage=self.stage, covered_by=covered_by, reason=self.reason)


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
    is_one_model = len({listed.model for listed in request.lists}) == 1
    order = [places[key][0] for key, _ in ranked]
    kept, after = _distinct(order, request, by_vectors=is_one_model)
    scores = dict(ranked)
    results = [
        FusedResult(
            id=item.place.id,
            text=item.result.text,
            score=float(str(scores[item.key])),  # the shortest decimal form of the 32-bit value
            metadata=item.result.metadata,
            found_in=[place.place for place in places[item.key]],
        )
        for item in kept[:target_k]
    ]
    after += [_Removed(item, Stage.TARGET, (), REASONS[Stage.TARGET]) for item in kept[target_k:]]
    return (
        results,
        [removed.at(removed.item.place) for removed in within],
        [removed.at(place.place) for removed in after for place in places[removed.item.key]],
    )


def _items(request: FuseRequest) -> list[list[_Item]]:
    """The results of each list. Texts are read by rank, so that the reading budget goes to the best results. Raises ProblemError."""
    count = sum(len(ranking.results) for ranking in request.lists)
    if count > MOST_CHUNKS:
        raise invalid("$.lists", f"{count} results", f"{MOST_CHUNKS} at most in all lists")
    where = [(number, rank) for number, ranking in enumerate(request.lists) for rank in range(len(ranking.results))]
    where.sort(key=lambda pair: (pair[1], pair[0]))
    texts = [text_of(request.lists[number].results[rank].text) for number, rank in where]
    keys = dict(zip(where, zip(texts, map(_content, readable(texts)[0]), strict=True), strict=True))
    lists: list[list[_Item]] = []
    for number, ranking in enumerate(request.lists):
        for rank, result in enumerate(ranking.results):
            check_chunk(result, f"$.lists[{number}].results[{rank}]")
        where_of = f"$.lists[{number}].results[{{}}].embedding".format
        vectors = vectors_of([result.embedding for result in ranking.results], where_of)
        places = [
            Place(list=number, name=ranking.name, rank=rank + 1, id=chunk_id(result))
            for rank, result in enumerate(ranking.results)
        ]
        rows = zip(ranking.results, places, vectors, strict=True)
        lists.append([_item(*row, *keys[number, row[1].rank - 1]) for row in rows])
    return lists


def _content(text: Text | None) -> object | None:
    """What a text says; None for one that is not read, or says nothing."""
    if text is None or not text.passages()[0].tokens:
        return None
    plain, laid = text.passages()
    return plain.tokens, None if laid is None else laid.tokens


def _item(result: Result, place: Place, vector: FloatMatrix | None, text: Text | None, content: object | None) -> _Item:
    key = ("id", place.id) if text is None else ("raw", text.raw) if content is None else ("text", content)
    return _Item(result, place, text, vector, key)


def _distinct(
    items: Sequence[_Item], request: FuseRequest, *, by_vectors: bool = True
) -> tuple[list[_Item], list[_Removed]]:
    """The distinct items in rank order, and the removed ones."""
    met: dict[Key, _Item] = {}
    firsts = [item for item in items if met.setdefault(item.key, item) is item]
    rules = Rules(tier=TIERS[request.texts], cut=request.dedup_threshold)
    vectors = matrix_of([item.vector if by_vectors else None for item in firsts], None)
    falling = np.arange(len(firsts), 0.0, -1.0)
    decided = Decided(candidates_of([item.text for item in firsts], vectors, falling), rules)
    repeats = decided.repeats(decided.grouped.heads)
    removed = {
        id(item): _removed(item, repeat, firsts, rules)
        for item, repeat in zip(firsts, repeats, strict=True)
        if repeat is not None
    }
    kept = [item for item in firsts if id(item) not in removed]
    leaving = [
        removed[id(first)] if id(first) in removed else _same(item, first)
        for item in items
        if (first := met[item.key]) is not item or id(item) in removed
    ]
    return kept, leaving


def _removed(item: _Item, repeat: Repeat, items: Sequence[_Item], rules: Rules) -> _Removed:
    holders = tuple(items[number] for number in repeat.of)
    return _Removed(item, repeat.stage, holders, repeat.reason([holder.place.id for holder in holders], rules.cut))


def _same(item: _Item, first: _Item) -> _Removed:
    """A result with the key of an earlier one."""
    if item.text is None:
        return _Removed(item, Stage.EQUAL_ID, (first,), REASONS[Stage.EQUAL_ID])
    repeat = Repeat(Link.EQUAL, (0,), 1.0)
    return _Removed(item, repeat.stage, (first,), repeat.reason([first.place.id], 0.0))


def _ranked(request: FuseRequest, lists: Sequence[Sequence[_Item]], k: int) -> Ranked[Key]:
    """Fuse the lists, which have no copies within."""
    keys = [[item.key for item in items] for items in lists]
    if request.method == "rrf":
        return rrf(keys, k=k, weights=[listed.weight for listed in request.lists])
    scores = [[item.result.score for item in items] for items in lists]
    return dbsf(list(zip(keys, scores, strict=True)))
