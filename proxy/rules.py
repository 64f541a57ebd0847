"""What a reload replaces as a whole: a request uses the rules it began with, on every transport."""

from __future__ import annotations

from dataclasses import dataclass

from vecsieve.config.schema import OverrideSettings, Settings
from vecsieve.proxy.policies import Policies


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
