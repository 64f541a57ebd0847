from __future__ import annotations

import numpy as np
import pytest
from servers.pinecone.control import from_spec
from servers.pinecone.errors import RefusalError
from servers.pinecone.store import Dense, Description, Namespace, Place, Project, Record, known_model, label_of

from support.emulated import SERVERLESS, SPARSE_EMBED, articles, index, integrated


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


def described(name: str, protection: str = "disabled") -> Description:
    return from_spec({"name": name, "dimension": 2, "spec": SERVERLESS, "deletion_protection": protection})


def project() -> Project:
    return Project(lambda label: Place(f"{label}.public", f"{label}.private"))


def test_an_index_is_placed_by_its_label() -> None:
    found = project()
    made = found.add(described("movies"))
    assert label_of("movies") == "movies-bef03cb"
    assert (made.host, made.private_host) == ("movies-bef03cb.public", "movies-bef03cb.private")
    assert found.labelled("movies-bef03cb") is made is found.index("movies")
    assert found.labelled("movies") is None


def test_a_name_is_taken_once_until_it_is_free_again() -> None:
    found = project()
    found.add(described("a"))
    with pytest.raises(RefusalError) as caught:
        found.add(described("a"))
    assert caught.value.code.status == 409
    found.remove("a")
    assert found.add(described("a")).namespaces == {}


def test_a_protected_index_stays() -> None:
    found = project()
    found.add(described("a", "enabled"))
    with pytest.raises(RefusalError, match="Deletion protection") as caught:
        found.remove("a")
    assert caught.value.code.status == 403
    assert "a" in found.indexes


def test_an_unknown_index_is_not_found() -> None:
    for act in (project().index, project().remove):
        with pytest.raises(RefusalError) as caught:
            act("none")
        assert caught.value.code.status == 404


def test_made_up_names_avoid_those_in_use() -> None:
    found = project()
    found.add(described("index-1"))
    assert [found.unused_name(), found.unused_name()] == ["index-2", "index-3"]


def test_a_plain_index_keeps_its_vectors_under_the_reserved_names() -> None:
    dense, sparse = index(3, "euclidean").description, index(None).description
    assert dense.dense() == {"_values": Dense("_values", 3, "euclidean")}
    assert dense.vector_type() == "dense"
    assert sparse.sparse() == ["_sparse_values"]
    assert sparse.vector_type() == "sparse"
    assert dense.holds_vectors()
    assert sparse.holds_vectors()


def test_an_integrated_index_has_vectors_of_its_model() -> None:
    dense, sparse = integrated().description, integrated(SPARSE_EMBED).description
    assert dense.dense() == {"_values": Dense("_values", 64, "cosine")}
    assert dense.text_field() == "text"
    assert sparse.sparse() == ["_sparse_values"]
    assert sparse.vector_type() == "sparse"


def test_a_schema_of_own_names_is_for_documents_only() -> None:
    found = articles().description
    assert not found.holds_vectors()
    assert set(found.dense()) == {"vec", "summary"}
    assert found.sparse() == ["terms", "keywords"]


def test_an_index_that_embeds_nothing_has_no_text_field() -> None:
    with pytest.raises(RefusalError, match="Integrated inference is not configured"):
        index().description.text_field()


@pytest.mark.parametrize("name", ["gpt", None, 3, ["x"]])
def test_an_unknown_model_is_refused(name: object) -> None:
    with pytest.raises(RefusalError, match="is not known"):
        known_model(name)
