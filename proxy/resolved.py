"""A policy as one search needs it, and how it is made of the settings. Immutable: an override makes another one."""

from __future__ import annotations

from dataclasses import dataclass, field

from vecsieve.config.policy import (
    FetchSettings,
    FixedThreshold,
    GrowingThreshold,
    GuardSettings,
    MetadataSettings,
    MmrSettings,
    PolicySettings,
    RelativeThreshold,
    TextSettings,
)
from vecsieve.config.values import Mode
from vecsieve.proxy.fields import Fields
from vecsieve.proxy.selection.policy import (
    Caps,
    Distance,
    Dpp,
    External,
    Fixed,
    Growing,
    Guards,
    Linkage,
    Method,
    Mmr,
    Order,
    Policy,
    Relative,
    Relevance,
    Require,
    Short,
    Similarity,
    Strategy,
    TextRules,
    Threshold,
    Tie,
    When,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetch:
    """How many candidates to ask for. ``exact``: the number a client named for this request, None without one.

    ``adaptive``: begin with fewer than ``factor`` says and learn per collection how many are needed. ``lookups``: read the
    vectors that a search cannot bring by a second request.
    """

    factor: float
    floor: int
    cap: int
    page_cap: int
    adaptive: bool
    lookups: bool
    exact: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedPolicy:
    """Everything that one search must know.

    ``text_fields``: payload keys that may hold the text. ``metadata``: where payloads keep the rest. ``vector``: the named
    vector to compare by; None: the request decides. ``is_profiled``: whether a collection's profile, or what its traffic
    taught, may say how to read the threshold: not where the request names one. ``fields``: what of each payload the policy
    looks at; what it does not need is not fetched.
    """

    mode: Mode
    fetch: Fetch
    selection: Policy
    tenant_keys: tuple[str, ...]
    text_fields: tuple[str, ...]
    metadata: MetadataSettings
    vector: str | None
    is_profiled: bool = True
    fields: Fields = field(init=False)

    def __post_init__(self) -> None:
        """Work out the fields once a policy: every search asks for them several times."""
        object.__setattr__(self, "fields", self._looked_at())

    def _looked_at(self) -> Fields:
        chosen, known = self.selection, self.metadata
        by_chain = chosen.chain if chosen.representative is Strategy.CHAIN else ()
        needs_span = chosen.text is not None and chosen.text.span is not None
        needs_length = chosen.representative is Strategy.LONGEST or Tie.SHORTER in by_chain
        needs_document = needs_span or chosen.caps.per_document is not None
        needs_source = bool(
            chosen.guards.keep_sources
            or chosen.caps.per_source is not None
            or (Tie.AUTHORITY in by_chain and chosen.authority)
        )
        return Fields(
            text=self.text_fields if chosen.text is not None or needs_length else (),
            document=known.document if needs_document else (),
            section=(),  # part of a snippet's identity, which no search looks at
            source=known.source if needs_source else (),
            span_start=known.span_start if needs_span or Tie.SHORTER in by_chain else (),
            span_end=known.span_end if needs_span or Tie.SHORTER in by_chain else (),
            chunk_index=known.chunk_index if needs_span else (),
            updated=known.updated if Tie.RECENCY in by_chain else (),
            citations=known.citations if Tie.CITATIONS in by_chain else (),
            chunk_size=known.chunk_size,
            chunk_overlap=known.chunk_overlap,
        )


def resolved(policy: PolicySettings, *, mode: Mode | None) -> ResolvedPolicy:
    """The settings as the search wants them. ``mode``: one that overrides the policy's, None without."""
    return ResolvedPolicy(
        mode=policy.mode if mode is None else mode,
        fetch=_fetch(policy.fetch),
        selection=_selection(policy),
        tenant_keys=policy.tenant_keys,
        text_fields=policy.text_fields,
        metadata=policy.metadata,
        vector=policy.vector,
    )


def mmr_of(settings: MmrSettings) -> Mmr:
    """MMR as selection wants it."""
    return Mmr(
        weight=settings.lambda_,
        relevance=Relevance(settings.relevance),
        similarity=Similarity(settings.similarity),
    )


def threshold_of(settings: FixedThreshold | RelativeThreshold | GrowingThreshold) -> Threshold:
    """A threshold as selection wants it."""
    if isinstance(settings, FixedThreshold):
        return Fixed(value=settings.fixed)
    if isinstance(settings, RelativeThreshold):
        return Relative(factor=settings.relative, minimum=settings.min, maximum=settings.max)
    return Growing(
        factor=settings.growing,
        power=settings.power,
        most=settings.most,
        trusted=settings.trusted,
        wary=settings.wary,
        minimum=settings.least,
    )


def suited(threshold: Threshold, linkage: Linkage) -> Threshold:
    """The threshold under this linkage: only a walk knows a cut that grows, the others take the relative default."""
    if isinstance(threshold, Growing) and linkage is not Linkage.LEADER:
        return threshold_of(RelativeThreshold())
    return threshold


def _fetch(settings: FetchSettings) -> Fetch:
    return Fetch(
        factor=settings.factor,
        floor=settings.floor,
        cap=settings.cap,
        page_cap=settings.page_cap,
        adaptive=settings.adaptive,
        lookups=settings.integrated == "fetch",
    )


def _selection(policy: PolicySettings) -> Policy:
    return Policy(
        linkage=Linkage(policy.linkage),
        threshold=suited(threshold_of(policy.threshold), Linkage(policy.linkage)),
        chance=policy.chance,
        when=When(policy.when),
        representative=Strategy(policy.representative),
        diversifier=_diversifier(policy),
        order=Order(policy.order),
        short=Short(policy.short),
        distance=Distance(policy.distance),
        text=None if policy.text is None else _text(policy.text, short_words=policy.guards.short_words),
        guards=_guards(policy.guards),
        chain=tuple(Tie(tie) for tie in policy.chain),
        authority=policy.authority,
        caps=Caps(
            per_cluster=policy.caps.per_cluster,
            per_document=policy.caps.per_document,
            per_source=policy.caps.per_source,
        ),
    )


def _diversifier(policy: PolicySettings) -> Mmr | Dpp | External | None:
    if policy.diversify is None:
        return None if policy.mmr is None else mmr_of(policy.mmr)
    if policy.diversify == "dpp":
        return Dpp(diversity=policy.diversity)
    return External(method=Method(policy.diversify), diversity=policy.diversity)


def _text(settings: TextSettings, *, short_words: int) -> TextRules:
    return TextRules(
        identical=settings.identical,
        containment=settings.containment,
        jaccard=settings.jaccard,
        simhash=settings.simhash,
        minhash=settings.minhash,
        indel=settings.indel,
        require=Require(settings.require),
        span=settings.span,
        reach=settings.reach,
        short_words=short_words,
        short_factor=settings.short_factor,
    )


def _guards(settings: GuardSettings) -> Guards:
    return Guards(
        numbers=settings.numbers,
        dates=settings.dates,
        versions=settings.versions,
        amounts=settings.amounts,
        negation=settings.negation,
        short_words=settings.short_words,
        keep_sources=settings.keep_sources,
    )
