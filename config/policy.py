"""The settings of a policy: how results are chosen. Every default once, with its reason."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Discriminator, Field, Tag

from vecsieve.config.values import (
    CosineDistance,
    Count,
    Diversifier,
    Linkage,
    Mode,
    Model,
    Names,
    NoneWord,
    OrNone,
    Representative,
    Share,
    Ties,
    Wanted,
)


class FetchSettings(Model):
    """How many candidates are fetched for a page of top_k."""

    factor: Annotated[float, Field(ge=1.0, le=50.0)] = Field(
        default=5.0, description="3 to 5 × top_k is enough: more adds cost, not quality"
    )
    floor: Count = Field(default=24, description="for top_k = 8 nothing changes beyond 24 to 40 candidates")
    cap: Count = Field(
        default=200,
        description="200 × 1536 dimensions decode in about 25 ms, which blocks the loop: the most a search may cost",
    )
    page_cap: Count = Field(
        default=1000, description="deepest raw rank a paged search may need; deeper pages pass through"
    )
    adaptive: bool = Field(
        default=False,
        description="begin at 2 × top_k, go up to factor while pages want more, and down again; where bytes cost money",
    )
    integrated: Literal["text", "fetch"] = Field(
        default="text",
        description="Pinecone's records: `fetch` reads their vectors by id, a read unit for 10 (20 × a small namespace's query),"
        " all metadata, 100 a second an index",
    )


class FixedThreshold(Model):
    """One number for every pool: candidates at cosine distance ≤ fixed merge."""

    fixed: CosineDistance = Field(description="0.15 is the usual cut; no number fits all embedding models")


class RelativeThreshold(Model):
    """Candidates at distance ≤ relative × the pool's median pairwise distance merge, clipped to [min, max]."""

    relative: Share = Field(default=0.20, description="keeps the answer in ≥ 98 % of queries on eleven labelled sets")
    min: CosineDistance = Field(
        default=0.0, description="an absolute floor: away from the origin any number above 0 merges what is no copy"
    )
    max: CosineDistance = Field(
        default=0.30, description="nothing farther apart than this is a copy, however wide the pool"
    )


class GrowingThreshold(Model):
    """A cut that grows down the page: with m results kept, the next candidate is a copy at a distance of at most
    min(growing × m ^ power, most) × trust × the pool's median pairwise distance. It walks the ranking from the top; the
    linkages single, complete and average know no such cut and take {relative: 0.20} instead.
    """

    growing: Share = Field(
        default=0.15,
        description="the second result must be all but equal to the first to be dropped; 0.08 to 0.17 keep as many answers",
    )
    power: Annotated[float, Field(ge=0.0, le=4.0)] = Field(
        default=0.7, description="the chance that a result is the answer falls with its place; 0 = the cut never grows"
    )
    most: Annotated[float, Field(ge=0.0, le=2.0)] = Field(
        default=0.5, description="half the usual distance of two candidates; reached at the seventh result"
    )
    trusted: Share = Field(
        default=0.15,
        description="trust = r ÷ this, at most 1; r: do results deeper in the ranking lie farther apart? 0 = always trust",
    )
    wary: Share = Field(
        default=0.40, description="least trust: where ranking and vectors disagree, rank does not say who is the answer"
    )
    least: CosineDistance = Field(
        default=0.0, description="an absolute floor: away from the origin any number above 0 merges what is no copy"
    )


def _threshold_kind(value: object) -> str | None:
    """Which of the three a mapping means, by its own member, else by one that only it has; None for none of them."""
    for kind, model in (("fixed", FixedThreshold), ("relative", RelativeThreshold), ("growing", GrowingThreshold)):
        if isinstance(value, model) or (isinstance(value, dict) and kind in value):
            return kind
    if isinstance(value, dict):
        return "growing" if value.keys() & GrowingThreshold.model_fields.keys() else "relative"
    return None


Threshold = Annotated[
    Annotated[FixedThreshold, Tag("fixed")]
    | Annotated[RelativeThreshold, Tag("relative")]
    | Annotated[GrowingThreshold, Tag("growing")],
    Discriminator(_threshold_kind),
    Wanted("{fixed: …}, {relative: …, min: …, max: …} or {growing: …, power: …, most: …}"),
]


class MmrSettings(Model):
    """Maximal marginal relevance over the representatives."""

    lambda_: Share = Field(
        default=0.7, alias="lambda", description="1.0 = relevance only; 0.7 scaled keeps ≥ 98 % of answers"
    )
    relevance: Literal["raw", "minmax"] = Field(
        default="minmax", description="scaled over the pool: with raw cosine MMR prefers the irrelevant"
    )
    similarity: Literal["raw", "scaled"] = Field(
        default="scaled", description="max(0, 1 − distance / median pool distance): models differ by a factor of three"
    )


class TextSettings(Model):
    """Which texts are copies of one another. The text is fetched with the candidates and taken out of the answer again.

    Of a pool the best-ranked texts are read, about 1 MB in all, and no text of more than 100,000 characters: what lies
    beyond is unknown, so that no text holds up a search.
    """

    identical: bool = Field(
        default=True, description="the same canonical text; found 35 to 40 % of the copies, practically never wrongly"
    )
    containment: OrNone[Share] = Field(
        default=0.8, description="shared word 3-grams by the smaller text: overlapping chunks, other chunk borders"
    )
    jaccard: OrNone[Share] = Field(
        default=None, description="shared word 3-grams by all; 0.92 adds almost nothing to identical"
    )
    indel: OrNone[Share] = Field(
        default=None,
        description="share of words in the longest common subsequence, as difflib's ratio; 0.85 is usual; needs the extra `indel`",
    )
    minhash: OrNone[Share] = Field(
        default=None, description="16 bands of 8 rows find the pairs, this Jaccard verifies them"
    )
    simhash: Annotated[int | None, Field(ge=0, le=64), NoneWord] = Field(
        default=None, description="bits of 64 that may differ; 3 is usual, and misses most edits"
    )
    require: Literal["any", "all"] = Field(
        default="any", description="whether one of the five near-text signals is enough, or all that are on must agree"
    )
    span: OrNone[Share] = Field(
        default=0.8, description="share of the shorter span that overlaps, for chunks of one document; as containment"
    )
    short_factor: Annotated[float, Field(ge=1.0, le=10.0)] = Field(
        default=1.33,
        description="the cut for two short texts (guards.short_words) is so much wider: many ways to say one thing",
    )
    reach: Annotated[float | None, Field(ge=0.0, le=10.0), NoneWord] = Field(
        default=1.0, description="pairs farther apart than this × the pool's median distance are not compared by text"
    )


class MetadataSettings(Model):
    """Where payloads keep what chunk spans, ties and caps read. Keys or dotted paths; the first one present counts."""

    document: Names = Field(default=("doc_id", "document_id"), description="for spans and caps.per_document")
    source: Names = Field(default=("source",), description="for authority, keep_sources and caps.per_source")
    span_start: Names = Field(default=("token_start",), description="first token or character of the chunk")
    span_end: Names = Field(default=("token_end",), description="behind its last one")
    chunk_index: Names = Field(default=("chunk_index",), description="the chunk's number within its document")
    chunk_size: OrNone[Count] = Field(
        default=None, description="makes a span of a chunk_index; none: only equal numbers overlap"
    )
    chunk_overlap: Annotated[int, Field(ge=0)] = Field(default=0, description="shared by neighbouring chunks")
    updated: Names = Field(default=("updated_at",), description="number, date or release, for the tie recency")
    citations: Names = Field(
        default=("citations", "url", "title"), description="how many are filled: the tie citations"
    )


class GuardSettings(Model):
    """What forbids that two results stand for one another, however alike they are. The first five read short texts.

    Of every fifty ranks 12,288 characters are read, and no text with more than 64 numbers. What other short texts state is
    unknown, so they share a result with equal ones alone.
    """

    numbers: bool = Field(default=True, description="0.05 apart: opens 0.28 % lower, 0.19 % higher")
    dates: bool = Field(default=True, description="October 15th and 16th are 0.009 apart")
    versions: bool = Field(default=True, description="release 1.0 is not release 3.0")
    amounts: bool = Field(default=True, description="numbers with a currency, a unit or a percent sign")
    negation: bool = Field(default=True, description="bans, lifts ban; also opposites such as first and last")
    short_words: Count = Field(default=30, description="both texts have at most so many words: longer ones say more")
    keep_sources: Names = Field(default=(), description="results of these sources are never collapsed")


class CapSettings(Model):
    """At most so many results."""

    per_cluster: Annotated[int, Field(ge=1, le=100)] = Field(default=1, description="one stands for its copies")
    per_document: OrNone[Count] = Field(
        default=None, description="chunks of one document may all be wanted: any number"
    )
    per_source: OrNone[Count] = Field(default=None, description="the same")


class PolicySettings(Model):
    """How results are chosen. The defaults were chosen by measurement on eleven labelled sets."""

    mode: Mode = Field(default="on", description="shadow measures beside the untouched answer; off only relays")
    fetch: FetchSettings = FetchSettings()
    linkage: Linkage = Field(
        default="leader",
        description="near a better-ranked result: adding a copy changes no other result; single chains, complete splits",
    )
    threshold: Threshold = GrowingThreshold()
    # 2.5e-6: 0.05 false pairs among the 20,000 of a pool of 200 candidates, the largest by default.
    chance: Annotated[Annotated[float, Field(ge=0.0, lt=0.5)] | None, NoneWord] = Field(
        default=2.5e-6,
        description="two results of a pool without copies are within a relative cut with this probability at most; it narrows"
        " cuts in few dimensions (at 8 to 2 % of the usual squared distance, at 64 to 39 %); none: no bound",
    )
    when: Literal["redundant", "always"] = Field(
        default="redundant",
        description="act only when two of the first top_k share a cluster: clean pools come back unchanged",
    )
    representative: Representative = Field(
        default="rank", description="centroid and longest lose the answer more often"
    )
    chain: Ties = Field(
        default=("citations", "authority", "recency", "shorter", "rank"),
        description="for the representative `chain`, one after the other; [recency] keeps the newest",
    )
    authority: Names = Field(default=(), description="sources, the most trusted first, for the tie authority")
    caps: CapSettings = CapSettings()
    diversify: OrNone[Diversifier] = Field(
        default=None, description="another chooser in MMR's place; msd, cover and ssd need the extra `diversifiers`"
    )
    diversity: Share = Field(
        default=0.4,
        description="for `diversify`: 0.0 = relevance only, 1.0 = diversity only (lambda the other way round)",
    )
    mmr: Annotated[MmrSettings | None, NoneWord, Wanted("{lambda: …} or none")] = None
    order: Literal["backend", "mmr"] = Field(
        default="backend", description="clients take the first result for the best and scores for monotone"
    )
    short: Literal["grow_then_fill", "fill", "allow"] = Field(
        default="grow_then_fill", description="callers index [limit - 1]: a page is never silently short"
    )
    distance: Literal["auto", "cosine"] = Field(
        default="auto",
        description="the metric that the scores show: cosine by direction, others by position, unknown by both; cosine: always",
    )
    tenant_keys: Names = Field(default=(), description="payload keys whose values must be equal within a cluster")
    text: Annotated[TextSettings | None, NoneWord, Wanted("{containment: …, …} or none")] = TextSettings()
    text_fields: Names = Field(
        default=("text", "page_content", "content", "document", "chunk", "body", "chunk_text"),
        description="where client libraries keep the text; keys or dotted paths, the first one present counts",
    )
    metadata: MetadataSettings = MetadataSettings()
    guards: GuardSettings = GuardSettings()
    vector: OrNone[str] = Field(default=None, description="the named vector to compare by; none: the request decides")
