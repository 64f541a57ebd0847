"""The write gate of Chroma, through its official client: annotate, skip, merge, reject."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.backends.write_gates import SIZE, originals, restored, settings, text_with, vector, writing
from support.backends.writes import NOTHING
from support.chroma import server as chroma
from support.chroma.server import NEEDS_CHROMA
from support.process.stack import exchange, serve
from vecsieve.adapters.chroma.write import ChromaWrites
from vecsieve.adapters.contract import Operation
from vecsieve.proxy.demo.backends import chroma_server

ANNOTATE = {"VECSIEVE_POLICY_WRITE_MODE": "annotate"}


@pytest.fixture(scope="module")
def chroma_urls() -> Iterator[tuple[str, str]]:
    with chroma_server() as direct, serve(direct, "--backend", "chroma", environment=ANNOTATE) as (url, _):
        yield direct, url


@NEEDS_CHROMA
@pytest.mark.parametrize("space", ["cosine", "l2", "ip"])
def test_copies_in_chroma_are_annotated_whatever_the_space(chroma_urls: tuple[str, str], space: str) -> None:
    direct, url = chroma_urls
    chroma.create(direct, f"annotated-{space}", space)
    collection = chroma.connected(url).get_collection(f"annotated-{space}")
    collection.add(ids=["a", "b"], embeddings=[vector(0), vector(1)], documents=[text_with("alpha"), text_with("beta")])
    collection.upsert(ids=["a"], embeddings=[vector(0)], documents=[text_with("alpha")])  # an update
    collection.upsert(
        ids=["c", "d", "e"],
        embeddings=np.array([vector(0), vector(2), vector(2)], np.float32),
        documents=[text_with("Alpha"), text_with("gamma"), text_with("gamma")],
        metadatas=[{"n": 1}, {"n": 2}, {"n": 3}],
    )
    content = collection.get(include=["metadatas"])
    assert dict(zip(content["ids"], originals(content["metadatas"]), strict=True)) == {
        "a": None,
        "b": None,
        "c": "a",
        "d": None,
        "e": "d",
    }
    assert [metadata["n"] for metadata in content["metadatas"] if metadata] == [1, 2, 3]


@NEEDS_CHROMA
def test_a_tenant_of_chromas_metadata_is_compared_with_its_own_alone(
    chroma_urls: tuple[str, str], tmp_path: Path
) -> None:
    direct, _ = chroma_urls
    options = "--config", str(settings(tmp_path))
    with serve(direct, "--backend", "chroma", *options) as (url, _):
        chroma.create(direct, "tenants", "cosine")
        collection = chroma.connected(url).get_collection("tenants")
        collection.add(ids=["a", "b"], embeddings=[vector(0)] * 2, metadatas=[{"team": "x"}, {"team": "y"}])
        collection.add(ids=["c", "d"], embeddings=[vector(0)] * 2, metadatas=[{"team": "y"}, {"team": "x"}])
        content = collection.get(include=["metadatas"])
    assert dict(zip(content["ids"], originals(content["metadatas"]), strict=True)) == {
        "a": None,
        "b": None,
        "c": "b",
        "d": "a",
    }


def everything_of(collection: Any) -> dict[str, Any]:
    """By id, all that Chroma shows of a record."""
    content = collection.get(include=["embeddings", "documents", "metadatas", "uris"])
    columns = (content["documents"], content["metadatas"], content["uris"] or [None] * len(content["ids"]))
    vectors = [embedding.tobytes() for embedding in np.asarray(content["embeddings"], np.float32)]
    return dict(zip(content["ids"], zip(vectors, *columns, strict=True), strict=True))


@NEEDS_CHROMA
@pytest.mark.parametrize("space", ["cosine", "l2"])
def test_copies_are_left_out_of_chroma_and_undo_stores_all_that_came(
    chroma_urls: tuple[str, str], tmp_path: Path, space: str
) -> None:
    direct, _ = chroma_urls
    name, journal = f"skipped-{space}", tmp_path / "j.db"

    def store(collection: Any) -> None:
        collection.add(
            ids=["a", "b"], embeddings=[vector(0), vector(1)], documents=[text_with("alpha"), text_with("beta")]
        )
        draw = np.full(SIZE, 1 / 3, np.float32)
        collection.upsert(
            ids=["c", "d", "ü"],
            embeddings=np.array([vector(0), vector(2), draw], np.float32),
            documents=[text_with("Alpha"), text_with("gamma"), text_with("delta")],
            metadatas=[{"n": 1, "f": 0.1, "is": True}, {"n": 2}, {"n": 3}],
        )
        collection.upsert(ids=["b"], embeddings=[vector(0)], documents=[text_with("alpha")])  # an update
        collection.add(ids=["e"], embeddings=[draw], documents=[text_with("Delta")], uris=["file:///e"])
        collection.upsert(
            ids=["f", "g"], embeddings=[vector(1), vector(1)], documents=[text_with("beta"), text_with("beta")]
        )

    for collection_name in (name, f"{name}-plain"):
        chroma.create(direct, collection_name, space)
    client = chroma.connected(direct)
    collection, control = client.get_collection(name), client.get_collection(f"{name}-plain")
    store(control)
    with serve(direct, "--backend", "chroma", environment=writing("skip", journal, "n", "f", "is")) as (url, _):
        store(chroma.connected(url).get_collection(name))
    assert sorted(everything_of(collection)) == ["a", "b", "d", "f", "ü"]
    restored(journal, direct, "chroma")
    assert everything_of(collection) == everything_of(control)
    assert "0 points were left out" in restored(journal, direct, "chroma")


@NEEDS_CHROMA
@pytest.mark.parametrize(("merge", "left"), [("keep-newest", "befg"), ("keep-oldest", "abdf"), ("merge", "befg")])
def test_of_copies_in_chroma_one_stays_and_undo_stores_the_others_as_they_were(
    chroma_urls: tuple[str, str], tmp_path: Path, merge: str, left: str
) -> None:
    direct, _ = chroma_urls
    name, journal = f"merged-{merge}", tmp_path / "j.db"
    third: list[float] = np.full(SIZE, 1 / 3, np.float32).tolist()

    def store(collection: Any) -> None:
        first = {"n": 7, "f": 0.1, "is": True, "own": "ü"}
        collection.add(
            ids=["a", "b"],
            embeddings=[third, vector(1)],
            documents=[text_with("alpha"), text_with("beta")],
            metadatas=[first, {"n": 1}],
        )
        # An update.
        collection.upsert(ids=["b"], embeddings=[vector(3)], documents=[text_with("delta")], metadatas=[{"n": 2}])
        collection.upsert(
            ids=["d", "e"], embeddings=np.array([vector(2)] * 2, np.float32), documents=[text_with("gamma"), text_with("Gamma")],
            metadatas=[{"n": 1, "more": "x"}, {"n": 5}],
        )  # fmt: skip
        collection.upsert(
            ids=["f", "g"],
            embeddings=[vector(4), third],
            documents=[text_with("phi"), text_with("Alpha")],
            metadatas=[{"n": 3}] * 2,
        )

    for collection_name in (name, f"{name}-plain"):
        chroma.create(direct, collection_name, "cosine")
    client = chroma.connected(direct)
    collection, control = client.get_collection(name), client.get_collection(f"{name}-plain")
    store(control)
    ignore = ("n",) if merge == "merge" else ("n", "f", "is", "own", "more")  # the rest is united
    environment = {**writing("merge", journal, *ignore), "VECSIEVE_POLICY_WRITE_MERGE": merge}
    with serve(direct, "--backend", "chroma", environment=environment) as (url, _):
        store(chroma.connected(url).get_collection(name))
    content = everything_of(collection)
    assert sorted(content) == sorted(left)
    if merge == "merge":
        assert content["g"][2] == {"n": 7, "f": 0.1, "is": True, "own": "ü"}
        assert content["e"][2] == {"n": 5, "more": "x"}
    restored(journal, direct, "chroma")
    assert everything_of(collection) == everything_of(control)
    assert "0 points were left out" in restored(journal, direct, "chroma")


@NEEDS_CHROMA
def test_a_record_that_was_changed_meanwhile_is_not_removed(chroma_urls: tuple[str, str]) -> None:
    direct, _ = chroma_urls
    chroma.create(direct, "meanwhile", "cosine")
    collection = chroma.connected(direct).get_collection("meanwhile")
    collection.add(
        ids=list("abc"), embeddings=[vector(0)] * 3, documents=["new text", "same", "é"], metadatas=[{"n": 1}] * 3
    )
    write = Operation(
        backend="chroma", name="add", collection="", partition=f"/api/v2/tenants/default_tenant/databases/default_database/collections/{collection.id}",
    )  # fmt: skip
    victims = {
        b'"a"': b'{"ids":"a","metadatas":{"n":1},"documents":"old text"}',
        b'"b"': b'{"ids":"b","metadatas":{"n":1},"documents":"same"}',
        b'"c"': b'{"ids":"c","metadatas":{"n":2},"documents":"\xc3\xa9"}',
    }
    for question in ChromaWrites().ask_removed(write, NOTHING, victims):
        assert exchange(direct, question.method, question.target, question.body).status == 200
    assert collection.get()["ids"] == ["a", "c"]


@NEEDS_CHROMA
def test_a_write_with_copies_is_refused_as_chroma_refuses(chroma_urls: tuple[str, str], tmp_path: Path) -> None:
    direct, _ = chroma_urls
    chroma.create(direct, "rejecting", "cosine")
    with serve(direct, "--backend", "chroma", environment=writing("reject", tmp_path / "j.db")) as (url, _):
        collection = chroma.connected(url).get_collection("rejecting")
        collection.add(ids=["a"], embeddings=[vector(0)], documents=[text_with("alpha")])
        refused = import_module("chromadb.errors").UniqueConstraintError
        with pytest.raises(refused, match='1 of 2 points are copies, which are rejected here: "b" of "a"'):
            collection.upsert(
                ids=["b", "c"], embeddings=[vector(0), vector(1)], documents=[text_with("Alpha"), text_with("beta")]
            )
        collection.upsert(ids=["a"], embeddings=[vector(0)], documents=[text_with("ALPHA")])  # an update
        assert collection.get()["ids"] == ["a"]
