"""The write gate of OpenSearch and Elasticsearch, through their official clients: the server of the tests, or real nodes where OPENSEARCH_SERVER and
ELASTICSEARCH_SERVER name them.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from clients.test_opensearch_clients import client
from prove.search_nodes import started
from servers.opensearch.store import Product

from support.backends.write_gates import SIZE, text_with, undone, vector, writing
from support.jobs.journals import rows_left_out
from support.process import real_servers
from support.process.stack import exchange, serve
from vecsieve.proxy.writes.book import Book

NOTE = {"duplicate_of": {"type": "keyword"}, "similarity": {"type": "float"}, "tier": {"type": "keyword"}}
Document = dict[str, Any]


@pytest.fixture(scope="module", params=Product, ids=lambda product: product.value)
def node(request: pytest.FixtureRequest) -> Iterator[tuple[Product, str]]:
    with started(request.param) as url:
        yield request.param, url


def create(product: Product, url: str, name: str) -> Any:
    """The client, directly at the node."""
    field: Document = {"type": "dense_vector", "dims": SIZE, "index": True, "similarity": "cosine"}
    if product is Product.OPENSEARCH:
        method = {"name": "hnsw", "space_type": "cosinesimil", "engine": "lucene"}
        field = {"type": "knn_vector", "dimension": SIZE, "method": method}
    members = {"vec": field, "text": {"type": "text"}, "team": {"type": "keyword"}, "_vecsieve": {"properties": NOTE}}
    index: Document = {"number_of_shards": 1, "number_of_replicas": 0}
    settings = {"index": {**index, **({"knn": True} if product is Product.OPENSEARCH else {})}}
    body = {"settings": settings, "mappings": {"properties": members}}
    direct = client(product, url)
    if product is Product.OPENSEARCH:
        direct.indices.create(index=name, body=body)
    else:
        direct.indices.create(index=name, **body)
    return direct


def document(word: str, axis: int, **more: Any) -> Document:
    return {"text": text_with(word), "vec": vector(axis), **more}


def stored(direct: Any, name: str) -> dict[str, Document]:
    direct.indices.refresh(index=name)
    hits = direct.search(index=name, body={"size": 100})["hits"]["hits"]
    return {hit["_id"]: {key: value for key, value in hit["_source"].items() if key != "vec"} for hit in hits}


def left_out(journal: Path) -> dict[str, str]:
    """By id the original of what is in the journal, and done."""
    with closing(Book(journal)) as book:
        rows = [(row.id, row.survivor) for row in rows_left_out(book)]
    return {json.loads(one): json.loads(other) for one, other in rows}


def test_copies_are_annotated(node: tuple[Product, str]) -> None:
    product, url = node
    direct = create(product, url, "annotated")
    with serve(url, "--backend", product.value, environment={"VECSIEVE_POLICY_WRITE_MODE": "annotate"}) as (gate, _):
        through = client(product, gate)
        through.index(index="annotated", id="a", body=document("alpha", 0), refresh=True)
        actions = [{"index": {"_id": "b"}}, document("alpha", 0), {"create": {"_id": 7}}, document("beta", 1)]
        actions += [{"index": {}}, document("beta", 1), {"delete": {"_id": "none"}}]
        answer = through.bulk(index="annotated", body=actions, refresh=True)
        assert [next(iter(item.values()))["status"] for item in answer["items"]] == [201, 201, 201, 404]
    documents = stored(direct, "annotated")
    notes = {identifier: record.get("_vecsieve", {}).get("duplicate_of") for identifier, record in documents.items()}
    (made,) = notes.keys() - {"a", "b", "7"}
    # Those without ids make the whole write one whose ids are not compared: nothing of it is annotated.
    assert notes == {"a": None, "b": None, "7": None, made: None}


def test_copies_of_a_batch_are_left_out_and_answered(node: tuple[Product, str], tmp_path: Path) -> None:
    product, url = node
    direct, journal = create(product, url, "skipped"), tmp_path / "j.db"
    with serve(url, "--backend", product.value, environment=writing("skip", journal)) as (gate, _):
        through = client(product, gate)
        through.index(index="skipped", id="a", body=document("alpha", 0), refresh=True)
        through.index(index="skipped", id="z", body=document("zulu", 5), refresh=True)
        actions = [{"index": {"_id": "b"}}, document("Alpha", 0), {"update": {"_id": "a"}}, {"doc": {"n": 1}}]
        actions += [{"create": {"_id": "c"}}, document("gamma", 2), {"delete": {"_id": "z"}}]
        actions += [{"index": {"_id": "d"}}, document("gamma", 2)]
        answer = through.bulk(index="skipped", body=actions, refresh=True)  # the next search shows it then
        again = through.bulk(index="skipped", body=[{"create": {"_id": "e"}}, document("gamma", 2)])
        single = through.index(index="skipped", id="f", body=document("gamma", 2))
    # The update changed `a`, so that its copy is stored; the others are copies of `c`.
    assert [(*item, item[next(iter(item))]["status"]) for item in answer["items"]] == [
        ("index", 201),
        ("update", 200),
        ("create", 201),
        ("delete", 200),
        ("index", 201),
    ]
    assert [answer["items"][4]["index"][name] for name in ("_id", "result", "_version")] == ["d", "created", 1]
    assert "_seq_no" not in answer["items"][4]["index"]
    assert (again["errors"], single["result"], single["_id"]) == (False, "created", "f")
    assert set(stored(direct, "skipped")) == {"a", "b", "c"}
    assert left_out(journal) == {"d": "c", "e": "c", "f": "c"}
    code, words = undone(journal, url, product.value)
    assert (code, "3 were stored" in words) == (0, True), words
    documents = stored(direct, "skipped")
    assert {documents[identifier]["text"] for identifier in "cdef"} == {text_with("gamma")}
    assert documents.keys() == {*"abcdef"}


def test_a_batch_without_an_index_in_its_path_is_ruled_by_that_of_its_documents(
    node: tuple[Product, str], tmp_path: Path
) -> None:
    product, url = node
    direct, journal = create(product, url, "ruled"), tmp_path / "j.db"
    create(product, url, "free")
    config = tmp_path / "rules.yaml"
    config.write_text(
        f"journal: {{path: {journal}}}\nrules: [{{collection: ruled, policy: {{write: {{mode: skip}}}}}}]\n"
    )
    with serve(url, "--backend", product.value, "--config", str(config)) as (gate, _):
        through = client(product, gate)
        for name in ("ruled", "free"):
            for identifier in ("a", "b"):
                body = [{"index": {"_index": name, "_id": identifier}}, document("alpha", 0)]
                assert not through.bulk(body=body, refresh=True)["errors"]
    assert (set(stored(direct, "ruled")), set(stored(direct, "free"))) == ({"a"}, {"a", "b"})


@pytest.mark.parametrize("how", ["single", "batch", "query", "index"])
def test_what_a_client_deletes_is_not_restored(node: tuple[Product, str], tmp_path: Path, how: str) -> None:
    product, url = node
    if how == "query" and product is Product.ELASTICSEARCH and real_servers.program(real_servers.ELASTICSEARCH):
        pytest.skip("the node of Maven Central has no module for it")
    name, journal = f"deleted-{how}", tmp_path / "j.db"
    create(product, url, name)
    with serve(url, "--backend", product.value, environment=writing("skip", journal)) as (gate, _):
        through = client(product, gate)
        through.index(index=name, id="a", body=document("alpha", 0), refresh=True)
        through.bulk(index=name, body=[{"index": {"_id": "b"}}, document("alpha", 0)])
        assert left_out(journal) == {"b": "a"}
        match how:
            case "single":
                assert exchange(gate, "DELETE", f"/{name}/_doc/b").status == 404
            case "batch":
                through.bulk(index=name, body=[{"delete": {"_id": "b"}}])
            case "query":
                through.delete_by_query(index=name, body={"query": {"match_all": {}}})
            case "index":
                assert through.indices.delete(index=name)["acknowledged"]
    assert left_out(journal) == {}
    with closing(sqlite3.connect(journal)) as file:
        assert file.execute("SELECT state FROM points").fetchall() == [("doubted" if how == "query" else "superseded",)]


def test_copies_are_refused(node: tuple[Product, str], tmp_path: Path) -> None:
    product, url = node
    create(product, url, "refused")
    with serve(url, "--backend", product.value, environment=writing("reject", tmp_path / "j.db")) as (gate, _):
        through = client(product, gate)
        through.index(index="refused", id="a", body=document("alpha", 0), refresh=True)
        answer = exchange(gate, "PUT", "/refused/_doc/b", json.dumps(document("alpha", 0)).encode())
    assert (answer.status, json.loads(answer.body)["status"]) == (409, 409)


def test_the_newest_of_two_copies_is_kept(node: tuple[Product, str], tmp_path: Path) -> None:
    product, url = node
    direct, journal = create(product, url, "merged"), tmp_path / "j.db"
    with serve(url, "--backend", product.value, environment=writing("merge", journal)) as (gate, _):
        through = client(product, gate)
        through.index(index="merged", id="a", body=document("alpha", 0), refresh=True)
        through.index(index="merged", id="b", body=document("alpha", 0), refresh=True)
    assert set(stored(direct, "merged")) == {"b"}
    assert left_out(journal) == {"a": "b"}


@pytest.mark.parametrize(
    "target",
    [
        "b?routing=x",
        "b?op_type=create",
        "b?pipeline=p",
        "b?version=3&version_type=external",
        "b?if_seq_no=0&if_primary_term=1",
    ],
)
def test_a_write_with_a_condition_goes_out_unchanged(node: tuple[Product, str], tmp_path: Path, target: str) -> None:
    product, url = node
    create(product, url, name := f"conditions-{abs(hash(target)) % 10**8}")
    with serve(url, "--backend", product.value, environment=writing("skip", tmp_path / "j.db")) as (gate, _):
        client(product, gate).index(index=name, id="a", body=document("alpha", 0), refresh=True)
        body = json.dumps(document("alpha", 0)).encode()
        answer = exchange(gate, "PUT", f"/{name}/_doc/{target}", body)
        assert dict(answer.headers).get("x-vecsieve-origin") is None
        assert left_out(tmp_path / "j.db") == {}
