"""Which fields a Pinecone client asked for, and how its list is widened by what selection reads.

Only what is missing is added, and what was added is remembered, so that it can be taken out again. What an unlisted
selection means differs: of records it is every field, of documents none.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from vecsieve.adapters.contract import Reason, Unsupported
from vecsieve.adapters.json_kept import Edit
from vecsieve.adapters.json_members import texts_of
from vecsieve.adapters.json_spans import Span

EVERY = "*"
OWN = frozenset({"_id", "_score"})  # always there, and no fields


@dataclass(frozen=True, slots=True)
class Selected:
    """How a list of fields changes, the names that are ours in it, and those of the wanted ones that will come along."""

    edit: Edit | None
    added: frozenset[str]
    readable: frozenset[str]


def of_records(text: bytes, span: Span | None, required: Sequence[str], optional: Sequence[str]) -> Selected:
    """``fields`` of a records search. Raises Unsupported."""
    if span is None:
        return _all(required, optional)
    names = texts_of(text, span)
    # What an empty list means is not documented: nothing, or as if it were absent.
    return _listed(text, span, names, required, optional, may_add=bool(names))


def of_documents(
    text: bytes, span: Span | None, brace: int, required: Sequence[str], optional: Sequence[str]
) -> Selected:
    """``include_fields`` of a documents search, to be put right behind ``brace`` when absent. Raises Unsupported."""
    if span is not None and text[span[0] : span[1]] != b"null":
        return _listed(text, span, texts_of(text, span), required, optional, may_add=True)
    added = _missing((*required, *optional), ())
    array = _array(added)
    edit = (brace + 1, brace + 1, b'"include_fields":%s,' % array) if span is None else (*span, array)
    return _selected(edit, added, added, required)


def _all(required: Sequence[str], optional: Sequence[str]) -> Selected:
    return Selected(None, frozenset(), frozenset((*required, *optional)))


def _listed(
    text: bytes, span: Span, names: Sequence[str], required: Sequence[str], optional: Sequence[str], *, may_add: bool
) -> Selected:
    if EVERY in names:
        return _all(required, optional)
    wanted = (*required, *optional)
    # A pattern, should the service know any, may stand for a field that would be taken out again.
    added = _missing(wanted, names) if may_add and not any(EVERY in name for name in names) else ()
    inside = text[span[0] : span[1] - 1] + (b"," if names else b"")
    readable = [name for name in wanted if name in names or name in added]
    return _selected((*span, inside + _array(added)[1:]), added, readable, required)


def _selected(edit: Edit, added: Sequence[str], readable: Sequence[str], required: Sequence[str]) -> Selected:
    if not set(required) <= set(readable):
        raise Unsupported(Reason.PAYLOAD_SELECTOR)
    return Selected(edit if added else None, frozenset(added), frozenset(readable))


def _missing(wanted: Sequence[str], names: Sequence[str]) -> tuple[str, ...]:
    """The wanted names that are not there, each once. A name that could be a pattern is none that can be asked for."""
    return tuple(dict.fromkeys(n for n in wanted if n not in names and n not in OWN and EVERY not in n))


def _array(names: Sequence[str]) -> bytes:
    return json.dumps(list(names), ensure_ascii=False, separators=(",", ":")).encode(errors="replace")
