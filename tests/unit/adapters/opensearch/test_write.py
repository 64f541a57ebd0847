"""Writes of both products: which are read, what is left of them, and what the client is answered."""

from __future__ import annotations

import json
from typing import Any

import pytest

from support.backends.transports import operation_of, reason_of
from vecsieve.adapters.contract import (
    DeclinedError,
    MalformedReplyError,
    Operation,
    Question,
    Reason,
    RequestHead,
    UnsupportedError,
)
from vecsieve.adapters.opensearch.schema import Schema, read_schema
from vecsieve.adapters.opensearch.write import WRITES
from vecsieve.adapters.writes import Inquiry, NewPoints, WriteNeeds

SCHEMA = Schema(
    index="docs-1",
    vectors={"vec": True},
    kinds={"text": "text", "team": "keyword", "title": "text", "n": "long"},
    exact={"team": "team", "title": "title.raw", "n": "n"},
    has_notes=True,
    is_restorable=True,
)
OPENSEARCH, ELASTICSEARCH = WRITES["opensearch"](), WRITES["elasticsearch"]()
VECTOR = [0.5, *[0.125] * 20]


def head(method: str, path: str, query: str = "", content_type: str = "application/json") -> RequestHead:
    return RequestHead(method=method, path=path, query=query, content_type=content_type)


def classified(target: str = "/docs/_bulk", query: str = "", method: str = "POST") -> Operation:
    return operation_of(OPENSEARCH, head(method, target, query))


def document(text: str = "one text", **more: Any) -> dict[str, Any]:
    return {"text": text, "vec": VECTOR, **more}


def lines(*values: Any) -> bytes:
    return b"".join([json.dumps(line).encode() + b"\n" for line in values])


def needs(**more: Any) -> WriteNeeds:
    return WriteNeeds(**{"vector_name": None, "keys": ("text", "_vecsieve"), "most": 9, "known": SCHEMA, **more})


def parsed(body: bytes, write: Operation | None = None, **more: Any) -> NewPoints:
    return OPENSEARCH.parse(write or classified(), body, needs(**more))


@pytest.mark.parametrize(
    ("method", "path", "name", "collection", "identifier"),
    [
        ("POST", "/_bulk", "bulk", "", ""),
        ("PUT", "/a%2Db/_bulk", "bulk", "a-b", ""),
        ("PUT", "/docs/_doc/a%2Fb", "doc", "docs", "a/b"),
        ("POST", "/docs/_doc", "doc", "docs", ""),
        ("PUT", "/docs/_create/7", "create", "docs", "7"),
    ],
)
def test_a_write_is_known_by_its_head(method: str, path: str, name: str, collection: str, identifier: str) -> None:
    write = operation_of(OPENSEARCH, head(method, path))
    assert (write.name, write.collection, write.partition) == (name, collection, identifier)


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("PUT", "/docs/_doc"), ("DELETE", "/docs/_doc/1"), ("POST", "/docs/_update/1"), ("GET", "/docs/_doc/1"),
        ("POST", "/_doc/1"), ("POST", "/docs/_doc/%ff"), ("POST", "/_create/1"), ("POST", "/docs/_bulk/1"),
    ],
)  # fmt: skip
def test_other_requests_are_no_writes(method: str, path: str) -> None:
    assert OPENSEARCH.classify(head(method, path)) is None


def test_lines_are_lines_and_a_document_has_a_content_type_of_json() -> None:
    ndjson = "application/x-ndjson"
    assert OPENSEARCH.classify(head("POST", "/_bulk", "", ndjson)) is not None
    assert OPENSEARCH.classify(head("PUT", "/docs/_doc/1", "", ndjson)) is None
    assert OPENSEARCH.classify(head("PUT", "/docs/_doc/1", "", "application/smile")) is None


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (lines({"index": {"_id": "a", "routing": "r"}}, document()), Reason.UNSUPPORTED_FIELD),
        (lines({"index": {"_id": "a", "if_seq_no": 1, "if_primary_term": 1}}, document()), Reason.UNSUPPORTED_FIELD),
        (lines({"index": {"_id": "a", "pipeline": "p"}}, document()), Reason.UNSUPPORTED_FIELD),
        (lines({"index": {"_id": "a"}}, document(), {"index": {}}, document()), Reason.AMBIGUOUS_FIELD),
        (lines({"index": {"_id": "a"}}, document(), {"delete": {"_id": "a"}}), Reason.AMBIGUOUS_FIELD),
        (lines({"index": {"_id": "a", "_index": "other"}}, document()), Reason.AMBIGUOUS_FIELD),
        (lines({"index": {"_id": 1.5}}, document()), Reason.AMBIGUOUS_FIELD),
        (lines({"index": {}}, document()), Reason.UNSUPPORTED_FIELD),
        (lines({"delete": {"_id": "a"}}), Reason.NOTHING_TO_DO),
        (lines({"index": {"_id": "a"}}, {"text": "no vector"}), Reason.NOTHING_TO_DO),
        (lines(*[{"index": {"_id": "a"}}, document()] * 10), Reason.TOO_MANY_PARTS),
        (lines({"index": {"_id": "a"}}, document())[:-1], Reason.NOT_JSON),
        (lines({"index": {"_id": "a"}}), Reason.NOT_JSON),
        (b"\n" + lines({"index": {"_id": "a"}}, document()), Reason.NOT_JSON),
        (lines({"upsert": {"_id": "a"}}, document()), Reason.UNSUPPORTED_FIELD),
        (b'{"index":{"_id":"a"}}\n{"text":"a","text":"b","vec":[1,2]}\n', Reason.AMBIGUOUS_FIELD),
    ],
)
def test_a_batch_that_cannot_be_honoured_exactly_is_unsupported(body: bytes, reason: Reason) -> None:
    assert reason_of(parsed, body) is reason


@pytest.mark.parametrize(
    "query", ["routing=r", "op_type=create", "pipeline=p", "require_alias", "filter_path=items", "pretty"]
)
def test_a_parameter_that_is_not_read_makes_a_write_unsupported(query: str) -> None:
    assert (
        reason_of(parsed, json.dumps(document()).encode(), classified("/docs/_doc/a", query, "PUT"))
        is Reason.UNSUPPORTED_FIELD
    )
    parsed(json.dumps(document()).encode(), classified("/docs/_doc/a", "refresh=wait_for&timeout=1m", "PUT"))


def test_an_array_with_a_line_feed_in_a_batch_is_cut_there_as_the_servers_cut_it() -> None:
    body = b'{"index":{"_id":"a"}}\n{"text":"a","vec":[%s\n,1]}\n' % b",".join([b"0.5"] * 40)
    assert reason_of(parsed, body) is Reason.NOT_JSON
    pretty = json.dumps(document(), indent=1).encode()
    points = parsed(pretty, classified("/docs/_doc/a", "", "PUT"))
    (question,) = OPENSEARCH.ask(
        classified("/docs/_doc/a"), points, Inquiry(which=(0,), tenants=((),), count=2, vectors=False)
    )
    assert question.body.count(b"\n") == 2


def test_ids_that_the_server_makes_are_annotated_alone() -> None:
    body = json.dumps(document()).encode()
    points = parsed(body, classified("/docs/_doc"), notes=True)
    assert (points.has_ids, points.ids) == (False, (b'"#0"',))
    assert reason_of(parsed, body, classified("/docs/_doc")) is Reason.UNSUPPORTED_FIELD
    assert (
        reason_of(parsed, body, classified("/docs/_doc"), notes=True, known=Schema(index="d", vectors={"vec": True}))
        is Reason.PAYLOAD_SELECTOR
    )


MIXED = lines(
    {"index": {"_id": "a"}}, document("one"),
    {"delete": {"_id": "z"}},
    {"create": {"_id": 7}}, document("two", n=1),
    {"update": {"_id": "y"}}, {"doc": {"n": 2}},
    {"index": {"_id": "c"}}, document("two"),
).replace(b": ", b":  ")  # fmt: skip


def items(*pairs: tuple[str, str, int]) -> bytes:
    entries = [{verb: {"_index": "docs-1", "_id": identifier, "status": status}} for verb, identifier, status in pairs]
    return json.dumps({"took": 3, "errors": False, "items": entries}).encode()


def test_the_rest_of_a_batch_is_the_clients_own_bytes_in_their_order() -> None:
    points, sent_lines = parsed(MIXED), MIXED.splitlines(keepends=True)
    assert points.ids == (b'"a"', b'"7"', b'"c"')
    assert OPENSEARCH.without(points, []) == MIXED
    assert OPENSEARCH.without(points, [1]) == b"".join(sent_lines[:3] + sent_lines[5:])
    assert OPENSEARCH.without(points, [0, 1, 2]) == b"".join([sent_lines[2], *sent_lines[5:7]])
    assert OPENSEARCH.does_more(points)
    assert OPENSEARCH.only(points, [2, 0]) == b"".join(sent_lines[:2] + sent_lines[7:])
    assert OPENSEARCH.point(points, 1) == b'{"_id":"7","_source":%s}' % sent_lines[4].rstrip(b"\n")
    merged = {2: b'{"_id":"c","_source":{"text":\n"three"}}'}
    assert OPENSEARCH.merged(classified(), points, [1], merged) == b"".join(
        [*sent_lines[:3], *sent_lines[5:8], b'{"text":"three"}\n']
    )


def test_the_answer_has_an_item_for_each_action_in_the_order_of_the_client() -> None:
    points, write = parsed(MIXED), classified(query="refresh")
    sent = items(("index", "a", 201), ("delete", "z", 404), ("create", "7", 201), ("update", "y", 200))
    receipt = OPENSEARCH.receipt(write, points, {2: 1}, sent)
    answer = json.loads(receipt.body)
    assert (receipt.failed, receipt.refused, answer["took"]) == (frozenset(), frozenset(), 3)
    assert answer["items"][:4] == json.loads(sent)["items"]
    assert answer["items"][4] == {
        "index": {
            "_index": "docs-1", "_id": "c", "_version": 1, "result": "created", "forced_refresh": True,
            "_shards": {"total": 1, "successful": 1, "failed": 0}, "status": 201,
        }
    }  # fmt: skip


def test_a_copy_of_what_the_server_refused_is_refused_with_the_same_error() -> None:
    points = parsed(MIXED)
    sent = json.loads(items(("index", "a", 201), ("delete", "z", 404), ("create", "7", 400), ("update", "y", 200)))
    sent["items"][2]["create"]["error"] = {"type": "parsing"}
    receipt = OPENSEARCH.receipt(classified(), points, {2: 1}, json.dumps(sent).encode())
    assert (sorted(receipt.failed), sorted(receipt.refused)) == ([1], [2])
    assert json.loads(receipt.body)["items"][4] == {
        "index": {"_index": "docs-1", "_id": "c", "status": 400, "error": {"type": "parsing"}}
    }


def test_documents_that_are_sent_alone_have_their_own_answer() -> None:
    receipt = OPENSEARCH.receipt(classified(), parsed(MIXED), {0: None, 1: None}, items(("index", "c", 429)))
    assert receipt.failed == {2}
    with pytest.raises(MalformedReplyError):
        OPENSEARCH.receipt(classified(), parsed(MIXED), {0: None}, items(("index", "c", 201)))


def test_a_write_of_which_nothing_is_left_is_answered_as_by_each_product() -> None:
    points = parsed(lines({"index": {"_id": "a"}}, document(), {"create": {"_id": "b"}}, document()))
    batch, single = classified(), classified("/docs/_doc/a", "", "PUT")
    answers = [product.acknowledged(batch, points, "?refresh=wait_for") for product in (OPENSEARCH, ELASTICSEARCH)]
    assert [answer.status for answer in answers] == [200, 200]
    assert [list(json.loads(answer.body)) for answer in answers] == [
        ["took", "errors", "items"],
        ["errors", "took", "items"],
    ]
    assert [[*item] for item in json.loads(answers[0].body)["items"]] == [["index"], ["create"]]
    assert answers[1].headers == (("X-elastic-product", "Elasticsearch"),)
    alone = OPENSEARCH.acknowledged(single, parsed(json.dumps(document()).encode(), single), "")
    assert (alone.status, json.loads(alone.body)["result"]) == (201, "created")
    assert not {"_seq_no", "forced_refresh"} & json.loads(alone.body).keys()


@pytest.mark.parametrize(
    ("statuses", "error"),
    [((200, 404), None), ((409, 200), MalformedReplyError), ((409, 429), DeclinedError)],
)
def test_what_became_of_deletions_is_read_of_their_items(
    statuses: tuple[int, int], error: type[Exception] | None
) -> None:
    body = items(("index", "x", 400), *[("delete", "a", status) for status in statuses])
    if error is None:
        OPENSEARCH.removed(body)
        OPENSEARCH.removed(b'{"result":"deleted"}')
        return
    with pytest.raises(MalformedReplyError) as caught:
        OPENSEARCH.removed(body)
    assert type(caught.value) is error


def test_a_removal_names_the_number_that_was_read() -> None:
    body = b'{"docs":[{"_index":"docs-1","_id":"a","_seq_no":4,"_primary_term":2,"found":true,"_source":{"text":"x"}},{"_index":"docs-1","_id":"b","found":false}]}'
    points = parsed(MIXED)
    stored = OPENSEARCH.stored(points, body)
    assert stored == {b'"a"': b'{"_id":"a","_seq_no":4,"_primary_term":2,"_source":{"text":"x"}}'}
    (question,) = OPENSEARCH.ask_removed(classified(), points, stored)
    assert question == Question(
        method="POST", target="/docs/_bulk", body=b'{"delete":{"_id":"a","if_seq_no":4,"if_primary_term":2}}\n'
    )


@pytest.mark.parametrize("other", [b'"_index":"docs-2"', b'"_index":"docs-1","_routing":"r"'])
def test_a_document_of_another_index_or_with_a_routing_is_none_of_these(other: bytes) -> None:
    with pytest.raises(MalformedReplyError):
        OPENSEARCH.stored(parsed(MIXED), b'{"docs":[{%s,"_id":"a","found":true}]}' % other)


@pytest.mark.parametrize(("key", "field"), [("team", b"team"), ("title", b"title.raw"), ("n", b"n"), ("new", b"new")])
def test_a_tenant_is_found_by_a_field_that_is_compared_whole(key: str, field: bytes) -> None:
    inquiry = Inquiry(which=(0,), tenants=(((key, b'"x"'),),), count=2, vectors=True, least=0.5)
    for writes in (OPENSEARCH, ELASTICSEARCH):
        (question,) = writes.ask(classified(), parsed(MIXED), inquiry)
        _, search, _ = question.body.split(b"\n")
        assert b'{"term":{"%s":"x"}}' % field in search
        assert (json.loads(search)["min_score"], json.loads(search)["_source"][-1]) == (0.75, "vec")


def test_a_tenant_that_is_a_text_is_unsupported() -> None:
    inquiry = Inquiry(which=(0,), tenants=((("text", b'"x"'),),), count=2, vectors=False)
    with pytest.raises(UnsupportedError):
        OPENSEARCH.ask(classified(), parsed(MIXED), inquiry)


def test_a_search_that_the_server_refuses_is_a_refusal() -> None:
    inquiry = Inquiry(which=(0,), tenants=((),), count=2, vectors=False)
    with pytest.raises(DeclinedError):
        OPENSEARCH.neighbours(parsed(MIXED), inquiry, [b'{"responses":[{"error":{"type":"x"},"status":400}]}'])


def described(**properties: Any) -> Schema:
    return read_schema(json.dumps({"docs-1": {"mappings": {"properties": properties}}}).encode())


def test_an_index_is_described_by_its_mapping() -> None:
    made = described(
        a={"type": "dense_vector", "dims": 3},
        b={"type": "dense_vector", "similarity": "dot_product", "element_type": "byte"},
        c={"type": "knn_vector", "method": {"space_type": "cosinesimil"}},
        d={"type": "knn_vector"},
        meta={"properties": {"e": {"type": "knn_vector", "space_type": "cosinesimil"}}},
        _vecsieve={"type": "object"},
    )
    assert made.vectors == {"a": True, "b": False, "c": True, "d": False, "meta.e": True}
    assert (made.index, made.has_notes, made.is_restorable) == ("docs-1", True, True)


def test_an_index_that_hides_a_part_of_its_documents_is_not_restored() -> None:
    passages = {"type": "nested", "properties": {"v": {"type": "dense_vector"}}}
    assert not described(a={"type": "dense_vector"}, passages=passages).is_restorable
    assert described(a={"type": "dense_vector"}, passages=passages).vectors == {"a": True}
    body = {"d": {"mappings": {"_source": {"excludes": ["a"]}}, "settings": {"index": {}}}}
    assert not read_schema(json.dumps(body).encode()).is_restorable
    body = {"d": {"settings": {"index": {"mapping": {"source": {"mode": "synthetic"}}}}}}
    assert not read_schema(json.dumps(body).encode()).is_restorable
    body = {"d": {"settings": {"index": {"mapping": {"total_fields": {"limit": "9"}}}}}}
    assert read_schema(json.dumps(body).encode()).is_restorable


def test_an_alias_of_several_indices_is_not_described() -> None:
    with pytest.raises(MalformedReplyError):
        read_schema(b'{"a":{},"b":{}}')
    assert OPENSEARCH.describe(classified("/a*/_bulk"), b"") is None
    assert (
        OPENSEARCH.describe(classified("/_bulk"), lines({"index": {"_index": "x"}}, {}, {"index": {"_index": "y"}}, {}))
        is None
    )


@pytest.mark.parametrize(
    ("value", "is_stored"), [("b", True), (["b", "c"], True), (7, False), ({"x": 1}, False), (True, False)]
)
def test_a_value_is_held_by_its_type(value: object, is_stored: bool) -> None:
    assert SCHEMA.holds("text", value) is is_stored
    assert SCHEMA.holds("n", 7)
    assert not SCHEMA.holds("n", 7.5)
    assert not SCHEMA.holds("unknown", "b")
