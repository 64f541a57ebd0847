"""The policies of mode merge: which of two copies is kept, and its content. Pure.

The copies of one original are a family. Its points are processed in the order of the write: each replaces the current survivor, or is left
out. A new point never changes a stored one: if the new point wins, it is stored under its own id, and the stored one is removed. So no
concurrent write of another client is overwritten.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal, TypeAlias, TypeVar

from vecsieve.adapters.writes import PLAIN, Form
from vecsieve.config.policy import WriteSettings

from ..search.candidates import Moment, moment, number
from ..search.collections.statements import ALL
from ..search.policy import ResolvedPolicy
from ..selection.reading.text import text_of as text_read
from .holding import holds

T = TypeVar("T")
Payload: TypeAlias = Mapping[str, object]
Stays: TypeAlias = "Literal['stored', 'incoming'] | Payload"
"""Which payload stays, or a payload that replaces both."""

STORED: Final = "stored"
INCOMING: Final = "incoming"


class CustomPolicyError(Exception):
    """A custom policy returned a value that cannot be stored."""


@dataclass(frozen=True, slots=True)
class Copy:
    """A point of a family. ``row``: its place in the write; None for a stored point. ``point``: the single point as JSON in ``form``."""

    id: bytes
    row: int | None
    point: bytes
    form: Form = PLAIN

    def payload(self) -> dict[str, object]:
        """Empty without one. Numbers keep their type."""
        return self.form.payload_of(json.loads(self.point))


@dataclass(frozen=True, slots=True)
class Settled:
    """A family: the survivor and the other copies. ``survivor.point``: the content to store; ``sent``: the client's version, if it differs."""

    survivor: Copy
    others: tuple[Copy, ...]
    sent: bytes | None


def settled(family: Sequence[Copy], settings: WriteSettings, texts: Sequence[str]) -> Settled:
    """``family``: at least one point, the original first, which contains all others. ``texts``: the names or dotted paths of texts in payloads. The
    survivor's text contains those of all removed copies. If the policy chooses otherwise, the former survivor or both points are kept; a payload
    from a custom policy is used as it is. Raises CustomPolicyError, and any exception of a custom policy.
    """
    choose = policy_of(settings, texts)
    survivor, sent = family[0], family[0].point
    others: list[Copy] = []
    for copy in family[1:]:
        stays = choose(survivor.payload(), copy.payload())
        chosen = copy if stays == INCOMING else survivor
        if not isinstance(stays, str):
            chosen = _merged(survivor, copy, stays, texts)
        is_word = settings.merge == "custom" and not isinstance(stays, str)
        if chosen is not survivor and (is_word or _says_all(chosen, [survivor, copy, *others], texts)):
            others.append(replace(survivor, point=sent) if survivor.row is not None else survivor)
            survivor, sent = chosen, copy.point
        elif _says_all(survivor, [copy], texts):
            others.append(copy)
    return Settled(survivor, tuple(others), sent if sent != survivor.point else None)


def _says_all(survivor: Copy, leaving: Sequence[Copy], texts: Sequence[str]) -> bool:
    """Whether the survivor's text contains those of all leaving copies; points without texts have equal vectors."""
    kept = text_of(survivor.payload(), texts)
    others = [text for copy in leaving if (text := text_of(copy.payload(), texts))]
    return holds(text_read(kept) if kept else None, map(text_read, others)) if others else True


def ignored_of(policy: ResolvedPolicy) -> tuple[str, ...]:
    """The fields in which copies may differ: those of the settings, and in mode merge those that the policy compares."""
    settings = policy.write
    if settings.mode != "merge":
        return policy.ignored
    by_policy: Mapping[str, tuple[str, ...]] = {
        "custom": (ALL,),
        "keep-highest-confidence": (*settings.confidences, *settings.timestamps),
        "merge": (),
    }
    return (*policy.ignored, *by_policy.get(settings.merge, settings.timestamps))


def _merged(stored: Copy, incoming: Copy, payload: Payload, texts: Sequence[str]) -> Copy:
    """The incoming point with this payload, and with the vectors of the point whose text it has."""
    values, text = json.loads(incoming.point), text_of(payload, texts)
    like = values
    if text and text != text_of(incoming.payload(), texts) and text == text_of(stored.payload(), texts):
        like = json.loads(stored.point)
    elif json.dumps(payload, sort_keys=True) == json.dumps(incoming.payload(), sort_keys=True):
        return incoming
    values = incoming.form.given(values, payload, like)
    return replace(incoming, point=json.dumps(values, separators=(",", ":")).encode())


Policy = Callable[[Payload, Payload], Stays]
"""Arguments: the stored and the incoming payload."""


def policy_of(settings: WriteSettings, texts: Sequence[str]) -> Policy:
    """The policy named in the settings."""

    def newest(stored: Payload, incoming: Payload) -> Stays:
        ages = _both(stored, incoming, settings.timestamps, moment)
        return STORED if ages is not None and _is_later(*ages) else INCOMING

    def oldest(stored: Payload, incoming: Payload) -> Stays:
        ages = _both(stored, incoming, settings.timestamps, moment)
        return INCOMING if ages is not None and _is_later(*ages) else STORED

    def longest(stored: Payload, incoming: Payload) -> Stays:
        one, other = len(text_of(stored, texts)), len(text_of(incoming, texts))
        return newest(stored, incoming) if one == other else STORED if one > other else INCOMING

    def surest(stored: Payload, incoming: Payload) -> Stays:
        sure = _both(stored, incoming, settings.confidences, number)
        if sure is None or sure[0] == sure[1]:
            return newest(stored, incoming)
        return STORED if sure[0] > sure[1] else INCOMING

    def both(stored: Payload, incoming: Payload) -> Stays:
        return united(stored, incoming, texts)

    if settings.merge == "custom":
        return _checked(settings.custom_policy())
    named: Mapping[str, Policy] = {
        "keep-newest": newest,
        "keep-oldest": oldest,
        "keep-longest": longest,
        "keep-highest-confidence": surest,
        "merge": both,
    }
    return named[settings.merge]


def _checked(function: Callable[..., object]) -> Policy:
    def choose(stored: Payload, incoming: Payload) -> Stays:
        choice = function(stored, incoming)
        if choice == STORED:
            return STORED
        if choice == INCOMING:
            return INCOMING
        if not isinstance(choice, dict) or not all(isinstance(key, str) for key in choice):
            raise CustomPolicyError("a custom policy returned neither `stored`, nor `incoming`, nor an object")
        return choice

    return choose


def united(stored: Payload, incoming: Payload, texts: Sequence[str]) -> dict[str, object]:
    """The longer text; arrays united, the stored one's elements first; the larger number; else the incoming value. Keys of both."""
    keys = {path.split(".", 1)[0] for path in texts}
    return {
        key: _one(stored[key], incoming[key], is_text=key in keys)
        if key in stored and key in incoming
        else (incoming if key in incoming else stored)[key]
        for key in (*stored, *(key for key in incoming if key not in stored))
    }


def _one(stored: object, incoming: object, *, is_text: bool) -> object:
    if is_text and isinstance(stored, str) and isinstance(incoming, str):
        return stored if len(stored) > len(incoming) else incoming
    if isinstance(stored, list) and isinstance(incoming, list):
        known = {json.dumps(element, sort_keys=True) for element in stored}
        return [*stored, *(element for element in incoming if json.dumps(element, sort_keys=True) not in known)]
    if _is_number(stored) and _is_number(incoming):
        return max(incoming, stored)  # type: ignore[call-overload]  # - both are numbers
    return incoming


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def text_of(payload: Payload, paths: Sequence[str]) -> str:
    """The first text under these names or dotted paths; "" without one."""
    path = text_path(payload, paths)
    value = None if path is None else _at(payload, path)
    return value if isinstance(value, str) else ""


def text_path(payload: Payload, paths: Sequence[str]) -> str | None:
    """The first of these paths that has a text."""
    return next((path for path in paths if isinstance(value := _at(payload, path), str) and value.strip()), None)


def _at(payload: Payload, path: str) -> object:
    value: object = payload
    for key in path.split("."):
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def _both(
    stored: Payload, incoming: Payload, names: Sequence[str], read: Callable[[bytes], T | None]
) -> tuple[T, T] | None:
    """The values of both under the first name that both have."""
    for name in names:
        one, other = (read(json.dumps(_at(payload, name)).encode()) for payload in (stored, incoming))
        if one is not None and other is not None:
            return one, other
    return None


def _is_later(one: Moment, other: Moment) -> bool:
    """False if the two are of different types, which cannot be compared."""
    return one[0] is other[0] and one > other
