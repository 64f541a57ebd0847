"""Which stored fields and which vector a widened search returns in addition, and how they leave the answer again.

Stored fields come from ``_source``. A field is added only where no pattern of the client touches it, so that the whole member can be removed
again. The vector comes from ``fields``, because Elasticsearch leaves vectors out of ``_source`` since 9.2, OpenSearch since 3.8. Measured with
OpenSearch 3.5 and Elasticsearch 9.3: OpenSearch returns a vector there only if ``_source`` has it; Elasticsearch returns it in any case, but writes
the members of ``_source`` in another order then. It does not for the values of ``docvalue_fields``, which older versions do not have of vectors.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import orjson

from ..contract import Needs, Reason, UnsupportedError
from ..wire.json import Members, Span
from ..wire.json_requests import items_of, one_or_more, present, read_object, text_of
from ..wire.json_vectors import Edit

SOURCE, FIELDS, DOC_VALUES = "_source", "fields", "docvalue_fields"
_PLAIN = re.compile(r"[^*.,\\]+")
_NO_SOURCE = b'"_none_"'
# Stands in a list of excluded names for one that must be shown: without any the server would return the stored bytes instead of its own.
_NOTHING = b'"_vecsieve_none"'


class Product(NamedTuple):
    """The server. ``has_doc_values``: whether it returns vectors among ``docvalue_fields``."""

    has_doc_values: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """``edits``: of the selection. ``is_forced``: the client wants no ``_source``. ``added``: members that it did not select. ``is_cut``: whether
    some optional fields are not returned whole.
    """

    edits: tuple[Edit, ...] = ()
    is_forced: bool = False
    added: tuple[str, ...] = ()
    is_cut: bool = False


def _touch(patterns: Iterable[str], field: str) -> bool:
    """Whether one of them may select the field, or a part of it. ``*`` is for any characters, dots included."""
    return any(_may_reach(pattern, field) for pattern in patterns)


def _matches(pattern: str, field: str) -> bool:
    return re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), field, re.DOTALL) is not None


def _may_reach(pattern: str, field: str) -> bool:
    begin, star, _ = pattern.partition("*")
    inside = f"{field}."
    return _matches(pattern, field) or begin.startswith(inside) or (bool(star) and inside.startswith(begin))


@dataclass(frozen=True, slots=True, kw_only=True)
class Selected:
    """The client's selection. ``has_source``: whether any ``_source`` is returned. ``listed``: the span of the included names, None if there are none;
    ``includes``: () for everything. ``hidden``: the spans of the excluded names.
    """

    has_source: bool
    listed: Span | None = None
    includes: tuple[str, ...] = ()
    excludes: tuple[str, ...] = ()
    hidden: tuple[Span, ...] = ()


def plan_source(
    text: bytes, root: Members, start: int, needs: Needs, vector: str, listed: Sequence[str] = ()
) -> Source:
    """``_source`` with the fields of the needs. ``start``: of the body's brace. ``vector``: a field that must be among them for ``fields`` to have
    it, if that is possible; "" for none. ``listed``: what ``fields`` of a client without ``_source`` shows, and must not lose. Raises
    UnsupportedError if a required one cannot be added.
    """
    selected = read_source(text, root)
    revealed, edits = _revealed(selected, vector)
    required, optional = needs.payload_fields, needs.optional_fields
    if selected.has_source and not selected.includes:
        touched = [field for field in (*required, *optional) if _touch(selected.excludes, field)]
        _check(touched, required)
        return Source(edits=edits, added=(vector,) if edits else (), is_cut=bool(touched))
    missing = [
        field
        for field in dict.fromkeys((*required, *optional))
        if not any(_matches(pattern, field) for pattern in selected.includes) or _touch(selected.excludes, field)
    ]
    added = tuple([field for field in missing if _is_addable(field, selected)])
    _check([field for field in missing if field not in added], required)
    is_cut = len(added) < len(missing)
    if not selected.has_source:
        names = (*added, vector) if vector else added
        if not names:
            return Source(is_cut=is_cut)
        return _forced(text, root, start, tuple(dict.fromkeys((*names, *listed))), needs, is_cut=is_cut)
    head = vector.partition(".")[0]
    if vector and _is_addable(head, revealed) and head not in added:
        names, added = (*added, vector), (*added, head)
    else:
        names, added = added, (*added, vector) if edits and vector not in added else added
    if names:
        assert selected.listed is not None  # noqa: S101 - names are included, so they have a place
        edits = (*edits, _appended(text, selected.listed, names))
    return Source(edits=edits, added=added, is_cut=is_cut)


def _forced(text: bytes, root: Members, start: int, names: Sequence[str], needs: Needs, *, is_cut: bool) -> Source:
    """For a client that wants no ``_source``."""
    value = b"true" if needs.whole else orjson.dumps(names)
    span = present(text, root, SOURCE)
    edit = (start + 1, start + 1, b'"_source":%s,' % value) if span is None else (*span, value)
    return Source(edits=(edit,), is_forced=True, is_cut=is_cut and not needs.whole)


def _revealed(selected: Selected, vector: str) -> tuple[Selected, tuple[Edit, ...]]:
    """The selection without the exclusion of the vector by its own name, and the edits for that."""
    names = selected.excludes
    others = tuple([name for name in names if name != vector])
    if vector not in names or "." in vector or _touch(others, vector):
        return selected, ()
    spans = [span for name, span in zip(names, selected.hidden, strict=True) if name == vector]
    return replace(selected, excludes=others), tuple([(*span, _NOTHING) for span in spans])


def _is_addable(field: str, selected: Selected) -> bool:
    is_touched = _touch(selected.includes, field) or _touch(selected.excludes, field)
    return _PLAIN.fullmatch(field) is not None and not is_touched


def _check(hidden: Sequence[str], required: Collection[str]) -> None:
    if not set(hidden).isdisjoint(required):
        raise UnsupportedError(Reason.PAYLOAD_SELECTOR)


def _appended(text: bytes, span: Span, names: Sequence[str]) -> Edit:
    """The client's name or list of names, with further ones."""
    if text[span[0] : span[0] + 1] == b'"':
        return (*span, b"[%s,%s" % (text[span[0] : span[1]], orjson.dumps(names)[1:]))
    # The list has names: an empty one selects everything.
    return span[1] - 1, span[1] - 1, b"," + orjson.dumps(names)[1:-1]


def read_source(text: bytes, root: Members) -> Selected:
    """Raises UnsupportedError."""
    stored = present(text, root, "stored_fields")
    if stored is not None and any(name in text[slice(*stored)] for name in (_NO_SOURCE, b'"_source"')):
        raise UnsupportedError(Reason.PAYLOAD_SELECTOR)
    if SOURCE not in root:
        return Selected(has_source=stored is None)
    span = root[SOURCE].span
    value = text[slice(*span)]
    if value in {b"true", b"false"}:
        return Selected(has_source=value == b"true")
    if value[:1] in {b'"', b"["}:
        return Selected(has_source=True, listed=span, includes=_names(text, one_or_more(text, root, SOURCE)))
    if value[:1] != b"{":
        raise UnsupportedError(Reason.PAYLOAD_SELECTOR)
    fields = read_object(
        text,
        span,
        ("includes", "include", "excludes", "exclude", "exclude_vectors"),
        reason=Reason.PAYLOAD_SELECTOR,
    )
    if {"includes", "include"} <= fields.keys() or {"excludes", "exclude"} <= fields.keys():
        raise UnsupportedError(Reason.AMBIGUOUS_FIELD)
    included, excluded = (name if name in fields else name[:-1] for name in ("includes", "excludes"))
    hidden = tuple(one_or_more(text, fields, excluded))
    return Selected(
        has_source=True,
        listed=present(text, fields, included),
        includes=_names(text, one_or_more(text, fields, included)),
        excludes=_names(text, hidden),
        hidden=hidden,
    )


def _names(text: bytes, spans: Iterable[Span]) -> tuple[str, ...]:
    return tuple([text_of(text, span) for span in spans])


# The vector.


@dataclass(frozen=True, slots=True, kw_only=True)
class Vector:
    """``field``: the path by which vectors are compared; "" for none. ``edit``: of the list that requests it, None if there is none: the client
    selected it, or nobody needs it. ``is_read``: whether the reply may have it; ``is_in_source``: in ``_source``, which the client does not want.
    """

    field: str = ""
    edit: Edit | None = None
    is_read: bool = False
    is_in_source: bool = False


def plan_vector(text: bytes, root: Members, start: int, field: str, needs: Needs) -> Vector:
    """Raises UnsupportedError."""
    if not needs.vectors or not field or "*" in field:
        return Vector(field=field)
    lists = {member: listed_fields(text, root, member) for member in (FIELDS, DOC_VALUES)}
    if any(_touch(names, field) for _, names in lists.values()):
        return Vector(field=field, is_read=True)
    if not (needs.whole or read_source(text, root).has_source):  # then nothing of ``fields`` changes
        return Vector(field=field, is_read=True, is_in_source=True)
    member = DOC_VALUES if isinstance(needs.known, Product) and needs.known.has_doc_values else FIELDS
    span, names = lists[member]
    name = orjson.dumps(field)
    if span is None:
        return Vector(field=field, edit=(start + 1, start + 1, b'"%s":[%s],' % (member.encode(), name)), is_read=True)
    at = span[1] - 1
    return Vector(field=field, edit=(at, at, (b"," if names else b"") + name), is_read=True)


def listed_fields(text: bytes, root: Members, member: str) -> tuple[Span | None, tuple[str, ...]]:
    """The span of a list of fields, and their names. Raises UnsupportedError."""
    span = present(text, root, member)
    if span is None and member in root:
        raise UnsupportedError(Reason.PAYLOAD_SELECTOR)
    return span, () if span is None else tuple([_field_name(text, item) for item in items_of(text, span)])


def _field_name(text: bytes, span: Span) -> str:
    """A name, or an object with it and a format."""
    if text[span[0] : span[0] + 1] == b"{":
        fields = read_object(text, span, ("field", "format", "include_unmapped"), reason=Reason.PAYLOAD_SELECTOR)
        span = present(text, fields, "field") or span
    return text_of(text, span)
