"""Which policy holds for a collection: the settings' rules, made ready once so that a request only looks up."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from fnmatch import translate

from vecsieve.config.presets import policy_of
from vecsieve.config.schema import Settings
from vecsieve.proxy.resolved import ResolvedPolicy, resolved

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
