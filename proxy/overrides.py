"""What one request may change about its policy, by headers. They are the proxy's own and never reach upstream.

A header that cannot be obeyed is refused: silence would look like obedience. The refusal names the header and what may
be written there, and never says what was: header values hold credentials often enough that none is ever reflected.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from types import MappingProxyType
from typing import TypeVar

from vecsieve.config.policy import MmrSettings, RelativeThreshold
from vecsieve.config.schema import OverrideSettings
from vecsieve.config.values import Mode
from vecsieve.proxy.labels import OverrideName
from vecsieve.proxy.resolved import Fetch, ResolvedPolicy, mmr_of, suited, threshold_of
from vecsieve.proxy.selection.policy import Fixed, Linkage, Mmr, Order, Relative, Strategy

PREFIX = "x-vecsieve-"
HEADERS: Mapping[str, OverrideName] = MappingProxyType(
    {PREFIX + name.value.replace("_", "-"): name for name in OverrideName}
)

_MODES: Mapping[str, Mode] = MappingProxyType({"on": "on", "shadow": "shadow", "off": "off"})
_NUMBER = re.compile(r"(\.[0-9]{1,18}|[0-9]{1,9}(\.[0-9]{0,18})?)([eE][-+]?[0-9]{1,2})?")
_WHOLE = re.compile(r"[0-9]{1,9}")
_BLANKS = " \t"  # optional white space around a field value, RFC 9110 5.5

Word = TypeVar("Word", bound=StrEnum)


class BadOverride(ValueError):  # noqa: N818 - it is the client's doing, not an error of ours
    """Override headers that cannot be obeyed. The message is safe to answer with: it repeats nothing of the request."""


def is_override(name: str) -> bool:
    """Whether a header of this name is the proxy's own, to be stripped before upstream; also when it is unknown."""
    return name.lower().startswith(PREFIX)


def parse(headers: Sequence[tuple[str, str]], allowed: OverrideSettings, policy: ResolvedPolicy) -> ResolvedPolicy:
    """The policy for a request with these headers: ``policy`` itself when none is an override. Raises BadOverride."""
    given = _given(headers, allowed)
    if not given:
        return policy
    if {OverrideName.DISTANCE_THRESHOLD, OverrideName.RELATIVE_THRESHOLD} <= given.keys():
        raise BadOverride(f"{PREFIX}distance-threshold and {PREFIX}relative-threshold: wanted one of the two")
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
            raise BadOverride(f"a header that starts with {PREFIX}: wanted one of {', '.join(HEADERS)}")
        if not getattr(allowed, name.value):
            raise BadOverride(f"{_header(name)}: wanted no such header, the settings forbid it")
        if name in found:
            raise BadOverride(f"{_header(name)}: wanted the header once")
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
        raise BadOverride(f"{_header(OverrideName.REPRESENTATIVE)}: wanted no longest, the policy names no text fields")
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
        raise BadOverride(f"{_header(OverrideName.FETCH_K)}: wanted a whole number from 1 to {most}")
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
        raise BadOverride(f"{_header(name)}: wanted a number from 0 to {most:g}")
    return float(text)


def _word(name: OverrideName, text: str, words: type[Word]) -> Word:
    try:
        return words(text)
    except ValueError:
        # "from None": the value must not travel in the chain either, where a log could find it.
        raise _unlike(name, [word.value for word in words]) from None


def _unlike(name: OverrideName, words: Mapping[str, Mode] | Sequence[str]) -> BadOverride:
    return BadOverride(f"{_header(name)}: wanted one of {', '.join(words)}")


def _header(name: OverrideName) -> str:
    return PREFIX + name.value.replace("_", "-")
