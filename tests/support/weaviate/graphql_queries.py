"""GraphQL as far as VecSieve asks it of Weaviate: searches near a vector under `Get`, each with a name, arguments and a selection."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from support.weaviate.messages import message_type, packed
from support.weaviate.model import Collection

_TOKEN = re.compile(r'[\s,]*("(?:[^"\\]|\\.)*"|[{}()\[\]:]|-?[0-9][0-9.eE+-]*|[_A-Za-z][_0-9A-Za-z]*)')


@dataclass(frozen=True, slots=True)
class Field:
    """``alias``: its name in the answer."""

    alias: str
    name: str
    arguments: Mapping[str, Any]
    selected: Sequence[Field]


class _Reader:
    def __init__(self, text: str) -> None:
        self._tokens = _TOKEN.findall(text)
        assert not _TOKEN.sub("", text).strip(), "what is no token of GraphQL"
        self._at = 0

    def next(self) -> str:
        self._at += 1
        token: str = self._tokens[self._at - 1]
        return token

    def takes(self, token: str) -> bool:
        is_next = self._tokens[self._at : self._at + 1] == [token]
        self._at += is_next
        return is_next

    def selection(self) -> list[Field]:
        fields: list[Field] = []
        assert self.takes("{")
        while not self.takes("}"):
            name = alias = self.next()
            if self.takes(":"):
                name = self.next()
            arguments = self.members(")") if self.takes("(") else {}
            is_nested = self._tokens[self._at] == "{"
            fields.append(Field(alias, name, arguments, self.selection() if is_nested else ()))
        return fields

    def members(self, end: str) -> dict[str, Any]:
        members: dict[str, Any] = {}
        while not self.takes(end):
            name = self.next()
            assert self.takes(":")
            members[name] = self.value()
        return members

    def value(self) -> Any:
        if self.takes("{"):
            return self.members("}")
        if self.takes("["):
            values: list[Any] = []
            while not self.takes("]"):
                values.append(self.value())
            return values
        token = self.next()
        return json.loads(token) if token[0] in '"-0123456789' or token in {"true", "false"} else token


def read(query: str) -> list[Field]:
    """The searches of a query."""
    (get,) = _Reader(query).selection()
    assert get.name == "Get"
    return list(get.selected)


def answered(query: str, collections: Mapping[str, Collection]) -> dict[str, Any]:
    """The server's answer."""
    try:
        return {"data": {"Get": {field.alias: _rows(field, collections[field.name]) for field in read(query)}}}
    except KeyError as error:
        return {"data": None, "errors": [{"message": f"Cannot query field {error} on type GetObjectsObj."}]}


def _rows(field: Field, collection: Collection) -> list[dict[str, Any]]:
    if "nearVector" not in field.arguments:
        tenant, identifier = field.arguments.get("tenant", ""), field.arguments["where"]["valueText"]
        assert field.arguments["where"]["path"] == ["id"]
        those = [stored for stored in collection.objects if (stored.id, stored.tenant) == (identifier, tenant)]
        return [{"_additional": {"id": stored.id}} for stored in those]
    near = field.arguments["nearVector"]
    request = message_type("SearchRequest")(
        collection=field.name,
        tenant=field.arguments.get("tenant", ""),
        limit=len(collection.objects) + 1,
        metadata={"uuid": True, "distance": True, "vector": True},
        near_vector={"vector_bytes": packed(near["vector"]), "target_vectors": near.get("targetVectors", [])},
    )
    hits = collection.ranked(request)
    kept = [hit for hit in hits if _fits(field.arguments.get("where"), hit.stored.properties)]
    names = [selected.name for selected in field.selected if selected.name != "_additional"]
    if unknown := set(names) - set(collection.properties):
        raise KeyError(*unknown)
    return [
        {
            **{name: hit.stored.properties.get(name) for name in names},
            "_additional": {
                "id": hit.stored.id,
                "distance": hit.number,
                "vector": hit.stored.vector,
                "vectors": dict(hit.stored.vectors),
            },
        }
        for hit in kept[: field.arguments["limit"]]
    ]


def _fits(where: Any, properties: Mapping[str, Any]) -> bool:
    if where is None:
        return True
    if where["operator"] == "And":
        return all(_fits(operand, properties) for operand in where["operands"])
    (name,) = where["path"]
    (value,) = [value for key, value in where.items() if key.startswith("value")]
    return bool(properties.get(name) == value)
