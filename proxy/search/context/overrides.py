"""The policy overrides in the headers of one request, and the error messages for invalid ones."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from hashlib import blake2b
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeVar, get_args

from vecsieve.config.policy import MmrSettings, ThresholdSettings
from vecsieve.config.values import Mode, Representative

from ...selection.diversifiers.mmr import Mmr
from ...selection.policy import Certain, Fixed, Linkage, Order, Relative, Strategy
from ...telemetry.labels import Across, CollapsedIn, OverrideName
from ..policy import PREFIX, ResolvedPolicy, is_override, mmr_of, representative_of, suited, threshold_of
from .sessions import identified

if TYPE_CHECKING:
    from ...telemetry.requests import RequestRecord

HEADERS: Mapping[str, OverrideName] = MappingProxyType(
    {PREFIX + name.value.replace("_", "-"): name for name in OverrideName}
)

_MODES: Mapping[str, Mode] = MappingProxyType({"on": "on", "shadow": "shadow", "off": "off"})
_SWITCHES: Mapping[str, bool] = MappingProxyType({"on": True, "off": False})
_NUMBER = re.compile(r"(\.[0-9]{1,18}|[0-9]{1,9}(\.[0-9]{0,18})?)([eE][-+]?[0-9]{1,2})?")
_WHOLE = re.compile(r"[0-9]{1,9}")
_SESSION = re.compile(r"[!-~]{1,128}")
MOST_TOKENS = 999_999_999
_BLANKS = " \t"  # optional white space around a field value, RFC 9110 5.5

Word = TypeVar("Word", bound=StrEnum)
Meaning = TypeVar("Meaning")


class OverrideError(ValueError):
    """Override headers that cannot be applied; ignoring them would look like success.

    The message is safe to return: it names the header and the valid values, never what was sent, which may be a
    credential.
    """


def overridden(
    headers: Sequence[tuple[str, str]], forbidden: Collection[str], policy: ResolvedPolicy, record: RequestRecord
) -> ResolvedPolicy:
    """The policy of a request with these headers. The overrides are counted in the request's record. Raises OverrideError."""
    given = [(name, value) for name, value in headers if is_override(name)]
    try:
        changed = identified(parse(given, forbidden, policy), headers)
    except OverrideError:
        record.bad_request()
        raise
    record.overridden(HEADERS[name.lower()] for name, _ in given)
    return changed


def parse(headers: Sequence[tuple[str, str]], forbidden: Collection[str], policy: ResolvedPolicy) -> ResolvedPolicy:
    """The policy for these headers; ``policy`` itself when none is an override. Raises OverrideError."""
    given = _given(headers, forbidden)
    if not given:
        return policy
    cuts = {OverrideName.CERTAINTY, OverrideName.DISTANCE_THRESHOLD, OverrideName.RELATIVE_THRESHOLD} & given.keys()
    if len(cuts) > 1:
        raise OverrideError(
            f"{' and '.join(_header(name) for name in OverrideName if name in cuts)}: wanted one of them"
        )
    # In the order of the set, not of the headers: mmr-lambda may enable MMR, which order then needs.
    for name in OverrideName:
        if name in given:
            policy = _APPLY[name](policy, given[name])
    return policy


def _given(headers: Sequence[tuple[str, str]], forbidden: Collection[str]) -> dict[OverrideName, str]:
    values: dict[OverrideName, str] = {}
    for header, value in headers:
        if not is_override(header):
            continue
        name = HEADERS.get(header.lower())
        if name is None:
            raise OverrideError(f"a header that starts with {PREFIX}: wanted one of {', '.join(HEADERS)}")
        if name in forbidden:
            raise OverrideError(f"{_header(name)}: not allowed by the settings")
        if name in values:
            raise OverrideError(f"{_header(name)}: wanted the header once")
        values[name] = value.strip(_BLANKS)
    return values


def _certainty(policy: ResolvedPolicy, value: str) -> ResolvedPolicy:
    """The calibrated rule with this certainty at every rank for results without texts, whatever the policy's threshold; it needs the linkage leader."""
    number, configured = _number(OverrideName.CERTAINTY, value, most=1.0), policy.selection
    selection = replace(configured, threshold=Certain(first=number, last=number), linkage=Linkage.LEADER)
    return replace(policy, selection=selection)


def _distance_threshold(policy: ResolvedPolicy, value: str) -> ResolvedPolicy:
    number = _number(OverrideName.DISTANCE_THRESHOLD, value, most=2.0)
    return replace(policy, selection=replace(policy.selection, threshold=Fixed(value=number)), is_profiled=False)


def _relative_threshold(policy: ResolvedPolicy, value: str) -> ResolvedPolicy:
    """Keeps the policy's bounds. A policy with a fixed cut has none and gets the defaults."""
    number = _number(OverrideName.RELATIVE_THRESHOLD, value, most=1.0)
    current = policy.selection.threshold
    bounds = current if isinstance(current, Relative) else threshold_of(ThresholdSettings())
    assert isinstance(bounds, Relative)  # noqa: S101 - relative settings make a relative threshold
    threshold = replace(bounds, factor=number)
    return replace(policy, selection=replace(policy.selection, threshold=threshold), is_profiled=False)


def _linkage(policy: ResolvedPolicy, value: str) -> ResolvedPolicy:
    linkage = _word(OverrideName.LINKAGE, value, Linkage)
    threshold = suited(policy.selection.threshold, linkage)
    return replace(policy, selection=replace(policy.selection, linkage=linkage, threshold=threshold))


def _mmr_lambda(policy: ResolvedPolicy, value: str) -> ResolvedPolicy:
    """Adds MMR with the default scaling to a policy without it."""
    weight = _number(OverrideName.MMR_LAMBDA, value, most=1.0)
    current = policy.selection.diversifier
    mmr = replace(current if isinstance(current, Mmr) else mmr_of(MmrSettings()), weight=weight)
    return replace(policy, selection=replace(policy.selection, diversifier=mmr))


def _representative(policy: ResolvedPolicy, value: str) -> ResolvedPolicy:
    names = get_args(Representative)
    strategy, chain = representative_of(
        _among(OverrideName.REPRESENTATIVE, value, dict(zip(names, names, strict=True))), policy.selection.chain
    )
    if strategy is Strategy.LONGEST and not (policy.text_fields or policy.guesses):
        raise OverrideError(
            f"{_header(OverrideName.REPRESENTATIVE)}: wanted no longest, the policy names no text fields"
        )
    return replace(policy, selection=replace(policy.selection, representative=strategy, chain=chain))


def _order(policy: ResolvedPolicy, value: str) -> ResolvedPolicy:
    """Adds MMR with the default scaling when its order is requested of a policy without it."""
    order, chooser = _word(OverrideName.ORDER, value, Order), policy.selection.diversifier
    if order is Order.MMR and chooser is None:
        chooser = mmr_of(MmrSettings())
    return replace(policy, selection=replace(policy.selection, order=order, diversifier=chooser))


def _fetch_k(policy: ResolvedPolicy, value: str) -> ResolvedPolicy:
    return replace(policy, exact_fetch=_whole(OverrideName.FETCH_K, value, most=policy.fetch.cap))


def _session(policy: ResolvedPolicy, value: str) -> ResolvedPolicy:
    if _SESSION.fullmatch(value) is None:
        raise OverrideError(
            f"{_header(OverrideName.SESSION)}: wanted 1 to 128 printable characters of ASCII, no blanks"
        )
    return replace(policy, session_key=blake2b(value.encode(), digest_size=16).digest())


def _token_budget(policy: ResolvedPolicy, value: str) -> ResolvedPolicy:
    tokens = _whole(OverrideName.TOKEN_BUDGET, value, most=MOST_TOKENS)
    return replace(policy, budget=replace(policy.budget, tokens=tokens))


_APPLY: Mapping[OverrideName, Callable[[ResolvedPolicy, str], ResolvedPolicy]] = MappingProxyType(
    {
        OverrideName.MODE: lambda policy, value: replace(policy, mode=_among(OverrideName.MODE, value, _MODES)),
        OverrideName.CERTAINTY: _certainty,
        OverrideName.DISTANCE_THRESHOLD: _distance_threshold,
        OverrideName.RELATIVE_THRESHOLD: _relative_threshold,
        OverrideName.LINKAGE: _linkage,
        OverrideName.MMR_LAMBDA: _mmr_lambda,
        OverrideName.REPRESENTATIVE: _representative,
        OverrideName.ORDER: _order,
        OverrideName.FETCH_K: _fetch_k,
        OverrideName.PER_RETRIEVER: lambda policy, value: replace(
            policy, per_retriever=_among(OverrideName.PER_RETRIEVER, value, _SWITCHES)
        ),
        OverrideName.COLLAPSED: lambda policy, value: replace(
            policy, collapsed_in=_word(OverrideName.COLLAPSED, value, CollapsedIn)
        ),
        OverrideName.SESSION: _session,
        OverrideName.ACROSS: lambda policy, value: replace(
            policy, is_across=_word(OverrideName.ACROSS, value, Across) is Across.BATCH
        ),
        OverrideName.TOKEN_BUDGET: _token_budget,
    }
)


def _whole(name: OverrideName, text: str, *, most: int) -> int:
    if _WHOLE.fullmatch(text) is None or not 1 <= int(text) <= most:
        raise OverrideError(f"{_header(name)}: wanted a whole number from 1 to {most}")
    return int(text)


def _number(name: OverrideName, text: str, *, most: float) -> float:
    if _NUMBER.fullmatch(text) is None or not float(text) <= most:
        raise OverrideError(f"{_header(name)}: wanted a number from 0 to {most:g}")
    return float(text)


def _word(name: OverrideName, text: str, words: type[Word]) -> Word:
    try:
        return words(text)
    except ValueError:
        # "from None": an exception chain could carry the value into a log.
        raise _unlike(name, [word.value for word in words]) from None


def _among(name: OverrideName, text: str, meanings: Mapping[str, Meaning]) -> Meaning:
    if text not in meanings:
        raise _unlike(name, list(meanings))
    return meanings[text]


def _unlike(name: OverrideName, words: Sequence[str]) -> OverrideError:
    return OverrideError(f"{_header(name)}: wanted one of {', '.join(words)}")


def _header(name: OverrideName) -> str:
    return PREFIX + name.value.replace("_", "-")
