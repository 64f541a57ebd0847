"""Vectors by any name, those added to a collection that exists, and aliases."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from servers.embedded.collections import Call
from servers.embedded.fields import RefusalError
from servers.qdrant import catalogue, points, searches
from servers.qdrant.catalogue import FullRegistry, aliased

from support.qdrant.core import Core, full_core

WORDS = ("text", "image", "object", "model", "options")
DENSE = {"dense": {"size": 3, "distance": "Dot"}}
SPARSE = {"sparse": {"modifier": "idf"}}


@pytest.fixture
def server() -> Iterator[Core]:
    with full_core() as made:
        made.call(catalogue.create, {"vectors": {"size": 2, "distance": "Dot"}})
        yield made


def refused(server: Core, verb: Any, body: object = None, **path: str) -> tuple[int, str]:
    with pytest.raises(RefusalError) as caught:
        server.call(verb, body, **path)
    return caught.value.status, caught.value.message


@pytest.mark.parametrize("word", WORDS)
def test_a_vector_may_be_called_like_a_word_of_the_api(word: str) -> None:
    with full_core() as server:
        rows = {"size": 2, "distance": "Dot", "multivector_config": {"comparator": "max_sim"}}
        server.call(
            catalogue.create,
            {"vectors": {word: {"size": 2, "distance": "Dot"}, "rows": rows}, "sparse_vectors": {f"s{word}": {}}},
        )
        sparse = {"indices": [1], "values": [1.0]}
        server.call(points.upsert, {"points": [{"id": 1, "vector": {word: [1, 2], f"s{word}": sparse}}]})
        server.call(points.upsert, {"batch": {"ids": [2], "vectors": {word: [[3, 4]], "rows": [[[1, 1]]]}}})
        server.call(points.update_vectors, {"points": [{"id": 1, "vector": {word: [5, 6]}}]})
        stored = server.call(points.retrieve, {"ids": [1, 2], "with_vector": [word]})
        assert [record["vector"] for record in stored] == [{word: [5.0, 6.0]}, {word: [3.0, 4.0]}]
        found = server.call(searches.query, {"query": [1, 0], "using": word})
        assert [point["id"] for point in found["points"]] == [1, 2]


@pytest.mark.parametrize("asked", [{"text": "hello", "model": "m"}, {"image": "http://a", "model": "m"}])
def test_a_document_to_be_embedded_is_still_refused_by_name(server: Core, asked: object) -> None:
    status, message = refused(server, points.upsert, {"points": [{"id": 1, "vector": asked}]})
    assert (status, message) == (501, "Not implemented by the embedded server: inference; send vectors")
    named = {"points": [{"id": 1, "vector": {"": asked}}]}
    assert refused(server, points.upsert, named)[0] == 501
    assert refused(server, searches.query, {"query": asked})[0] == 501


def test_what_is_neither_a_vector_nor_a_document_is_a_format_error(server: Core) -> None:
    status, message = refused(server, points.upsert, {"points": [{"id": 1, "vector": {"text": 3}}]})
    assert status == 400
    assert message.startswith("Format error in JSON body: ")


def test_a_named_vector_is_added_searched_and_removed(server: Core) -> None:
    server.call(points.upsert, {"points": [{"id": 1, "vector": [1, 2]}]})
    assert server.call(catalogue.create_vector, DENSE, vector="added")["status"] == "completed"
    server.call(catalogue.create_vector, SPARSE, vector="words")
    sparse = {"indices": [3], "values": [2.0]}
    server.call(points.upsert, {"points": [{"id": 2, "vector": {"added": [1, 1, 1], "words": sparse}}]})
    server.call(points.update_vectors, {"points": [{"id": 1, "vector": {"added": [2, 2, 2]}}]})
    found = server.call(searches.query, {"query": [1, 0, 0], "using": "added"})
    assert [(point["id"], point["score"]) for point in found["points"]] == [(1, 2.0), (2, 1.0)]
    config = server.call(catalogue.info)["config"]["params"]
    assert config["vectors"] == {"": {"size": 2, "distance": "Dot"}, "added": {"size": 3, "distance": "Dot"}}
    assert config["sparse_vectors"] == {"words": {"modifier": "idf"}}
    for name in ("added", "words", "nobody"):
        assert server.call(catalogue.delete_vector, vector=name)["status"] == "completed"
    config = server.call(catalogue.info)["config"]["params"]
    assert (list(config["vectors"]), config["sparse_vectors"]) == ([""], {})
    status, message = refused(server, searches.query, {"query": [1, 0, 0], "using": "added"})
    assert (status, "added" in message) == (400, True)
    assert server.call(searches.query, {"query": [1, 0]})["points"][0]["id"] == 1


def test_every_part_of_a_configuration_is_kept(server: Core) -> None:
    rows = {"size": 4, "distance": "Cosine", "multivector_config": {"comparator": "max_sim"}, "datatype": "float16"}
    server.call(catalogue.create_vector, {"dense": rows}, vector="rows")
    server.call(catalogue.create_vector, {"sparse": {"datatype": "uint8"}}, vector="small")
    config = server.call(catalogue.info)["config"]["params"]
    assert config["vectors"]["rows"] == rows
    assert config["sparse_vectors"] == {"small": {"index": {"datatype": "uint8"}}}
    server.call(points.upsert, {"points": [{"id": 1, "vector": {"rows": [[1, 0, 0, 0], [0, 1, 0, 0]]}}]})
    found = server.call(searches.query, {"query": [[1, 0, 0, 0]], "using": "rows"})
    assert found["points"][0]["score"] == pytest.approx(1)


def test_the_same_again_changes_nothing_and_another_configuration_is_refused(server: Core) -> None:
    server.call(catalogue.create_vector, DENSE, vector="added")
    server.call(points.upsert, {"points": [{"id": 1, "vector": {"added": [1, 1, 1]}}]})
    server.call(catalogue.create_vector, DENSE, vector="added")
    assert server.call(searches.query, {"query": [1, 0, 0], "using": "added"})["points"][0]["id"] == 1
    server.call(catalogue.create_vector, SPARSE, vector="words")
    server.call(catalogue.create_vector, SPARSE, vector="words")
    other = {"dense": {"size": 4, "distance": "Dot"}}
    prefix = "Wrong input: "
    assert refused(server, catalogue.create_vector, other, vector="added") == (
        400,
        f"{prefix}Vector `added` already exists with a different configuration",
    )
    assert refused(server, catalogue.create_vector, {"sparse": {}}, vector="words") == (
        400,
        f"{prefix}Sparse vector `words` already exists with a different configuration",
    )
    assert refused(server, catalogue.create_vector, DENSE, vector="words") == (
        400,
        f"{prefix}Vector `words` already exists as a sparse vector",
    )
    assert refused(server, catalogue.create_vector, SPARSE, vector="added") == (
        400,
        f"{prefix}Vector `added` already exists as a dense vector",
    )


@pytest.mark.parametrize("body", [{}, {"dense": {"size": 3}}, {"dense": {"size": 0, "distance": "Dot"}}, {"other": {}}])
def test_a_configuration_that_is_none_is_refused_and_changes_nothing(server: Core, body: object) -> None:
    assert refused(server, catalogue.create_vector, body, vector="added")[0] in {400, 422}
    assert "added" not in server.call(catalogue.info)["config"]["params"]["vectors"]


@pytest.mark.parametrize("name", ["n" * 201, "a/b", "a\0"])
def test_a_name_that_cannot_be_one_is_refused(server: Core, name: str) -> None:
    assert refused(server, catalogue.create_vector, DENSE, vector=name)[0] == 422


def test_an_added_vector_and_its_absence_last_over_a_restart_and_a_change_of_settings(tmp_path: Path) -> None:
    registry = FullRegistry(tmp_path)
    server = Core(registry)
    server.call(catalogue.create, {})
    for name in ("kept", "gone"):
        server.call(catalogue.create_vector, DENSE, vector=name)
    server.call(points.upsert, {"points": [{"id": 1, "vector": {"kept": [1, 2, 3], "gone": [1, 2, 3]}}]})
    server.call(catalogue.delete_vector, vector="gone")
    server.call(catalogue.change, {"optimizers_config": {"indexing_threshold": 0}})
    registry.close()
    opened = Core(FullRegistry(tmp_path))
    try:
        stored = opened.call(points.retrieve, {"ids": [1], "with_vector": True})
        assert stored[0]["vector"] == {"kept": [1.0, 2.0, 3.0]}
        assert refused(opened, searches.query, {"query": [1, 0, 0], "using": "gone"})[0] == 400
        opened.call(catalogue.create_vector, {"dense": {"size": 2, "distance": "Dot"}}, vector="gone")
        opened.call(points.update_vectors, {"points": [{"id": 1, "vector": {"gone": [1, 2]}}]})
        assert opened.call(searches.query, {"query": [1, 0], "using": "gone"})["points"][0]["id"] == 1
    finally:
        opened.registry.close()


def test_a_collection_that_does_not_exist_has_no_vectors(server: Core) -> None:
    with pytest.raises(RefusalError) as caught:
        catalogue.delete_vector(server.registry, Call({"collection": "nowhere", "vector": "a"}))
    assert caught.value.status == 404


PLAIN: dict[str, Any] = {"vectors": {"size": 2, "distance": "Dot"}}


@pytest.fixture
def empty() -> Iterator[Core]:
    with full_core() as made:
        yield made


def test_names_and_aliases_do_not_take_each_others_place(empty: Core) -> None:
    empty.call(catalogue.create, PLAIN)
    registry = aliased(empty.registry)
    registry.create_alias("a", "c")
    with pytest.raises(RefusalError, match="Alias with the same name already exists"):
        empty.call(catalogue.create, PLAIN, name="a")
    with pytest.raises(RefusalError) as caught:
        registry.create_alias("c", "c")
    assert caught.value.status == 409
    with pytest.raises(RefusalError, match="Alias none does not exists!"):
        registry.rename_alias("none", "other")
    assert empty.call(catalogue.delete, name="a") is False
    assert registry.has("a")


def test_an_alias_moves_to_another_collection(empty: Core) -> None:
    for name in ("c", "d"):
        empty.call(catalogue.create, PLAIN, name=name)
    registry = aliased(empty.registry)
    registry.create_alias("a", "c")
    registry.create_alias("a", "d")
    assert registry.find("a").name == "d"
    assert registry.aliases("c") == []


def test_an_index_is_built_only_on_request_and_a_change_can_request_it(empty: Core) -> None:
    empty.call(catalogue.create, {"vectors": {"size": 64, "distance": "Dot"}})
    stored = [{"id": n, "vector": [n % 7, *([1] * 63)]} for n in range(200)]
    empty.call(points.upsert, {"points": stored})
    segments = empty.call(catalogue.info)["segments_count"]
    assert empty.call(catalogue.change, {"optimizers_config": {"indexing_threshold": 1}}) is True
    info = empty.call(catalogue.info)
    assert info["config"]["optimizer_config"]["indexing_threshold"] == 1
    assert info["segments_count"] > segments
    assert info["points_count"] == 200


def test_an_alias_is_there_after_a_restart_and_ends_with_its_collection(tmp_path: Path) -> None:
    registry = FullRegistry(tmp_path)
    registry.create("c", PLAIN)
    registry.create_alias("a", "c")
    registry.close()
    opened = FullRegistry(tmp_path)
    try:
        assert opened.find("a").name == "c"
        assert opened.delete("c")
        assert not opened.has("a")
        assert opened.aliases() == []
    finally:
        opened.close()
