"""The answers to writes: those of the servers read, and those of documents that were left out made.

The answer to ``_bulk`` has an item for each action. That of a document that was left out has no sequence number, as the servers write one that is not
assigned.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from urllib.parse import parse_qsl

import msgspec
import orjson

from ..base import typed
from ..contract import DeclinedError, MalformedReplyError
from ..wire.json import elements, last_values, members_of, whole
from ..writes import NewPoints, Receipt
from .bulk import STORING, Document

_FAILED = HTTPStatus.BAD_REQUEST
_SHARDS = b'"_shards":{"total":1,"successful":1,"failed":0}'


class _Item(msgspec.Struct):
    status: int
    error: msgspec.Raw = msgspec.Raw(b"null")


_ITEMS = msgspec.json.Decoder(list[dict[str, _Item]])


def read(points: NewPoints, copies: Mapping[int, int | None], query: str, body: bytes) -> Receipt:
    """Of the answer to a batch without ``copies``. Raises MalformedReplyError."""
    document = typed(points.document, Document)
    places, read = document.places, [item for _, item in _items(body)]
    sent = [place for place in range(len(document.actions)) if place not in {places[row] for row in copies}]
    if len(read) < len(sent):  # documents that were sent alone have no others beside them
        sent = [place for place in sent if place in places]
    try:
        array = members_of(body, whole(body))["items"].span
        given = dict(zip(sent, zip(elements(body, array), read, strict=True), strict=True))
    except (LookupError, ValueError) as error:
        raise MalformedReplyError(f"answer to a batch: {type(error).__name__}") from None
    failed = {row: given[at][1] for row, at in enumerate(places) if at in given and given[at][1].status >= _FAILED}
    items = {place: body[slice(*span)] for place, (span, _) in given.items()}
    for row, of in copies.items():
        items[places[row]] = made_item(points, row, query, None if of is None else failed.get(of))
    return Receipt(
        body=b"".join((body[: array[0] + 1], b",".join([items[at] for at in sorted(items)]), body[array[1] - 1 :])),
        refused=frozenset(row for row, of in copies.items() if of in failed),
        failed=frozenset(failed),
    )


def check_removed(body: bytes) -> None:
    """Of a batch, or of one request. Raises MalformedReplyError, also where some deletions were refused; DeclinedError if all were."""
    items = [item for verb, item in _items(body) if verb not in STORING]
    refused = [item for item in items if item.status >= _FAILED and item.status != HTTPStatus.NOT_FOUND]
    if not refused:
        return
    if len(refused) < len(items):
        raise MalformedReplyError(f"{len(refused)} of {len(items)} were refused")
    raise DeclinedError(refused[0].status, bytes(refused[0].error))


def _items(body: bytes) -> Sequence[tuple[str, _Item]]:
    """By their actions. Raises MalformedReplyError. Empty for an answer that is not that of a batch."""
    try:
        (items,) = last_values(body, ("items",))
        return [pair for item in _ITEMS.decode(items) for pair in item.items()] if items is not None else []
    except (msgspec.DecodeError, RecursionError) as error:
        raise MalformedReplyError(f"answer to a batch: {type(error).__name__}") from None


def created(points: NewPoints, row: int, query: str) -> bytes:
    """The members of an answer for a document that was left out. Servers omit a sequence number that is not assigned."""
    refresh = dict(parse_qsl(query, keep_blank_values=True)).get("refresh", "false")
    is_forced = {"": b"true", "true": b"true", "wait_for": b"false"}.get(refresh)
    forced = b'"forced_refresh":%s,' % is_forced if is_forced else b""
    index = typed(points.document, Document).schema.index
    named = b'"_index":%s,"_id":%s' % (orjson.dumps(index), points.ids[row])
    return b'%s,"_version":1,"result":"created",%s%s' % (named, forced, _SHARDS)


def made_item(points: NewPoints, row: int, query: str, refused: _Item | None = None) -> bytes:
    """The item of a document that was left out. ``refused``: that of its original, which the server did not store."""
    document = typed(points.document, Document)
    verb = document.actions[document.places[row]].verb.encode()
    if refused is None:
        return b'{"%s":{%s,"status":201}}' % (verb, created(points, row, query))
    named = b'"_index":%s,"_id":%s' % (orjson.dumps(document.schema.index), points.ids[row])
    return b'{"%s":{%s,"status":%d,"error":%s}}' % (verb, named, refused.status, refused.error)
