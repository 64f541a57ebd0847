"""The settings of a policy: how results are chosen. Every default stands here once, with its reason."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from operator import attrgetter
from typing import Annotated, Literal

from pydantic import (
    BeforeValidator,
    Discriminator,
    Field,
    SerializerFunctionWrapHandler,
    Tag,
    model_serializer,
)

from vecsieve.config.values import (
    CosineDistance,
    Count,
    Diversifier,
    Linkage,
    MergePolicy,
    Mode,
    Model,
    Name,
    Names,
    NoneWord,
    OrNone,
    Representative,
    Seconds,
    Share,
    StitchMode,
    Ties,
    Wanted,
    WriteMode,
    WriteTier,
    setting,
)


class FetchSettings(Model):
    """How many candidates are fetched for a page of top_k."""

    factor: Annotated[float, Field(ge=1.0, le=50.0)] = setting(
        5.0, "3 to 5 × top_k is enough: more adds cost, not quality"
    )
    floor: Count = setting(24, "for top_k = 8 nothing changes beyond 24 to 40 candidates")
    cap: Count = setting(
        200, "200 × 1536 dimensions decode in about 25 ms, which blocks the event loop: the most a search may cost"
    )
    page_cap: Count = setting(1000, "the deepest rank that a paged search may fetch; deeper pages pass through")
    adaptive: bool = setting(
        False,
        "start at 2 × top_k, grow up to factor while pages need more, then shrink again; for databases that bill bytes",
    )
    integrated: Literal["text", "fetch"] = setting(
        "text",
        "for Pinecone's integrated records: `fetch` reads their vectors by id, at a read unit per 10 (20 × a small "
        "namespace's query), with all metadata, at most 100 a second per index",
    )


class FixedThreshold(Model):
    """One cut for every pool: candidates at cosine distance ≤ fixed merge."""

    fixed: CosineDistance = Field(description="0.15 is usual; no value fits all embedding models")


class RelativeThreshold(Model):
    """Candidates at distance ≤ relative × the pool's median pairwise distance merge, clipped to [min, max]."""

    relative: Share = setting(0.20, "keeps the answer in ≥ 98 % of queries on eleven labelled sets")
    min: CosineDistance = setting(
        0.0, "absolute minimum; above 0 it merges non-copies of models whose distances are all small"
    )
    max: CosineDistance = setting(0.30, "absolute maximum, however wide the pool")


class CertaintySettings(Model):
    """How sure the calibrated rule must be that a candidate repeats a kept result before it drops it. One number means the
    same certainty at every place of the page.
    """

    first: Share = setting(
        0.85,
        "for the second result, which is the answer most often; .9 everywhere (preset careful) removes half as much",
    )
    last: Share = setting(
        0.40,
        "for the eighth result and all behind it; below .4 recall falls on the labelled sets, above .5 so does the cut",
    )


Lowering = Annotated[float, Field(ge=-20.0, le=0.0)]
Raising = Annotated[float, Field(ge=0.0, le=20.0)]
Either = Annotated[float, Field(ge=-20.0, le=20.0)]


class CoefficientSettings(Model):
    """Coefficients of the calibrated rule for texts, as `vecsieve calibrate --pairs` writes them; docs/certainty.md says what each
    weighs. None: the shipped one.
    """

    one: OrNone[Either] = setting(None, "of any pair")
    short: OrNone[Either] = setting(None, "of two short texts")
    far: OrNone[Lowering] = setting(None, "distance of long texts")
    short_far: OrNone[Lowering] = setting(None, "distance of short texts")
    short_near: OrNone[Lowering] = setting(None, "nearness of short texts")
    contained: OrNone[Raising] = setting(None, "how much of the smaller text is in the other")
    covered: OrNone[Raising] = setting(None, "how much of the later-ranked text is in the other")
    figures: OrNone[Lowering] = setting(None, "different figures")
    both_figures: OrNone[Lowering] = setting(None, "each has a figure that the other lacks")
    names: OrNone[Lowering] = setting(None, "different names")
    both_names: OrNone[Lowering] = setting(None, "each has a name that the other lacks")
    rare_shared: OrNone[Raising] = setting(None, "rare words that both have, of all")
    rare_contained: OrNone[Raising] = setting(None, "rare words of the lighter text that both have")
    short_both_figures: OrNone[Lowering] = setting(None, "each short text has a figure that the other lacks")
    repetition: OrNone[Raising] = setting(None, "how much the pool's short texts repeat one another")
    sentences: OrNone[Lowering] = setting(None, "share missing of half of the later-ranked text's sentences")
    opening: OrNone[Lowering] = setting(None, "share of the shorter of two short texts with which both begin")


class CalibratedSettings(Model):
    """The calibrated rule for one collection, as `vecsieve calibrate --pairs` writes it. A threshold in its place does not read it."""

    shift: Annotated[float, Field(ge=-4.0, le=4.0)] = setting(
        0.0, "added to the logarithm of the odds of a copy, with texts; below 0 the rule is less sure"
    )
    coefficients: CoefficientSettings = CoefficientSettings()

    @property
    def given(self) -> dict[str, float]:
        """The coefficients that replace shipped ones, by name."""
        found: dict[str, float] = self.coefficients.model_dump(exclude_none=True)
        return found


def even(value: object) -> object:
    """A number alone: the same certainty at every place. A number out of range stays, and is told as it was written."""
    if isinstance(value, (int, float)) and not isinstance(value, bool) and 0.0 <= value <= 1.0:
        return {"first": float(value), "last": float(value)}
    return value


def _threshold_kind(value: object) -> str | None:
    """The kind that a mapping means, by its own member, else by a member that only this kind has; None: not a threshold."""
    if isinstance(value, FixedThreshold) or (isinstance(value, dict) and "fixed" in value):
        return "fixed"
    return "relative" if isinstance(value, (RelativeThreshold, dict)) else None


Threshold = Annotated[
    Annotated[FixedThreshold, Tag("fixed")] | Annotated[RelativeThreshold, Tag("relative")],
    Discriminator(_threshold_kind),
    Wanted("{fixed: …} or {relative: …, min: …, max: …}"),
]


class MmrSettings(Model):
    """Maximal marginal relevance over the representatives."""

    lambda_: Share = Field(
        default=0.7,
        alias="lambda",
        description="1.0: relevance only; 0.7 with scaled similarity keeps ≥ 98 % of answers",
    )
    relevance: Literal["raw", "minmax"] = setting(
        "minmax", "scaled over the pool: with raw cosine, MMR prefers irrelevant results"
    )
    similarity: Literal["raw", "scaled"] = setting(
        "scaled", "max(0, 1 − distance / median pool distance), because models differ by a factor of three"
    )


class TextSettings(Model):
    """Which texts are copies of one another. The text is fetched with the candidates and removed from the answer.

    Of a pool, about 1 MB of the best-ranked texts is read, and no text of more than 100,000 characters, so that no text
    delays a search. Other texts are compared by vector alone.
    """

    identical: bool = setting(
        True, "the same canonical text; found 35 to 40 % of the copies, with practically no false ones"
    )
    containment: OrNone[Share] = setting(
        None,
        "shared word 3-grams ÷ those of the smaller text; .8 is usual. The calibrated rule weighs it without this setting",
    )
    jaccard: OrNone[Share] = setting(None, "shared word 3-grams ÷ all; 0.92 adds almost nothing to identical")
    indel: OrNone[Share] = setting(
        None,
        "share of words in the longest common subsequence, like difflib's ratio; 0.85 is usual; needs the extra `indel`",
    )
    minhash: OrNone[Share] = setting(None, "16 bands of 8 rows find the pairs, this Jaccard verifies them")
    simhash: Annotated[int | None, Field(ge=0, le=64), NoneWord] = setting(
        None, "bits of 64 that may differ; 3 is usual and misses most edits"
    )
    require: Literal["any", "all"] = setting(
        "any", "whether one of the near-text signals is enough, or all that are on must agree"
    )
    span: OrNone[Share] = setting(
        0.8, "share of the shorter span that overlaps, for chunks of one document; as for containment"
    )
    reach: Annotated[float | None, Field(ge=0.0, le=10.0), NoneWord] = setting(
        1.0, "pairs farther apart than this × the pool's median distance are not compared by text; none: all pairs are"
    )


class MetadataSettings(Model):
    """Payload fields for chunk spans, ties and caps. Keys or dotted paths; the first one present counts."""

    document: Names = setting(("doc_id", "document_id"), "for spans and caps.per_document")
    title: Names = setting(("title",), "for guards.subjects: what the text is about, such as a function or a release")
    source: Names = setting(("source",), "for authority, keep_sources and caps.per_source")
    span_start: Names = setting(("token_start",), "first token or character of the chunk")
    span_end: Names = setting(("token_end",), "after the last token or character")
    chunk_index: Names = setting(("chunk_index",), "the chunk's number within its document")
    chunk_size: OrNone[Count] = setting(None, "turns a chunk_index into a span; none: only equal chunk numbers overlap")
    chunk_overlap: Annotated[int, Field(ge=0)] = setting(0, "shared by neighbouring chunks")
    updated: Names = setting(("updated_at",), "a number, date or release, for the tie recency")
    citations: Names = setting(("citations", "url", "title"), "for the tie citations: how many of them are filled")


class GuardSettings(Model):
    """Differences that keep two results apart, however similar they are. The first five read short texts.

    Of every fifty ranks 12,288 characters are read, and no text with more than 64 numbers. Other short texts are unread, so
    they are copies of equal texts alone.
    """

    numbers: bool = setting(True, "`opens 0.28 % lower` and `0.19 % higher` are 0.05 apart")
    dates: bool = setting(True, "October 15th and 16th are 0.009 apart")
    versions: bool = setting(True, "release 1.0 is not release 3.0")
    amounts: bool = setting(True, "numbers with a currency, a unit or a percent sign")
    negation: bool = setting(True, "`bans` and `lifts ban`; also opposites such as first and last")
    subjects: bool = setting(
        True,
        "names at the beginning, of texts of any length: numpy.greater is not numpy.greater_equal, nor one CVE another",
    )
    templates: bool = setting(
        True,
        "texts of any length that differ in one gap, which a third text of the pool fills with yet other words: `Junior developer in Paris`, "
        "`Senior developer in Paris`, `Lead developer in Paris`",
    )
    short_words: Count = setting(
        30, "the guards before subjects apply if both texts have at most so many words: longer ones state more"
    )
    keep_sources: Names = setting((), "results of these sources are never collapsed")


class CapSettings(Model):
    """The most results from one cluster, document or source."""

    per_cluster: Annotated[int, Field(ge=1, le=100)] = setting(1, "one result represents its copies")
    per_document: OrNone[Count] = setting(None, "none: any number, because all chunks of one document may be wanted")
    per_source: OrNone[Count] = setting(None, "the same")


class WriteSettings(Model):
    """The write gate: upserts are compared with what is stored, and with the points before them. Off by default; no header changes
    it. docs/writes.md.
    """

    mode: WriteMode = setting(
        "off",
        "observe: counts and logs duplicates beside the unchanged write; annotate: adds `_vecsieve` to the payloads of duplicates; "
        "skip: leaves them out, and keeps them in `journal.path`; merge: the same, but which of two copies stays is `merge`; "
        "reject: refuses writes that have any",
    )
    merge: MergePolicy = setting(
        "keep-newest",
        "for the mode merge: which of two copies stays. Equally long or sure ones, and those without a time: the newest; keep-oldest "
        "keeps the stored one then. merge: the longer text, arrays united, the larger number, else what comes. Not for Milvus and Weaviate: merge and custom",
    )
    custom: OrNone[str] = setting(
        None,
        "`module:function` for the policy custom. It gets the stored and the incoming payload, and returns `stored`, `incoming` or a "
        "payload. Imported when the settings are loaded",
    )
    timestamps: Names = setting(("timestamp", "createdAt"), "when a point was made: a number or an ISO 8601 date")
    confidences: Names = setting(("confidence",), "a number, for keep-highest-confidence")
    exact: Share = setting(0.98, "cosine similarity; the same canonical text counts as exact from `related` on")
    semantic: Share = setting(0.90, "the same, for other words; models differ, so observe before you rely on it")
    related: Share = setting(0.75, "below it a point is unique")
    least: OrNone[WriteTier] = setting(
        None,
        "the tier from which a point counts as a duplicate; lower ones are counted only. none: exact for skip, merge and reject, else semantic",
    )
    neighbours: Annotated[int, Field(ge=1, le=32)] = setting(
        4, "stored points that are compared with each point; those of the same write do not count"
    )
    deadline_seconds: Annotated[float, Field(gt=0.0, le=30.0)] = setting(
        2.0,
        "for the neighbours of one write; then it goes out unchanged. A quarter of the client's own timeout, if that is less",
    )

    @property
    def changes(self) -> bool:
        """Whether points may be left out, merged or refused."""
        return self.mode in {"skip", "merge", "reject"}

    def custom_policy(self) -> Callable[..., object]:
        """The function that `custom` names. Raises ImportError, SyntaxError, AttributeError, ValueError or TypeError."""
        module, _, name = (self.custom or "").partition(":")
        found: object = attrgetter(name)(import_module(module))
        if not callable(found):
            raise TypeError(name)
        return found

    def under(self, mode: Mode | None) -> WriteSettings:
        """With the mode that overrides every policy's: off ends it, shadow only observes."""
        if mode is None or mode == "on" or self.mode == "off":
            return self
        return self.model_copy(update={"mode": "off" if mode == "off" else "observe"})


class SessionSettings(Model):
    """For how long a session, which a client names in the header `x-vecsieve-session`, remembers what it was given."""

    ttl_seconds: Seconds = setting(1800.0, "after its last search; half an hour is the usual end of a conversation")
    turns: OrNone[Count] = setting(None, "results of so many last searches stand behind new ones; none: of all")
    keeps: Share = setting(
        0.625,
        "of a page at most: results near the best one keep a place at its end although earlier turns were given them, so that the answer "
        "is on the page; more makes conversations repeat hardly less than without a session. 0: the same question again is the next page",
    )


class StitchSettings(Model):
    """Chunks of one document that overlap: by their spans (`metadata`), else by their words, where the end of one text is the beginning
    of the other. A word alone is the mode.
    """

    mode: StitchMode = setting(
        "off",
        "drop: the best-ranked stays; mark: the page stays, `/explain` and x-vecsieve-collapsed tell of the overlaps",
    )
    overlap: Share = setting(
        0.5,
        "for drop, share of the shorter chunk: a dropped chunk takes what does not overlap with it. 0: chunks that touch",
    )


def of_mode(value: object) -> object:
    """A word alone: this mode."""
    return {"mode": value} if isinstance(value, str) else value


class BudgetSettings(Model):
    """The most text that the results of a search have together: the answer ends before the result that would exceed it, never
    before the first. The header `x-vecsieve-token-budget` names the tokens for one request.
    """

    tokens: OrNone[Count] = setting(None, "none: no budget")
    field: OrNone[Name] = setting(
        None,
        "payload key or dotted path of the text that counts; none: `policy.text_fields`. Without it a result is free",
    )
    tokenizer: OrNone[Name] = setting(
        None,
        "an encoding of tiktoken such as o200k_base, which needs the extra `tokens`; none: UTF-8 bytes ÷ 4, rounded up",
    )


class PolicySettings(Model):
    """How results are chosen. The defaults were measured on eleven labelled sets."""

    mode: Mode = setting("on", "shadow: measures beside the unchanged answer; off: only relays")
    fetch: FetchSettings = FetchSettings()
    linkage: Linkage = setting(
        "leader",
        "clusters around better-ranked results: adding a copy changes no other result. single chains, complete splits",
    )
    certainty: Annotated[
        CertaintySettings, BeforeValidator(even), Wanted("a number from 0 to 1, or {first: …, last: …}")
    ] = CertaintySettings()
    calibrated: CalibratedSettings = CalibratedSettings()
    threshold: Annotated[Threshold | None, NoneWord] = setting(
        None,
        "a distance in place of the calibrated rule; none: the rule. Other linkages than leader take {relative: 0.20}",
    )
    # 2.5e-6: 0.05 false pairs among the 20,000 of a pool of 200 candidates, the largest by default.
    chance: Annotated[Annotated[float, Field(ge=0.0, lt=0.5)] | None, NoneWord] = setting(
        2.5e-6,
        "upper bound on the probability that two results of a pool without copies are within a relative cut. It "
        "narrows cuts in few dimensions (at 8 to 2 % of the usual squared distance, at 64 to 39 %); none: no bound",
    )
    when: Literal["redundant", "always"] = setting(
        "redundant",
        "act only when two of the first top_k are in one cluster, so that pools without copies are unchanged",
    )
    representative: Representative = setting("rank", "the best-ranked; centroid and longest lose the answer more often")
    chain: Ties = setting(
        ("citations", "authority", "recency", "shorter", "rank"),
        "for the representative `chain`, in this order; [recency] keeps the newest",
    )
    authority: Names = setting((), "sources for the tie authority, the most trusted first")
    caps: CapSettings = CapSettings()
    diversify: OrNone[Diversifier] = setting(
        None, "a diversifier instead of MMR; msd, cover and ssd need the extra `diversifiers`"
    )
    diversity: Share = setting(
        0.4, "for `diversify`: 0.0: relevance only, 1.0: diversity only (the opposite of lambda)"
    )
    mmr: Annotated[MmrSettings | None, NoneWord, Wanted("{lambda: …} or none")] = None
    order: Literal["backend", "mmr"] = setting(
        "backend", "the backend's ranking: clients expect the best result first and monotone scores"
    )
    short: Literal["grow_then_fill", "grow_then_repeat", "fill", "allow"] = setting(
        "grow_then_fill",
        "with fewer distinct results than asked for: a larger pool, then the least redundant copies, but no text twice; "
        "grow_then_repeat: equal texts too, for applications that index [limit - 1]; fill: the same without a larger pool",
    )
    distance: Literal["auto", "cosine"] = setting(
        "auto",
        "the metric that the scores show: direction for cosine, position for others, both if unknown; cosine: always direction",
    )
    tenant_keys: Names = setting((), "payload keys whose values must be equal within a cluster")
    text: Annotated[TextSettings | None, NoneWord, Wanted("{containment: …, …} or none")] = TextSettings()
    text_fields: Names = setting(
        ("text", "page_content", "content", "document", "chunk", "body", "chunk_text"),
        "where client libraries store the text; keys or dotted paths, the first one present counts",
    )
    metadata: MetadataSettings = MetadataSettings()
    guards: GuardSettings = GuardSettings()
    budget: BudgetSettings = BudgetSettings()
    stitch: Annotated[StitchSettings, BeforeValidator(of_mode), Wanted("off, mark, drop, or {mode: …, overlap: …}")] = (
        StitchSettings()
    )
    session: SessionSettings = SessionSettings()
    vector: OrNone[str] = setting(None, "the named vector to compare by; none: the request's")
    per_retriever: bool = setting(
        False,
        "of a fusion of several searches each list is rid of copies before the fusion, and the fused one after it",
    )
    write: WriteSettings = WriteSettings()

    @model_serializer(mode="wrap")
    def _what_decides(self, dump: SerializerFunctionWrapHandler) -> dict[str, object]:
        """Without the certainty beside a threshold: nobody has set it, and the two together are refused."""
        tree: dict[str, object] = dump(self)
        if self.threshold is not None:
            del tree["certainty"]
        return tree
