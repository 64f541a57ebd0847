from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vecsieve.adapters.contract import Dialect, Operation, RequestHead, Touched
from vecsieve.adapters.pinecone.calls import PineconeDialect, classify, index_named, index_of, renamed, reshaped

DIALECT: Dialect = PineconeDialect()


def test_an_error_has_the_services_own_shape() -> None:
    answer = DIALECT.error(404, 'no "index" größe')
    assert (answer.status, answer.content_type) == (404, "application/json")
    assert answer.body == '{"code":5,"message":"no \\"index\\" größe","details":[]}'.encode()


@pytest.mark.parametrize(
    ("status", "code"), [(400, 3), (401, 16), (403, 7), (429, 8), (500, 13), (502, 14), (503, 14), (504, 4), (418, 2)]
)
def test_a_status_has_grpcs_code_in_it(status: int, code: int) -> None:
    assert json.loads(DIALECT.error(status, "").body)["code"] == code


@pytest.mark.parametrize(
    ("status", "code"), [(400, "INVALID_ARGUMENT"), (404, "NOT_FOUND"), (502, "UNAVAILABLE"), (418, "UNKNOWN")]
)
@pytest.mark.parametrize("path", ["/indexes", "/indexes/docs?a=/query", "//collections", "/assistant/chat/a"])
def test_an_error_of_the_control_plane_has_its_shape(status: int, code: str, path: str) -> None:
    answer = DIALECT.error(status, 'no "index"', path=path)
    assert (answer.status, answer.content_type) == (status, "application/json")
    assert answer.body == b'{"status":%d,"error":{"code":"%s","message":"no \\"index\\""}}' % (status, code.encode())


@pytest.mark.parametrize(
    "path", ["", "/", "/query", "/_i/docs.example.com/indexes", "/x?/indexes", "/namespaces/indexes"]
)
def test_every_other_error_has_the_data_planes(path: str) -> None:
    assert DIALECT.error(404, "x", path=path) == DIALECT.error(404, "x")


@given(message=st.text())
def test_any_message_makes_a_json_body(message: str) -> None:
    """Invariant: the body is JSON whatever the message; text that is Unicode is given back unchanged."""
    words = message.encode(errors="replace").decode()
    assert json.loads(DIALECT.error(400, message).body) == {"code": 3, "message": words, "details": []}
    content = json.loads(DIALECT.error(400, message, path="/indexes").body)
    assert content == {"status": 400, "error": {"code": "INVALID_ARGUMENT", "message": words}}


# Hosts in descriptions are replaced where they stand; nothing else of a body moves.


def here(host: str) -> str | None:
    """Every host but those that begin with `keep` leads here."""
    return None if host.startswith("keep") else f"http://here/_i/{host}"


ODD = rb""" {"name" : "docs", "host":"docs.svc.x.pinecone.io" ,"metric":"cosine",
 "dimension":1536.0, "note":"a \"host\": \"b\" \u00e9 \ud800", "big":12345678901234567890, "private_host" : "p.svc.private.x.pinecone.io",
 "spec":{"host":"inner","private_host":"inner"}, "tags":null} """


def test_both_hosts_of_a_description_are_replaced_and_every_other_byte_stays() -> None:
    expected = ODD.replace(b'"docs.svc', b'"http://here/_i/docs.svc').replace(b'"p.svc', b'"http://here/_i/p.svc')
    assert renamed(ODD, here) == expected


def test_every_index_of_a_list_is_replaced() -> None:
    body = b'{"indexes":[{"host":"a","name":"x"},{"name":"y","host":"b","private_host":null},{"name":"z"},3,null]}'
    expected = b'{"indexes":[{"host":"http://here/_i/a","name":"x"},{"name":"y","host":"http://here/_i/b","private_host":null},{"name":"z"},3,null]}'
    assert renamed(body, here) == expected


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{}",
        b"[]",
        b"null",
        b'"host"',
        b'{"indexes":[]}',
        b'{"indexes":null}',
        b'{"indexes":{"host":"a"}}',
        b'{"host":null,"private_host":null}',
        b'{"host":["a"]}',
        b'{"assistants":[{"host":"a"}]}',
        b'{"data":{"host":"a"}}',
        b'{"host":"keep"}',
        b'{"host":"a","host":"b"}',
        b'{"host":"a"',
        b'{"host":"a"}}',
        b'{"host":"\\ud800"}',
        b"\xff\xfe",
        b"[" * 100_000,
    ],
)
def test_what_has_no_host_or_cannot_be_read_is_left_as_it_is(body: bytes) -> None:
    assert renamed(body, here) == body


def test_an_escaped_key_and_an_escaped_host_are_read_for_what_they_are() -> None:
    assert renamed(b'{"h\\u006fst":"a\\u002eb"}', here) == b'{"h\\u006fst":"http://here/_i/a.b"}'


def test_a_new_name_is_written_as_json() -> None:
    assert renamed(b'{"host":"a"}', lambda _: 'x"\\\u00e9') == b'{"host":"x\\"\\\\\\u00e9"}'


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["host", "private_host", "indexes", "name", "x"]), inner, max_size=4)
    ),
    max_leaves=12,
)


def by_hand(tree: Any) -> Any:
    """The same on the parsed tree."""

    def of_one(index: Any) -> Any:
        if not isinstance(index, dict):
            return index
        return {
            key: (here(value) or value) if key in {"host", "private_host"} and isinstance(value, str) else value
            for key, value in index.items()
        }

    tree = of_one(tree)
    if isinstance(tree, dict) and isinstance(tree.get("indexes"), list):
        tree = {**tree, "indexes": [of_one(index) for index in tree["indexes"]]}
    return tree


@given(values, st.sampled_from([None, 1]), st.booleans())
def test_the_splice_says_what_the_parsed_tree_would(tree: Any, indent: int | None, ascii_only: bool) -> None:
    """Invariant: parsing the changed body gives the tree changed by hand, and a body without hosts is untouched."""
    body = json.dumps(tree, indent=indent, ensure_ascii=ascii_only).encode()
    changed = renamed(body, here)
    assert json.loads(changed) == by_hand(tree)
    if by_hand(tree) == tree:
        assert changed == body


@given(st.binary(max_size=60) | st.text(alphabet='{}[]",:\\host ab', max_size=60).map(str.encode))
def test_whatever_the_bytes_nothing_is_raised_and_no_change_means_no_change(body: bytes) -> None:
    """Invariant: total; a rename to nothing gives the body back."""
    renamed(body, here)
    assert renamed(body, lambda _: None) == body


HOST = "docs-abc123.svc.aped-4627-b74a.pinecone.io"


def named(path: str, *, content_type: str = "application/json") -> str | None:
    operation = classify(RequestHead(method="POST", path=path, content_type=content_type, host=HOST))
    return None if operation is None else operation.name


@pytest.mark.parametrize("version", ["", "2025-10", "2026-04", "2026-07", "2026-01.alpha"])
def test_documents_search_of_the_preview_is_left_alone_because_widening_would_answer_what_it_refuses(
    version: str,
) -> None:
    documents, *others = (
        classify(RequestHead(method="POST", path=path, host=HOST, version=version))
        for path in ("/namespaces/ns/documents/search", "/query", "/records/namespaces/ns/search")
    )
    assert (documents is None) is (version == "2026-01.alpha")
    assert None not in others


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/query", "query"),
        ("//query", "query"),
        ("/records/namespaces/ns/search", "records_search"),
        ("//records/namespaces/ns/search", "records_search"),
        ("/records/namespaces/a%2Fb%20c%25d/search", "records_search"),
        ("/records/namespaces/a/b%20c%d/search", "records_search"),
        ("/records/namespaces//search", "records_search"),
        ("/records/namespaces/%2E%2E/search", "records_search"),
        ("/records/namespaces/search/search", "records_search"),
        ("/records/namespaces/größe/search", "records_search"),
        ("/namespaces/ns/documents/search", "documents_search"),
        ("/namespaces/__default__/documents/search", "documents_search"),
        ("/namespaces/a%2Fb/documents/search", "documents_search"),
    ],
)
def test_each_ranked_search_is_named_in_every_form_that_clients_send(path: str, name: str) -> None:
    assert named(path) == name


@pytest.mark.parametrize(
    ("path", "partition"),
    [
        ("/query", ""),
        ("/records/namespaces/ns/search", "ns"),
        ("//records/namespaces/a%2Fb%20c%25d/search", "a%2Fb%20c%25d"),
        ("/records/namespaces/a/b%20c%d/search", "a/b%20c%d"),
        ("/records/namespaces//search", ""),
        ("/records/namespaces/search/search", "search"),
        ("/namespaces/ns/documents/search", "ns"),
    ],
)
def test_the_namespace_in_a_path_is_kept_as_it_is_spelled(path: str, partition: str) -> None:
    operation = classify(RequestHead(method="POST", path=path))
    assert operation is not None
    assert operation.partition == partition


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/",
        "query",
        "/query/",
        "/Query",
        "/query/x",
        "/x/query",
        "/VectorService/Query",
        "/vectors/fetch",
        "/vectors/upsert",
        "/describe_index_stats",
        "/records/namespaces/ns/upsert",
        "/records/namespaces/search",
        "/records/namespaces/ns/search/",
        "/records/namespaces/../search",
        "/records/namespaces/./search",
        "/records/search",
        "/namespaces/documents/search",
        "/namespaces/../documents/search",
        "/namespaces/ns/documents/fetch",
        "/namespaces/ns/search",
        "/namespaces",
        "/indexes",
        "/rerank",
        "/_i/docs-abc123.svc.pinecone.io/query",
        "/collections/docs/points/query",
    ],
)
def test_everything_else_goes_through(path: str) -> None:
    assert named(path) is None


def test_only_json_is_read() -> None:
    assert named("/query", content_type="") == "query"
    assert named("/query", content_type="application/json; charset=utf-8") == "query"
    assert named("/records/namespaces/ns/search", content_type="application/x-ndjson") is None


@pytest.mark.parametrize(
    ("host", "index"),
    [
        (HOST, "docs-abc123"),
        (HOST + ":443", "docs-abc123"),
        ("docs-abc123.svc.private.aped-4627-b74a.pinecone.io", "docs-abc123"),
        ("", ""),
        ("localhost:5081", "localhost:5081"),
        ("127.0.0.1:5081", "127.0.0.1:5081"),
        ("[::1]:5081", "[::1]:5081"),
        ("[::ffff:1.2.3.4]", "[::ffff:1.2.3.4]"),
    ],
)
def test_an_index_is_called_by_what_tells_its_host_apart(host: str, index: str) -> None:
    operation = classify(RequestHead(method="POST", path="/query", host=host))
    assert operation == Operation(backend="pinecone", name="query", collection=index)


@pytest.mark.parametrize(
    ("host", "name"),
    [
        ("docs-abc.svc.x.pinecone.io", "docs-abc"),
        ("127.0.0.1:5081", "127.0.0.1:5081"),
        ("vs.example:6343/_i/docs-abc.svc.x.pinecone.io", "docs-abc"),
        ("vs.example/_i/vs2.example/_i/docs-abc.svc.x.pinecone.io", "docs-abc"),
        ("vs.example/_i/127.0.0.1:5081", "127.0.0.1:5081"),
        ("vs.example/_i/gateway.corp/pinecone/docs", "gateway.corp/pinecone/docs"),
        ("gateway.corp/pinecone/docs", "gateway.corp/pinecone/docs"),
        ("gateway.corp/_i/", "gateway.corp/_i/"),
    ],
)
def test_an_index_is_called_by_what_tells_it_from_others_behind_the_same_host(host: str, name: str) -> None:
    assert index_of(host) == name


# Which requests may change an index unseen, by method, path and host.


@pytest.mark.parametrize("method", ["DELETE", "POST", "PATCH"])
def test_a_change_to_the_control_plane_may_touch_any_index(method: str) -> None:
    assert reshaped(RequestHead(method=method, path="/indexes/docs")) == Touched(collection=None)


@pytest.mark.parametrize(
    ("method", "path", "host"),
    [("GET", "/indexes", ""), ("POST", "/embed", ""), ("POST", "/vectors/upsert", "docs-abc123.svc.pinecone.io")],
)
def test_what_only_reads_or_shows_in_a_reply_touches_none(method: str, path: str, host: str) -> None:
    assert reshaped(RequestHead(method=method, path=path, host=host)) is None


@given(method=st.text(max_size=9), path=st.text(max_size=60), host=st.text(max_size=30))
def test_any_request_is_classified(method: str, path: str, host: str) -> None:
    """Invariant: total; a request to an index's own host touches that index alone, where its host names one."""
    head = RequestHead(method=method, path=path, host=host)
    assert reshaped(head) in {None, Touched(collection=index_named(head) or None)}
