"""`POST /query`: dense, sparse and hybrid, by vector or by the id of a record."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from servers.pinecone.calls import DEDICATED, SCHEMA, Answer, Call, transcoded
from servers.pinecone.errors import invalid, too_long
from servers.pinecone.fields import boolean, message, read_filter, reals, sparse, text, whole
from servers.pinecone.ranking import Probe, Scored, checked, probe_of_id, ranked
from servers.pinecone.shapes import Struct
from servers.pinecone.store import DENSE, SPARSE, Index, Record

Json = Any

MAX_TOP_K = 10_000
_ALWAYS = ("namespace", "topK", "filter", "includeValues", "includeMetadata", "vector", "id", "sparseVector")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fields:
    """Which parts of a match are asked for."""

    values: bool
    metadata: bool


def query(index: Index, call: Call) -> Answer:
    """Answer one query."""
    if not index.description.holds_vectors():
        raise invalid("This index is searched through its documents: its schema names fields of its own")
    body = message(call.json(), _known(call.version))
    fields = Fields(
        values=boolean(body.get("includeValues"), "includeValues"),
        metadata=boolean(body.get("includeMetadata"), "includeMetadata"),
    )
    top_k = whole(body.get("topK", 0), "topK", least=1, most=MAX_TOP_K)
    if "maxCandidates" in body:
        whole(body["maxCandidates"], "maxCandidates", least=top_k, most=100_000)
    factor = body.get("scanFactor", 1.0)
    if isinstance(factor, bool) or not isinstance(factor, int | float) or not 0.5 <= factor <= 4:
        raise invalid("scanFactor must be from 0.5 to 4")
    namespace = text(body.get("namespace"), "namespace")
    answer = transcoded(
        {
            "results": [],
            "matches": _matches(index, namespace, body, top_k, fields, call.version),
            "namespace": namespace,
            "usage": {"readUnits": 1},
        },
        index.seen(),
    )
    if len(answer.body) > call.limits.result:
        raise too_long(len(answer.body), call.limits.result)
    return answer


def _known(version: str) -> tuple[str, ...]:
    tuning = ("scanFactor", "maxCandidates") if version >= DEDICATED else ()
    return (*_ALWAYS, *tuning)


def _matches(
    index: Index, name: str, body: Mapping[str, Json], top_k: int, fields: Fields, version: str
) -> list[dict[str, Json]]:
    # Read before the namespace is looked up: a wrong request is wrong in an empty namespace too.
    passes = read_filter(body.get("filter"))
    probe = _probe(index, name, body, version)
    hits = [] if probe is None else ranked(index, name, probe, lambda record: passes(record.metadata))
    return [_match_json(item, fields) for item in hits[:top_k]]


def _probe(index: Index, name: str, body: Mapping[str, Json], version: str) -> Probe | None:
    """What to look for; None when it is the record of an id that is not there."""
    if body.get("id") is not None:
        if body.get("vector") is not None:
            raise invalid("Cannot provide both ID and vector at the same time.")
        if version >= SCHEMA and body.get("sparseVector") is not None:
            raise invalid("Cannot provide both ID and sparse vector at the same time.")
        return probe_of_id(index, name, text(body["id"], "id"))
    dense = None if body.get("vector") is None else reals(body["vector"], "vector")
    return checked(index.description, Probe(dense=dense, sparse=sparse(body.get("sparseVector"), "sparseVector")))


def _match_json(item: Scored, fields: Fields) -> dict[str, Json]:
    members: dict[str, Json] = {"id": item.record.id, "score": item.score, "values": []}
    if fields.values:
        members["values"] = item.record.dense.get(DENSE, [])
    if fields.metadata and item.record.metadata:
        members["metadata"] = Struct(item.record.metadata)
    if fields.values and SPARSE in item.record.sparse:
        members["sparseValues"] = sparse_json(item.record)
    return members


def sparse_json(record: Record) -> dict[str, Json]:
    """A record's sparse vector as a message."""
    values = record.sparse[SPARSE]
    return {"indices": list(values.indices), "values": values.values}
