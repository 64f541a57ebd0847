"""The lists of a reply, and their hits by the spans of their members.

A reply of texts alone is decoded in one pass for what is compared; the members of a hit are located only if it is kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import overload

import msgspec

from ..wire.json import Members, Span, elements, members_of, part, whole
from .selection import SOURCE

ID, INDEX, SCORE = "_id", "_index", "_score"
_NUMBER_STARTS = b"-0123456789"
_REFUSED = b'"query_shard_exception"'


@dataclass(frozen=True, slots=True)
class Hit:
    """One candidate: the span of its object, and its members."""

    span: Span
    members: Members

    def value(self, name: str) -> Span | None:
        member = self.members.get(name)
        return None if member is None else member.span


_ABSENT = msgspec.Raw()


class Read(msgspec.Struct):
    """What of a hit is compared; b"" for absent members. Of a member that stands twice the last value counts."""

    id: msgspec.Raw = msgspec.field(name=ID)
    score: float | None = msgspec.field(name=SCORE)
    index: msgspec.Raw = msgspec.field(name=INDEX, default=_ABSENT)
    source: msgspec.Raw = msgspec.field(name=SOURCE, default=_ABSENT)


_READ = msgspec.json.Decoder(list[Read])


class LeanHits(Sequence[Hit]):
    """Hits by their spans; the members of one are located when it is accessed, because an answer keeps only a few. Access raises ValueError."""

    __slots__ = ("_text", "read", "spans")

    def __init__(self, text: bytes, spans: Sequence[Span], read: Sequence[Read]) -> None:
        self._text = text
        self.spans = spans
        self.read = read

    def __len__(self) -> int:
        return len(self.spans)

    @overload
    def __getitem__(self, index: int) -> Hit: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Hit]: ...

    def __getitem__(self, index: int | slice) -> Hit | Sequence[Hit]:
        if isinstance(index, slice):
            return LeanHits(self._text, self.spans[index], self.read[index])
        return read_hit(self._text, self.spans[index])


@dataclass(frozen=True, slots=True)
class Hits:
    """The list of one search: its answer's members, its array, and its hits in order. ``total``: the span of their number, None if absent; ``relation``: the same of
    whether there may be more. ``shards``: how many answered.
    """

    answer: Members
    array: Span
    hits: Sequence[Hit]
    total: Span | None
    relation: Span | None
    shards: int


def answers(text: bytes, places: Sequence[int] | None, size: int | None) -> list[Members]:
    """The answers at these places of a batch of this size; without places the only one. Raises ValueError."""
    root = members_of(text, whole(text))
    if places is None:
        return [root]
    if "responses" not in root:
        raise ValueError("no responses")
    spans = elements(text, root["responses"].span)
    if len(spans) != size:
        raise ValueError(f"{len(spans)} responses, wanted {size}")
    return [members_of(text, spans[place]) for place in places]


def lean_hits(text: bytes, array: Span, spans: Sequence[Span]) -> LeanHits:
    """Raises ValueError."""
    try:
        read = _READ.decode(part(text, array))
    except (msgspec.DecodeError, RecursionError) as error:
        raise ValueError(f"no hits: {error}") from None
    if not all(bytes(hit.id).startswith(b'"') and bytes(hit.source)[:1] in {b"", b"{"} for hit in read):
        raise ValueError("a hit without an id or an object")
    return LeanHits(text, spans, read)


def read_hits(text: bytes, answer: Members, *, is_lean: bool = False) -> Hits:
    """``is_lean``: only texts are read of them. Raises ValueError for an answer that is incomplete, or none."""
    if not {"hits", "timed_out", "_shards"} <= answer.keys():
        raise ValueError("no hits")
    shards = members_of(text, answer["_shards"].span)
    is_late = text[slice(*answer["timed_out"].span)] != b"false"
    if is_late or not _are_whole(text, shards):
        raise ValueError("an incomplete answer")
    inside = members_of(text, answer["hits"].span)
    if "hits" not in inside:
        raise ValueError("no list of hits")
    array = inside["hits"].span
    successful = int(text[slice(*shards["successful"].span)])
    spans = elements(text, array)
    hits = lean_hits(text, array, spans) if is_lean else tuple([read_hit(text, span) for span in spans])
    return Hits(answer, array, hits, *_total(text, inside), successful)


def _are_whole(text: bytes, shards: Members) -> bool:
    """Whether no shard failed, but for those that refuse the query itself: they refuse the client's, too. Raises ValueError."""
    if not {"failed", "successful"} <= shards.keys():
        return False
    if text[slice(*shards["failed"].span)] == b"0":
        return True
    if "failures" not in shards:
        return False
    failures = [members_of(text, span) for span in elements(text, shards["failures"].span)]
    reasons = [members_of(text, failure["reason"].span) for failure in failures if "reason" in failure]
    types = [text[slice(*reason["type"].span)] for reason in reasons if "type" in reason]
    return len(types) == len(failures) and set(types) == {_REFUSED}


def _total(text: bytes, inside: Members) -> tuple[Span | None, Span | None]:
    """The spans of the number and of its relation. Raises ValueError."""
    total, relation = inside.get("total"), None
    if total is not None and text[total.value : total.value + 1] == b"{":
        parts = members_of(text, total.span)
        total, relation = parts.get("value"), parts.get("relation")
    is_number = total is not None and text[slice(*total.span)].isdigit()
    return total.span if total is not None and is_number else None, None if relation is None else relation.span


def read_hit(text: bytes, span: Span) -> Hit:
    """Raises ValueError."""
    hit = Hit(span, members_of(text, span))
    identity, score, source = hit.value(ID), hit.value(SCORE), hit.value(SOURCE)
    if identity is None or text[identity[0] : identity[0] + 1] != b'"':
        raise ValueError(f"no id at byte {span[0]}")
    if score is None or (text[score[0]] not in _NUMBER_STARTS and text[slice(*score)] != b"null"):
        raise ValueError(f"no score at byte {span[0]}")
    if source is not None and text[source[0] : source[0] + 1] != b"{":
        raise ValueError(f"no object at byte {source[0]}")
    return hit


def at_path(text: bytes, span: Span, path: str) -> Span | None:
    """The value at a path in an object, whose names may have dots; None if there is none. Raises ValueError."""
    members = members_of(text, span)
    if path in members:
        return members[path].span
    head, dot, rest = path.partition(".")
    is_object = dot and head in members and text[members[head].value : members[head].value + 1] == b"{"
    return at_path(text, members[head].span, rest) if is_object else None
