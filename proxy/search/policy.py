"""A policy as one search needs it, and how it is made of the settings. Immutable: an override makes another one."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from fnmatch import translate
from types import MappingProxyType
from typing import TypeVar

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
from vecsieve.config.presets import policy_of
from vecsieve.config.schema import OverrideSettings, Settings
from vecsieve.config.values import Mode
from vecsieve.proxy.selection.diversifiers import DIVERSIFIERS
from vecsieve.proxy.selection.diversifiers.mmr import Mmr
from vecsieve.proxy.selection.policy import (
    Caps,
    Distance,
    Diversifier,
    Fixed,
    Growing,
    Guards,
    Linkage,
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
from vecsieve.proxy.selection.text.signals import SIGNALS
from vecsieve.proxy.telemetry.labels import OverrideName

# Where a payload keeps what selection reads of it beside the vector.


@dataclass(frozen=True, slots=True, kw_only=True)
class Fields:
    """Payload keys or dotted paths, the first one present counts; () = not looked at.

    ``citations``: all of them, counted. ``chunk_size`` turns a chunk's number i into the span [i * (size - overlap), + size);
    None makes it [i, i + 1).
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

    def top_level(self) -> tuple[str, ...]:
        """The distinct first keys, in order: what the adapter is asked for."""
        paths = (
            *self.text,
            *self.document,
            *self.source,
            *self.span_start,
            *self.span_end,
            *self.chunk_index,
            *self.updated,
            *self.citations,
        )
        return tuple(dict.fromkeys(path.split(".", 1)[0] for path in paths))


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


def _diversifier(policy: PolicySettings) -> Diversifier | None:
    if policy.diversify is None:
        return None if policy.mmr is None else mmr_of(policy.mmr)
    return DIVERSIFIERS[policy.diversify](policy.diversity)


def _near(settings: TextSettings) -> tuple[tuple[str, float], ...]:
    """The signals that are switched on, in the order of the settings."""
    given = ((name, getattr(settings, name)) for name in TextSettings.model_fields if name in SIGNALS)
    return tuple((name, threshold) for name, threshold in given if threshold is not None)


def _text(settings: TextSettings, *, short_words: int) -> TextRules:
    return TextRules(
        identical=settings.identical,
        near=_near(settings),
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


# Which policy holds for a collection: the settings' rules, made ready once so that a request only looks up.

MOST_REMEMBERED = 1024  # collections; a client that invents names makes the oldest be looked up anew, nothing more

Matches = Callable[[str], object]


@dataclass(frozen=True, slots=True)
class _Rule:
    backend: Matches
    collection: Matches
    policy: ResolvedPolicy


class Policies:
    """The settings' policies. Raises pydantic's ValidationError for a rule that no loader has seen."""

    __slots__ = ("_default", "_remembered", "_rules")

    def __init__(self, settings: Settings) -> None:
        self._default = resolved(settings.policy, mode=settings.mode)
        self._rules = tuple(
            _Rule(
                backend=re.compile(translate(rule.backend)).match,
                collection=re.compile(translate(rule.collection)).match,
                policy=resolved(policy_of(settings.policy, rule), mode=settings.mode),
            )
            for rule in settings.rules
        )
        self._remembered: dict[tuple[str, str], ResolvedPolicy] = {}

    def resolve(self, backend: str, collection: str) -> ResolvedPolicy:
        """The policy of the first rule that matches both names whole, else the settings' own."""
        if not self._rules:
            return self._default
        found = self._remembered.get((backend, collection))
        if found is None:
            found = self._looked_up(backend, collection)
            if len(self._remembered) >= MOST_REMEMBERED:
                del self._remembered[next(iter(self._remembered))]
            self._remembered[backend, collection] = found
        return found

    def _looked_up(self, backend: str, collection: str) -> ResolvedPolicy:
        for rule in self._rules:
            if rule.backend(backend) and rule.collection(collection):
                return rule.policy
        return self._default


# What one request may change about its policy, by headers. They are the proxy's own and never reach upstream.
#
# A header that cannot be obeyed is refused: silence would look like obedience. The refusal names the header and what may
# be written there, and never says what was: header values hold credentials often enough that none is ever reflected.

PREFIX = "x-vecsieve-"
HEADERS: Mapping[str, OverrideName] = MappingProxyType(
    {PREFIX + name.value.replace("_", "-"): name for name in OverrideName}
)

_MODES: Mapping[str, Mode] = MappingProxyType({"on": "on", "shadow": "shadow", "off": "off"})
_NUMBER = re.compile(r"(\.[0-9]{1,18}|[0-9]{1,9}(\.[0-9]{0,18})?)([eE][-+]?[0-9]{1,2})?")
_WHOLE = re.compile(r"[0-9]{1,9}")
_BLANKS = " \t"  # optional white space around a field value, RFC 9110 5.5

Word = TypeVar("Word", bound=StrEnum)


class OverrideError(ValueError):
    """Override headers that cannot be obeyed. The message is safe to answer with: it repeats nothing of the request."""


def is_override(name: str) -> bool:
    """Whether a header of this name is the proxy's own, to be stripped before upstream; also when it is unknown."""
    return name.lower().startswith(PREFIX)


def parse(headers: Sequence[tuple[str, str]], allowed: OverrideSettings, policy: ResolvedPolicy) -> ResolvedPolicy:
    """The policy for a request with these headers: ``policy`` itself when none is an override. Raises OverrideError."""
    given = _given(headers, allowed)
    if not given:
        return policy
    if {OverrideName.DISTANCE_THRESHOLD, OverrideName.RELATIVE_THRESHOLD} <= given.keys():
        raise OverrideError(f"{PREFIX}distance-threshold and {PREFIX}relative-threshold: wanted one of the two")
    # In the order of the set, not of the headers: mmr-lambda may switch on what order then asks for.
    for name in OverrideName:
        if name in given:
            policy = _APPLY[name](policy, given[name])
    return policy


def _given(headers: Sequence[tuple[str, str]], allowed: OverrideSettings) -> dict[OverrideName, str]:
    found: dict[OverrideName, str] = {}
    for header, value in headers:
        if not is_override(header):
            continue
        name = HEADERS.get(header.lower())
        if name is None:
            raise OverrideError(f"a header that starts with {PREFIX}: wanted one of {', '.join(HEADERS)}")
        if not getattr(allowed, name.value):
            raise OverrideError(f"{_header(name)}: wanted no such header, the settings forbid it")
        if name in found:
            raise OverrideError(f"{_header(name)}: wanted the header once")
        found[name] = value.strip(_BLANKS)
    return found


def _mode(policy: ResolvedPolicy, value: str) -> ResolvedPolicy:
    if value not in _MODES:
        raise _unlike(OverrideName.MODE, _MODES)
    return replace(policy, mode=_MODES[value])


def _distance_threshold(policy: ResolvedPolicy, value: str) -> ResolvedPolicy:
    number = _number(OverrideName.DISTANCE_THRESHOLD, value, most=2.0)
    return replace(policy, selection=replace(policy.selection, threshold=Fixed(value=number)), is_profiled=False)


def _relative_threshold(policy: ResolvedPolicy, value: str) -> ResolvedPolicy:
    """The bounds stay the policy's; a policy with a fixed cut has none, and the defaults hold."""
    number = _number(OverrideName.RELATIVE_THRESHOLD, value, most=1.0)
    current = policy.selection.threshold
    bounds = current if isinstance(current, Relative) else threshold_of(RelativeThreshold())
    assert isinstance(bounds, Relative)  # noqa: S101 - relative settings make a relative threshold
    threshold = replace(bounds, factor=number)
    return replace(policy, selection=replace(policy.selection, threshold=threshold), is_profiled=False)


def _linkage(policy: ResolvedPolicy, value: str) -> ResolvedPolicy:
    linkage = _word(OverrideName.LINKAGE, value, Linkage)
    threshold = suited(policy.selection.threshold, linkage)
    return replace(policy, selection=replace(policy.selection, linkage=linkage, threshold=threshold))


def _mmr_lambda(policy: ResolvedPolicy, value: str) -> ResolvedPolicy:
    """A policy without MMR gets it, scaled as by default."""
    weight = _number(OverrideName.MMR_LAMBDA, value, most=1.0)
    current = policy.selection.diversifier
    mmr = replace(current if isinstance(current, Mmr) else mmr_of(MmrSettings()), weight=weight)
    return replace(policy, selection=replace(policy.selection, diversifier=mmr))


def _representative(policy: ResolvedPolicy, value: str) -> ResolvedPolicy:
    strategy = _word(OverrideName.REPRESENTATIVE, value, Strategy)
    if strategy is Strategy.LONGEST and not policy.text_fields:
        raise OverrideError(
            f"{_header(OverrideName.REPRESENTATIVE)}: wanted no longest, the policy names no text fields"
        )
    return replace(policy, selection=replace(policy.selection, representative=strategy))


def _order(policy: ResolvedPolicy, value: str) -> ResolvedPolicy:
    """Who asks for the order in which MMR picks, of a policy without it, gets MMR, scaled as by default."""
    order, chooser = _word(OverrideName.ORDER, value, Order), policy.selection.diversifier
    if order is Order.MMR and chooser is None:
        chooser = mmr_of(MmrSettings())
    return replace(policy, selection=replace(policy.selection, order=order, diversifier=chooser))


def _fetch_k(policy: ResolvedPolicy, value: str) -> ResolvedPolicy:
    most = policy.fetch.cap
    if _WHOLE.fullmatch(value) is None or not 1 <= int(value) <= most:
        raise OverrideError(f"{_header(OverrideName.FETCH_K)}: wanted a whole number from 1 to {most}")
    fetch: Fetch = replace(policy.fetch, exact=int(value))
    return replace(policy, fetch=fetch)


_APPLY: Mapping[OverrideName, Callable[[ResolvedPolicy, str], ResolvedPolicy]] = MappingProxyType(
    {
        OverrideName.MODE: _mode,
        OverrideName.DISTANCE_THRESHOLD: _distance_threshold,
        OverrideName.RELATIVE_THRESHOLD: _relative_threshold,
        OverrideName.LINKAGE: _linkage,
        OverrideName.MMR_LAMBDA: _mmr_lambda,
        OverrideName.REPRESENTATIVE: _representative,
        OverrideName.ORDER: _order,
        OverrideName.FETCH_K: _fetch_k,
    }
)


def _number(name: OverrideName, text: str, *, most: float) -> float:
    if _NUMBER.fullmatch(text) is None or not float(text) <= most:
        raise OverrideError(f"{_header(name)}: wanted a number from 0 to {most:g}")
    return float(text)


def _word(name: OverrideName, text: str, words: type[Word]) -> Word:
    try:
        return words(text)
    except ValueError:
        # "from None": the value must not travel in the chain either, where a log could find it.
        raise _unlike(name, [word.value for word in words]) from None


def _unlike(name: OverrideName, words: Mapping[str, Mode] | Sequence[str]) -> OverrideError:
    return OverrideError(f"{_header(name)}: wanted one of {', '.join(words)}")


def _header(name: OverrideName) -> str:
    return PREFIX + name.value.replace("_", "-")


# What a reload replaces as a whole: a request uses the rules it began with, on every transport.


@dataclass(frozen=True, slots=True)
class Rules:
    """How searches are answered, as the settings have it."""

    policies: Policies
    overrides: OverrideSettings
    shadow_sample: float
    report_header: bool

    @classmethod
    def of(cls, settings: Settings) -> Rules:
        """The rules of these settings."""
        return cls(Policies(settings), settings.overrides, settings.shadow.sample, settings.report_header)


@dataclass(slots=True)
class RulesInForce:
    """The rules that the next request begins with; ``now`` is the member that a reload changes."""

    now: Rules
