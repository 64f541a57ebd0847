""""""

from __future__ import annotations

import numpy as np
from servers.pinecone.store import Namespace, Record

from support.emulated import index


def record(name: str, *values: float, **metadata: object) -> Record:
    dense = {"_values": np.array(values, dtype=np.float32)} if values else {}
    return Record(id=name, dense=dense, metadata=metadata)


def test_records_are_stacked_in_the_order_they_were_first_written() -> None:
    namespace = Namespace()
    namespace.put([record("b", 1, 2), record("bare"), record("a", 3, 4)])
    namespace.put([record("b", 5, 6)])
    found, matrix = namespace.stacked("_values")
    assert [one.id for one in found] == ["b", "a"]
    assert matrix.tolist() == [[5, 6], [3, 4]]


def test_a_removed_record_leaves_the_matrix() -> None:
    namespace = Namespace()
    namespace.put([record("a", 1, 2)])
    namespace.stacked("_values")
    namespace.remove(["a", "unknown"])
    assert namespace.stacked("_values")[0] == []


def test_the_empty_name_is_the_default_namespace() -> None:
    found = index()
    assert found.namespace("") is None
    found.opened("").put([record("a", 1, 2)])
    assert found.namespace("__default__") is found.namespace("") is not None
    assert list(found.namespaces) == ["__default__"]


def test_every_write_has_a_number_and_a_search_says_which_it_saw() -> None:
    found = index()
    assert found.seen() == {"x-pinecone-max-indexed-lsn": "0"}
    assert found.written() == {"x-pinecone-request-lsn": "1"}
    assert found.written() == {"x-pinecone-request-lsn": "2"}
    assert found.seen() == {"x-pinecone-max-indexed-lsn": "2"}
