"""Errors in a user's settings: all at once, one line each, without secrets."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

MASK = "***"
LONGEST_VALUE = 80  # characters of a value that are shown: recognisable, and within one terminal line
LONGEST_KEY = 40

Path = tuple[str | int, ...]

_PLAIN_KEY = re.compile(r"[A-Za-z0-9_-]+")
_SECRET_WORD = re.compile(
    r"(^|[_-])(api)?(key|token|secret|password|passwd|pwd|credential|auth|authorization|bearer|cookie)s?($|[_-])"
)
# Names of payload fields, and numbers of tokens, not values.
_NOT_SECRET = frozenset({"tenant_keys", "tokens", "token_budget"})
# Linear: each begins where nothing else of the word was tried. 32,000 digits took a second.
_USERINFO = re.compile(r"(?<!\S)((?:[A-Za-z][A-Za-z0-9+.-]*:)?//)?\S*@")
_URL_REST = re.compile(r"(://[^\s?#]*+)([?#]\S*+)?")


@dataclass(frozen=True, slots=True)
class Problem:
    """One error. ``seen``: ready to print: masked, truncated and on one line.

    ``at``: file and line. ``words``: a sentence used instead of path, wanted and seen. ``hint``: what to do.
    """

    path: str
    seen: str
    expected: str
    at: str = ""
    words: str = ""
    hint: str = ""

    def __str__(self) -> str:
        text = self.words or f"{self.path}: wanted {self.expected}; saw {self.seen}"
        return (f"{self.at}: " if self.at else "") + text + (f". {self.hint}" if self.hint else "")


@dataclass(frozen=True, slots=True)
class Finding:
    """A problem with its place as a path. ``stands``: the value is kept nevertheless, and can be validated.

    ``line``: of the file, if it is not the line of the path. ``words``, ``hint``: as in `Problem`.
    """

    path: Path
    seen: str
    expected: str
    stands: bool = False
    line: int = 0
    words: str = ""
    hint: str = ""


class Places:
    """Paths, of which there may be thousands."""

    __slots__ = ("_above", "_paths")

    def __init__(self, paths: Iterable[Path]) -> None:
        self._paths = frozenset(paths)
        self._above = frozenset(path[:length] for path in self._paths for length in range(len(path) + 1))

    def touch(self, path: Path) -> bool:
        """Whether one of them is this path, or within it, or has it within."""
        return path in self._above or any(path[:length] in self._paths for length in range(len(path)))


class SettingsError(Exception):
    """Invalid settings. The message has every problem, one per line."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))


def comes_with(extra: str) -> str:
    """How to get what an extra installs. No package is published, so there is no name to install by."""
    return f"it comes with the extra {extra}: in a checkout, pip install -e '.[{extra}]'"


def dotted(path: Path) -> str:
    """``("rules", 2, "policy")`` as ``rules[2].policy``; keys that are no plain words are quoted and truncated."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += ("." if text else "") + _key(part)
    return text


def excerpt(value: object, *, name: str = "") -> str:
    """A value as quoted in a problem. ``name``: its key, which may show that it is a secret."""
    return one_line(json.dumps(masked(value, name=name), ensure_ascii=False, default=str))


def one_line(text: str, longest: int = LONGEST_VALUE) -> str:
    return _cut(_printable(text), longest)


def masked(value: object, *, name: str = "") -> object:
    """The value with secrets replaced: values under secret names, and user info, query and fragment of URLs."""
    if is_secret_name(name) and value is not None and value not in ((), []):
        return MASK
    if isinstance(value, str):
        return _URL_REST.sub(_without_rest, _USERINFO.sub(rf"\1{MASK}@", value))
    if isinstance(value, Mapping):
        return {_printable(str(key)): masked(item, name=str(key)) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [masked(item) for item in value]
    return value


def _without_rest(match: re.Match[str]) -> str:
    return f"{match[1]}?{MASK}" if match[2] else match[1]


def is_secret_name(name: str) -> bool:
    return name not in _NOT_SECRET and _SECRET_WORD.search(name.lower()) is not None


def _key(part: str) -> str:
    if _PLAIN_KEY.fullmatch(part) is not None:
        return _cut(part, LONGEST_KEY)
    return _cut(_printable(json.dumps(part, ensure_ascii=False)), LONGEST_KEY)


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else text[: longest - 1] + "…"


def _printable(text: str) -> str:
    """On one line: separators and control characters become escapes."""
    return "".join(character if character.isprintable() else f"\\u{ord(character):04x}" for character in text)


@dataclass(frozen=True, slots=True)
class Contradiction:
    """A finding on settings that are invalid together. ``places``: all places it depends on; it is dropped if one of them is invalid
    itself.
    """

    finding: Finding
    places: tuple[Path, ...]

    def within(self, at: Path, *, members: Mapping[str, object] | None = None) -> Contradiction:
        """The same for a policy at ``at``. ``members``: a rule's own members; the other members depend on the settings' policy."""
        finding = Finding((*at, *self.finding.path), self.finding.seen, self.finding.expected)
        inherited = [place for place in self.places if members is not None and not _is_given(members, place)]
        here = [(*at, *place) for place in self.places]
        return Contradiction(finding, (*here, *(("policy", *place) for place in inherited)))


def _is_given(tree: Mapping[str, object], place: Path) -> bool:
    """Whether the tree sets ``place``, by a value there or by a scalar above it."""
    below: object = tree
    for part in place:
        if not isinstance(below, Mapping):
            return True
        if part not in below:
            return False
        below = below[str(part)]
    return True


def contradiction(path: Path, seen: str, expected: str, *others: Path) -> Contradiction:
    """The value at ``path`` is incompatible with those at ``others``."""
    return Contradiction(Finding(path, seen, expected), (path, *others))
