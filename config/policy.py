"""The settings of a policy: how results are chosen. Each default is declared once, with its reason."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from operator import attrgetter
from typing import Annotated, Literal

from pydantic import (
    BeforeValidator,
    Field,
)

from .backends import KNOWN_TEXTS
from .values import (
    CosineDistance,
    Count,
    Linkage,
    MergePolicy,
    Mode,
    Model,
    Name,
    Names,
    NoneWord,
    OrNone,
    Overlap,
    Phrase,
    Representative,
    Seconds,
    Share,
    Texts,
    Ties,
    WriteMode,
    WriteTier,
    setting,
)


class FetchSettings(Model):
    """How many candidates are fetched for a page of top_k."""

    factor: Annotated[float, Field(ge=1.0, le=50.0)] = setting(
        5.0,
        "fetched candidates per result at first; 3 to 5 is enough, more adds cost but not quality. Where the last pages of a "
        "collection reached deeper, as many more are fetched, up to cap; where texts decide and they reached less deep, as many less, from top_k on",
    )
    floor: Count = setting(
        24, "the least candidates at first; for top_k = 8 results do not change beyond 24 to 40 candidates"
    )
    cap: Count = setting(
        256,
        "the most candidates: a page of ten is full behind 200 copies of one text. 256 × 1536 dimensions decode in about 30 ms, beside the event "
        "loop",
    )
    page_cap: Count = setting(1000, "the deepest rank that a paged search may fetch; deeper pages pass through")
    integrated: Literal["text", "fetch"] = setting(
        "text",
        "for Pinecone's integrated records. text: compares texts. fetch: reads their vectors by id. This costs a read unit per 10 "
        "records (20 × a query of a small namespace) and all metadata as egress; an index allows 100 fetches a second",
    )


class ThresholdSettings(Model):
    """Candidates merge at cosine distance ≤ fixed; or ≤ relative × the pool's median pairwise distance, clipped to [min, max]."""

    fixed: OrNone[CosineDistance] = setting(
        None, "one cut for every pool; 0.15 is usual, no value fits all embedding models. none: the relative one"
    )
    relative: Share = setting(0.20, "keeps the answer in ≥ 98 % of queries on eleven labelled sets")
    min: CosineDistance = setting(
        0.0, "absolute minimum; above 0 it merges non-copies of models whose distances are all small"
    )
    max: CosineDistance = setting(0.30, "absolute maximum, however wide the pool")


class CertaintySettings(Model):
    """The probability of a repeat from which on two results without texts merge by their vectors (the calibrated rule). A single number applies
    to all ranks of the page.
    """

    first: Share = setting(0.85, "for the second result, which is the answer most often")
    last: Share = setting(0.40, "for the eighth and all later results")


def even(value: object) -> object:
    """Turns a single number into the same certainty for all ranks. A number out of range is returned unchanged, so that the error
    message shows it as written.
    """
    if isinstance(value, (int, float)) and not isinstance(value, bool) and 0.0 <= value <= 1.0:
        return {"first": float(value), "last": float(value)}
    return value


class MmrSettings(Model):
    """Maximal marginal relevance over the representatives."""

    lambda_: Share = Field(
        default=0.7,
        alias="lambda",
        description="1.0: relevance only; 0.7 with scaled similarity keeps ≥ 98 % of answers",
    )
    scaled: bool = setting(
        True,
        "relevance is scaled over the pool, because with raw cosine MMR prefers irrelevant results; similarity is max(0, 1 − distance / "
        "median pool distance), because models differ by a factor of three. false: both raw, as in most articles",
    )


# Loaders keep what they know of a document in one of these objects (Kernel Memory in `payload`).
_OBJECTS = ("", "metadata.", "meta.", "metadatas.", "payload.")
# Names that frameworks and loaders use, the exact ones first: two files may have one name, and a document may be changed after it was made.
_SOURCES = (
    "source",
    "url",
    "file_path",
    "filePath",
    "file_name",
    "filename",
    "file",
    "document_name",
    "docSource",
    "name",
)
_TIMES = (
    "updated_at",
    "updatedAt",
    "last_update",
    "last_modified_date",
    "last_modified",
    "modified_at",
    "moddate",
    "date",
    "timestamp",
    "published_at",
    "created_at",
    "createdAt",
    "creation_date",
    "creationdate",
)


def also_nested(*names: str) -> tuple[str, ...]:
    """The names, then each inside the objects in which loaders keep metadata."""
    return tuple(f"{inside}{name}" for inside in _OBJECTS for name in names)


class MetadataSettings(Model):
    """Payload fields for chunk spans, ties and caps, as keys or dotted paths. The first field that is present is used."""

    document: Names = setting(also_nested("doc_id", "document_id"), "for spans and caps.per_document")
    source: Names = setting(also_nested(*_SOURCES), "for authority, keep_sources, caps.per_source and collapsed")
    span_start: Names = setting(("token_start",), "first token or character of the chunk")
    span_end: Names = setting(("token_end",), "the position after the chunk's last token or character")
    chunk_index: Names = setting(("chunk_index",), "the chunk's number within its document")
    chunk_size: OrNone[Count] = setting(
        None, "size of a chunk, to compute a span from chunk_index; none: only equal chunk numbers overlap"
    )
    chunk_overlap: Annotated[int, Field(ge=0)] = setting(0, "overlap of neighbouring chunks, in the unit of chunk_size")
    updated: Names = setting(
        also_nested(*_TIMES), "a number, date or release, for the representative newest and the tie-breaker recency"
    )
    citations: Names = setting(
        ("citations", "url", "title"), "for the tie-breaker citations, which counts the fields that are not empty"
    )


class CapSettings(Model):
    """The most results from one cluster, document or source."""

    per_cluster: Annotated[int, Field(ge=1, le=100)] = setting(1, "one result represents its copies")
    per_document: OrNone[Count] = setting(
        None, "none: any number, because a client may want all chunks of one document"
    )
    per_source: OrNone[Count] = setting(None, "none: any number")


CHANGING: frozenset[WriteMode] = frozenset({"skip", "merge", "reject"})
"""Modes of the write gate that may leave points out, merge or refuse them."""


class WriteSettings(Model):
    """The write gate. It compares upserts with stored points, and with earlier points of the same write. Off by default; no header
    changes it. docs/writes.md.
    """

    mode: WriteMode = setting(
        "off",
        "observe: counts and logs duplicates, the write is unchanged; annotate: adds `_vecsieve` to the payloads of duplicates; "
        "skip: leaves duplicates out and keeps them in `journal.path`; merge: as skip, but `merge` decides which of two copies stays; "
        "reject: refuses writes that have duplicates",
    )
    merge: MergePolicy = setting(
        "keep-newest",
        "for mode merge: which of two copies stays. If lengths or confidences are equal, or times are missing, the newest stays; with "
        "keep-oldest the stored one stays then. merge: the longer text, united arrays, the larger number, otherwise the incoming value",
    )
    custom: OrNone[str] = setting(
        None,
        "`module:function` for the policy custom. It gets the stored and the incoming payload, and returns `stored`, `incoming` or a "
        "payload. Imported when the settings are loaded",
    )
    timestamps: Names = setting(
        ("timestamp", "createdAt"), "fields with the time of a point: a number or an ISO 8601 date"
    )
    confidences: Names = setting(("confidence",), "fields with a number, for keep-highest-confidence")
    semantic: Share = setting(
        0.90, "cosine similarity from which on a point that is no duplicate is counted as semantic"
    )
    related: Share = setting(0.75, "cosine similarity; below it a point is not compared, and is unique")
    least: WriteTier = setting(
        "exact",
        "for observe and annotate: the lowest tier that counts as a duplicate. exact: the text is equal to another one, or one run of it; semantic and "
        "related are similarities of vectors, which prove nothing, so skip, merge and reject leave out none of them",
    )
    neighbours: Annotated[int, Field(ge=1, le=32)] = setting(
        4, "stored points that are compared with each point, in addition to those of the same write"
    )
    deadline_seconds: Annotated[float, Field(gt=0.0, le=30.0)] = setting(
        2.0,
        "for the neighbours of one write, or a quarter of the client's own timeout if that is less; then the write is sent unchanged",
    )

    @property
    def unites(self) -> bool:
        """Whether the point that stays takes what it lacks of the other one."""
        return self.mode == "merge" and self.merge == "merge"

    def custom_policy(self) -> Callable[..., object]:
        """The function that `custom` names. Raises ImportError, SyntaxError, AttributeError, ValueError or TypeError."""
        module, _, name = (self.custom or "").partition(":")
        function: object = attrgetter(name)(import_module(module))
        if not callable(function):
            raise TypeError(name)
        return function

    def under(self, mode: Mode | None) -> WriteSettings:
        """With the mode that overrides every policy's: off disables it, shadow only observes."""
        if mode is None or mode == "on" or self.mode == "off":
            return self
        return self.model_copy(update={"mode": "off" if mode == "off" else "observe"})


class SessionSettings(Model):
    """How long a session (header `x-vecsieve-session`) remembers results, and how many earlier results may stay on a page."""

    ttl_seconds: Seconds = setting(1800.0, "time after its last search; conversations usually end after half an hour")
    turns: OrNone[Count] = setting(
        None, "the number of last searches whose results come after new ones; none: all searches"
    )
    question_seconds: OrNone[Annotated[float, Field(gt=0.0, le=10.0)]] = setting(
        None,
        "searches of one client within this time are one question, without the header: 1.0 for applications that send a search for each "
        "sub-question and collection, and serve one person with a key at a time. none: every search is a question",
    )
    keeps: Share = setting(
        0.625,
        "largest share of a page for results of earlier turns whose scores are near the best one. They stay at the end, so that the answer "
        "is on the page. With a larger share a session hardly reduces repeats. 0: the same question again returns the next page",
    )


class BudgetSettings(Model):
    """The largest total text of the results of a search. The answer ends before the result that would exceed it, but always has the
    first result. The header `x-vecsieve-token-budget` sets the tokens for one request.
    """

    tokens: OrNone[Count] = setting(None, "none: no budget")
    field: OrNone[Name] = setting(
        None,
        "payload key or dotted path of the text that is counted; none: `policy.text_fields`. A result without this text costs nothing",
    )
    tokenizer: OrNone[Name] = setting(
        None,
        "an encoding of tiktoken such as o200k_base, which needs the extra `tokens`; none: UTF-8 bytes ÷ 4, rounded up",
    )


class PolicySettings(Model):
    """How results are chosen. The defaults were measured on eleven labelled sets."""

    mode: Mode = setting("on", "shadow: measures, the answer is unchanged; off: only relays")
    fetch: FetchSettings = FetchSettings()
    linkage: Linkage = setting(
        "leader",
        "leader: clusters around better-ranked results, so an additional copy changes no other result; single linkage forms chains, complete "
        "linkage splits clusters",
    )
    texts: OrNone[Texts] = setting(
        "edited",
        "which results leave because the results that stay say all of their text. exact: one piece of one result; said: also what several results say "
        "together, and headers aside; edited: also edited copies of long texts; none: texts are not read, vectors decide",
    )
    rewordings: OrNone[Share] = setting(
        None,
        "the largest doubt at which a sentence leaves because another result says it in other words; 0.36 in the preset meaning. No text proves it, so "
        "it is off by default; writes and deletions never use it",
    )
    certainty: Annotated[
        CertaintySettings | None,
        NoneWord,
        BeforeValidator(even),
        Phrase("none, a number from 0 to 1, or {first: …, last: …}"),
    ] = setting(None, "the calibrated rule for results without texts; none: only nearly equal vectors merge")
    threshold: Annotated[
        ThresholdSettings | None, NoneWord, Phrase("{fixed: …} or {relative: …, min: …, max: …} or none")
    ] = setting(
        None,
        "a distance within which results without texts merge, in place of the certainty; none: only nearly equal vectors",
    )
    when: Literal["redundant", "always"] = setting(
        "redundant",
        "redundant: act only when two of the first top_k are in one cluster, so that pages without copies are unchanged",
    )
    representative: Representative = setting(
        "rank",
        "which of several results that say the same stays. rank: the best-ranked; newest: the last by `metadata.updated`; centroid and longest lose the "
        "answer more often",
    )
    chain: Ties = setting(
        ("citations", "authority", "recency", "shorter", "rank"),
        "for the representative `chain`, in this order",
    )
    authority: Names = setting((), "sources for the tie-breaker authority, most trusted first")
    caps: CapSettings = CapSettings()
    dpp: OrNone[Share] = setting(
        None,
        "a determinantal point process instead of MMR, with this diversity: 0.0: relevance only, 0.4: usual, 1.0: diversity only (the opposite "
        "of lambda)",
    )
    mmr: Annotated[MmrSettings | None, NoneWord, Phrase("{lambda: …} or none")] = None
    order: Literal["backend", "mmr"] = setting(
        "backend", "backend: the backend's ranking, because clients expect the best result first and monotone scores"
    )
    short: Literal["grow_then_fill", "grow_then_repeat", "fill", "allow"] = setting(
        "grow_then_fill",
        "what to do with fewer distinct results than asked for. grow_then_fill: fetch a larger pool, then fill with the copies that say most "
        "beyond the page, but not with proven ones; grow_then_repeat: fill with proven copies, too, for applications that index [limit - 1]; fill: as "
        "grow_then_repeat without a larger pool; allow: a short page",
    )
    overlap: Overlap = setting(
        "keep",
        "what happens to a chunk of which the page has a part. exchange: another chunk, which together with the page says all of it, takes its place, so "
        "that less is read twice and nothing is lost. At least 50 candidates are fetched, and scores may no longer descend. Where texts decide, without "
        "caps, diversifier or session",
    )
    distance: Literal["auto", "cosine"] = setting(
        "auto",
        "auto: the metric inferred from the scores: direction for cosine, position for others, both if unknown; cosine: always direction",
    )
    tenant_keys: Names = setting((), "payload keys whose values must be equal within a cluster")
    text_fields: Names = setting(
        KNOWN_TEXTS,
        "keys or dotted paths of the text, also inside a string that is JSON. Those of a setting come first and are used as they are; the default "
        "ones and all other strings of a payload are used if they behave like texts",
    )
    ignore: Names = setting(
        (),
        "payload fields in which copies may differ, each with all below it; `*`: all. Without a name, strings beside the text must be on the page, too, "
        "apart from what tells which copy it is (docs/limits.md); and the write gate stores equal texts with any other value",
    )
    metadata: MetadataSettings = MetadataSettings()
    keep_sources: Names = setting((), "results of these sources are never collapsed")
    collapsed: Literal["off", "header", "payload"] = setting(
        "off",
        "where an answer lists the copies that a result stands for. header: their ids, in `x-vecsieve-collapsed`; payload: ids and sources, in the "
        "result's metadata. The header `x-vecsieve-collapsed` sets it for one request",
    )
    budget: BudgetSettings = BudgetSettings()
    session: SessionSettings = SessionSettings()
    vector: OrNone[str] = setting(None, "the named vector to compare by; none: the request's")
    per_retriever: bool = setting(
        False,
        "remove copies from each list of a fusion of several searches before the fusion, and from the fused list after it",
    )
    write: WriteSettings = WriteSettings()
