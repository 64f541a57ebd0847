"""The columns of a Chroma reply: where each stands, and in it the cells of every search.

A column is null, or an array of one array for each search, with one cell for each result; ``ids`` is always there. Spans
are offsets into the text with harmless escapes; bytes a client gets are cut elsewhere, from the original.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from vecsieve.adapters.json_spans import Member, Members, Span, elements, string

IDS = "ids"
NAMES = ("ids", "embeddings", "documents", "uris", "metadatas", "distances")
# Servers before 0.6 wrote a column for what a data loader had loaded, always null over HTTP, and told under another name,
# in an order of their own, what was included.
UNUSED = "data"
ECHO, OLD_ECHO = "include", "included"

_NULL = b"null"
# A value whose grammar was checked is known by its first byte.
_STARTS = {
    "ids": b'"',
    "embeddings": b"[n",
    "documents": b'"n',
    "uris": b'"n',
    "metadatas": b"{n",
    "distances": b"-0123456789n",
}


@dataclass(frozen=True, slots=True)
class Cells:
    """What one column holds for one search: the array, and its elements."""

    array: Span
    spans: tuple[Span, ...]


@dataclass(frozen=True, slots=True)
class Column:
    """A column that is not null. ``span``: all of it."""

    name: str
    span: Span
    cells: tuple[Cells, ...]


@dataclass(frozen=True, slots=True)
class Echo:
    """The list that repeats what was included: the array, its elements, and what they say."""

    array: Span
    spans: tuple[Span, ...]
    said: tuple[str, ...]


def read_columns(text: bytes, found: Members) -> dict[str, Column]:
    """The columns that are not null, in the order of the text. Raises ValueError for anything but a table."""
    unknown = found.keys() - {*NAMES, UNUSED, ECHO, OLD_ECHO}
    if unknown or IDS not in found:
        raise ValueError("members that are unknown, or no ids")
    unused = found.get(UNUSED)
    if unused is not None and not _is_null(text, unused):
        raise ValueError("a data column, of which nothing is known")
    columns = {name: _read(text, name, member) for name, member in found.items() if name in NAMES}
    present = {name: column for name, column in columns.items() if column is not None}
    shape = [len(cells.spans) for cells in present[IDS].cells] if IDS in present else None
    for name, column in present.items():
        if [len(cells.spans) for cells in column.cells] != shape:
            raise ValueError(f"{name} has other rows than ids")
    return present


def read_echo(text: bytes, found: Members, wanted: Sequence[str]) -> Echo | None:
    """The list that repeats what was included; None where there is none. Raises ValueError for one that is not ``wanted``."""
    names = [name for name in (ECHO, OLD_ECHO) if name in found]
    if not names:
        return None
    array = found[names[0]].value, found[names[0]].end
    spans = tuple(elements(text, array))
    said = tuple(string(text[start:end]) for start, end in spans)
    is_wanted = said == tuple(wanted) if names == [ECHO] else set(said) == set(wanted)
    if len(names) > 1 or not is_wanted:
        raise ValueError("it includes other columns than were asked for")
    return Echo(array, spans, said)


def _read(text: bytes, name: str, member: Member) -> Column | None:
    if _is_null(text, member):
        if name == IDS:
            raise ValueError("ids are null")
        return None
    span = member.value, member.end
    return Column(name, span, tuple(_cells(text, name, array) for array in elements(text, span)))


def _cells(text: bytes, name: str, array: Span) -> Cells:
    spans = tuple(elements(text, array))
    _check(text, spans, _STARTS[name], name)
    return Cells(array, spans)


def _check(text: bytes, spans: Sequence[Span], starts: bytes, name: str) -> None:
    for start, _ in spans:
        if text[start] not in starts:
            raise ValueError(f"{name}: no value of its kind at byte {start}")


def _is_null(text: bytes, member: Member) -> bool:
    return text[member.value : member.end] == _NULL
