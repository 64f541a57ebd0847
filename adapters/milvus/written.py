"""What the writes of both transports have in common: the schema they need, documents with notes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from vecsieve.adapters.base import NOTE
from vecsieve.adapters.contract import Needs, Reason, UnsupportedError
from vecsieve.adapters.milvus.schema import Schema
from vecsieve.adapters.milvus.search import narrowed
from vecsieve.adapters.wire.json import splice, whole
from vecsieve.adapters.wire.json_requests import member_edit
from vecsieve.adapters.writes import Form, WriteNeeds

_EMPTY = frozenset({b"null", b"{}", b'"null"', b'"{}"'})  # over REST a document may be text


@dataclass(frozen=True, slots=True)
class _Row(Form):
    """A row is its own payload: its texts, times and numbers are members like its vectors."""

    def payload_of(self, point: Mapping[str, object]) -> dict[str, object]:
        return dict(point)


ROW: Form = _Row()


def schema_known(needs: WriteNeeds) -> Schema:
    """Raises UnsupportedError where the collection is not known, or its field of ids."""
    if not isinstance(needs.known, Schema) or not needs.known.primary:
        raise UnsupportedError(Reason.UNSUPPORTED_FIELD)
    return needs.known


def ids_among(schema: Schema, ids: Sequence[bytes]) -> str:
    """The expression that an id is one of these. Raises UnsupportedError where one has no sure spelling."""
    found = narrowed("", ids, Needs(known=schema))
    if found is None:
        raise UnsupportedError(Reason.UNSUPPORTED_FIELD)
    return found


def without_empty(
    rows: Sequence[tuple[bytes | None, ...]], keys: Sequence[str]
) -> tuple[tuple[bytes | None, ...], ...]:
    """The fields of rows without notes that are null or empty: a JSON field may have to be there."""
    if NOTE not in keys:
        return tuple(rows)
    at = keys.index(NOTE)
    return tuple([(*row[:at], None, *row[at + 1 :]) if row[at] in _EMPTY else row for row in rows])


def noted(document: bytes | None, note: bytes) -> bytes:
    """An object with a note in place of any that is there. Raises UnsupportedError for another value."""
    text = document or b"{}"
    span = whole(text)
    if text[slice(*span)][:1] != b"{":
        raise UnsupportedError(Reason.AMBIGUOUS_FIELD)
    return splice(text, [member_edit(text, span, NOTE, note)])


def stacked(parts: Sequence[npt.NDArray[np.float32]]) -> npt.NDArray[np.float32]:
    """Matrices over each other; NaN rows for those of another width than the widest, which have no rows or no vectors."""
    width = max((part.shape[1] for part in parts), default=0)
    return np.concatenate(
        [part if part.shape[1] == width else np.full((len(part), width), np.nan, np.float32) for part in parts]
        or [np.empty((0, 0), np.float32)]
    )
