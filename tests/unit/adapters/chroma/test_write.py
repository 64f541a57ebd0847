"""Upserts and additions: what is read of their columns, the queries for their neighbours, and the client's bytes with notes."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.backends.transports import reason_of
from support.backends.writes import NOTHING
from vecsieve.adapters.chroma.write import ChromaWrites
from vecsieve.adapters.contract import MalformedReplyError, Operation, Reason, RequestHead
from vecsieve.adapters.writes import Inquiry, LeavesPointsOut, MergesPoints, NewPoints, WriteAdapter, WriteNeeds

WRITES: WriteAdapter = ChromaWrites()
ID = "550e8400-e29b-41d4-a716-446655440000"
PATH = f"/api/v2/tenants/t%20t/databases/d/collections/{ID}"
NOTE = b'{"duplicate_of":"a","similarity":0.9931,"tier":"exact"}'


def classified(path: str, method: str = "POST") -> Operation | None:
    return WRITES.classify(RequestHead(method=method, path=path, content_type="application/json"))


WRITE = classified(f"{PATH}/upsert")
assert WRITE is not None


def parsed(body: object, *, most: int = 9) -> NewPoints:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    assert WRITE is not None
    return WRITES.parse(WRITE, raw, WriteNeeds(vector_name=None, keys=("#document", "n"), most=most))


def columns(**more: Any) -> dict[str, Any]:
    return {"ids": ["a", "b"], "embeddings": [[1, 0.5], [0, 2]], **more}


def test_a_write_is_told_by_its_path() -> None:
    for name in ("upsert", "add"):
        operation = classified(f"{PATH}/{name}")
        assert operation is not None
        assert (operation.name, operation.collection, operation.id, operation.partition) == (
            name,
            f"t t/d/{ID}",
            ID,
            PATH,
        )
    assert classified(f"/api/v1/collections/{ID}/add") is not None
    for path in (f"{PATH}/update", f"{PATH}/query", f"{PATH}/delete", PATH):
        assert classified(path) is None
    assert classified(f"{PATH}/add", "GET") is None


def test_records_are_read_with_documents_and_metadata() -> None:
    points = parsed(columns(documents=["größe", None], metadatas=[None, {"n": 1.5}], uris=None))
    assert points.ids == (b'"a"', b'"b"')
    assert points.vectors.tolist() == [[1.0, 0.5], [0.0, 2.0]]
    assert [[None if cell is None else json.loads(cell) for cell in row] for row in points.fields] == [
        ["größe", None],
        [None, 1.5],
    ]


def test_embeddings_may_be_base64() -> None:
    packed = [b64encode(np.array(vector, "<f4").tobytes()).decode() for vector in ([1, 0.5], [0, 2])]
    assert parsed(columns(embeddings=packed)).vectors.tolist() == [[1.0, 0.5], [0.0, 2.0]]


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (columns(new=1), Reason.UNSUPPORTED_FIELD),
        (columns(documents=["a"]), Reason.AMBIGUOUS_FIELD),
        ({"ids": ["a"], "documents": ["a"]}, Reason.NOTHING_TO_DO),
        ({"ids": ["a"] * 10, "embeddings": [[1]] * 10}, Reason.TOO_MANY_PARTS),
        (columns(embeddings=["?", "?"]), Reason.NOT_JSON),
        (b"{", Reason.NOT_JSON),
    ],
)
def test_what_is_not_read(body: object, reason: Reason) -> None:
    assert reason_of(parsed, body) is reason


def test_there_is_a_query_for_each_tenant() -> None:
    points = parsed({"ids": ["a", "b", "c"], "embeddings": [[1, 0], [0, 1], [1, 1]]})
    one, other = (("n", b"1"),), (("n", b"2"), ("m", b'"x"'))
    inquiry = Inquiry(which=(0, 1, 2), tenants=(one, other, one), count=5, vectors=True)
    assert WRITE is not None
    first, second = WRITES.ask(WRITE, points, inquiry)
    assert (first.method, first.target) == ("POST", f"{PATH}/query")
    assert json.loads(first.body) == {
        "query_embeddings": [[1.0, 0.0], [1.0, 1.0]],
        "n_results": 5,
        "include": ["distances", "metadatas", "documents", "embeddings"],
        "where": {"n": {"$eq": 1}},
    }
    assert json.loads(second.body)["where"] == {"$and": [{"n": {"$eq": 2}}, {"m": {"$eq": "x"}}]}
    reply = {"ids": [["x"], []], "distances": [[0.25], []], "metadatas": [[{"n": 1}], []], "documents": [[None], []]}
    last = {
        "ids": [["y"]],
        "distances": [[None]],
        "metadatas": [[None]],
        "documents": [["d"]],
        "embeddings": [[[3, 4]]],
    }
    near = WRITES.neighbours(
        points, inquiry, [json.dumps({**reply, "embeddings": [[[1, 2]], []]}).encode(), json.dumps(last).encode()]
    )
    assert (near.of.tolist(), near.ids) == ([0, 1], (b'"x"', b'"y"'))
    assert (near.scores[0], bool(np.isnan(near.scores[1]))) == (0.75, True)
    assert near.vectors.tolist() == [[1.0, 2.0], [3.0, 4.0]]
    assert near.fields == ((None, b"1"), (b'"d"', None))
    for damaged in (b"{}", json.dumps({**reply, "ids": [["x", "z"], []]}).encode()):
        with pytest.raises(MalformedReplyError):
            WRITES.neighbours(points, inquiry, [damaged, json.dumps(last).encode()])


@pytest.mark.parametrize(
    ("metadatas", "expected"),
    [
        (b"", b',"metadatas":[null,{%s}]'),
        (b',"metadatas":null', b',"metadatas":[null,{%s}]'),
        (b',"metadatas":[null, null]', b',"metadatas":[null, {%s}]'),
        (b',"metadatas":[{},{"a" : 1.50}]', b',"metadatas":[{},{"a" : 1.50,%s}]'),
        (b',"metadatas":[{},{"_vecsieve":"old"}]', b',"metadatas":[{},{%s}]'),
    ],
)
def test_a_note_is_the_only_change(metadatas: bytes, expected: bytes) -> None:
    body = b' {"ids" : ["a","b"],"embeddings":[[1.50,2],[1,2]]%s}\n'
    expected %= b'"_vecsieve":' + json.dumps(NOTE.decode()).encode()
    result = WRITES.annotated(parsed(body % metadatas), {1: NOTE})
    assert result == (
        body % expected if metadatas else b' {"ids" : ["a","b"],"embeddings":[[1.50,2],[1,2]]%s}\n' % expected
    )


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b'{"configuration_json":{"hnsw":{"space":"cosine"},"spann":null}}', True),
        (b'{"configuration_json":{"spann":{"space":"cosine"}}}', True),
        (b'{"configuration_json":{"hnsw":{"space":"l2"}}}', False),
        (b"", False),
    ],
)
def test_the_metric_is_that_of_the_configuration(body: bytes, expected: bool) -> None:
    assert WRITES.is_cosine(body, "") == expected
    assert WRITE is not None
    assert WRITES.ask_metric(WRITE, b"").target == f"/api/v2/tenants/t%20t/databases/d/collections/by-id/{ID}"


def leaving() -> LeavesPointsOut:
    assert isinstance(WRITES, LeavesPointsOut)
    return WRITES


_COLUMNS = st.fixed_dictionaries(
    {},
    optional={
        "documents": st.lists(st.none() | st.text(max_size=5), min_size=4, max_size=4),
        "metadatas": st.lists(
            st.none() | st.dictionaries(st.text(max_size=3), st.integers(), max_size=2), min_size=4, max_size=4
        ),
        "uris": st.lists(st.none() | st.text(max_size=5), min_size=4, max_size=4) | st.none(),
    },
)


@given(more=_COLUMNS, rows=st.sets(st.integers(0, 3), min_size=1, max_size=3), is_packed=st.booleans())
def test_each_record_is_sent_or_written_down_with_all_its_members(
    more: dict[str, Any], rows: set[int], is_packed: bool
) -> None:
    """Invariant: the rest of the write and the records alone are the columns of the client, each value once."""
    numbers = [[float(row), 0.5] for row in range(4)]
    vectors = [b64encode(np.array(number, "<f4").tobytes()).decode() if is_packed else number for number in numbers]
    body = {"ids": ["a", "b", "c", "d"], "embeddings": vectors, **more}
    points = parsed(body)
    left = json.loads(leaving().without(points, rows))
    alone = {row: json.loads(leaving().point(points, row)) for row in rows}
    assert left.keys() == body.keys()
    for name, column in body.items():
        kept = [value for row, value in enumerate(column or ()) if row not in rows]
        assert left[name] == (None if column is None else kept)
        for row in rows if column is not None else ():
            assert alone[row][name] == column[row]


def test_which_records_are_stored_is_asked_by_their_ids() -> None:
    assert WRITE is not None
    (question,) = leaving().ask_stored(WRITE, parsed(columns()), [b'"a"', '"ü"'.encode()], whole=False)
    assert (question.method, question.target) == ("POST", f"{PATH}/get")
    assert json.loads(question.body) == {"ids": ["a", "ü"], "include": []}
    assert list(leaving().stored(NOTHING, '{"ids":["ü"],"documents":null}'.encode())) == ['"ü"'.encode()]


UPSERT = Operation(backend="chroma", name="upsert", collection="", partition=PATH)


def merging() -> MergesPoints:
    assert isinstance(WRITES, MergesPoints)
    return WRITES


COLUMNS: dict[str, Any] = {
    "ids": ["a", "b", "c"],
    "embeddings": [[1, 0.5], [3, 4], [5, 6]],
    "documents": ["x", None, "ü"],
}
OTHER = b'{"ids":"b","embeddings":[0.1,2],"metadatas":{"n":1},"documents":"long"}'


def test_a_merged_record_takes_its_place_in_all_columns() -> None:
    content = json.loads(merging().merged(UPSERT, parsed(COLUMNS), {0}, {1: OTHER}))
    assert content == {
        "ids": ["b", "c"], "embeddings": [[0.1, 2], [5, 6]], "metadatas": [{"n": 1}, None], "documents": ["long", "ü"],
    }  # fmt: skip


def test_embeddings_of_one_write_have_one_form() -> None:
    packed = [b64encode(np.array(embedding, "<f4").tobytes()).decode() for embedding in COLUMNS["embeddings"]]
    content = json.loads(merging().merged(UPSERT, parsed({**COLUMNS, "embeddings": packed}), {0}, {1: OTHER}))
    assert [np.frombuffer(b64decode(embedding), "<f4").tolist() for embedding in content["embeddings"]] == [
        np.array([0.1, 2], np.float32).tolist(), [5, 6],
    ]  # fmt: skip


def test_a_record_is_read_whole_and_its_document_is_part_of_its_payload() -> None:
    (question,) = merging().ask_stored(UPSERT, parsed(COLUMNS), [b'"b"'], whole=True)
    assert json.loads(question.body) == {"ids": ["b"], "include": ["embeddings", "metadatas", "documents", "uris"]}
    answer = b'{"ids":["b"],"embeddings":[[0.10,2]],"metadatas":[{"n":1}],"documents":["long"],"uris":null}'
    ((key, record),) = merging().stored(NOTHING, answer).items()
    assert (key, record) == (b'"b"', b'{"ids":"b","embeddings":[0.10,2],"metadatas":{"n":1},"documents":"long"}')
    form, read = merging().form_of(NOTHING), json.loads(record)
    assert form.payload_of(read) == {"#document": "long", "n": 1}
    assert form.payload_of({"ids": "b", "metadatas": None}) == {}
    changed = form.given(read, {"#document": "new", "m": 2}, {"embeddings": [7]})
    assert changed == {"ids": "b", "embeddings": [7], "metadatas": {"m": 2}, "documents": "new"}
    assert form.given(read, {}, read) == {**read, "metadatas": None, "documents": None}


def test_a_removal_names_the_id_and_what_the_record_had() -> None:
    other = b'{"ids":"c","metadatas":null,"documents":"\xc3\xa9"}'
    questions = merging().ask_removed(UPSERT, NOTHING, {b'"b"': OTHER, b'"c"': other})
    assert [json.loads(question.body) for question in questions] == [
        {"ids": ["b"], "where": {"n": {"$eq": 1}}, "where_document": {"$contains": "long"}},
        {"ids": ["c"]},
    ]
    assert {question.target for question in questions} == {f"{UPSERT.partition}/delete"}
    assert merging().waits(NOTHING, "")


@given(rows=st.sets(st.integers(0, 2), max_size=2), merged=st.sets(st.integers(0, 2)))
def test_a_merged_write_has_each_record_once(rows: set[int], merged: set[int]) -> None:
    """Invariant: the ids that stay, in their order; what is not merged has its own content."""
    put = {row: OTHER.replace(b'"b"', json.dumps(COLUMNS["ids"][row]).encode()) for row in merged - rows}
    content = json.loads(merging().merged(UPSERT, parsed(COLUMNS), rows, put))
    kept = [row for row in range(3) if row not in rows]
    assert content["ids"] == [COLUMNS["ids"][row] for row in kept]
    assert content.get("documents", [None] * len(kept)) == [
        "long" if row in put else COLUMNS["documents"][row] for row in kept
    ]
