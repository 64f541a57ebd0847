""""""

from __future__ import annotations

import pytest
from servers.pinecone.rest import Edge


@pytest.mark.parametrize("given", [None, ""])
def test_no_key_is_not_taken(given: str | None) -> None:
    assert Edge(None).rejected(given) == Edge("k").rejected(given) == "Missing API key"


def test_any_key_is_taken_unless_there_is_one() -> None:
    assert Edge(None).rejected("any") is None
    assert Edge("größe").rejected("größe") is None
    assert Edge("k").rejected("any") == "Wrong API key"


def test_every_answer_has_another_id_and_documents_have_none() -> None:
    edge = Edge(None)
    assert [edge.headers()["x-pinecone-request-id"] for _ in range(2)] == ["0000000000000001", "0000000000000002"]
    assert "x-pinecone-request-id" not in edge.headers(has_id=False)
    assert edge.headers()["x-pinecone-request-id"] == "0000000000000003"
