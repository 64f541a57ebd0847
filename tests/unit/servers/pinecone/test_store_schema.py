""""""

from __future__ import annotations

import pytest
from servers.pinecone.errors import RefusalError
from servers.pinecone.store import Dense, known_model

from support.emulated import SPARSE_EMBED, articles, index, integrated


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
