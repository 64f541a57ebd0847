"""The messages of `/v1/optimize`: their types, which the published document describes, and their conversion for optimize.py.

Embeddings and metadata stay raw bytes: the fast vector decoder reads the embeddings, and metadata is returned unchanged.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Annotated, Literal, TypeVar

import msgspec
import numpy as np
from msgspec import Meta, Raw, Struct, field

from vecsieve.adapters.wire.json_vectors import decode_arrays

from ..selection.policy import Linkage, Strategy, Tier
from ..selection.values import FloatMatrix
from .optimize import Chunks, Kept, Optimized, Removed, Tokens, Wishes, optimize
from .problems import WHOLE, ProblemError, decoded, invalid
from .walk import REASONS, Stage

MOST_CHUNKS = 500
MOST_CHARACTERS = 1_000_000  # of one text: a regular expression takes 15 ms for it, in one call
MOST_NUMBERS = 65_536  # of one embedding: the largest dimension that a supported database accepts

_NULL, _NO_METADATA = Raw(b"null"), Raw(b"{}")
_NUMBERS = {"type": ["array", "null"], "items": {"type": "number"}, "maxItems": MOST_NUMBERS}
_OBJECT = {"type": ["object", "null"]}

# 8.0 is an integer in JSON (JSON Schema 6.1.1). So an integer member is read as a float and then checked.
Whole = Annotated[float, Meta(extra_json_schema={WHOLE: True})]
Id = str | Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)] | Annotated[Whole, Meta(ge=-(2.0**53), le=2.0**53)]
Text = Annotated[str, Meta(max_length=MOST_CHARACTERS)]
Embedding = Annotated[Raw, Meta(extra_json_schema=_NUMBERS)]
Metadata = Annotated[Raw, Meta(extra_json_schema=_OBJECT)]
Distance = Annotated[float, Meta(ge=0.0, le=2.0)]
Texts = Annotated[
    Literal["edited", "said", "exact", "none"],
    Meta(description="What texts decide, as in policy.texts; none: embeddings decide alone."),
]
Cut = Annotated[
    Distance, Meta(description="Up to which two embeddings merge. They decide the pairs of which one has no text.")
]
NEARLY_EQUAL = 0.001  # the embedding of one text, quantised or computed again
TIERS = {"edited": Tier.EDITED, "said": Tier.SAID, "exact": Tier.EXACT, "none": None}
Count = Annotated[Whole, Meta(ge=1, le=2**31 - 1)]


class Chunk(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A piece of text. Ids need not be unique."""

    id: Id
    text: Text
    embedding: Embedding = field(default_factory=lambda: _NULL)
    score: Annotated[float, Meta(description="Higher is better. The earlier of two equal chunks ranks first.")] = 0.0
    metadata: Metadata = field(default_factory=lambda: _NO_METADATA)


class Options(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How to choose among chunks."""

    query: Text = ""
    query_embedding: Embedding = field(default_factory=lambda: _NULL)
    namespace: Annotated[str, Meta(pattern=r"\S", description="Has no effect: requests are independent.")] = "default"
    target_k: Count = 8
    token_budget: Count | None = None
    texts: Texts = "edited"
    dedup_threshold: Cut = NEARLY_EQUAL
    cluster_threshold: Annotated[Distance | None, Meta(description="Overrides dedup_threshold.")] = None
    cluster_linkage: Literal["average", "complete", "single", "leader"] = "average"
    max_per_cluster: Count = 1
    enable_mmr: bool = True
    mmr_lambda: Annotated[float, Meta(ge=0.0, le=1.0, description="1: only relevance; 0: only diversity.")] = 0.5
    representative_strategy: Literal["auto", "score", "centroid", "query_closest", "longest"] = "auto"
    compress: Annotated[bool, Meta(description="Remove redundant white space.")] = True
    embedding_model: Annotated[None, Meta(description="Must be null: VecSieve computes no embeddings.")] = None


class OptimizeRequest(Options, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The chunks, and how to choose among them."""

    chunks: Annotated[list[Chunk], Meta(max_length=MOST_CHUNKS)]


ChunkId = str | int


class KeptChunk(Struct, frozen=True, kw_only=True):
    """A chunk of the reply. Its text has no redundant white space, unless `compress` is false."""

    id: ChunkId
    text: str
    score: float
    metadata: Metadata


class RemovedChunk(Struct, frozen=True, kw_only=True):
    """A removed chunk, the stage that removed it, the chunks that say all of it (one, or a few together), and the reason in words."""

    id: ChunkId
    stage: Stage
    covered_by: list[ChunkId]
    reason: str


class Stats(Struct, frozen=True, kw_only=True):
    """Figures of one request. ``semantic_duplicate_count``: removed for what others say, without the equal texts."""

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
    """The kept chunks in the order of selection, the removed chunks with their reasons, and figures."""

    chunks: list[KeptChunk]
    removed: list[RemovedChunk]
    stats: Stats


AnyOptions = TypeVar("AnyOptions", bound=Options)
_LIKE = (Stage.CONTAINED, Stage.JOINED, Stage.EDITED, Stage.VECTORS)
_STRATEGIES = {"score": Strategy.RANK}
_DECODER = msgspec.json.Decoder(OptimizeRequest)


def optimizing(tokens: Tokens) -> Callable[[bytes], bytes]:
    """The handler of the endpoint. ``tokens`` counts the tokens of a text."""

    def work(body: bytes) -> bytes:
        began = time.perf_counter()
        request = decoded_options(_DECODER, body)
        wishes, chunks = wishes_of(request), request.chunks
        result = optimize(chunks_of(chunks), wishes, tokens)
        ids = [chunk_id(chunk) for chunk in chunks]
        answer = OptimizeResponse(
            chunks=[kept_chunk(chunks[chunk.number], chunk) for chunk in result.kept],
            removed=[removed_chunk(ids, chunk, wishes.cut) for chunk in result.removed],
            stats=stats_of(len(chunks), result, time.perf_counter() - began),
        )
        return msgspec.json.encode(answer) + b"\n"

    return work


def decoded_options(decoder: msgspec.json.Decoder[AnyOptions], body: bytes) -> AnyOptions:
    """The options in a body. Raises ProblemError."""
    try:
        return decoded(decoder, body)
    except ProblemError as problem:
        if problem.problem.where == "$.embedding_model":
            value = "null: VecSieve computes no embeddings. Send them; chunks without embeddings are compared by words"
            raise invalid("$.embedding_model", "a name", value) from None
        raise


def wishes_of(options: Options) -> Wishes:
    """Raises ProblemError."""
    strategy = options.representative_strategy
    cut = options.dedup_threshold if options.cluster_threshold is None else options.cluster_threshold
    return Wishes(
        target_k=whole(options.target_k, "$.target_k"),
        token_budget=None if options.token_budget is None else whole(options.token_budget, "$.token_budget"),
        tier=TIERS[options.texts],
        cut=cut,
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
    """Raises ProblemError unless the id and the metadata are valid."""
    if isinstance(chunk.id, float):
        whole(chunk.id, f"{where}.id")
    if bytes(memoryview(chunk.metadata)[:1]) not in {b"{", b"n"}:
        raise invalid(f"{where}.metadata", "another JSON value", "an object or null")


def whole(number: float, where: str) -> int:
    """The number as an integer. Raises ProblemError for a fraction."""
    if number != int(number):
        raise invalid(where, f"{number:g}", "a whole number")
    return int(number)


def vectors_of(embeddings: Sequence[Raw], where: Callable[[int], str]) -> list[FloatMatrix | None]:
    """Each embedding as (d,) float32; None for null and []. Numbers too large for float32 become infinite. Raises ProblemError."""
    given = [(number, array) for number, array in enumerate(map(bytes, embeddings)) if array != b"null"]
    vectors: list[FloatMatrix | None] = [None] * len(embeddings)
    for number, array in given:
        if (
            len(array) >= 2 * MOST_NUMBERS and array.count(b",") >= MOST_NUMBERS
        ):  # a number and its comma take two bytes or more
            raise invalid(where(number), "more numbers", f"{MOST_NUMBERS} at most")
    with np.errstate(over="ignore"):
        for (number, _), row in zip(given, decode_arrays([array for _, array in given]), strict=True):
            if row is None:
                raise invalid(where(number), "another JSON value", "a list of numbers, or null")
            if len(row):
                vectors[number] = row.astype(np.float32)
    return vectors


def kept_chunk(chunk: Chunk, kept: Kept) -> KeptChunk:
    return KeptChunk(id=chunk_id(chunk), text=kept.text, score=chunk.score, metadata=chunk.metadata)


def chunk_id(chunk: Chunk) -> ChunkId:
    return int(chunk.id) if isinstance(chunk.id, float) else chunk.id


def removed_chunk(ids: Sequence[ChunkId], removed: Removed, cut: float) -> RemovedChunk:
    """``ids``: of all chunks. ``cut``: of the options."""
    repeat = removed.repeat
    names = [] if repeat is None else [ids[number] for number in repeat.of]
    reason = REASONS[removed.stage] if repeat is None else repeat.reason(names, cut)
    return RemovedChunk(id=ids[removed.number], stage=removed.stage, covered_by=names, reason=reason)


def stats_of(count: int, result: Optimized, seconds: float) -> Stats:
    share = 1.0 - result.output_tokens / result.input_tokens if result.input_tokens else 0.0
    return Stats(
        input_count=count,
        output_count=len(result.kept),
        exact_duplicate_count=result.count(Stage.EQUAL_TEXT),
        semantic_duplicate_count=sum(result.count(stage) for stage in _LIKE),
        cluster_count=result.clusters,
        input_tokens=result.input_tokens,
        output_tokens=result.output_tokens,
        reduction_pct=round(100.0 * share, 2),
        latency_ms=round(1000.0 * seconds, 3),
        budget_skipped_count=result.count(Stage.BUDGET),
    )
