"""What is wrong with a user's settings: every problem at once, one line each, no secret in any of them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

MASK = "***"
LONGEST_VALUE = 80  # characters of a value that are shown: enough to recognise it, and one terminal line
LONGEST_KEY = 40

Path = tuple[str | int, ...]

_PLAIN_KEY = re.compile(r"[A-Za-z0-9_-]+")
_SECRET_WORD = re.compile(
    r"(^|[_-])(api)?(key|token|secret|password|passwd|pwd|credential|auth|authorization|bearer|cookie)s?($|[_-])"
)
_NOT_SECRET = frozenset({"tenant_keys"})  # names of payload fields, not values
_USERINFO = re.compile(r"((?:[A-Za-z][A-Za-z0-9+.-]*:)?//)?\S*@")
_URL_REST = re.compile(r"(://[^\s?#]*)[?#]\S*")


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing wrong. ``seen`` is already fit to print: masked, cut and on one line."""

    path: str
    seen: str
    wanted: str

    def __str__(self) -> str:
        return f"{self.path}: wanted {self.wanted}; saw {self.seen}"


@dataclass(frozen=True, slots=True)
class Finding:
    """A problem while its place is still a path that other findings can be compared with.

    ``stands``: there is a value all the same, and it can be judged.
    """

    path: Path
    seen: str
    wanted: str
    stands: bool = False

    def touches(self, path: Path) -> bool:
        """Whether one of the two places lies within the other."""
        shorter = min(len(path), len(self.path))
        return path[:shorter] == self.path[:shorter]


class SettingsError(Exception):
    """Settings that cannot be used. Its text is every problem, one line each."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))


def dotted(path: Path) -> str:
    """``("rules", 2, "policy")`` as ``rules[2].policy``; keys that are no plain words are quoted and cut."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += ("." if text else "") + _key(part)
    return text


def shown(value: object, *, name: str = "") -> str:
    """A value as a problem quotes it. ``name``: the key it stands under, which may make it a secret."""
    return one_line(json.dumps(masked(value, name=name), ensure_ascii=False, default=str))


def one_line(text: str) -> str:
    """The text on one line of bounded length."""
    return _cut(_printable(text), LONGEST_VALUE)


def masked(value: object, *, name: str = "") -> object:
    """The value with secrets replaced: everything under a telling name, and whatever a URL carries beside its path."""
    if is_secret_name(name) and value is not None:
        return MASK
    if isinstance(value, str):
        return _URL_REST.sub(rf"\1?{MASK}", _USERINFO.sub(rf"\1{MASK}@", value))
    if isinstance(value, Mapping):
        return {_printable(str(key)): masked(item, name=str(key)) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [masked(item) for item in value]
    return value


def is_secret_name(name: str) -> bool:
    """Whether a key of this name may hold a credential."""
    return name not in _NOT_SECRET and _SECRET_WORD.search(name.lower()) is not None


def _key(part: str) -> str:
    if _PLAIN_KEY.fullmatch(part) is not None:
        return _cut(part, LONGEST_KEY)
    return _cut(_printable(json.dumps(part, ensure_ascii=False)), LONGEST_KEY)


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else text[: longest - 1] + "…"


def _printable(text: str) -> str:
    """One line whatever the text: separators and control characters become escapes."""
    return "".join(character if character.isprintable() else f"\\u{ord(character):04x}" for character in text)


# Two settings that are each right and together wrong: what is said of them, and what proves it.


@dataclass(frozen=True, slots=True)
class Contradiction:
    """A finding, and all the places it depends on: when one of those is wrong itself, the finding proves nothing."""

    finding: Finding
    places: tuple[Path, ...]

    def within(self, at: Path, *, own: Mapping[str, object] | None = None) -> Contradiction:
        """The same for a policy that stands at ``at``.

        ``own``: the members a rule decides itself. The others come from the settings' policy and depend on it too.
        """
        finding = Finding((*at, *self.finding.path), self.finding.seen, self.finding.wanted)
        inherited = [place for place in self.places if own is not None and not _is_given(own, place)]
        here = [(*at, *place) for place in self.places]
        return Contradiction(finding, (*here, *(("policy", *place) for place in inherited)))


def _is_given(tree: Mapping[str, object], place: Path) -> bool:
    """Whether the tree decides what stands at ``place``: by a value there, or by something else above it."""
    below: object = tree
    for part in place:
        if not isinstance(below, Mapping):
            return True
        if part not in below:
            return False
        below = below[str(part)]
    return True


def contradiction(path: Path, seen: str, wanted: str, *others: Path) -> Contradiction:
    """What stands at ``path`` and does not go with the ``others``."""
    return Contradiction(Finding(path, seen, wanted), (path, *others))
