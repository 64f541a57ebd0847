from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from qdrant_client import grpc
from qdrant_client import grpc as pb

from support.backends.transports import GRPC, operation_of
from support.exchanges.foreign_calls import ForeignCall, foreign_calls
from support.qdrant.grpc_model import TIME, field
from vecsieve.adapters.contract import Bounds, Needs, Operation, RequestHead, SearchCall, UnsupportedError
from vecsieve.adapters.fusions import Divided, Ending, Method, Undivided, UndividedError
from vecsieve.adapters.qdrant.calls import METHODS, QdrantGrpcDialect
from vecsieve.adapters.qdrant.grpc import QdrantGrpc
from vecsieve.adapters.wire.protobuf import fields

ADAPTER = QdrantGrpc()


def test_the_adapter_and_its_dialect_are_found_by_the_backends_name() -> None:
    assert isinstance(GRPC["qdrant"].adapter(), QdrantGrpc)
    assert isinstance(GRPC["qdrant"].dialect(), QdrantGrpcDialect)


def test_one_search_from_the_clients_message_to_its_answer() -> None:
    query = grpc.Query(nearest=grpc.VectorInput(dense=grpc.DenseVector(data=[1.0, 0.0])))
    message = grpc.QueryPoints(collection_name="docs", query=query, limit=2, using="d").SerializeToString()
    operation = ADAPTER.classify(RequestHead(method="POST", path="/qdrant.Points/Query", message=message))
    assert operation == Operation(backend="qdrant", name="query", collection="docs")
    call = ADAPTER.parse_request(operation, message, Needs())

    wide = grpc.QueryPoints.FromString(ADAPTER.widen(call, [24]))
    assert wide.limit == 24
    assert list(wide.with_vectors.include.names) == ["d"]

    stored = grpc.NamedVectorsOutput(vectors={"d": grpc.VectorOutput(dense=grpc.DenseVector(data=[1.0, 0.0]))})
    points = [
        grpc.ScoredPoint(id=grpc.PointId(num=number), score=1.0, vectors=grpc.VectorsOutput(vectors=stored))
        for number in range(3)
    ]
    reply = ADAPTER.parse_reply(call, grpc.QueryResponse(result=points, time=0.5).SerializeToString())
    assert reply.pools[0].vectors.tolist() == [[1.0, 0.0]] * 3

    answer = grpc.QueryResponse.FromString(ADAPTER.trim(call, reply, [np.array([0, 2])]))
    assert [point.id.num for point in answer.result] == [0, 2]
    assert not any(point.HasField("vectors") for point in answer.result)
    assert answer.time == 0.5


# What Qdrant's Go, JavaScript and Java clients really send: recognised, read, widened in declared fields alone, cut to itself.

CALLS = foreign_calls()
# What the scenario asks that is not ours.
NOT_SEARCHES, LEFT_ALONE = {"groups"}, {"mmr", "one"}
OURS = [call for call in CALLS if call.name not in NOT_SEARCHES | LEFT_ALONE]
# Their replies are what a widened request would have been answered: payload and vectors are all there.
WHOLE = [call for call in OURS if call.name in {"copied.both", "copied.vectors", "named.sparse"}]
FETCH_K = 24
DECLARED = ("limit", "offset", "with_vectors", "with_payload")
NEEDS = {"vectors alone": Needs(), "texts too": Needs(payload_fields=("base",), optional_fields=("text",))}


def parsed(call: ForeignCall, needs: Needs = NEEDS["vectors alone"]) -> tuple[QdrantGrpc, SearchCall]:
    adapter = QdrantGrpc()
    operation = operation_of(adapter, RequestHead(method="POST", path=call.path, message=call.message))
    assert (operation.name, operation.collection) == (METHODS[call.path], call.name.split(".")[0])
    return adapter, adapter.parse_request(operation, call.message, needs)


def items(call: ForeignCall, message: bytes) -> list[Any]:
    """The searches of a request, itself where it is one, by protobuf's own library."""
    name = call.path.rpartition("/")[2]
    searched = name.removesuffix("Batch")
    if searched == name:
        return [getattr(pb, f"{name}Points").FromString(message)]
    return list(getattr(getattr(pb, f"{name}Points").FromString(message), f"{searched.lower()}_points"))


def undeclared(item: Any) -> bytes:
    """A search without the fields that may change."""
    for name in DECLARED:
        item.ClearField(name)
    data: bytes = item.SerializeToString(deterministic=True)
    return data


def test_three_clients_are_recorded_in_every_way_there_is_to_search() -> None:
    assert Counter(call.client for call in CALLS) == {"go": 27, "java": 27, "node": 27}
    for client in ("go", "java", "node"):
        methods = {METHODS[call.path] for call in CALLS if call.client == client and call.path in METHODS}
        assert methods == {"query", "query_batch", "search", "search_batch", "recommend", "discover"}


@pytest.mark.parametrize("needs", NEEDS.values(), ids=NEEDS)
@pytest.mark.parametrize("call", OURS, ids=str)
def test_a_search_is_read_and_widened_in_its_declared_fields_alone(call: ForeignCall, needs: Needs) -> None:
    adapter, search = parsed(call, needs)
    wide = adapter.widen(search, [FETCH_K] * len(search.searches))
    before, after = (items(call, message) for message in (call.message, wide))
    assert len(after) == len(before) == len(search.searches)
    for original, item in zip(before, after, strict=True):
        assert item.limit == FETCH_K
        assert not item.offset
        assert item.HasField("with_vectors")
        assert undeclared(item) == undeclared(original)
    assert search.searches[0].top_k == (10 if call.name.endswith("default limit") else 2)
    assert search.searches[0].offset == (3 if call.name.endswith("offset") else 0)


@pytest.mark.parametrize("call", [call for call in OURS if call.name.startswith("copied.batch")], ids=str)
def test_a_search_of_no_candidates_more_stays_as_it_was_sent(call: ForeignCall) -> None:
    adapter, search = parsed(call)
    assert adapter.widen(search, [0] * len(search.searches)) == call.message


@pytest.mark.parametrize("call", [call for call in CALLS if call.name in LEFT_ALONE], ids=str)
def test_what_orders_for_itself_or_wants_one_result_is_left_alone(call: ForeignCall) -> None:
    adapter = QdrantGrpc()
    operation = operation_of(adapter, RequestHead(method="POST", path=call.path, message=call.message))
    with pytest.raises(UnsupportedError):
        adapter.parse_request(operation, call.message, Needs())


@pytest.mark.parametrize("call", [call for call in CALLS if call.name in NOT_SEARCHES], ids=str)
def test_groups_are_not_ours(call: ForeignCall) -> None:
    assert QdrantGrpc().classify(RequestHead(method="POST", path=call.path, message=call.message)) is None


@pytest.mark.parametrize("call", WHOLE, ids=str)
def test_a_reply_of_which_all_is_kept_is_itself(call: ForeignCall) -> None:
    adapter, search = parsed(call)
    reply = adapter.parse_reply(search, call.reply)
    (pool,) = reply.pools
    count = len(pool.scores)
    assert count == sum(field.number == 1 for field in fields(call.reply)) == 2
    assert np.isfinite(pool.vectors).all()
    assert adapter.trim(search, reply, [np.arange(count)]) == call.reply


DENSE = grpc.Query(nearest=grpc.VectorInput(dense=grpc.DenseVector(data=[1.0, 2.0])))
NAMED = Needs(vector_name="a")
ID, SCORE, VERSION, SHARD = field(1, b"\x08\x07"), b"\x1d\x00\x00\x80\x3f", b"\x28\x03", field(7, field(1, b"s"))
LATER = field(99, b"later")
OUTPUT = grpc.VectorOutput(dense=grpc.DenseVector(data=[1.0, 2.0])).SerializeToString()
UNNAMED = field(6, field(1, OUTPUT))
NOTHING = field(6, field(2, b""))


def entry(name: str, value: bytes = OUTPUT) -> bytes:
    return field(1, field(1, name.encode()) + field(2, value))


def named(*names: str) -> bytes:
    return field(6, field(2, b"".join(map(entry, names))))


def payload(*keys: str) -> bytes:
    return b"".join(field(2, field(1, key.encode()) + field(2, b"\x18\x05")) for key in keys)


def trimmed(body: bytes, *keep: int, needs: Needs = NAMED, **members: Any) -> bytes:
    request = grpc.QueryPoints(**{"query": DENSE, **members}).SerializeToString()
    call = ADAPTER.parse_request(Operation(backend="qdrant", name="query", collection="c"), request, needs)
    return ADAPTER.trim(call, ADAPTER.parse_reply(call, body), [np.array(keep, dtype=np.intp)])


def listed(point: bytes, selector: Any, *, needs: Needs = NAMED, **members: Any) -> bytes:
    """What is left of a reply's only point, without its frame."""
    answer = trimmed(field(1, point), 0, needs=needs, with_vectors=selector, **members)
    (analyzed,) = fields(answer)
    return answer[analyzed.value : analyzed.end]


def selecting(*names: str) -> Any:
    return grpc.WithVectorsSelector(include=grpc.VectorsSelector(names=names))


@pytest.mark.parametrize(
    ("vectors", "selector", "left"),
    [
        # Not wanted: gone.
        (UNNAMED, None, b""),
        (named("a", "b"), grpc.WithVectorsSelector(enable=False), b""),
        (b"", None, b""),
        # Everything wanted: as it came.
        (named("a", ""), grpc.WithVectorsSelector(enable=True), named("a", "")),
        (NOTHING, grpc.WithVectorsSelector(enable=True), NOTHING),
        # The client selected names, ours was added.
        (named("b", "a"), selecting("b"), named("b")),
        (named("a", "b"), selecting("b"), named("b")),
        (named("b"), selecting("b"), named("b")),
        (named("a"), selecting("b"), NOTHING),
        (named("a"), selecting(), NOTHING),
        (NOTHING, selecting("b"), NOTHING),
        (b"", selecting("b"), b""),
        (field(6, b""), selecting("b"), field(6, b"")),
        # The unnamed one alone is shown bare, beside others by an empty name.
        (UNNAMED, selecting(""), UNNAMED),
        (UNNAMED, selecting("b"), NOTHING),
        (named("", "a"), selecting(""), UNNAMED),
        (named("", "a", "b"), selecting("", "b"), named("", "b")),
        # Fields that nobody knows stay in their message, behind those that are known.
        (field(6, LATER + field(2, entry("a") + LATER + entry("b")) + LATER), selecting("b"),
         field(6, field(2, entry("b") + LATER) + LATER * 2)),
    ],
)  # fmt: skip
def test_vectors_are_shown_as_the_server_shows_them(vectors: bytes, selector: Any, left: bytes) -> None:
    before, after = ID + payload("x") + SCORE + VERSION, SHARD + LATER
    assert listed(before + vectors + after, selector) == before + left + after


@pytest.mark.parametrize(
    ("selector", "came", "left"),
    [
        (None, payload("text", "doc"), b""),
        (grpc.WithPayloadSelector(enable=False), payload("text"), b""),
        (grpc.WithPayloadSelector(enable=True), payload("text", "x"), payload("text", "x")),
        (
            grpc.WithPayloadSelector(include=grpc.PayloadIncludeSelector(fields=["x"])),
            payload("text", "x", "doc"),
            payload("x"),
        ),
        (
            grpc.WithPayloadSelector(include=grpc.PayloadIncludeSelector(fields=["text"])),
            payload("text", "doc"),
            payload("text"),
        ),
        (
            grpc.WithPayloadSelector(exclude=grpc.PayloadExcludeSelector(fields=["x"])),
            payload("text", "doc"),
            payload("text", "doc"),
        ),
    ],
)
def test_payload_that_came_for_us_is_gone(selector: Any, came: bytes, left: bytes) -> None:
    needs = Needs(vector_name="a", optional_fields=("text", "doc"))
    point = ID + came + SCORE + UNNAMED + LATER
    assert listed(point, None, needs=needs, with_payload=selector) == ID + left + SCORE + LATER


def points(*numbers: int, vectors: bytes = UNNAMED) -> list[bytes]:
    return [field(1, field(1, b"\x08" + bytes([number])) + SCORE + vectors) for number in numbers]


def test_a_point_that_had_nothing_of_ours_is_opaque() -> None:
    """Only what is taken out of is written again; a field that nobody knows may stand before the others."""
    odd = LATER + b"\x1d\x00\x00\x80\x3f" + ID + SCORE
    selector = grpc.WithVectorsSelector(enable=True)
    assert trimmed(field(1, odd) + TIME, 0, with_vectors=selector) == field(1, odd) + TIME
    assert trimmed(field(1, odd + NOTHING), 0) == field(1, ID + SCORE + LATER)


def test_what_is_set_twice_in_a_point_is_taken_out_twice_or_stays_twice() -> None:
    shards = field(7, field(1, b"s")) + field(7, b"\x10\x05")
    payloads = payload("x", "text", "x", "text")
    selector = grpc.WithPayloadSelector(include=grpc.PayloadIncludeSelector(fields=["x"]))
    needs = Needs(vector_name="a", optional_fields=("text",))
    left = listed(ID + ID + payloads + UNNAMED * 2 + shards, None, needs=needs, with_payload=selector)
    assert left == ID + ID + payload("x", "x") + shards


def test_lists_of_a_batch_that_are_not_ours_stay_byte_for_byte() -> None:
    ours = grpc.QueryPoints(query=DENSE)
    sampled = grpc.QueryPoints(query=grpc.Query(sample=grpc.Sample.Random))
    request = grpc.QueryBatchPoints(query_points=[sampled, ours, sampled, ours]).SerializeToString()
    operation = Operation(backend="qdrant", name="query_batch", collection="c")
    call = ADAPTER.parse_request(operation, request, Needs())
    full, bare = points(1, 2), points(1, 2, vectors=b"")
    lists = [field(1, b"".join(parts)) for parts in ([LATER, *full], [*full, TIME], bare, bare)]
    body = b"".join(lists) + TIME
    reply = ADAPTER.parse_reply(call, body)
    answer = ADAPTER.trim(call, reply, [np.array([1]), np.array([0, 1])])
    assert answer == lists[0] + field(1, bare[1] + TIME) + lists[2] + lists[3] + TIME


# A fusion over gRPC divided into a batch, and its reply fused again; read by protobuf's own library.

QUERY = Operation(backend="qdrant", name="query", collection="c")
RRF = pb.Query(fusion=pb.Fusion.RRF)
MUST = pb.Filter(must=[pb.Condition(field=pb.FieldCondition(key="k"))])
SHOULD = pb.Filter(should=[pb.Condition(field=pb.FieldCondition(key="k"))])


def near(*numbers: float) -> Any:
    return pb.Query(nearest=pb.VectorInput(dense=pb.DenseVector(data=numbers)))


FIRST = pb.PrefetchQuery(query=near(0.25, 1e-7), using="a", limit=3, score_threshold=0.5)
SECOND = pb.PrefetchQuery(
    query=pb.Query(nearest=pb.VectorInput(sparse=pb.SparseVector(indices=[1], values=[2.0]))), using="s"
)


def message(**members: Any) -> Any:
    return pb.QueryPoints(**{"collection_name": "c", "prefetch": [FIRST, SECOND], "query": RRF, **members})


def divide(content: Any, **needs: Any) -> Divided | None:
    call = ADAPTER.parse_request(QUERY, content.SerializeToString(), Needs(**needs))
    return ADAPTER.divided(call, ADAPTER.widen(call, [50]))


def batch(query: Any) -> Any:
    divided = divide(query)
    assert divided is not None
    assert divided.ending == Ending(new="Batch")
    return pb.QueryBatchPoints.FromString(divided.parts[0].body)


def reason(query: Any, **needs: Any) -> Undivided:
    with pytest.raises(UndividedError) as refused:
        divide(query, **needs)
    return refused.value.reason


def test_each_prefetch_becomes_a_search_with_the_selectors_of_the_widened_root() -> None:
    searches = batch(message(with_payload=pb.WithPayloadSelector(enable=True), timeout=4, limit=7))
    selected: dict[str, Any] = {
        "collection_name": "c",
        "with_payload": pb.WithPayloadSelector(enable=True),
        "with_vectors": pb.WithVectorsSelector(include=pb.VectorsSelector(names=["a"])),
    }
    assert list(searches.query_points) == [
        pb.QueryPoints(query=FIRST.query, using="a", limit=3, score_threshold=0.5, **selected),
        pb.QueryPoints(query=SECOND.query, using="s", **selected),
    ]
    assert (searches.collection_name, searches.timeout) == ("c", 4)


def test_all_members_of_a_prefetch_are_those_of_its_search() -> None:
    lookup, params = pb.LookupLocation(collection_name="d"), pb.SearchParams(exact=True)
    whole = pb.PrefetchQuery(
        query=near(1.0), using="a", filter=MUST, params=params, score_threshold=0.25, limit=4, lookup_from=lookup
    )
    (search,) = batch(message(prefetch=[whole])).query_points
    assert (search.filter, search.params, search.lookup_from, search.score_threshold) == (MUST, params, lookup, 0.25)


def test_the_fusion_is_read_with_the_widened_limit() -> None:
    query = pb.Query(rrf=pb.Rrf(k=9, weights=[2.0, 0.5]))
    divided = divide(message(query=query, score_threshold=0.25))
    assert divided is not None
    fusion = divided.fusion
    assert (fusion.method, fusion.k, fusion.weights, fusion.threshold, fusion.limit) == (
        Method.RRF,
        9,
        (2.0, 0.5),
        0.25,
        50,
    )


@pytest.mark.parametrize(
    ("query", "method"),
    [(RRF, "rrf"), (pb.Query(fusion=pb.Fusion.DBSF), "dbsf"), (pb.Query(rrf=pb.Rrf()), "rrf")],
)
def test_absent_parameters_have_the_servers_defaults(query: Any, method: str) -> None:
    divided = divide(message(query=query))
    assert divided is not None
    assert (divided.fusion.method, divided.fusion.k, divided.fusion.weights) == (method, 2, None)


def test_the_roots_filter_is_merged_with_that_of_each_search() -> None:
    other = pb.Filter(must_not=MUST.must)
    searches = batch(message(prefetch=[FIRST, pb.PrefetchQuery(query=near(1.0), filter=other)], filter=MUST))
    assert [point.filter for point in searches.query_points] == [MUST, pb.Filter(must=MUST.must, must_not=MUST.must)]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (message(prefetch=[pb.PrefetchQuery(query=RRF, prefetch=[FIRST])]), Undivided.NESTED),
        (message(query=pb.Query(formula=pb.Formula())), Undivided.FORMULA),
        (
            message(prefetch=[FIRST, pb.PrefetchQuery(query=pb.Query(nearest=pb.VectorInput(id=pb.PointId(num=7))))]),
            Undivided.POINTS,
        ),
        (message(prefetch=[FIRST, pb.PrefetchQuery(query=pb.Query(recommend=pb.RecommendInput()))]), Undivided.POINTS),
        (message(prefetch=[FIRST, pb.PrefetchQuery(limit=4)]), Undivided.UNRANKED),
        (
            message(prefetch=[FIRST, pb.PrefetchQuery(query=pb.Query(order_by=pb.OrderBy(key="k")))]),
            Undivided.UNRANKED,
        ),
        (message(prefetch=[]), Undivided.MEMBER),
        (message(params=pb.SearchParams()), Undivided.MEMBER),
        (message(using="a"), Undivided.MEMBER),
        (message(lookup_from=pb.LookupLocation(collection_name="d")), Undivided.MEMBER),
        (message(prefetch=[pb.PrefetchQuery(query=near(1.0), filter=SHOULD)], filter=MUST), Undivided.MEMBER),
        (message(prefetch=[pb.PrefetchQuery(query=near(1.0), filter=MUST)], filter=SHOULD), Undivided.MEMBER),
        (message(query=pb.Query(rrf=pb.Rrf(k=0))), Undivided.MEMBER),
        (message(query=pb.Query(rrf=pb.Rrf(weights=[1.0]))), Undivided.MEMBER),
        (message(query=pb.Query(rrf=pb.Rrf(weights=[1.0, -1.0]))), Undivided.MEMBER),
        (message(query=pb.Query(rrf=pb.Rrf(weights=[1.0, float("nan")]))), Undivided.MEMBER),
    ],
)
def test_what_the_batch_could_not_answer_exactly_is_not_divided(query: Any, expected: Undivided) -> None:
    assert reason(query) is expected


def test_more_lists_than_searches_of_one_request_are_not_divided() -> None:
    bounds = Bounds(searches=2, parts=10_000, nesting=8)
    assert reason(message(prefetch=[FIRST] * 3), bounds=bounds) is Undivided.MANY


def test_a_text_that_the_server_embeds_stands_for_no_stored_point() -> None:
    text = pb.Query(nearest=pb.VectorInput(document=pb.Document(text="t", model="m")))
    searches = batch(message(prefetch=[FIRST, pb.PrefetchQuery(query=text)]))
    assert searches.query_points[1].query == text


@pytest.mark.parametrize("prefetch", [[], [FIRST]])
def test_a_search_that_fuses_nothing_is_no_fusion(prefetch: list[Any]) -> None:
    assert divide(message(query=near(1.0, 2.0), prefetch=prefetch, using="a", limit=4)) is None


def test_the_reply_has_the_points_messages_with_the_fused_scores() -> None:
    divided = divide(message())
    assert divided is not None

    def point(number: int, score: float, *vector: float) -> Any:
        stored = pb.VectorsOutput(vectors=pb.NamedVectorsOutput(vectors={"a": pb.VectorOutput(data=vector)}))
        return pb.ScoredPoint(
            id=pb.PointId(num=number), score=score, version=3, vectors=stored, payload={"t": pb.Value(integer_value=1)}
        )

    lists = [pb.BatchResult(result=[point(1, 0.9, 1.0)]), pb.BatchResult(result=[point(2, 0.0, 3.0)])]
    body = pb.QueryBatchResponse(result=lists, time=0.5).SerializeToString()
    reply = ADAPTER.parse_reply(divided.parts[0].call, body)
    assert [pool.ids for pool in reply.pools] == [(b"1",), (b"2",)]
    fused = ADAPTER.fused(divided, [reply], [(1, 0, np.float32(0.1)), (0, 0, np.float32(0))])
    expected = pb.QueryResponse(result=[point(2, 0.1, 3.0), point(1, 0.0, 1.0)], time=0.5)
    assert pb.QueryResponse.FromString(fused) == expected
    assert fused == expected.SerializeToString()
