"""The policy of one search, built from the settings. Immutable."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from fnmatch import translate
from functools import lru_cache

from vecsieve.config.backends import DOCUMENT_TEXT, KNOWN_TEXTS
from vecsieve.config.policy import (
    FetchSettings,
    MetadataSettings,
    MmrSettings,
    PolicySettings,
    SessionSettings,
    ThresholdSettings,
    WriteSettings,
)
from vecsieve.config.presets import policy_of
from vecsieve.config.schema import RuleSettings, Settings
from vecsieve.config.values import Mode

from ..selection.diversifiers.choice import Diversifier
from ..selection.diversifiers.dpp import Dpp
from ..selection.diversifiers.mmr import Mmr
from ..selection.policy import (
    Caps,
    Certain,
    Distance,
    Fixed,
    Linkage,
    Order,
    Overlap,
    Policy,
    Relative,
    Short,
    Strategy,
    Threshold,
    Tie,
    Tier,
    When,
)
from ..selection.single import decides_a_page
from ..telemetry.labels import CollapsedIn, RuleLabel
from .collections.learned import Lru
from .collections.statements import is_known_name
from .context.canary import Members
from .context.tokens import UNLIMITED, TextBudget, tokenizer

# The largest probability that two distinct results are within a relative cut: 0.05 false pairs among the 20,000 of a pool of 200 candidates, the
# largest default pool. It narrows cuts in few dimensions (at 8 to 2 % of the usual squared distance, at 64 to 39 %).
CHANCE = 2.5e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class Fields:
    """Payload keys or dotted paths to read; the first one present is used; () is unused.

    ``guesses``: where the text may be as well, if the values behave like texts; () once that is known. ``ignored``: in which copies may differ.
    ``citations``: all are counted. ``chunk_size`` turns chunk number i into the span [i * (size - overlap), + size); None makes it [i, i +
    1). ``budget``: paths of the texts that a token budget counts, if they are not ``text``. ``heads``: the distinct first keys, in order.
    ``are_texts``: whether nothing else is read.
    """

    text: tuple[str, ...]
    document: tuple[str, ...]
    source: tuple[str, ...]
    span_start: tuple[str, ...]
    span_end: tuple[str, ...]
    chunk_index: tuple[str, ...]
    updated: tuple[str, ...]
    citations: tuple[str, ...]
    chunk_size: int | None
    chunk_overlap: int
    budget: tuple[str, ...] = ()
    guesses: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()

    heads: tuple[str, ...] = field(init=False, compare=False)
    are_texts: bool = field(init=False, compare=False)

    def __post_init__(self) -> None:
        """Compute once per policy what every search reads several times."""
        others = (
            *self.document,
            *self.source,
            *self.span_start,
            *self.span_end,
            *self.chunk_index,
            *self.updated,
            *self.citations,
        )
        paths = (*self.text, *self.guesses, *others, *self.budget)
        object.__setattr__(self, "heads", tuple(dict.fromkeys(path.split(".", 1)[0] for path in paths)))
        object.__setattr__(self, "are_texts", not (self.guesses or others or self.budget))


@lru_cache(1024)  # a pool's columns are named by them
def keys_of(tenant_keys: tuple[str, ...], fields: Fields) -> tuple[str, ...]:
    """The top-level payload keys of a pool's fields: those of the tenant first."""
    return (*tenant_keys, *[key for key in fields.heads if key not in tenant_keys])


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedPolicy:
    """Everything that one search needs.

    ``text_fields``: where a setting says that the text is. ``ignored``: in which payload fields copies may differ. ``guesses``: where it may be as well; () if no setting wants texts. ``learned``:
    where the collection's texts are otherwise; None for unknown. ``metadata``: where payloads keep the rest. ``vector``: the named vector to
    compare by; None: the request decides. ``is_profiled``: whether a collection's profile or learned scale applies; not if the request
    names a threshold. ``rule``: the rule that gave it, by its name or RuleLabel. ``fields``: the payload fields that the policy needs;
    others are not fetched. ``collapsed_in``: where copies are reported. ``per_retriever``: whether copies are
    removed from each list of a fusion. ``write``: for writes; set by the settings only. ``is_across``: whether a list of a request leaves
    out results of earlier ones; set by the request only. ``is_surrounded``:
    whether the answer depends on more than its own pool. ``is_by_texts``: whether texts alone decide between results that have one, so that no
    vector is needed; ``is_by_rank``: and a page depends on its candidates up to the last result alone, so that a smaller pool gives the same page.
    ``session_key``: a digest of the session that the request names, or of its question; None without one. ``is_question``: its session is one
    question of a client; then turns are milliseconds. ``exact_fetch``: the number of candidates that the request
    names; None for the policy's. ``demotes``: whether results that were shown before are placed behind new ones. ``reads_texts``: whether texts decide about copies, or their
    lengths about which of them stays. ``keys``: the top-level payload keys that it reads: those of the
    tenant, which the adapter must fetch, then those that it may fetch; a pool's fields are these. ``text_places``: among them, those of texts. ``unproven``: learned paths under unknown
    names, which one pool may show to be no texts where others have shown the opposite.
    """

    mode: Mode
    fetch: FetchSettings
    selection: Policy
    tenant_keys: tuple[str, ...]
    text_fields: tuple[str, ...]
    metadata: MetadataSettings
    vector: str | None
    write: WriteSettings
    session: SessionSettings
    guesses: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    is_profiled: bool = True
    rule: str = RuleLabel.DEFAULT.value
    collapsed_in: CollapsedIn = CollapsedIn.OFF
    per_retriever: bool = False
    budget: TextBudget = UNLIMITED
    is_across: bool = False
    learned: tuple[str, ...] | None = None
    session_key: bytes | None = None
    is_question: bool = False
    exact_fetch: int | None = None
    fields: Fields = field(init=False)
    is_surrounded: bool = field(init=False)
    is_by_texts: bool = field(init=False)
    is_by_rank: bool = field(init=False)
    demotes: bool = field(init=False)
    reads_texts: bool = field(init=False)
    keys: tuple[str, ...] = field(init=False)
    text_places: tuple[int, ...] = field(init=False)
    unproven: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        """Compute once per policy what every search reads several times."""
        chosen = self.selection
        is_shorter_first = chosen.representative is Strategy.CHAIN and Tie.SHORTER in chosen.chain
        reads_texts = chosen.texts is not None or chosen.representative is Strategy.LONGEST or is_shorter_first
        object.__setattr__(self, "reads_texts", reads_texts)
        object.__setattr__(self, "demotes", self.is_across or self.session_key is not None)
        fields = self._needed_fields()
        object.__setattr__(self, "fields", fields)
        object.__setattr__(self, "keys", keys_of(self.tenant_keys, fields))
        heads = {path.split(".", 1)[0] for path in fields.text}
        places = tuple([place for place, key in enumerate(self.keys) if key in heads])
        object.__setattr__(self, "text_places", places)
        unproven = tuple([path for path in self.learned or () if not is_known_name(path)])
        object.__setattr__(self, "unproven", unproven)
        object.__setattr__(self, "is_surrounded", self.budget.tokens is not None or self.demotes)
        object.__setattr__(self, "is_by_texts", chosen.is_by_texts and not self.per_retriever)
        is_named = self.exact_fetch is not None or self.collapsed_in is not CollapsedIn.OFF
        is_by_rank = self.is_by_texts and not (self.is_surrounded or is_named) and decides_a_page(chosen)
        object.__setattr__(self, "is_by_rank", is_by_rank and chosen.overlap is Overlap.KEEP)

    def with_texts(self, paths: tuple[str, ...]) -> ResolvedPolicy:
        """The policy for a collection whose texts are at these paths, where they are at none of a setting; () for none."""
        return replace(self, learned=paths) if self.guesses else self

    @property
    def text_paths(self) -> tuple[str, ...]:
        """Where texts are, or may be while that is unknown."""
        return tuple(dict.fromkeys((*self.text_fields, *(self.guesses if self.learned is None else self.learned))))

    @property
    def is_settled(self) -> bool:
        """Whether it is known where the texts are."""
        return not self.fields.guesses

    def _needed_fields(self) -> Fields:
        chosen, known = self.selection, self.metadata
        by_chain = chosen.chain if chosen.representative is Strategy.CHAIN else ()
        needs_span = Tie.SHORTER in by_chain
        needs_document = chosen.caps.per_document is not None
        needs_source = bool(
            chosen.keep_sources
            or self.collapsed_in is CollapsedIn.PAYLOAD
            or chosen.caps.per_source is not None
            or (Tie.AUTHORITY in by_chain and chosen.authority)
        )
        text: tuple[str, ...] = ()
        guesses: tuple[str, ...] = ()
        if self.reads_texts:
            text = tuple(dict.fromkeys((*self.text_fields, *(self.learned or ()))))
            guesses = self.guesses if self.learned is None else ()
        counted = () if self.budget.tokens is None else self.budget.paths or self.text_paths
        return Fields(
            text=text,
            guesses=guesses,
            ignored=self.ignored,
            budget=() if {*text, *guesses}.issuperset(counted) else counted,
            document=known.document if needs_document else (),
            source=known.source if needs_source else (),
            span_start=known.span_start if needs_span else (),
            span_end=known.span_end if needs_span else (),
            chunk_index=known.chunk_index if needs_span else (),
            updated=known.updated if Tie.RECENCY in by_chain else (),
            citations=known.citations if Tie.CITATIONS in by_chain else (),
            chunk_size=known.chunk_size,
            chunk_overlap=known.chunk_overlap,
        )


def resolved(policy: PolicySettings, *, mode: Mode | None, rule: str = RuleLabel.DEFAULT.value) -> ResolvedPolicy:
    """Convert the settings. ``mode``: replaces the policy's; None: the policy's."""
    given, guesses = _text_fields(policy)
    return ResolvedPolicy(
        mode=policy.mode if mode is None else mode,
        fetch=policy.fetch,
        selection=_selection(policy),
        tenant_keys=policy.tenant_keys,
        text_fields=given,
        guesses=guesses,
        ignored=(*policy.ignore, *_named_places(policy.metadata)),
        metadata=policy.metadata,
        vector=policy.vector,
        per_retriever=policy.per_retriever,
        collapsed_in=CollapsedIn(policy.collapsed),
        write=policy.write.under(mode),
        rule=rule,
        budget=_budget(policy),
        session=policy.session,
    )


def _named_places(metadata: MetadataSettings) -> list[str]:
    """The fields in which copies may differ because a setting names them. The usual names are judged by their values, too: `name` may be a depot's."""
    usual = MetadataSettings()
    pairs = [
        (metadata.document, usual.document),
        (metadata.source, usual.source),
        (metadata.chunk_index, usual.chunk_index),
        (metadata.updated, usual.updated),
    ]
    return [name for names, known in pairs for name in names if name not in known]


def _text_fields(policy: PolicySettings) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The paths that a setting gives, which are used as they are, and those that may hold the text. An empty list means no texts."""
    names = policy.text_fields
    if names in {(), KNOWN_TEXTS, (DOCUMENT_TEXT, *KNOWN_TEXTS)}:
        return (), names
    return names, tuple(name for name in KNOWN_TEXTS if name not in names)


def _budget(policy: PolicySettings) -> TextBudget:
    budget = policy.budget
    count = tokenizer(budget.tokenizer, setting="policy.budget.tokenizer")
    return TextBudget(budget.tokens, () if budget.field is None else (budget.field,), count)


def mmr_of(settings: MmrSettings) -> Mmr:
    return Mmr(weight=settings.lambda_, is_scaled=settings.scaled)


def threshold_of(settings: ThresholdSettings) -> Threshold:
    """The threshold in selection's form."""
    if settings.fixed is not None:
        return Fixed(value=settings.fixed)
    return Relative(factor=settings.relative, minimum=settings.min, maximum=settings.max)


def suited(threshold: Threshold | None, linkage: Linkage) -> Threshold | None:
    """The threshold under this linkage: only ``leader`` supports the calibrated rule; others get the relative default."""
    if isinstance(threshold, Certain) and linkage is not Linkage.LEADER:
        return threshold_of(ThresholdSettings())
    return threshold


def _decided_by(policy: PolicySettings) -> Threshold | None:
    if policy.threshold is not None:
        return threshold_of(policy.threshold)
    if policy.certainty is None:
        return None
    return suited(Certain(first=policy.certainty.first, last=policy.certainty.last), Linkage(policy.linkage))


_TIERS = {"exact": Tier.EXACT, "said": Tier.SAID, "edited": Tier.EDITED}


def representative_of(name: str, chain: tuple[Tie, ...]) -> tuple[Strategy, tuple[Tie, ...]]:
    """The strategy and its chain; `newest` is a chain of one step. ``chain``: the policy's. Raises ValueError for an unknown name."""
    return (Strategy.CHAIN, (Tie.RECENCY,)) if name == "newest" else (Strategy(name), chain)


def _selection(policy: PolicySettings) -> Policy:
    representative, chain = representative_of(policy.representative, tuple(Tie(tie) for tie in policy.chain))
    return Policy(
        texts=None if policy.texts is None else _TIERS[policy.texts],
        rewordings=policy.rewordings,
        linkage=Linkage(policy.linkage),
        threshold=_decided_by(policy),
        chance=CHANCE,
        when=When(policy.when),
        diversifier=_diversifier(policy),
        order=Order(policy.order),
        short=Short(policy.short),
        overlap=Overlap(policy.overlap),
        distance=Distance(policy.distance),
        keep_sources=policy.keep_sources,
        representative=representative,
        chain=chain,
        authority=policy.authority,
        caps=Caps(
            per_cluster=policy.caps.per_cluster,
            per_document=policy.caps.per_document,
            per_source=policy.caps.per_source,
        ),
    )


def _diversifier(policy: PolicySettings) -> Diversifier | None:
    if policy.dpp is None:
        return None if policy.mmr is None else mmr_of(policy.mmr)
    return Dpp(diversity=policy.dpp)


MOST_REMEMBERED = 1024  # collections; a client that invents names only causes cache misses

Matches = Callable[[str], object]
_WILD = re.compile(r"[*?\[]")


def _matches(pattern: str) -> Matches:
    """Whether a whole name matches. Most patterns are names: of thousands none is compiled."""
    return re.compile(translate(pattern)).match if _WILD.search(pattern) else pattern.__eq__


@dataclass(frozen=True, slots=True)
class _Rule:
    backend: Matches
    collection: Matches
    settings: RuleSettings


class Policies:
    """The policies of the settings and their rules; that of a rule is resolved when a collection first needs it. ``is_raised``: with mode on in
    place of shadow, for the canary's searches; writes keep their mode. ``has_rules``: whether policies
    differ by collection. ``may_gate_writes``: whether one of them may gate writes.
    """

    __slots__ = (
        "_default",
        "_is_raised",
        "_remembered",
        "_resolved",
        "_rules",
        "_settings",
        "has_rules",
        "may_gate_writes",
    )

    def __init__(self, settings: Settings, *, is_raised: bool = False) -> None:
        self._settings, self._is_raised = settings, is_raised
        self._default = self._made(settings.policy)
        self._rules = tuple([_Rule(_matches(rule.backend), _matches(rule.collection), rule) for rule in settings.rules])
        self.has_rules = bool(self._rules)
        self.may_gate_writes = settings.policy.write.mode != "off" or any(
            "write" in rule.policy for rule in settings.rules
        )
        self._resolved: dict[int, ResolvedPolicy] = {}
        self._remembered = Lru[tuple[str, str], ResolvedPolicy](MOST_REMEMBERED)

    def resolve(self, backend: str, collection: str) -> ResolvedPolicy:
        """The policy of the first rule that matches both whole names, else the default policy."""
        if not self._rules:
            return self._default
        return self._remembered.use((backend, collection), lambda: self._matching(backend, collection))

    def rule_of(self, backend: str, collection: str) -> int | None:
        """The index of the deciding rule, from 0; None if none matches."""
        matching = (number for number, rule in enumerate(self._rules) if rule.backend(backend))
        return next((number for number in matching if self._rules[number].collection(collection)), None)

    def _matching(self, backend: str, collection: str) -> ResolvedPolicy:
        number = self.rule_of(backend, collection)
        if number is None:
            return self._default
        if number not in self._resolved:
            rule, settings = self._rules[number].settings, self._settings
            policy = policy_of(settings.policy, rule)
            name = rule.name or RuleLabel.UNNAMED.value
            self._resolved[number] = self._made(policy, rule=name)
        return self._resolved[number]

    def _made(self, policy: PolicySettings, *, rule: str = RuleLabel.DEFAULT.value) -> ResolvedPolicy:
        made = resolved(policy, mode=self._settings.mode, rule=rule)
        return replace(made, mode="on") if self._is_raised and made.mode == "shadow" else made


PREFIX = "x-vecsieve-"


def is_override(name: str) -> bool:
    """Whether a header is VecSieve's own, known or not; such headers are never sent upstream."""
    return name.lower().startswith(PREFIX)


@dataclass(frozen=True, slots=True)
class CanaryRules:
    """Which searches are in the canary, and their policies."""

    members: Members
    policies: Policies


@dataclass(frozen=True, slots=True)
class Rules:
    """Everything that a reload replaces at once; a request keeps the rules with which it began. ``canary``: None if the settings name none."""

    policies: Policies
    canary: CanaryRules | None
    forbidden_overrides: tuple[str, ...]
    shadow_sample: float
    report_header: bool

    @property
    def members(self) -> Members | None:
        """Of the canary."""
        return None if self.canary is None else self.canary.members

    @classmethod
    def of(cls, settings: Settings) -> Rules:
        members = Members.of(settings.canary, are_off=settings.mode == "off")
        canary = None if members is None else CanaryRules(members, Policies(settings, is_raised=True))
        return cls(
            Policies(settings), canary, settings.forbidden_overrides, settings.shadow.sample, settings.report_header
        )


@dataclass(slots=True)
class RulesInForce:
    """The rules for the next request; a reload sets ``now``."""

    now: Rules
