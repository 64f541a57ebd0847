"""Which policy holds for a collection: the settings' rules, made ready once so that a request only looks up."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from fnmatch import translate

from vecsieve.config.presets import policy_of
from vecsieve.config.schema import (
    FetchSettings,
    FixedThreshold,
    MmrSettings,
    PolicySettings,
    RelativeThreshold,
    Settings,
)
from vecsieve.config.values import Mode
from vecsieve.proxy.selection.policy import (
    Caps,
    Distance,
    Fixed,
    Guards,
    Linkage,
    Mmr,
    Order,
    Policy,
    Relative,
    Relevance,
    Short,
    Similarity,
    Strategy,
    Tie,
    When,
)

MOST_REMEMBERED = 1024  # collections; a client that invents names makes the oldest be looked up anew, nothing more

Matches = Callable[[str], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetch:
    """How many candidates to ask for. ``exact``: the number a client named for this request, None without one."""

    factor: float
    floor: int
    cap: int
    page_cap: int
    exact: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedPolicy:
    """Everything that one search must know. Immutable: an override makes another one.

    ``text_fields``: payload keys that may hold the text. ``vector``: the named vector to compare by; None: the request
    decides.
    """

    mode: Mode
    fetch: Fetch
    selection: Policy
    tenant_keys: tuple[str, ...]
    text_fields: tuple[str, ...]
    vector: str | None

    @property
    def payload_fields(self) -> tuple[str, ...]:
        """What must be fetched of each payload: the tenant keys first, then, if texts are compared, where they may be."""
        if self.selection.representative is Strategy.LONGEST:
            return (*self.tenant_keys, *(name for name in self.text_fields if name not in self.tenant_keys))
        return self.tenant_keys


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


def resolved(policy: PolicySettings, *, mode: Mode | None) -> ResolvedPolicy:
    """The settings as the search wants them. ``mode``: one that overrides the policy's, None without."""
    return ResolvedPolicy(
        mode=policy.mode if mode is None else mode,
        fetch=_fetch(policy.fetch),
        selection=_selection(policy),
        tenant_keys=policy.tenant_keys,
        text_fields=policy.text_fields,
        vector=policy.vector,
    )


def mmr_of(settings: MmrSettings) -> Mmr:
    """MMR as selection wants it."""
    return Mmr(
        weight=settings.lambda_,
        relevance=Relevance(settings.relevance),
        similarity=Similarity(settings.similarity),
    )


def threshold_of(settings: FixedThreshold | RelativeThreshold) -> Fixed | Relative:
    """A threshold as selection wants it."""
    if isinstance(settings, FixedThreshold):
        return Fixed(value=settings.fixed)
    return Relative(factor=settings.relative, minimum=settings.min, maximum=settings.max)


def _fetch(settings: FetchSettings) -> Fetch:
    return Fetch(factor=settings.factor, floor=settings.floor, cap=settings.cap, page_cap=settings.page_cap)


def _selection(policy: PolicySettings) -> Policy:
    return Policy(
        linkage=Linkage(policy.linkage),
        threshold=threshold_of(policy.threshold),
        when=When(policy.when),
        representative=Strategy(policy.representative),
        diversifier=None if policy.mmr is None else mmr_of(policy.mmr),
        order=Order(policy.order),
        short=Short(policy.short),
        distance=Distance(policy.distance),
        text=None,
        guards=Guards(
            numbers=False, dates=False, versions=False, amounts=False, negation=False, short_words=0, keep_sources=()
        ),
        chain=(Tie.RANK,),
        authority=(),
        caps=Caps(per_cluster=1, per_document=None, per_source=None),
    )
