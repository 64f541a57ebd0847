"""What a Qdrant server writes for a search, byte for byte, over points whose rank is given.

Written from the wire format alone and sharing nothing with the adapter: stored JSON texts are joined, never re-encoded.
Ranking is not modelled: points come in the order in which they are stored.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """One point: JSON texts for everything."""

    id: str
    score: str
    payload: tuple[tuple[str, str], ...] = ()
    vectors: tuple[tuple[str, str], ...] = ()
    version: int = 3
    shard_key: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A collection in rank order. ``is_old``: writes null for absent members, as up to 1.9."""

    points: tuple[Stored, ...]
    is_old: bool = False
    tail: str = ',"status":"ok","time":0.000154'

    def answer(self, operation: str, body: bytes) -> bytes:
        """The 200 this server gives."""
        request = json.loads(body)
        name, _, batch = operation.partition("_")
        if not batch:
            return f'{{"result":{self._list(name, request)}{self.tail}}}'.encode(errors="surrogatepass")
        lists = ",".join(self._list(name, item) for item in request["searches"])
        return f'{{"result":[{lists}]{self.tail}}}'.encode(errors="surrogatepass")

    def _list(self, name: str, request: dict[str, Any]) -> str:
        limit = request.get("limit")
        if limit is None and name != "query":
            limit = request["top"]
        start = request.get("offset") or 0
        page = self.points[start : start + (10 if limit is None else limit)]
        vectors = request.get("with_vector")
        if vectors is None and name != "discover":
            vectors = request.get("with_vectors")
        points = ",".join(self._point(point, request.get("with_payload"), vectors) for point in page)
        return f'{{"points":[{points}]}}' if name == "query" else f"[{points}]"

    def _point(self, point: Stored, payload: Any, vectors: Any) -> str:
        members = [f'"id":{point.id}', f'"version":{point.version}', f'"score":{point.score}']
        for name, text in (("payload", _payload(point, payload)), ("vector", _vectors(point, vectors))):
            if text is not None:
                members.append(f'"{name}":{text}')
            elif self.is_old:
                members.append(f'"{name}":null')
        if point.shard_key is not None:
            members.append(f'"shard_key":{point.shard_key}')
        return "{" + ",".join(members) + "}"


def _object(members: list[tuple[str, str]]) -> str:
    return "{" + ",".join(f"{json.dumps(key, ensure_ascii=False)}:{text}" for key, text in members) + "}"


def _payload(point: Stored, selector: Any) -> str | None:
    if selector is None or selector is False:
        return None
    if isinstance(selector, dict) and "exclude" in selector:
        return _object([member for member in point.payload if member[0] not in selector["exclude"]])
    chosen = selector["include"] if isinstance(selector, dict) else selector
    return _object([member for member in point.payload if chosen is True or member[0] in chosen])


def _vectors(point: Stored, selector: Any) -> str | None:
    if selector is None or selector is False:
        return None
    visible = [member for member in point.vectors if selector is True or member[0] in selector]
    return visible[0][1] if [name for name, _ in visible] == [""] else _object(visible)
