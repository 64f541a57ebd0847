"""The text of a payload: the first of the named fields that holds one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

USUAL_FIELDS = ("text", "page_content", "content", "document", "chunk", "body", "chunk_text")


def text_of(payload: Mapping[str, object], fields: Iterable[str] = USUAL_FIELDS) -> str | None:
    """The text under the first of ``fields`` that is a string with more than blanks in it; None without one.

    A field is a key, or the way to one with dots: ``metadata.source``. A key that has dots itself goes first.
    """
    for field in fields:
        value = value_at(payload, field)
        if isinstance(value, str) and value.strip():
            return value
    return None


def value_at(payload: Mapping[str, object], field: str) -> object:
    """What stands under a key or a dotted way, None when nothing does (which is how JSON says it, too)."""
    if field in payload:
        return payload[field]
    head, dot, rest = field.partition(".")
    inner = payload.get(head)
    return value_at(inner, rest) if dot and isinstance(inner, Mapping) else None
