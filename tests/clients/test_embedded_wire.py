"""What the embedded server puts on the wire, byte for byte where Qdrant's bytes are known: shapes, envelopes, refusals, codings."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from support.qdrant.embedded import Exchange, exchange, start_embedded_process

QUERY = "/collections/mixed/points/query"


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with start_embedded_process() as started:
        made = exchange(
            started,
            "PUT",
            "/collections/mixed",
            {"vectors": {"size": 2, "distance": "Dot"}, "sparse_vectors": {"sp": {}}},
        )
        assert made.status == 200
        assert made.json["result"] is True
        points = [
            {
                "id": 1,
                "vector": {"": [0.1, 1e-7], "sp": {"indices": [1, 7], "values": [0.5, 0.25]}},
                "payload": {"a": 1},
            },
            {"id": 2, "vector": [3, 16777216]},
            {"id": "5c56c793-69f3-4fbf-87e6-c4bf54c28c26", "vector": {"sp": {"indices": [7], "values": [2]}}},
        ]
        stored = exchange(started, "PUT", "/collections/mixed/points?wait=true", {"points": points})
        assert stored.json["result"] == {"operation_id": 0, "status": "completed"}
        yield started


def result_bytes(answer: Exchange) -> bytes:
    """The `result` member as it was sent; the envelope around it is Qdrant's."""
    found = re.fullmatch(rb'\{"result":(.*),"status":"ok","time":[0-9.e-]+\}', answer.body, re.DOTALL)
    assert found is not None, answer.body
    return found.group(1)


def refusal(answer: Exchange) -> tuple[int, str]:
    document = answer.json
    assert set(document) == {"status", "time"}
    return answer.status, document["status"]["error"]


def test_fields_stand_in_the_servers_order_and_floats_have_their_shortest_digits(url: str) -> None:
    body = {"query": [1, 0], "limit": 1, "with_vector": True, "with_payload": True}
    assert result_bytes(exchange(url, "POST", QUERY, body)) == (
        b'{"points":[{"id":2,"version":0,"score":3.0,"payload":{},"vector":[3.0,16777216.0]}]}'
    )


def test_what_was_not_selected_is_absent_and_not_null(url: str) -> None:
    answer = exchange(url, "POST", QUERY, {"query": [1, 0], "limit": 2})
    assert result_bytes(answer) == (b'{"points":[{"id":2,"version":0,"score":3.0},{"id":1,"version":0,"score":0.1}]}')


@pytest.mark.parametrize(
    ("selector", "shapes"),
    [
        ([""], [b"[0.1,1e-7]", b"[3.0,16777216.0]", b"{}"]),
        (["sp"], [b'{"sp":{"indices":[1,7],"values":[0.5,0.25]}}', b"{}", b'{"sp":{"indices":[7],"values":[2.0]}}']),
        ([], [b"{}", b"{}", b"{}"]),
    ],
)
def test_a_vector_is_bare_only_when_it_is_the_unnamed_one_alone(
    url: str, selector: list[str], shapes: list[bytes]
) -> None:
    ids = [1, 2, "5c56c793-69f3-4fbf-87e6-c4bf54c28c26"]
    body = {"ids": ids, "with_vector": selector, "with_payload": False}
    answer = result_bytes(exchange(url, "POST", "/collections/mixed/points", body))
    points = ",".join(
        f'{{"id":{json.dumps(point)},"vector":{shape.decode()}}}' for point, shape in zip(ids, shapes, strict=True)
    )
    assert answer.decode() == f"[{points}]"


@pytest.mark.parametrize("selector", [True, ["", "sp"]])
def test_the_shape_is_decided_point_by_point(url: str, selector: object) -> None:
    ids = [1, 2, "5c56c793-69f3-4fbf-87e6-c4bf54c28c26"]
    answer = exchange(url, "POST", "/collections/mixed/points", {"ids": ids, "with_vectors": selector})
    both, bare, sparse = (point["vector"] for point in answer.json["result"])
    assert set(both) == {"", "sp"}
    assert bare == [3.0, 16777216.0]
    assert sparse == {"sp": {"indices": [7], "values": [2.0]}}


def test_vectors_that_mmr_fetches_for_itself_are_not_shown(url: str) -> None:
    query = {"nearest": [1, 0], "mmr": {"diversity": 0.5, "candidates_limit": 5}}
    silent = exchange(url, "POST", QUERY, {"query": query, "limit": 2}).json["result"]["points"]
    assert [set(point) for point in silent] == [{"id", "version", "score"}] * 2
    shown = exchange(url, "POST", QUERY, {"query": query, "limit": 2, "with_vector": ["sp"]}).json["result"]["points"]
    assert {point["id"]: point["vector"] for point in shown} == {
        1: {"sp": {"indices": [1, 7], "values": [0.5, 0.25]}},
        2: {},
    }


def test_the_legacy_searches_answer_a_bare_list(url: str) -> None:
    searched = exchange(url, "POST", "/collections/mixed/points/search", {"vector": [1, 0], "top": 1})
    assert result_bytes(searched) == b'[{"id":2,"version":0,"score":3.0}]'
    batch = {"searches": [{"vector": {"name": "sp", "vector": {"indices": [7], "values": [1]}}, "limit": 1}]}
    batched = exchange(url, "POST", "/collections/mixed/points/search/batch", batch)
    assert result_bytes(batched) == b'[[{"id":"5c56c793-69f3-4fbf-87e6-c4bf54c28c26","version":0,"score":2.0}]]'


def test_discover_ignores_the_alias_that_search_knows(url: str) -> None:
    body = {"target": [1, 0], "context": [{"positive": 1, "negative": [0, 1]}], "limit": 1, "with_vectors": True}
    (point,) = exchange(url, "POST", "/collections/mixed/points/discover", body).json["result"]
    assert "vector" not in point
    (shown,) = exchange(url, "POST", "/collections/mixed/points/discover", body | {"with_vector": True}).json["result"]
    assert "vector" in shown


REFUSALS: list[tuple[str, str, object, int, str]] = [
    ("POST", "/collections/no/points/query", {}, 404, "Not found: Collection `no` doesn't exist!"),
    (
        "POST",
        QUERY,
        {"query": [1, 0], "limit": 0},
        422,
        "Validation error in JSON body: [limit: value 0 invalid, must be 1 or larger]",
    ),
    ("POST", QUERY, {"query": [1, 0, 0]}, 400, "Wrong input: Vector dimension error: expected dim: 2, got 3"),
    ("POST", QUERY, {"query": [1, 0], "using": "x"}, 400, "Wrong input: Not existing vector name error: x"),
    ("POST", QUERY, {"query": [1, 0], "with_vector": ["x"]}, 400, "Wrong input: Not existing vector name error: x"),
    ("POST", QUERY, {"query": 99}, 404, "Not found: No point with id 99 found"),
    ("POST", QUERY, {"query": 2, "using": "sp"}, 404, 'Not found: Vector with name "sp" for point not found'),
    (
        "POST",
        QUERY,
        {"prefetch": {"query": [1, 0]}},
        400,
        "Bad request: A query is needed to merge the prefetches. Can't have prefetches without defining a query.",
    ),
    (
        "POST",
        QUERY,
        {"prefetch": {"query": [1, 0]}, "query": {"fusion": "rrf"}, "using": "sp"},
        400,
        "Bad request: Fusion queries cannot be combined with the 'using' field.",
    ),
    (
        "POST",
        QUERY,
        {"with_vector": True, "with_vectors": True},
        400,
        "Format error in JSON body: duplicate field `with_vector`",
    ),
    ("POST", QUERY, b'{"limit":1,"limit":2}', 400, "Format error in JSON body: duplicate field `limit`"),
    (
        "POST",
        QUERY,
        {"limit": 1.5},
        400,
        "Format error in JSON body: invalid type: floating point `1.5`, expected usize",
    ),
    ("POST", QUERY, {"limit": True}, 400, "Format error in JSON body: invalid type: boolean `true`, expected usize"),
    ("POST", QUERY, b"", 400, "Format error in JSON body: EOF while parsing a value at line 1 column 0"),
    (
        "POST",
        "/collections/mixed/points/search",
        {"vector": [1, 0]},
        400,
        "Format error in JSON body: missing field `limit`",
    ),
    (
        "POST",
        "/collections/mixed/points/search",
        {"vector": [1, 0], "limit": 1, "top": 1},
        400,
        "Format error in JSON body: duplicate field `limit`",
    ),
    (
        "POST",
        "/collections/mixed/points/recommend",
        {"negative": [1], "limit": 1},
        400,
        "Bad request: At least one positive vector ID required with this strategy",
    ),
    ("GET", "/collections/mixed/points/77", None, 404, "Not found: Point with id 77 does not exist!"),
    ("PUT", "/collections/mixed", {}, 409, "Wrong input: Collection `mixed` already exists!"),
    (
        "PUT",
        "/collections/fresh",
        {"vectors": {"size": 0, "distance": "Dot"}},
        422,
        "Validation error in JSON body: [vectors.size: value 0 invalid, must be from 1 to 65536]",
    ),
    (
        "PUT",
        "/collections/mixed/points",
        {"points": [{"id": 1, "vector": [1]}]},
        400,
        "Wrong input: Vector dimension error: expected dim: 2, got 1",
    ),
    (
        "PUT",
        "/collections/mixed/points",
        {"points": [{"id": -1, "vector": [1, 2]}]},
        400,
        "Format error in JSON body: value -1 is not a valid point ID, valid values are either an unsigned integer or a UUID",
    ),
    (
        "POST",
        "/collections/mixed/points/payload",
        {"payload": {"a": 1}, "points": [99]},
        404,
        "Not found: No point with id 99 found",
    ),
    (
        "POST",
        QUERY + "?timeout=0",
        {},
        422,
        "Validation error in query parameters: [timeout: value 0 invalid, must be 1 or larger]",
    ),
    (
        "POST",
        QUERY,
        {"prefetch": {"query": [1, 0]}, "query": {"formula": {"ln": 0}}},
        400,
        "Wrong input: The formula produced a non-finite number, or has a variable that is missing or of another type",
    ),
    (
        "POST",
        QUERY,
        {"shard_key": "k"},
        400,
        "Bad request: cannot specify shard key k on collection with auto sharding",
    ),
    (
        "POST",
        "/collections/mixed/points/search/matrix/pairs",
        {"sample": 1},
        422,
        "Validation error in JSON body: [sample: value 1 invalid, must be 2 or larger]",
    ),
    (
        "POST",
        "/collections/mixed/points/search/matrix/offsets",
        {"using": "ghost"},
        400,
        "Wrong input: Not existing vector name error: ghost",
    ),
    (
        "PUT",
        "/collections/mixed/vectors/sp",
        {"dense": {"size": 2, "distance": "Dot"}},
        400,
        "Wrong input: Vector `sp` already exists as a sparse vector",
    ),
]


@pytest.mark.parametrize(("method", "path", "body", "status", "message"), REFUSALS)
def test_a_refusal_has_the_servers_code_and_text(
    url: str, method: str, path: str, body: object, status: int, message: str
) -> None:
    assert refusal(exchange(url, method, path, body)) == (status, message)


NOT_A_NUMBER = ("null", "true", '"1"', "{}", "[1]")
INPUTS = (
    '{"query":[X,1]}',
    '{"query":[1,X]}',
    '{"query":{"nearest":[X,1]}}',
    '{"query":[[1,X]]}',
    '{"query":{"recommend":{"positive":[[X,1]]}}}',
    '{"query":{"recommend":{"positive":[2],"negative":[[1,X]],"strategy":"best_score"}}}',
    '{"query":{"discover":{"target":[1,X],"context":[]}}}',
    '{"query":{"context":[{"positive":2,"negative":[1,X]}]}}',
    '{"query":{"indices":[1],"values":[X]},"using":"sp"}',
    '{"prefetch":{"query":[1,X]},"query":[1,0]}',
)


@pytest.mark.parametrize("what", NOT_A_NUMBER)
@pytest.mark.parametrize("body", INPUTS)
def test_a_vector_is_made_of_numbers_alone(url: str, body: str, what: str) -> None:
    refused = exchange(url, "POST", QUERY, body.replace("X", what).encode())
    assert refusal(refused) == (
        400,
        "Format error in JSON body: data did not match any variant of untagged enum VectorInput",
    )


@pytest.mark.parametrize("vector", ["[null,1]", "[1,true]", '{"":[null,1]}', '{"sp":{"indices":[1],"values":[null]}}'])
def test_a_vector_to_be_stored_is_made_of_numbers_alone(url: str, vector: str) -> None:
    put = exchange(url, "PUT", "/collections/mixed/points", b'{"points":[{"id":77,"vector":%s}]}' % vector.encode())
    assert refusal(put)[0] == 400
    assert exchange(url, "GET", "/collections/mixed/points/77").status == 404


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e400"])
def test_what_json_or_a_double_has_no_number_for_is_refused(url: str, number: str) -> None:
    assert exchange(url, "POST", QUERY, b'{"query":[%s,1]}' % number.encode()).status == 400


def test_a_number_beyond_float32_is_infinite_and_its_score_null_as_in_the_server(url: str) -> None:
    answer = exchange(url, "POST", QUERY, b'{"query":[1e40,1],"limit":1}')
    assert (answer.status, answer.json["result"]["points"][0]["score"]) == (200, None)


def test_only_what_is_refused_before_the_work_starts_took_no_time(url: str) -> None:
    assert exchange(url, "POST", QUERY, {"limit": 0}).body.endswith(b'"time":0.0}')
    assert exchange(url, "POST", "/collections/no/points/query", {}).json["time"] > 0


def test_a_refused_write_leaves_nothing_behind(url: str) -> None:
    before = exchange(url, "POST", "/collections/mixed/points/count", {}).json["result"]
    batch = {"points": [{"id": 50, "vector": [1, 2]}, {"id": "not-an-id", "vector": [1, 2]}]}
    assert exchange(url, "PUT", "/collections/mixed/points", batch).status == 400
    assert exchange(url, "POST", "/collections/mixed/points/count", {}).json["result"] == before


def test_a_payload_may_hold_a_key_twice_and_the_last_one_stays(url: str) -> None:
    path = "/collections/mixed/points/payload"
    answer = exchange(url, "POST", path, b'{"points":[1],"payload":{"a":0,"a":1}}')
    assert answer.json["result"] == {"operation_id": answer.json["result"]["operation_id"], "status": "acknowledged"}
    assert exchange(url, "GET", "/collections/mixed/points/1").json["result"]["payload"] == {"a": 1}


def test_a_body_must_say_that_it_is_json(url: str) -> None:
    answer = exchange(url, "POST", QUERY, b"{}", headers={"Content-Type": "text/plain"})
    assert refusal(answer) == (400, "Content type error")


@pytest.mark.parametrize(
    "path", ["//collections/mixed/points//query", QUERY + "/", "/collections/mi%78ed/points/query"]
)
def test_paths_are_normalised_as_the_server_normalises_them(url: str, path: str) -> None:
    assert exchange(url, "POST", path, {"query": [1, 0]}).status == 200


def test_an_encoded_slash_stays_inside_a_name(url: str) -> None:
    answer = exchange(url, "POST", "/collections/a%2Fb/points/query", {})
    assert refusal(answer) == (404, "Not found: Collection `a/b` doesn't exist!")


@pytest.mark.parametrize(("method", "path"), [("GET", "/nothing"), ("POST", "/collections"), ("DELETE", QUERY)])
def test_an_unknown_route_is_an_empty_404(url: str, method: str, path: str) -> None:
    answer = exchange(url, method, path)
    assert (answer.status, answer.body) == (404, b"")


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("/healthz", b"healthz check passed"),
        ("/livez", b"healthz check passed"),
        ("/readyz", b"all shards are ready"),
    ],
)
def test_probes_answer_in_plain_text(url: str, path: str, text: bytes) -> None:
    answer = exchange(url, "GET", path)
    assert (answer.status, answer.body) == (200, text)
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"


def test_the_root_says_what_it_is_and_which_wire_format_it_speaks(url: str) -> None:
    about = exchange(url, "GET", "/").json
    assert about["version"] == "1.19.0"
    assert about["title"] == "qdrant - vector search engine"
    assert exchange(url, "GET", "/telemetry").json["result"]["collections"] == {"number_of_collections": 1}
    assert b"collections_total 1" in exchange(url, "GET", "/metrics").body


def test_no_header_names_the_library_that_serves(url: str) -> None:
    assert "server" not in exchange(url, "GET", "/").headers


@pytest.mark.parametrize("accepted", ["gzip", "br;q=1.0, gzip;q=0.5", "*"])
def test_any_answer_is_gzipped_and_chunked_when_the_client_takes_it(url: str, accepted: str) -> None:
    answer = exchange(url, "GET", "/healthz", headers={"Accept-Encoding": accepted})
    assert answer.headers["content-encoding"] == "gzip"
    assert answer.headers["vary"] == "accept-encoding"
    assert answer.headers["transfer-encoding"] == "chunked"
    assert "content-length" not in answer.headers
    assert gzip.decompress(answer.body) == b"healthz check passed"


@pytest.mark.parametrize("accepted", ["identity", "gzip;q=0", "br"])
def test_an_answer_stays_plain_when_the_client_does_not_take_gzip(url: str, accepted: str) -> None:
    answer = exchange(url, "GET", "/healthz", headers={"Accept-Encoding": accepted})
    assert "content-encoding" not in answer.headers
    assert answer.body == b"healthz check passed"


def test_a_compressed_request_is_understood(url: str) -> None:
    body = gzip.compress(json.dumps({"query": [1, 0], "limit": 1}).encode())
    answer = exchange(url, "POST", QUERY, body, headers={"Content-Encoding": "gzip"})
    assert answer.json["result"]["points"][0]["id"] == 2


def test_a_body_over_the_limit_is_refused_in_the_servers_words(url: str) -> None:
    huge = b'{"points":[' + b" " * (33 * 1024 * 1024) + b"]}"
    answer = exchange(url, "PUT", "/collections/mixed/points", huge)
    status, message = refusal(answer)
    assert status == 400
    assert message == f"JSON payload ({len(huge)} bytes) is larger than allowed (limit: 33554432 bytes)."


def test_a_deeply_nested_body_is_refused_and_the_server_lives_on(url: str) -> None:
    deep: Any = b'{"filter":' + b'{"must":' * 900 + b"[]" + b"}" * 901
    assert exchange(url, "POST", QUERY, deep).status == 400
    assert exchange(url, "GET", "/healthz").status == 200


def test_strict_mode_caps_every_limit_in_the_servers_words(url: str) -> None:
    settings = {
        "vectors": {"size": 2, "distance": "Dot"},
        "strict_mode_config": {"enabled": True, "max_query_limit": 10},
    }
    assert exchange(url, "PUT", "/collections/strict", settings).status == 200
    points = "/collections/strict/points"
    refused = (
        400,
        'Bad request: Limit exceeded 50 > 10 for "limit". Help: Reduce the "limit" parameter to or below 10.',
    )
    try:
        nested = {"prefetch": {"query": [1, 0], "limit": 50}, "query": [1, 0], "limit": 5}
        assert refusal(exchange(url, "POST", f"{points}/query", {"query": [1, 0], "limit": 50})) == refused
        assert refusal(exchange(url, "POST", f"{points}/query", nested)) == refused
        assert refusal(exchange(url, "POST", f"{points}/search", {"vector": [1, 0], "limit": 50})) == refused
        assert refusal(exchange(url, "POST", f"{points}/scroll", {"limit": 50})) == refused
        groups = {"query": [1, 0], "group_by": "g", "limit": 10, "group_size": 5}
        assert refusal(exchange(url, "POST", f"{points}/query/groups", groups)) == refused
        assert exchange(url, "POST", f"{points}/query", {"query": [1, 0], "limit": 10, "offset": 90}).status == 200
        relaxed = {"strict_mode_config": {"max_query_limit": 60}}
        assert exchange(url, "PATCH", "/collections/strict", relaxed).json["result"] is True
        assert exchange(url, "POST", f"{points}/query", {"query": [1, 0], "limit": 50}).status == 200
    finally:
        exchange(url, "DELETE", "/collections/strict")
