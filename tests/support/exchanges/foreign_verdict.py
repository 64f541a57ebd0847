"""What a program of tests/foreign_clients may see of the proxy: nothing in modes off and shadow, distinct and full pages of
copied data in mode on. Judged on the replies' own bytes, but for the order of a map's entries, which no server keeps.

A program prints its calls in order, each with name, path, code, details, reply (base64), initial and trailing metadata.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from qdrant_client import grpc as pb

from support.exchanges.foreign_plan import family
from vecsieve.adapters.wire.protobuf import FIXED64, Field, fields

Description = Sequence[Mapping[str, Any]]

# What the proxy says of itself, and how the bytes are coded on a hop, which each hop agrees on.
NOT_COMPARED = {"x-vecsieve", "grpc-encoding", "grpc-accept-encoding"}
ALL = ".all"
_RESULT = 1
_RANKED = ("Query", "Search", "Recommend", "Discover")
_POINTS = (*_RANKED, *(f"{name}Batch" for name in _RANKED), "QueryGroups", "Get", "Scroll")
# Method -> what it is answered with, of those whose answers hold maps.
_REPLIES = {
    **{f"/qdrant.Points/{name}": getattr(pb, f"{name}Response") for name in _POINTS},
    "/qdrant.Collections/Get": pb.GetCollectionInfoResponse,
}
_COPIES = ("copied.", "named.")


@dataclass(frozen=True, slots=True)
class Seen:
    """One call's outcome without what differs between two equal calls: how long it took, and NOT_COMPARED."""

    path: str
    code: int
    details: str
    reply: bytes
    metadata: tuple[tuple[tuple[str, tuple[str, ...]], ...], ...]


def observed(calls: Description) -> dict[str, Seen]:
    """Name -> outcome. Raises ValueError where a program gives two calls one name."""
    seen = {call["name"]: _seen(call) for call in calls}
    if len(seen) != len(calls):
        raise ValueError(f"{len(calls)} calls, {len(seen)} names")
    return seen


def differences(direct: Description, proxied: Description) -> list[str]:
    """Names of the calls that came to something else, in the order of the program."""
    before, after = observed(direct), observed(proxied)
    return [name for name in before | after if before.get(name) != after.get(name)]


def is_of_copies(name: str) -> bool:
    """Whether a call asks a collection with copies for one page."""
    return name.startswith(_COPIES) and not name.endswith(ALL)


def faults(direct: Description, proxied: Description) -> list[str]:
    """What is wrong with answers in mode on: a sentence each, with the call's name; none when all is well."""
    plain, made = observed(direct), observed(proxied)
    changed = [
        f"{name}: not what it is directly"
        for name in differences(direct, proxied)
        if not name.startswith(_COPIES) or name not in made
    ]
    judged = (name for name in plain if is_of_copies(name) and name in made)
    return changed + [f"{name}: {fault}" for name in judged for fault in _faults(name, plain, made[name])]


def pages(path: str, reply: bytes) -> list[list[tuple[int, bytes]]]:
    """The ranked lists of a reply, of a batch one an item: each point's number and its bytes."""
    whole = 0, len(reply)
    spans = [field.span for field in _results(reply, whole)] if path.endswith("Batch") else [whole]
    return [
        [
            (pb.ScoredPoint.FromString(reply[point.value : point.end]).id.num, reply[point.value : point.end])
            for point in _results(reply, span)
        ]
        for span in spans
    ]


def _seen(call: Mapping[str, Any]) -> Seen:
    reply = _sorted(call["path"], base64.b64decode(call["reply"]))
    # The one number of 64 bits beside the results, in every reply that has any.
    seconds = [field for field in fields(reply) if field.wire == FIXED64]
    return Seen(
        path=call["path"],
        code=call["code"],
        details=call["details"],
        reply=_but(reply, seconds),
        metadata=tuple(_theirs(call[block] or {}) for block in ("initial", "trailing")),
    )


def _but(reply: bytes, dropped: Sequence[Field]) -> bytes:
    """A reply without these fields."""
    return b"".join(reply[field.start : field.end] for field in fields(reply) if field not in dropped)


def _sorted(path: str, reply: bytes) -> bytes:
    """A reply with the entries of its maps in one order, and everything else as it is."""
    kind = _REPLIES.get(path)
    data: bytes = kind.FromString(reply).SerializeToString(deterministic=True) if kind and reply else reply
    return data


def _theirs(metadata: Mapping[str, Sequence[str]]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    return tuple(sorted((key, tuple(values)) for key, values in metadata.items() if key not in NOT_COMPARED))


def _results(reply: bytes, span: tuple[int, int]) -> Iterable[Field]:
    return (field for field in fields(reply, span) if field.number == _RESULT)


def _faults(name: str, plain: Mapping[str, Seen], made: Seen) -> Iterator[str]:
    direct = plain[name]
    if (made.path, made.code) != (direct.path, direct.code) or made.code:
        yield f"directly {direct.code} {direct.details!r}, through the proxy {made.code} {made.details!r}"
        return
    page_before, page_after = pages(direct.path, direct.reply), pages(made.path, made.reply)
    if len(page_before) != len(page_after):
        yield f"{len(page_after)} items, not {len(page_before)}"
        return
    everything = pages(direct.path, plain.get(name + ALL, direct).reply)
    for before, after, ranking in zip(page_before, page_after, everything, strict=True):
        yield from _page(before, after, ranking, has_offset=name.endswith(".offset"), is_whole=name + ALL in plain)


Page = Sequence[tuple[int, bytes]]


def _page(before: Page, after: Page, everything: Page, *, has_offset: bool, is_whole: bool) -> Iterator[str]:
    ids = [number for number, _ in after]
    if len(after) != len(before):
        yield f"{len(after)} results, not {len(before)}"
    if not has_offset and ids[:1] != [everything[0][0]]:
        yield "the best result is not the first"
    if len({family(number) for number in ids}) != len(ids):
        yield f"not distinct: {ids}"
    if not is_whole:
        return
    ranks = {number: rank for rank, (number, _) in enumerate(everything)}
    if sorted(ids, key=lambda number: ranks.get(number, -1)) != ids or not ranks.keys() >= set(ids):
        yield f"not upstream's results in upstream's order: {ids}"
    whole = dict(everything)
    yield from (f"{number} is not told as upstream tells it" for number, result in after if whole.get(number) != result)
