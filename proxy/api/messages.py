"""The messages of `/v1/optimize`: their types, which the published document shows, and what they say to optimize.py.

Embeddings and metadata stay the bytes that came: an embedding is read by the fast decoder of vectors, and metadata goes back as it is.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Annotated, Literal, TypeVar

import msgspec
import numpy as np
from msgspec import Meta, Raw, Struct, field

from vecsieve.adapters.wire.json_vectors import decode_arrays

from ..selection.policy import Linkage, Strategy
from ..selection.values import FloatMatrix
from .optimize import Chunks, Kept, Optimized, Removed, Tokens, Wishes, optimize
from .problems import WHOLE, ProblemError, decoded, invalid
from .walk import Stage

MOST_CHUNKS = 500
MOST_CHARACTERS = 1_000_000  # of one text: a pattern runs over it in one call, which takes 15 ms
MOST_NUMBERS = 65_536  # of one embedding: the largest that any database here takes

_NULL, _NO_METADATA = Raw(b"null"), Raw(b"{}")
_NUMBERS = {"type": ["array", "null"], "items": {"type": "number"}, "maxItems": MOST_NUMBERS}
_OBJECT = {"type": ["object", "null"]}

# JSON has one kind of number: 8.0 is as whole as 8 (JSON Schema 6.1.1). Such a member is read as a float and checked.
Whole = Annotated[float, Meta(extra_json_schema={WHOLE: True})]
Id = str | Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)] | Annotated[Whole, Meta(ge=-(2.0**53), le=2.0**53)]
Text = Annotated[str, Meta(max_length=MOST_CHARACTERS)]
Embedding = Annotated[Raw, Meta(extra_json_schema=_NUMBERS)]
Metadata = Annotated[Raw, Meta(extra_json_schema=_OBJECT)]
Distance = Annotated[float, Meta(ge=0.0, le=2.0)]
Count = Annotated[Whole, Meta(ge=1, le=2**31 - 1)]


class Chunk(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A piece of text. Ids need not differ."""

    id: Id
    text: Text
    embedding: Embedding = field(default_factory=lambda: _NULL)
    score: Annotated[float, Meta(description="Higher is better; ties go to the earlier chunk.")] = 0.0
    metadata: Metadata = field(default_factory=lambda: _NO_METADATA)


class Options(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How to choose among chunks."""

    query: Text = ""
    query_embedding: Embedding = field(default_factory=lambda: _NULL)
    namespace: Annotated[str, Meta(pattern=r"\S", description="Has no effect: no request remembers another.")] = (
        "default"
    )
    target_k: Count = 8
    token_budget: Count | None = None
    semantic_dedup_threshold: Annotated[float, Meta(gt=0.0, le=2.0)] = 0.001
    dedup_threshold: Distance = 0.15
    cluster_threshold: Annotated[Distance | None, Meta(description="In place of dedup_threshold.")] = None
    cluster_linkage: Literal["average", "complete", "single", "leader"] = "average"
    max_per_cluster: Count = 1
    enable_mmr: bool = True
    mmr_lambda: Annotated[float, Meta(ge=0.0, le=1.0, description="1: relevance only; 0: diversity only.")] = 0.5
    representative_strategy: Literal["auto", "score", "centroid", "query_closest", "longest"] = "auto"
    compress: Annotated[bool, Meta(description="White space only.")] = True
    embedding_model: Annotated[None, Meta(description="There is no model inside.")] = None


class OptimizeRequest(Options, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Chunks to choose from, and how."""

    chunks: Annotated[list[Chunk], Meta(max_length=MOST_CHUNKS)]


OwnId = str | int


class KeptChunk(Struct, frozen=True, kw_only=True):
    """A chunk of the answer; its text without superfluous white space, unless `compress` is false."""

    id: OwnId
    text: str
    score: float
    metadata: Metadata


class RemovedChunk(Struct, frozen=True, kw_only=True):
    """A chunk that is not in the answer: the stage that removed it, and the chunk that it repeats."""

    id: OwnId
    stage: Stage
    repeats: OwnId | None


class Stats(Struct, frozen=True, kw_only=True):
    """Figures of one request."""

    input_count: int
    output_count: int
    exact_duplicate_count: int
    semantic_duplicate_count: int
    cluster_count: int
    input_tokens: int
    output_tokens: int
    reduction_pct: float
    latency_ms: float
    budget_skipped_count: int


class OptimizeResponse(Struct, frozen=True, kw_only=True):
    """The chunks to keep, in the order of choice, the others with their reasons, and figures."""

    chunks: list[KeptChunk]
    removed: list[RemovedChunk]
    stats: Stats


AnyOptions = TypeVar("AnyOptions", bound=Options)
_STRATEGIES = {"score": Strategy.RANK}
_DECODER = msgspec.json.Decoder(OptimizeRequest)


def optimizing(tokens: Tokens) -> Callable[[bytes], bytes]:
    """The work of the endpoint, with this count of tokens."""

    def work(body: bytes) -> bytes:
        began = time.perf_counter()
        request = decoded_options(_DECODER, body)
        found = optimize(chunks_of(request.chunks), wishes_of(request), tokens)
        chunks = request.chunks
        answer = OptimizeResponse(
            chunks=[kept_chunk(chunks[each.number], each) for each in found.kept],
            removed=[removed_chunk(chunks, each) for each in found.removed],
            stats=stats_of(len(chunks), found, time.perf_counter() - began),
        )
        return msgspec.json.encode(answer) + b"\n"

    return work


def decoded_options(decoder: msgspec.json.Decoder[AnyOptions], body: bytes) -> AnyOptions:
    """The options in a body. Raises ProblemError."""
    try:
        return decoded(decoder, body)
    except ProblemError as problem:
        if problem.problem.where == "$.embedding_model":
            wanted = (
                "null: there is no model inside. Send embeddings, or chunks without them are compared by their words"
            )
            raise invalid("$.embedding_model", "a name", wanted) from None
        raise


def wishes_of(options: Options) -> Wishes:
    """Raises ProblemError."""
    strategy = options.representative_strategy
    cut = options.dedup_threshold if options.cluster_threshold is None else options.cluster_threshold
    return Wishes(
        target_k=whole(options.target_k, "$.target_k"),
        token_budget=None if options.token_budget is None else whole(options.token_budget, "$.token_budget"),
        semantic=options.semantic_dedup_threshold,
        cluster_cut=cut,
        linkage=Linkage(options.cluster_linkage),
        max_per_cluster=whole(options.max_per_cluster, "$.max_per_cluster"),
        mmr_lambda=options.mmr_lambda if options.enable_mmr else None,
        representative=_STRATEGIES.get(strategy) or Strategy(strategy),
        compress=options.compress,
        query=options.query,
        query_vector=vectors_of([options.query_embedding], lambda _: "$.query_embedding")[0],
    )


def chunks_of(chunks: Sequence[Chunk]) -> Chunks:
    """Raises ProblemError."""
    for number, chunk in enumerate(chunks):
        check_chunk(chunk, f"$.chunks[{number}]")
    return Chunks(
        [chunk.text for chunk in chunks],
        [chunk.score for chunk in chunks],
        vectors_of([chunk.embedding for chunk in chunks], lambda number: f"$.chunks[{number}].embedding"),
    )


def check_chunk(chunk: Chunk, where: str) -> None:
    """Raises ProblemError unless its id and its metadata are what the document says."""
    if isinstance(chunk.id, float):
        whole(chunk.id, f"{where}.id")
    if bytes(memoryview(chunk.metadata)[:1]) not in {b"{", b"n"}:
        raise invalid(f"{where}.metadata", "another JSON value", "an object or null")


def whole(number: float, where: str) -> int:
    """Raises ProblemError for a fraction."""
    if number != int(number):
        raise invalid(where, f"{number:g}", "a whole number")
    return int(number)


def vectors_of(embeddings: Sequence[Raw], where: Callable[[int], str]) -> list[FloatMatrix | None]:
    """Each embedding as (d,) float32, infinite where a number is beyond it; None for null and []. Raises ProblemError."""
    given = [(number, array) for number, array in enumerate(map(bytes, embeddings)) if array != b"null"]
    found: list[FloatMatrix | None] = [None] * len(embeddings)
    for number, array in given:
        if len(array) >= 2 * MOST_NUMBERS and array.count(b",") >= MOST_NUMBERS:  # a number and its comma are two bytes
            raise invalid(where(number), "more numbers", f"{MOST_NUMBERS} at most")
    with np.errstate(over="ignore"):
        for (number, _), row in zip(given, decode_arrays([array for _, array in given]), strict=True):
            if row is None:
                raise invalid(where(number), "another JSON value", "a list of numbers, or null")
            if len(row):
                found[number] = row.astype(np.float32)
    return found


def kept_chunk(chunk: Chunk, kept: Kept) -> KeptChunk:
    return KeptChunk(id=own_id(chunk), text=kept.text, score=chunk.score, metadata=chunk.metadata)


def own_id(chunk: Chunk) -> OwnId:
    return int(chunk.id) if isinstance(chunk.id, float) else chunk.id


def removed_chunk(chunks: Sequence[Chunk], removed: Removed) -> RemovedChunk:
    repeats = None if removed.of is None else own_id(chunks[removed.of])
    return RemovedChunk(id=own_id(chunks[removed.number]), stage=removed.stage, repeats=repeats)


def stats_of(count: int, found: Optimized, seconds: float) -> Stats:
    share = 1.0 - found.output_tokens / found.input_tokens if found.input_tokens else 0.0
    return Stats(
        input_count=count,
        output_count=len(found.kept),
        exact_duplicate_count=found.count(Stage.EXACT),
        semantic_duplicate_count=found.count(Stage.SEMANTIC),
        cluster_count=found.clusters,
        input_tokens=found.input_tokens,
        output_tokens=found.output_tokens,
        reduction_pct=round(100.0 * share, 2),
        latency_ms=round(1000.0 * seconds, 3),
        budget_skipped_count=found.count(Stage.BUDGET),
    )
