"""The write gate of Milvus, through its official client and the real Milvus Lite: annotate, observe, off."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.backends.write_gates import restored, text_with, writing
from support.deploy.expositions import counted
from support.milvus import server as milvus
from support.milvus.server import NEEDS_MILVUS, connected
from support.process.stack import serve

pytestmark = NEEDS_MILVUS

SIZE = 8
BACKEND = ("--backend", "milvus")


def vector(axis: int) -> list[float]:
    return [1.0 if place == axis else 0.0 for place in range(SIZE)]


def created(
    url: str, name: str, *, space: str = "COSINE", is_dynamic: bool = True, auto_id: bool = False, **more: Any
) -> Any:
    """The client, and an empty collection. ``more``: fields by name."""
    client, kinds = connected(url), import_module("pymilvus").DataType
    schema = client.create_schema(auto_id=auto_id, enable_dynamic_field=is_dynamic)
    schema.add_field("id", kinds.INT64 if auto_id else kinds.VARCHAR, is_primary=True, max_length=20)
    schema.add_field("vec", kinds.FLOAT_VECTOR, dim=SIZE)
    schema.add_field("text", kinds.VARCHAR, max_length=500)
    for field, options in more.items():
        schema.add_field(field, kinds.JSON, **options)
    index = client.prepare_index_params()
    index.add_index("vec", metric_type=space, index_type="FLAT")
    client.create_collection(name, schema=schema, index_params=index, consistency_level="Strong")
    return client


@pytest.fixture(scope="module")
def direct() -> Iterator[str]:
    with milvus.started() as url:
        yield url


@pytest.fixture(scope="module")
def annotating(direct: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    made: Path = tmp_path_factory.mktemp("gate") / "settings.yaml"
    made.write_text(
        "policy: {write: {mode: annotate}}\nrules: [{collection: '*/teams', policy: {tenant_keys: [team]}}]\n"
    )
    with serve(direct, *BACKEND, "--config", str(made)) as urls:
        yield urls


def originals(client: Any, name: str, every: str = 'id != ""') -> dict[str, object]:
    """By id what each row is a copy of; None for none."""
    rows = client.query(name, filter=every, output_fields=["*"], consistency_level="Strong")
    return {row["id"]: (row.get("_vecsieve") or {}).get("duplicate_of") for row in rows}


def row(identifier: str, axis: int, text: str, **more: Any) -> dict[str, Any]:
    return {"id": identifier, "vec": vector(axis), "text": text_with(text), **more}


@pytest.mark.parametrize("space", ["COSINE", "IP", "L2"])
def test_copies_are_annotated_whatever_the_metric(direct: str, annotating: tuple[str, str], space: str) -> None:
    name = f"annotated_{space}"
    created(direct, name, space=space)
    client = connected(annotating[0])
    client.insert(name, [row("a", 0, "alpha"), row("b", 1, "beta", tag="t")])
    client.upsert(name, [row("a", 0, "alpha")])  # an update
    client.insert(name, [row("c", 0, "Alpha", tag="ü"), row("d", 2, "gamma"), row("e", 2, "gamma")])
    assert originals(client, name) == {"a": None, "b": None, "c": "a", "d": None, "e": "d"}
    assert {
        record["id"]: record.get("tag") for record in client.query(name, filter='id in ["b", "c"]', output_fields=["*"])
    } == {
        "b": "t",
        "c": "ü",
    }


def test_a_tenant_is_compared_with_its_own_rows_alone(direct: str, annotating: tuple[str, str]) -> None:
    created(direct, "teams")
    client = connected(annotating[0])
    client.insert("teams", [row("a", 0, "t", team="x"), row("b", 0, "t", team="größe"), row("c", 0, "t", team=7)])
    client.insert("teams", [row("d", 0, "t", team="größe"), row("e", 0, "t", team=7), row("f", 0, "t")])
    expected = {"a": None, "b": None, "c": None, "d": "b", "e": "c", "f": None}
    assert originals(client, "teams") == expected
    before = counted(annotating[1], "writes_total", outcome="unsupported")
    client.insert("teams", [row("g", 0, "t", team='"')])  # the name has no sure spelling in an expression
    assert counted(annotating[1], "writes_total", outcome="unsupported") == before + 1
    assert originals(client, "teams") == {**expected, "g": None}


@pytest.mark.parametrize("is_nullable", [False, True])
def test_a_json_field_of_the_notes_name_takes_them(direct: str, annotating: tuple[str, str], is_nullable: bool) -> None:
    name = f"fixed_{is_nullable}"
    created(direct, name, is_dynamic=False, _vecsieve={"nullable": is_nullable})
    client = connected(annotating[0])
    bare: dict[str, Any] = {} if is_nullable else {"_vecsieve": {}}
    client.insert(name, [row("a", 0, "alpha", **bare)])
    client.insert(name, [row("b", 1, "beta", **bare), row("c", 0, "alpha", **bare)])
    client.insert(name, [row("d", 0, "alpha", **bare)])
    assert originals(client, name) == {"a": None, "b": None, "c": "a", "d": "a"}


def test_a_fixed_schema_has_no_place_for_notes_which_is_counted(direct: str, annotating: tuple[str, str]) -> None:
    created(direct, "fixed", is_dynamic=False)
    client = connected(annotating[0])
    before = counted(annotating[1], "writes_total", outcome="unsupported")
    client.insert("fixed", [row("a", 0, "alpha"), row("b", 0, "alpha")])
    assert counted(annotating[1], "writes_total", outcome="unsupported") == before + 1
    assert originals(client, "fixed") == {"a": None, "b": None}


def test_rows_whose_ids_the_database_makes_are_copies_of_stored_rows_and_of_rows_before_them(
    direct: str, annotating: tuple[str, str]
) -> None:
    created(direct, "automatic", auto_id=True)
    client = connected(annotating[0])
    first = client.insert("automatic", [{"vec": vector(0), "text": text_with("alpha")}])
    client.insert(
        "automatic",
        [{"vec": vector(axis), "text": text_with(text)} for axis, text in ((0, "alpha"), (1, "b"), (1, "b"))],
    )
    sources = sorted(map(str, originals(client, "automatic", "id >= 0").values()))
    assert sources == sorted(["None", "None", str(first["ids"][0]), "#1"])


def everything_of(client: Any, name: str, every: str = 'id != ""') -> dict[Any, dict[str, Any]]:
    rows = client.query(name, filter=every, output_fields=["*"], consistency_level="Strong")
    return {row["id"]: {key: str(value) for key, value in row.items()} for row in rows}


@pytest.mark.parametrize("space", ["COSINE", "L2"])
def test_copies_are_left_out_and_undo_stores_all_that_came(direct: str, tmp_path: Path, space: str) -> None:
    name, plain, journal = f"skipped_{space}", f"plain_{space}", tmp_path / "j.db"

    def store(client: Any, into: str) -> list[Any]:
        odd = {
            "id": "c",
            "vec": [1 / 3] * SIZE,
            "text": text_with("alpha"),
            "tag": "ü",
            "more": {"a": [1, 0.1, None, True]},
        }
        answers = [
            client.insert(into, [{"id": "a", "vec": [1 / 3] * SIZE, "text": text_with("alpha")}, row("b", 1, "beta")]),
            client.upsert(into, [odd, row("b", 1, "BETA"), row("d", 2, "gamma"), row("e", 2, "Gamma", n=2**60)]),
            client.insert(into, [row("f", 3, "delta"), row("g", 1, "beta")]),
        ]
        return [*answers, client.upsert(into, [row("h", 1, "beta")])]

    for collection in (name, plain):
        created(direct, collection, space=space)
    client = connected(direct)
    store(client, plain)
    with serve(direct, *BACKEND, environment=writing("skip", journal, "n", "tag", "more")) as (url, _):
        answers = store(connected(url), name)
    counts = [(answer.get("insert_count", answer.get("upsert_count")), list(answer["ids"])) for answer in answers]
    assert counts[1:] == [(2, ["b", "d"]), (1, ["f"]), (0, [])]
    assert sorted(everything_of(client, name)) == ["a", "b", "d", "f"]
    assert "4 were stored" in restored(journal, direct, "milvus")
    assert everything_of(client, name) == everything_of(client, plain)
    assert "0 points were left out" in restored(journal, direct, "milvus")


def test_a_left_out_row_that_its_client_deletes_is_not_restored(direct: str, tmp_path: Path) -> None:
    name, journal = "deleted", tmp_path / "j.db"
    created(direct, name)
    with serve(direct, *BACKEND, environment=writing("skip", journal)) as (url, _):
        client = connected(url)
        client.insert(name, [row(identifier, 1, "beta") for identifier in "abcd"])
        assert sorted(everything_of(client, name)) == ["a"]
        client.delete(name, ids=["b"])
        client.delete(name, filter='id in ["c"]')
    assert "1 were stored" in restored(journal, direct, "milvus")
    assert sorted(everything_of(connected(direct), name)) == ["a", "d"]


@pytest.mark.parametrize(
    ("merge", "left"), [("keep-newest", "befg"), ("keep-oldest", "abdf"), ("keep-longest", "abdf")]
)
def test_of_copies_one_row_stays_and_undo_stores_the_others_as_they_were(
    direct: str, tmp_path: Path, merge: str, left: str
) -> None:
    name, plain, journal = f"merged_{merge.replace('-', '_')}", f"plain_{merge.replace('-', '_')}", tmp_path / "j.db"

    def store(client: Any, into: str) -> None:
        odd = {
            "id": "a",
            "vec": [1 / 3] * SIZE,
            "text": text_with("ALPHA!"),
            "tag": "ü",
            "more": {"a": [1, 0.1, None, True]},
        }
        client.insert(into, [odd, row("b", 1, "beta")])
        client.upsert(into, [row("b", 3, "delta"), row("d", 2, "GAMMA!"), row("e", 2, "Gamma", n=2**60)])
        client.insert(into, [row("f", 4, "phi"), {"id": "g", "vec": [1 / 3] * SIZE, "text": text_with("Alpha")}])

    for collection in (name, plain):
        created(direct, collection)
    client = connected(direct)
    store(client, plain)
    settings = {**writing("merge", journal, "n", "tag", "more"), "VECSIEVE_POLICY_WRITE_MERGE": merge}
    with serve(direct, *BACKEND, environment=settings) as (url, admin):
        store(connected(url), name)
        assert counted(admin, "write_points_settled_total", result="removed") == (1 if merge == "keep-newest" else 0)
    assert sorted(everything_of(client, name)) == list(left)
    restored(journal, direct, "milvus")
    assert everything_of(client, name) == everything_of(client, plain)
    assert "0 points were left out" in restored(journal, direct, "milvus")


def typed(url: str, name: str, *, is_dynamic: bool = True) -> Any:
    """The client, and an empty collection of fields of many types."""
    client, kinds = connected(url), import_module("pymilvus").DataType
    schema = client.create_schema(auto_id=False, enable_dynamic_field=is_dynamic)
    schema.add_field("id", kinds.INT64, is_primary=True)
    schema.add_field("vec", kinds.FLOAT_VECTOR, dim=SIZE)
    schema.add_field("text", kinds.VARCHAR, max_length=500)
    schema.add_field("n", kinds.INT32, nullable=True)
    schema.add_field("size", kinds.FLOAT)
    schema.add_field("weight", kinds.DOUBLE)
    schema.add_field("team", kinds.VARCHAR, max_length=9, nullable=True)
    schema.add_field("own", kinds.JSON, nullable=True)
    schema.add_field("is_new", kinds.BOOL)
    schema.add_field("tags", kinds.ARRAY, element_type=kinds.VARCHAR, max_capacity=3, max_length=9)
    schema.add_field("counts", kinds.ARRAY, element_type=kinds.INT64, max_capacity=9)
    index = client.prepare_index_params()
    index.add_index("vec", metric_type="COSINE", index_type="FLAT")
    client.create_collection(name, schema=schema, index_params=index, consistency_level="Strong")
    return client


def full(identifier: int, axis: int, text: str, **more: Any) -> dict[str, Any]:
    plain = {"size": 0.1, "weight": 0.1, "is_new": True, "tags": [], "counts": []}
    return {"id": identifier, "vec": vector(axis), "text": text_with(text), **plain, **more}


def united(client: Any, into: str) -> None:
    """Copies of one row with other values, first one by one, then in one write; and of others."""
    first = {
        "n": 7,
        "size": 2.5,
        "team": "ü",
        "own": {"a": [1, 0.1]},
        "tags": ["x"],
        "counts": [-1],
        "tag": "t",
        "more": 2**60,
    }
    client.insert(into, [full(1, 0, "ALPHA!", **first), full(2, 1, "beta", n=-3)])
    client.upsert(
        into, [full(3, 0, "Alpha", n=5, weight=9.5, tags=["y", "x"], counts=[2**40], is_new=False, tag="u", new=[1])]
    )
    client.insert(into, [full(4, 2, "GAMMA!", tags=["a"]), full(5, 2, "gamma", team="v"), full(6, 0, "alpha!!!", n=6)])


def everything_typed(client: Any, name: str) -> dict[int, dict[str, Any]]:
    rows = client.query(name, filter="id >= 0", output_fields=["*"], consistency_level="Strong")
    by_id = {row["id"]: dict(row) for row in rows}
    return {
        key: {name: list(v) if name in {"tags", "counts", "vec"} else v for name, v in row.items()}
        for key, row in by_id.items()
    }


def test_of_copies_the_row_that_comes_stays_with_what_both_had_and_undo_stores_all_as_they_came(
    direct: str, tmp_path: Path
) -> None:
    for collection in ("united", "plain_united"):
        typed(direct, collection)
    client, journal = connected(direct), tmp_path / "j.db"
    united(client, "plain_united")
    ignore = ("n", "size", "weight", "is_new", "tag")
    settings = {**writing("merge", journal, *ignore), "VECSIEVE_POLICY_WRITE_MERGE": "merge"}
    with serve(direct, *BACKEND, environment=settings) as (url, admin):
        united(connected(url), "united")
        assert counted(admin, "writes_total", outcome="judged") == 3
        assert counted(admin, "writes_total") == 3
    single = float(np.float32(0.1))
    rows = everything_typed(client, "united")
    assert rows == {
        2: {**full(2, 1, "beta", n=-3, size=single, team=None, own=None)},
        5: {**full(5, 2, "GAMMA!", size=single, team="v", n=None, own=None, tags=["a"])},
        6: full(
            6, 0, "alpha!!!", n=7, size=2.5, weight=9.5, team="ü", own={"a": [1, 0.1]}, is_new=True, tags=["x", "y"],
            counts=[-1, 2**40], tag="u", more=2**60, new=[1],
        ),
    }  # fmt: skip
    assert "3 were stored" in restored(journal, direct, "milvus")
    # An upsert of Milvus Lite keeps keys of the dynamic field that the new row lacks; servers replace the row.
    rows = everything_typed(client, "united")
    kept = {3: ["more"], 6: ["more", "new", "tag"]}
    assert {
        key: sorted(rows[key].pop(name) is not None and name for name in names) for key, names in kept.items()
    } == kept
    assert rows == everything_typed(client, "plain_united")
    assert "0 points were left out" in restored(journal, direct, "milvus")


def test_rows_that_a_field_cannot_hold_united_are_stored_as_they_came_and_counted(direct: str, tmp_path: Path) -> None:
    """An array of at most three; the write of another row beside it is merged."""
    typed(direct, "unheld", is_dynamic=False)
    settings = {**writing("merge", tmp_path / "j.db", "n"), "VECSIEVE_POLICY_WRITE_MERGE": "merge"}
    with serve(direct, *BACKEND, environment=settings) as (url, admin):
        client = connected(url)
        client.insert("unheld", [full(1, 0, "alpha", tags=["a", "b"]), full(2, 1, "beta", n=1)])
        client.insert("unheld", [full(3, 0, "alpha", tags=["c", "d"]), full(4, 1, "beta", n=0)])
        assert counted(admin, "writes_total", outcome="unsupported") == 1
        assert counted(admin, "write_points_settled_total", result="removed") == 1
    rows = everything_typed(connected(direct), "unheld")
    assert {key: (row["tags"], row["n"]) for key, row in rows.items()} == {
        1: (["a", "b"], None), 3: (["c", "d"], None), 4: ([], 1),
    }  # fmt: skip


def test_a_policy_of_your_own_unites_rows_and_what_it_returns_beyond_their_fields_is_not_sent(
    direct: str, tmp_path: Path
) -> None:
    typed(direct, "customised", is_dynamic=False)
    (tmp_path / "rules_of_rows.py").write_text(
        "def choose(stored, incoming):\n"
        "    assert not {'id', 'vec'} & {*stored, *incoming}\n"
        "    value = {1: 5, 2: 'no number', 3: 2**31}[stored['n']]\n"
        "    return {**incoming, 'n': value, 'text': stored['text'] + '+', 'id': 77}\n"
    )
    settings = {
        **writing("merge", tmp_path / "j.db"), "VECSIEVE_POLICY_WRITE_MERGE": "custom",
        "VECSIEVE_POLICY_WRITE_CUSTOM": "rules_of_rows:choose", "PYTHONPATH": str(tmp_path),
    }  # fmt: skip
    with serve(direct, *BACKEND, environment=settings) as (url, admin):
        client = connected(url)
        client.insert("customised", [full(n, n, f"text {'abc'[n - 1]}", n=n) for n in (1, 2, 3)])
        client.insert("customised", [full(10 + n, n, f"Text {'abc'[n - 1]}") for n in (1, 2, 3)])
        assert counted(admin, "writes_total", outcome="unsupported") == 1
    rows = everything_typed(connected(direct), "customised")
    assert {key: (row["n"], row["text"]) for key, row in rows.items()} == {
        2: (2, text_with("text b")), 3: (3, text_with("text c")), 11: (5, text_with("text a") + "+"), 12: (None, text_with("Text b")), 13: (None, text_with("Text c")),
    }  # fmt: skip


def test_rows_whose_ids_the_database_makes_are_left_out_and_stored_again(direct: str, tmp_path: Path) -> None:
    created(direct, "automatic_skipped", auto_id=True)
    journal = tmp_path / "j.db"
    with serve(direct, *BACKEND, environment=writing("skip", journal)) as (url, _):
        client = connected(url)
        client.insert("automatic_skipped", [{"vec": vector(0), "text": text_with("alpha")}])
        more = [
            {"vec": vector(axis), "text": text_with(text)} for axis, text in ((0, "Alpha"), (1, "beta"), (1, "Beta"))
        ]
        assert client.insert("automatic_skipped", more)["insert_count"] == 1
    client = connected(direct)
    stored = everything_of(client, "automatic_skipped", "id >= 0").values()
    assert sorted(record["text"] for record in stored) == [text_with("alpha"), text_with("beta")]
    assert "2 were stored" in restored(journal, direct, "milvus")
    stored = everything_of(client, "automatic_skipped", "id >= 0").values()
    assert sorted(record["text"] for record in stored) == [
        text_with(record) for record in ("Alpha", "Beta", "alpha", "beta")
    ]
    assert "0 points were left out" in restored(journal, direct, "milvus")


def test_a_write_with_copies_is_refused(direct: str, tmp_path: Path) -> None:
    created(direct, "rejecting")
    failure = import_module("pymilvus.exceptions").MilvusException
    with serve(direct, *BACKEND, environment=writing("reject", tmp_path / "j.db")) as (url, _):
        client = connected(url)
        client.insert("rejecting", [row("a", 0, "alpha")])
        with pytest.raises(Exception, match='1 of 2 points are copies, which are rejected here: "b" of "a"') as refused:
            client.insert("rejecting", [row("b", 0, "Alpha"), row("c", 1, "beta")])
        assert isinstance(refused.value, (failure, import_module("grpc").RpcError))
        client.upsert("rejecting", [row("a", 0, "ALPHA")])  # an update
    assert sorted(everything_of(connected(direct), "rejecting")) == ["a"]
