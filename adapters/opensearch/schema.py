"""The description of one index, as its writes need it: its name, its vectors, the types of its fields; and the form of a single document.

A write may name an alias or a data stream; the journal has the name of the index behind it, because an alias may move. Vectors are members of
``_source``, at dotted paths.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import msgspec

from ..base import NOTE
from ..contract import MalformedReplyError, Reason, UnsupportedError
from ..writes import Form

SOURCE = "_source"
_COSINE = frozenset({"cosine", "cosinesimil"})
_WHOLE = frozenset({"long", "integer", "short", "byte", "unsigned_long"})
_REAL = frozenset({"double", "float", "half_float", "scaled_float"})
_TEXTS = frozenset({"text", "match_only_text", "keyword", "constant_keyword", "wildcard"})
_EXACT = _WHOLE | {"keyword", "constant_keyword", "wildcard", "boolean"}
_DENSE = frozenset({"dense_vector", "knn_vector"})
# Left out of documents unless they are named.
_HIDDEN = _DENSE | {"sparse_vector", "rank_vectors", "rank_features", "semantic_text", "semantic"}


class _Field(msgspec.Struct):
    type: str = ""
    properties: dict[str, _Field] = {}
    fields: dict[str, _Field] = {}
    element_type: str = "float"
    data_type: str = "float"
    similarity: str = "cosine"
    space_type: str | None = None
    method: dict[str, object] = {}
    index: bool = True


class _Mapping(msgspec.Struct):
    properties: dict[str, _Field] = {}
    dynamic: str | bool = True
    source: dict[str, object] = msgspec.field(name=SOURCE, default_factory=dict)


class _Index(msgspec.Struct):
    mappings: _Mapping = msgspec.field(default_factory=_Mapping)
    settings: dict[str, dict[str, object]] = {}


_INDICES = msgspec.json.Decoder(dict[str, _Index])


@dataclass(frozen=True, slots=True)
class Schema:
    """``index``: its own name. ``vectors``: the paths of its dense vectors, and whether their scores are cosine similarities. ``kinds``: the types of
    its members; ``exact``: by member the field whose values are compared whole. ``has_notes``: whether a note adds no field to the index. ``is_restorable``:
    whether documents are shown as they were written, with all vectors.
    """

    index: str
    vectors: Mapping[str, bool]
    kinds: Mapping[str, str] = field(default_factory=dict)
    exact: Mapping[str, str] = field(default_factory=dict)
    has_notes: bool = False
    is_restorable: bool = False

    def exact_field(self, key: str) -> str:
        """The field by which documents with one value are found. Raises UnsupportedError for a text, whose words are compared."""
        if key in self.kinds and key not in self.exact:
            raise UnsupportedError(Reason.PAYLOAD_SELECTOR)
        return self.exact.get(key, key)

    def holds(self, key: str, value: object) -> bool:
        """Whether a member can have this value: the index has the field, and JSON of its type."""
        kind = self.kinds.get(key, "")
        return all(_is_of(kind, element) for element in (value if isinstance(value, list) else [value]))


def _is_of(kind: str, value: object) -> bool:
    if isinstance(value, bool):
        return kind == "boolean"
    if isinstance(value, str):
        return kind in _TEXTS
    return isinstance(value, int | float) and (kind in _REAL or (kind in _WHOLE and isinstance(value, int)))


def read_schema(body: bytes) -> Schema:
    """Of an answer about one index. Raises MalformedReplyError, also for an alias of several."""
    try:
        ((name, index),) = _INDICES.decode(body).items()
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError, ValueError):
        raise MalformedReplyError("no description of one index") from None
    members = index.mappings.properties
    vectors = dict(_vectors(members, ""))
    return Schema(
        index=name,
        vectors=vectors,
        kinds={key: member.type for key, member in members.items()},
        exact={key: path for key, member in members.items() if (path := _exact(key, member)) is not None},
        has_notes=NOTE in members or index.mappings.dynamic in {"false", False},
        is_restorable=not index.mappings.source
        and not _is_derived(index.settings.get("index", {}))
        and not any("," in path or "*" in path for path in vectors)
        and _hidden(members) == len(vectors),
    )


def _vectors(members: Mapping[str, _Field], above: str) -> Iterator[tuple[str, bool]]:
    """Those of the objects in a document, without its nested documents."""
    for name, member in members.items():
        path = above + name
        if member.type == "dense_vector":
            is_dot = member.similarity == "dot_product" and member.element_type == "float"  # of unit vectors
            yield path, member.index and (member.similarity in _COSINE or is_dot) and member.element_type != "bit"
        elif member.type == "knn_vector":
            space = member.space_type or member.method.get("space_type")
            yield path, space in _COSINE and member.data_type == "float"
        elif member.type in {"", "object"}:
            yield from _vectors(member.properties, f"{path}.")


def _is_derived(settings: Mapping[str, object]) -> bool:
    """Whether the server makes documents anew from their fields."""
    mapping = settings.get("mapping")
    is_set = isinstance(mapping, dict) and "source" in mapping
    return is_set or "derived_source" in settings or settings.get("mode", "standard") != "standard"


def _hidden(members: Mapping[str, _Field]) -> int:
    return sum((member.type in _HIDDEN) + _hidden(member.properties) for member in members.values())


def _exact(key: str, member: _Field) -> str | None:
    if member.type in _EXACT:
        return key
    return next((f"{key}.{name}" for name, subfield in member.fields.items() if subfield.type == "keyword"), None)


@dataclass(frozen=True, slots=True)
class SourceForm(Form):
    """``paths``: of the vectors, which are no payload though they stand in it."""

    payload: str = SOURCE
    vectors: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()

    def payload_of(self, point: Mapping[str, object]) -> dict[str, object]:
        payload = Form.payload_of(self, point)
        for path in self.paths:
            payload = _without(payload, path)
        return payload

    def vectors_of(self, point: Mapping[str, object]) -> dict[str, object]:
        source = Form.payload_of(self, point)
        return {path: value for path in self.paths if (value := _at(source, path)) is not None}

    def given(
        self, point: Mapping[str, object], payload: Mapping[str, object], vectors: Mapping[str, object]
    ) -> dict[str, object]:
        made = self.payload_of({SOURCE: payload})
        source = Form.payload_of(self, vectors)
        for path in self.paths:
            made = _with(made, source, path)
        return {"_id": point["_id"], SOURCE: made}


def _at(source: Mapping[str, object], path: str) -> object | None:
    """What the source has at a path; None if nothing."""
    if path in source:
        return source[path]
    head, dot, rest = path.partition(".")
    inner = source.get(head)
    return _at(inner, rest) if dot and isinstance(inner, dict) else None


def _without(payload: dict[str, object], path: str) -> dict[str, object]:
    head, dot, rest = path.partition(".")
    inner = payload.get(head)
    if dot and isinstance(inner, dict):
        return {**payload, head: _without(inner, rest)}
    return {key: value for key, value in payload.items() if key != path}


def _with(payload: dict[str, object], source: Mapping[str, object], path: str) -> dict[str, object]:
    """The payload with what the source has at a path."""
    head, dot, rest = path.partition(".")
    inner, old = source.get(head), payload.get(head)
    if path in source:
        return {**payload, path: source[path]}
    if dot and isinstance(inner, dict):
        return {**payload, head: _with(old if isinstance(old, dict) else {}, inner, rest)}
    return payload
