"""``GET /vectors/fetch``: fetches the vectors of a records search, whose reply has none.

Records deleted in the meantime are absent from the reply and not compared. Its metadata, which cannot be excluded, are not parsed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from urllib.parse import quote, unquote_to_bytes

from vecsieve.adapters.contract import Found, Lookup, MalformedReplyError, Pool
from vecsieve.adapters.pinecone.rest_reply import ReplyDocument
from vecsieve.adapters.wire.json import Member, Members, Span, members, string, whole
from vecsieve.adapters.wire.json_vectors import (
    Row,
    Shortened,
    decode_arrays,
    guess_arrays,
    read_aside,
    sparse_matrix,
    stack,
)
from vecsieve.adapters.wire.vectors import without_vector

PATH = "/vectors/fetch?"
TARGET_BYTES = 8000  # servers and gateways refuse request lines beyond 8 kB
MOST_IDS = 1000  # the service's limit
IDS_PER_UNIT = 10  # fetched for a read unit; a fetch costs at least one
MOST_DIGITS = 9  # of read units, which have 32 bits


@dataclass(frozen=True, slots=True)
class Vectors:
    """Vectors by id: the dense ones as numbers, the sparse ones as JSON."""

    dense: Mapping[str, Row]
    sparse: Mapping[str, bytes]


def lookups(namespace: str, ids: Sequence[bytes], known: Collection[str]) -> tuple[Lookup, ...]:
    """The fewest requests for these ids without the known ones. ``namespace``: as in the search's path.

    None for less than two candidates. An id that does not fit into a request is left out.
    """
    if len(ids) < 2:
        return ()
    tail = f"&namespace={quote(unquote_to_bytes(namespace), safe='')}" if namespace else ""
    wanted = [one for one in dict.fromkeys(filter(None, map(_text, ids))) if one not in known]
    return tuple(_lookup(chunk, tail) for chunk in _chunks(wanted, TARGET_BYTES - len(PATH) - len(tail)))


def found(lookup: Lookup, body: bytes) -> Found:
    """Raises MalformedReplyError, nothing else."""
    return read_aside(body, guess_arrays(body, "values"), lambda source: _read(lookup, source))


def joined(pool: Pool, results: Sequence[Found]) -> Pool:
    """The pool with the dense vectors of ``results``, or with the sparse ones where there are none. Raises MalformedReplyError."""
    dense: dict[str, Row] = {}
    sparse: dict[str, bytes] = {}
    for each in results:
        if not isinstance(each.document, Vectors):
            raise TypeError("the lookup was read by another adapter")
        dense |= each.document.dense
        sparse |= each.document.sparse
    ids = [_text(raw) for raw in pool.ids]
    matrix = stack([dense.get(one) for one in ids])
    if not matrix.shape[1]:
        try:
            matrix = sparse_matrix([sparse.get(one) for one in ids])
        except ValueError as error:
            raise MalformedReplyError(str(error)) from None
    unusable = without_vector(matrix)
    return replace(pool, vectors=matrix, unusable=unusable, compared_by="" if unusable < pool.size else None)


def charged(document: ReplyDocument, read_units: int) -> ReplyDocument:
    """The document with ``read_units`` added to ``usage.read_units``; unchanged where that is no plain number."""
    text = document.text
    try:
        usage = members(text, whole(text))["usage"]
        span = _span(members(text, _span(usage))["read_units"])
    except (KeyError, ValueError):  # ValueError: it is no object
        return document
    written = text[slice(*span)]
    if not read_units or not _is_count(written):
        return document
    return replace(document, edits=((*span, b"%d" % (int(written) + read_units)),))


def _text(raw: bytes) -> str:
    """An id; "" for invalid Unicode."""
    try:
        return string(raw)
    except ValueError:
        return ""


def _chunks(ids: Iterable[str], room: int) -> Iterator[list[str]]:
    """The ids in runs that fit into ``room`` bytes of a target."""
    chunk: list[str] = []
    used = 0
    for one in ids:
        size = len(_parameter(one)) + 1
        if size > room:
            continue
        if used + size > room or len(chunk) == MOST_IDS:
            yield chunk
            chunk, used = [], 0
        chunk.append(one)
        used += size
    if chunk:
        yield chunk


def _lookup(ids: Sequence[str], tail: str) -> Lookup:
    return Lookup(method="GET", target=PATH + "&".join(map(_parameter, ids)) + tail, ids=tuple(ids))


def _parameter(one: str) -> str:
    return "ids=" + quote(one, safe="")


def _read(lookup: Lookup, source: Shortened) -> Found:
    # Surrogate escapes are not replaced: ids are compared.
    root = members(source.text, whole(source.text))
    if "vectors" not in root:
        raise ValueError("no vectors")
    entries = members(source.text, _span(root["vectors"]))
    records = {one: members(source.text, _span(entry)) for one, entry in entries.items()}
    dense, sparse = _rows(source, _values(source, records, "values")), _values(source, records, "sparseValues")
    asked = frozenset(lookup.ids)
    return Found(
        read_units=_read_units(source, root, len(asked)),
        document=Vectors(
            dense={one: row for one, row in dense.items() if one in asked},
            sparse={one: source.cut(*span) for one, span in sparse.items() if one in asked},
        ),
    )


def _rows(source: Shortened, spans: Mapping[str, Span]) -> dict[str, Row]:
    """The vectors that are not empty. Raises ValueError for an invalid vector, and for a wrong guess."""
    if sum(span in source.replaced for span in spans.values()) != len(source.spans):
        raise ValueError("a span that was set aside is no vector of a record")
    found: dict[str, Row] = {}
    for one, row in zip(spans, decode_arrays([source.cut_value(span) for span in spans.values()]), strict=True):
        if row is None:
            raise ValueError("values of a record are no array of numbers")
        if len(row):
            found[one] = row
    return found


def _values(source: Shortened, records: Mapping[str, Members], name: str) -> dict[str, Span]:
    """The span of this member of each record that has it."""
    spans = {one: _span(record[name]) for one, record in records.items() if name in record}
    return {one: span for one, span in spans.items() if source.text[slice(*span)] != b"null"}


def _read_units(source: Shortened, root: Members, ids: int) -> int:
    """The read units charged, from the reply, or else from the price list."""
    usage = root.get("usage")
    if usage is not None and source.text[usage.value : usage.value + 1] == b"{":
        units = members(source.text, _span(usage)).get("readUnits")
        if units is not None and _is_count(source.text[slice(*_span(units))]):
            return int(source.text[slice(*_span(units))])
    return max(1, -(-ids // IDS_PER_UNIT))


def _is_count(value: bytes) -> bool:
    return value.isdigit() and len(value) <= MOST_DIGITS


def _span(member: Member) -> Span:
    return member.value, member.end
