"""What a search looks for: a vector, two, or those of a record; checked against the index and ranked."""

from __future__ import annotations

from dataclasses import dataclass

from servers.pinecone.errors import invalid
from servers.pinecone.ranking import Passing, Scored, nearest, nearest_sparse
from servers.pinecone.schema import DENSE, SPARSE, Dense, Description
from servers.pinecone.shapes import Reals
from servers.pinecone.store import Index, Sparse


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """The vectors to look for. Either may be missing."""

    dense: Reals | None = None
    sparse: Sparse | None = None


def ranked(index: Index, name: str, probe: Probe, passing: Passing) -> list[Scored]:
    """Every passing record of a namespace, the best first; none when the probe has nothing for this index."""
    namespace = index.namespace(name)
    field = index.description.dense().get(DENSE)
    if namespace is None:
        return []
    if field is not None:
        return [] if probe.dense is None else nearest(namespace, field, probe.dense, passing, sparse=probe.sparse)
    return [] if probe.sparse is None else nearest_sparse(namespace, SPARSE, probe.sparse, passing)


def probe_of_id(index: Index, name: str, wanted: str) -> Probe | None:
    """A record's own vectors; None when there is no such record."""
    namespace = index.namespace(name)
    record = None if namespace is None else namespace.records.get(wanted)
    return None if record is None else Probe(dense=record.dense.get(DENSE), sparse=record.sparse.get(SPARSE))


def checked(description: Description, probe: Probe) -> Probe:
    """The probe, which must fit the index."""
    if probe.dense is None and probe.sparse is None:
        raise invalid("Missing a query vector: one of vector, sparseVector and id is wanted.")
    field = description.dense().get(DENSE)
    if field is None:
        if probe.dense is not None or probe.sparse is None:
            raise invalid("Cannot query a sparse index with a dense vector")
        return probe
    if probe.dense is None:
        raise invalid("Cannot query a dense index with only a sparse vector")
    check_dense(field, len(probe.dense))
    if probe.sparse is not None and field.metric != "dotproduct":
        raise invalid("Index configuration does not support sparse values - only dotproduct indexes do")
    return probe


def check_dense(field: Dense, length: int) -> None:
    """Refuse a vector of another length than the index has."""
    if length != field.dimension:
        raise invalid(f"Vector dimension {length} does not match the dimension of the index {field.dimension}")
