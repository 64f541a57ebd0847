"""The matches of a Pinecone reply: where each stands, its members, and the score, id and fields in them.

Spans are offsets into the text with harmless escapes; bytes a client gets are cut elsewhere, from the original.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from vecsieve.adapters.json_spans import Members, Span, elements, members, string, whole
from vecsieve.adapters.pinecone_request import Layout

# A value whose grammar was checked is known by its first byte.
_SCORE_STARTS = b"-0123456789n"
_NULL = b"null"


class Match(NamedTuple):
    """One candidate. A NamedTuple for the same reason as `Member`: there is one for every candidate."""

    span: Span
    members: Members
    payload: Members


def array_of(text: bytes, path: Sequence[str]) -> Span:
    """The list that the members ``path`` lead to, each inside the one before. Raises ValueError."""
    span = whole(text)
    for name in path:
        member = members(text, span).get(name)
        if member is None:
            raise ValueError(f"no {name}")
        span = member.value, member.end
    return span


def read_matches(text: bytes, array: Span, layout: Layout) -> tuple[Match, ...]:
    """The matches of the list that fills ``array``, in order. Raises ValueError for anything but matches."""
    return tuple(_read(text, span, layout) for span in elements(text, array))


def score_of(text: bytes, match: Match, layout: Layout) -> float:
    """A score; NaN for null, which is how the service writes that a document has none."""
    member = match.members[layout.score]
    value = text[member.value : member.end]
    return float("nan") if value == _NULL else float(value)


def has_id(text: bytes, match: Match, layout: Layout, wanted: str) -> bool:
    """Whether a match is the one of this id."""
    member = match.members[layout.id]
    try:
        return string(text[member.value : member.end]) == wanted
    except ValueError:  # an id that is no Unicode text cannot have been asked for
        return False


def _read(text: bytes, span: Span, layout: Layout) -> Match:
    found = members(text, span)
    if not {layout.id, layout.score} <= found.keys() or text[found[layout.id].value] != ord('"'):
        raise ValueError(f"no id or no score at byte {span[0]}")
    if text[found[layout.score].value] not in _SCORE_STARTS:
        raise ValueError(f"score at byte {found[layout.score].value} is no number")
    return Match(span, found, found if layout.payload is None else _payload(text, found, layout.payload))


def _payload(text: bytes, found: Members, name: str) -> Members:
    member = found.get(name)
    if member is None or text[member.value : member.end] == _NULL:
        return {}
    return members(text, (member.value, member.end))
