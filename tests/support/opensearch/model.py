"""What the servers write for a search, byte for byte, over hits whose rank is given.

Written from the wire format alone and sharing nothing with the adapter: stored JSON texts are joined. Only where a pattern selects a part of a
value, that value is encoded again, as the servers do. Ranking and filters are not modelled.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

VECTOR = "vec"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """One document: JSON texts for everything. ``vector``: None for a document without one. ``more``: members of the hit behind its fields."""

    id: str
    score: str
    source: tuple[tuple[str, str], ...] = ()
    vector: str | None = None
    index: str = '"docs"'
    more: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """``hits``: in rank order. ``total``: what an exact search finds, None for the hits. ``has_vectors``: whether ``_source`` has the vectors, which Elasticsearch leaves out
    since 9.2. ``is_opensearch``: ``fields`` has a vector only if the selection of ``_source`` has it, or selects nothing.
    """

    hits: tuple[Stored, ...]
    has_vectors: bool = True
    space: str = ""
    total: int | None = None
    is_opensearch: bool = False

    def answer(self, body: bytes) -> bytes:
        """The 200 for one search."""
        return self._searched(json.loads(body)).encode(errors="surrogatepass")

    def answer_batch(self, body: bytes) -> bytes:
        """The 200 for the searches of a batch."""
        lines = body.split(b"\n")
        assert lines.pop() == b"", "a batch ends with a line feed"
        answers = [self._searched(json.loads(line))[:-1] + ',"status":200}' for line in lines[1::2]]
        return ('{"took":3,"responses":[' + ",".join(answers) + "]}").encode(errors="surrogatepass")

    def _searched(self, request: dict[str, Any]) -> str:
        start = request.get("from", 0)
        hits = self.hits[start : start + request.get("size", 10)]
        space = self.space
        listed = f",{space}".join(self._hit(hit, request) for hit in hits)
        inside = f"{space}{listed}{space}" if hits or not space else " "
        top = self.hits[0].score if self.hits else "null"  # whatever the page
        return (
            f'{space}{{"took":5,"timed_out":false,"_shards":{{"total":1,"successful":1,"skipped":0,"failed":0}},'
            f'"hits":{{"total":{{"value":{self._total(request)},"relation":"eq"}},"max_score":{top},'
            f'"hits":[{inside}]}}{self._sampled(request)},"suggest":{{"_id":{{"hits":[]}}}}}}'
        )

    def _sampled(self, request: dict[str, Any]) -> str:
        """Of an aggregation that samples a shard: no other is modelled."""
        if "aggs" not in request:
            return ""
        ((name, sampled),) = request["aggs"].items()
        total = len(self.hits) if self.total is None else self.total
        count = min(total, sampled["sampler"]["shard_size"])
        return f',"aggregations":{{"{name}":{{"doc_count":{count},"n":{{"doc_count":{count}}}}}}}'

    def _total(self, request: dict[str, Any]) -> int:
        total = len(self.hits) if self.total is None else self.total
        neighbours = neighbours_of(request)
        return total if neighbours is None else min(total, neighbours)

    def _hit(self, hit: Stored, request: dict[str, Any]) -> str:
        members = [f'"_index":{hit.index}', f'"_id":{hit.id}', f'"_score":{hit.score}']
        selection = request.get("_source", "stored_fields" not in request)
        if selection is not False:
            members.append(f'"_source":{self._source(hit, selection)}')
        patterns = [entry["field"] if isinstance(entry, dict) else entry for entry in request.get("fields", [])]
        fields = {key: f"[{value}]" for key, value in hit.source}
        if hit.vector is not None and (selection is False or not self.is_opensearch or self._shows_vector(selection)):
            fields[VECTOR] = hit.vector
        values = request.get("docvalue_fields", [])
        chosen = {key: value for key, value in sorted(fields.items()) if any(selects(name, key) for name in patterns)}
        if VECTOR in values and hit.vector is not None:
            chosen[VECTOR] = f"[{hit.vector}]"
        if chosen:
            members.append(f'"fields":{_object(chosen)}')
        return f"{{{','.join([*members, *filter(None, [hit.more])])}}}"

    def _shows_vector(self, selection: Any) -> bool:
        includes, excludes = patterns_of(selection)
        is_included = not includes or any(selects(name, VECTOR) for name in includes)
        return is_included and not any(selects(name, VECTOR) for name in excludes)

    def _source(self, hit: Stored, selection: Any) -> str:
        includes, excludes = patterns_of(selection)
        stored = dict(hit.source)
        if hit.vector is not None and (self.has_vectors or any(selects(name, VECTOR) for name in includes)):
            stored[VECTOR] = hit.vector
        kept = {key: _part(key, value, includes, excludes) for key, value in stored.items()}
        return _object({key: value for key, value in kept.items() if value is not None})


def neighbours_of(request: dict[str, Any]) -> int | None:
    """How many documents the one clause of a search finds in a shard; None if others find some, too."""
    size, query, knn = request.get("size", 10), request.get("query", {}), request.get("knn", [])
    clauses = knn if isinstance(knn, list) else [knn]
    retrieved = request.get("retriever", {}).get("knn")
    if (len(clauses) == 1 and not query) or retrieved:
        return int((retrieved or clauses[0]).get("k", size))
    if clauses:
        return None
    if "neural" in query:
        (clause,) = query["neural"].values()
        return int(clause.get("k", 10))
    if "field" in query.get("knn", {}):
        return int(query["knn"].get("k", size))
    (clause,) = query.get("knn", {"": {}}).values()
    return int(clause["k"]) if "k" in clause else None


def patterns_of(selection: Any) -> tuple[list[str], list[str]]:
    """The names that ``_source`` includes, [] for everything, and those that it excludes."""
    if selection is True:
        return [], []
    if isinstance(selection, dict):
        return _names(selection.get("includes", [])), _names(selection.get("excludes", []))
    return _names(selection), []


def _names(names: str | list[str]) -> list[str]:
    return [names] if isinstance(names, str) else names


def selects(pattern: str, path: str) -> bool:
    """Whether a pattern selects a path, or an object that it is in."""
    parts = path.split(".")
    glob = re.compile(".*".join(map(re.escape, pattern.split("*"))), re.DOTALL)
    return any(glob.fullmatch(".".join(parts[: end + 1])) for end in range(len(parts)))


def _part(path: str, text: str, includes: Sequence[str], excludes: Sequence[str]) -> str | None:
    """What of a value is returned, as JSON; None for nothing."""
    inner = [name for name in (*includes, *excludes) if "." in name or "*" in name]
    value = json.loads(text) if text[:1] == "{" and inner else None
    if any(selects(name, path) for name in excludes):
        return None
    is_whole = not includes or any(selects(name, path) for name in includes)
    if not isinstance(value, dict) or (is_whole and not excludes):
        return text if is_whole else None
    kept = {
        key: part
        for key, inside in value.items()
        if (part := _part(f"{path}.{key}", json.dumps(inside), [] if is_whole else includes, excludes)) is not None
    }
    return _object(kept) if kept or is_whole else None


def _object(members: dict[str, str]) -> str:
    return "{" + ",".join(f"{json.dumps(key, ensure_ascii=False)}:{value}" for key, value in members.items()) + "}"
