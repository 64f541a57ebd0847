"""Vectors of every number as float32."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from support.backends.transports import reason_of
from support.milvus.messages import message_type
from vecsieve.adapters.contract import DeclinedError, MalformedReplyError, Needs, Reason, UnsupportedError
from vecsieve.adapters.fusions import Fusion, Method, Undivided, UndividedError
from vecsieve.adapters.milvus.grpc_description import MOST_FIELDS, read_description
from vecsieve.adapters.milvus.search import (
    NUMBER_BYTES,
    Chosen,
    Schema,
    as_matrix,
    as_query,
    choose,
    fusion_of,
    ids_among,
    numbers,
    read_rest_description,
    schema_of,
)


@pytest.mark.parametrize(
    ("kind", "packed"),
    [
        (101, np.array([1, -2.5], "<f4").tobytes()),
        (102, np.array([1, -2.5], "<f2").tobytes()),
        (103, b"\x80\x3f\x20\xc0"),
    ],
)
def test_each_kind_of_float_is_read(kind: int, packed: bytes) -> None:
    values = numbers(packed, kind)
    assert values.dtype == np.float32
    assert values.tolist() == [1.0, -2.5]


def test_small_integers_have_a_sign() -> None:
    assert numbers(b"\x01\xff\x80", 105).tolist() == [1.0, -1.0, -128.0]


def test_half_a_number_is_none() -> None:
    with pytest.raises(ValueError, match="3 bytes"):
        as_query(b"abc", 101)


def test_a_query_that_is_empty_or_not_finite_is_none_to_compare_with() -> None:
    assert as_query(b"", 101) is None
    assert as_query(np.array([np.inf], "<f4").tobytes(), 101) is None


def test_rows_that_are_missing_or_not_finite_are_no_numbers() -> None:
    packed = np.array([[1, 2], [np.nan, 4], [5, 6]], "<f4").tobytes()
    matrix = as_matrix(packed, 101, 8, np.array([2, -1, 1, 0], dtype=np.intp))
    assert np.isnan(matrix).any(axis=1).tolist() == [False, True, True, False]
    assert matrix[[0, 3]].tolist() == [[5, 6], [1, 2]]
    assert np.isnan(as_matrix(b"", 101, 8, np.array([-1], dtype=np.intp))).all()


@given(
    rows=arrays.arrays(np.dtype("<f4"), (4, 3), elements=st.floats(-9, 9, width=32)), order=st.permutations(range(4))
)
def test_a_matrix_is_the_rows_that_were_asked_for(rows: np.ndarray, order: list[int]) -> None:
    """For floats of every width, each row is the numbers of its own bytes."""
    for kind, width in NUMBER_BYTES.items():
        if kind == 103:
            packed = (rows.view("<u4") >> 16).astype("<u2").tobytes()
        else:
            packed = rows.astype({101: "<f4", 102: "<f2", 105: "i1"}[kind]).tobytes()
        matrix = as_matrix(packed, kind, 3 * width, np.array(order, dtype=np.intp))
        vectors = [numbers(packed[index * 3 * width : (index + 1) * 3 * width], kind).tolist() for index in order]
        assert matrix.tolist() == vectors


def schema(primary: str = "pk", *, has_texts: bool = False) -> Schema:
    return Schema(vectors=frozenset({"vec"}), scalars=frozenset({primary}), primary=primary, has_texts=has_texts)


@pytest.mark.parametrize(
    ("ids", "known", "expected"),
    [
        ([b"1", b"-2"], schema(), "pk in [1, -2]"),
        ([b'"9007199254740993"'], schema(), "pk in [9007199254740993]"),
        ([b'"a b"', b'"7"'], schema(has_texts=True), 'pk in ["a b", "7"]'),
    ],
)
def test_ids_are_spelled_as_the_collection_has_them(ids: list[bytes], known: Schema, expected: str) -> None:
    assert ids_among(known, ids) == expected


@pytest.mark.parametrize(
    ("ids", "known"),
    [
        ([b"1"], schema("")),
        ([b"1"], schema("odd name")),
        ([b"1"], schema(has_texts=True)),
        ([b'"a"'], schema()),
        ([b"1", b"1.5"], schema()),
        ([b'"a\\"b"'], schema(has_texts=True)),
        ([b'"\\u0061"'], schema(has_texts=True)),
        ([b'"a", pk > 0 or "b"'], schema(has_texts=True)),
        (['"é"'.encode()], schema(has_texts=True)),
    ],
)
def test_an_id_without_a_sure_spelling_is_refused(ids: list[bytes], known: Schema) -> None:
    with pytest.raises(UnsupportedError):
        ids_among(known, ids)


# What a hybrid search's rank parameters say, and what of them is left to the database.

NEEDS = Needs(known=Schema(vectors=frozenset({"a"}), scalars=frozenset(), shows_all=True))
BOTH = ("COSINE", "ip")


def fusion(
    strategy: str | None, params: object, *, metrics: tuple[str | None, ...] = BOTH, needs: Needs | None = None
) -> Fusion:
    text = params if isinstance(params, bytes) else json.dumps(params).encode()
    return fusion_of(strategy, text, metrics=metrics, limit=9, needs=needs or Needs())


def reason(
    strategy: str | None, params: object, *, metrics: tuple[str | None, ...] = BOTH, needs: Needs | None = None
) -> Undivided:
    with pytest.raises(UndividedError) as refused:
        fusion(strategy, params, metrics=metrics, needs=needs)
    return refused.value.reason


@pytest.mark.parametrize(
    ("strategy", "params", "k"), [("rrf", {"k": 7}, 8), ("rrf", {"k": 60.0}, 61), (None, {}, 61), (None, b"", 61)]
)
def test_ranks_count_from_one_and_equal_scores_are_ranked_by_id(strategy: str | None, params: object, k: int) -> None:
    ranking = fusion(strategy, params, metrics=(None, None))
    assert ranking == Fusion(method=Method.RRF, limit=9, k=k, is_by_id=True)


def test_a_weighted_sum_knows_its_metrics_and_whether_scores_are_normed() -> None:
    ranking = fusion("weighted", {"weights": [0.3, 1], "norm_score": False}, metrics=("l2", "BM25"))
    assert ranking == Fusion(
        method=Method.WEIGHTED, limit=9, weights=(0.3, 1.0), metrics=("L2", "BM25"), is_normed=False, is_by_id=True
    )


def test_lite_sums_in_64_bits() -> None:
    assert fusion("rrf", {"k": 1}, needs=NEEDS).is_double
    assert fusion("weighted", {"weights": [0, 1], "norm_score": True}, needs=NEEDS).is_double


@pytest.mark.parametrize(
    ("strategy", "params", "expected"),
    [
        ("rrf", {}, Undivided.MEMBER),
        ("rrf", {"k": "60"}, Undivided.MEMBER),
        ("rrf", {"k": True}, Undivided.MEMBER),
        ("rrf", {"k": 0}, Undivided.MEMBER),
        ("rrf", {"k": 16_384}, Undivided.MEMBER),
        ("rrf", {"k": 1, "novel": 1}, Undivided.MEMBER),
        ("rrf", {"k": 0.5}, Undivided.INEXACT),
        (None, {"k": 3}, Undivided.MEMBER),
        ("RRF", {"k": 3}, Undivided.MEMBER),
        ("decay", {}, Undivided.MEMBER),
        ("weighted", {"weights": [1, 1]}, Undivided.MEMBER),  # servers differ in the default
        ("weighted", {"weights": [1], "norm_score": True}, Undivided.MEMBER),
        ("weighted", {"weights": [1, 1.5], "norm_score": True}, Undivided.MEMBER),
        ("weighted", {"weights": [1, -0.5], "norm_score": True}, Undivided.MEMBER),
        ("weighted", {"weights": [1, True], "norm_score": True}, Undivided.MEMBER),
        ("weighted", {"weights": "1,1", "norm_score": True}, Undivided.MEMBER),
        ("weighted", {"weights": [1, 1], "norm_score": "true"}, Undivided.MEMBER),
    ],
)
def test_what_servers_refuse_or_read_differently_is_left_to_them(
    strategy: str | None, params: object, expected: Undivided
) -> None:
    assert reason(strategy, params) is expected


@pytest.mark.parametrize(
    ("metrics", "needs"),
    [(("COSINE", None), Needs()), (("COSINE", "NOVEL"), Needs()), (("COSINE", "L2"), NEEDS), (("BM25", "IP"), NEEDS)],
)
def test_scores_that_are_not_known_exactly_are_not_summed(metrics: tuple[str | None, ...], needs: Needs) -> None:
    params = {"weights": [0.5, 0.5], "norm_score": True}
    assert reason("weighted", params, metrics=metrics, needs=needs) is Undivided.INEXACT


@pytest.mark.parametrize("params", [b"[]", b"{", b'{"k":1,"k":2}', b"7"])
def test_parameters_that_are_no_object_of_single_names_raise(params: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - of the parsers, each with words of its own
        fusion("rrf", params)


# What a description of a collection tells, and which fields are added by it.

REAL = Schema(vectors=frozenset({"vec"}), scalars=frozenset({"id", "text"}), is_dynamic=True)
LITE = Schema(vectors=frozenset({"vec"}), scalars=frozenset({"id", "text"}), is_dynamic=True, shows_all=True)


def described(**types: int) -> bytes:
    message = message_type("DescribeCollectionResponse")(collectionID=4711)
    message.schema.name = "docs"
    for name, kind in types.items():
        message.schema.fields.add(name=name, data_type=kind)
    raw: bytes = message.SerializeToString()
    return raw


def test_only_what_can_be_compared_is_a_vector_and_only_what_is_no_vector_a_scalar() -> None:
    kinds = {
        "id": 5,
        "text": 21,
        "a": 101,
        "b": 102,
        "c": 103,
        "d": 105,
        "bits": 100,
        "sparse": 104,
        "many": 106,
        "s": 200,
    }
    description = read_description(described(**kinds))
    assert description == Schema(vectors=frozenset("abcd"), scalars=frozenset({"id", "text"}))
    assert description.only_vector is None
    assert read_description(described(a=101, sparse=104)).only_vector == "a"


def test_more_fields_than_a_server_allows_are_not_read() -> None:
    message = message_type("DescribeCollectionResponse")(collectionID=1)
    for number in range(MOST_FIELDS + 1):
        message.schema.fields.add(name=f"{number}", data_type=101)
    with pytest.raises(MalformedReplyError):
        read_description(message.SerializeToString())


def test_a_server_that_numbers_no_collection_shows_everything_unasked() -> None:
    message = message_type("DescribeCollectionResponse").FromString(described(a=101))
    message.ClearField("collectionID")
    message.schema.enable_dynamic_field = True
    description = read_description(message.SerializeToString())
    assert (description.shows_all, description.is_dynamic) == (True, True)


@pytest.mark.parametrize("raw", [b"", b"\xff", b"\x12\x02\x22\x00", b"\x12\x04\x22\x02\x12\x00", b"\x12\x02\x20\x01"])
def test_what_is_no_description_is_malformed(raw: bytes) -> None:
    with pytest.raises(MalformedReplyError):
        read_description(raw)


def test_a_refusal_to_describe_is_told() -> None:
    message = message_type("DescribeCollectionResponse")()
    message.status.code = 1100
    with pytest.raises(DeclinedError, match="1100"):
        read_description(message.SerializeToString())


def test_what_is_known_is_a_schema_or_nothing() -> None:
    assert schema_of(Needs()) is None
    assert schema_of(Needs(known=REAL)) is REAL
    with pytest.raises(TypeError):
        schema_of(Needs(known="what another adapter was told"))


@pytest.mark.parametrize(
    ("listed", "schema", "columns", "keys"),
    [
        (("text",), None, ("vec",), ()),
        (("text", "vec"), None, (), ()),
        (("*",), None, (), ()),
        ((), REAL, ("vec", "text"), ("page",)),
        ((), LITE, (), ()),
        (("id",), REAL, ("vec", "text"), ("page",)),
        (("id",), LITE, ("vec", "text"), ()),
        (("id", "own key"), REAL, ("vec", "text"), ()),
        (("page",), REAL, ("vec", "text"), ()),
    ],
)
def test_what_is_added(
    listed: tuple[str, ...], schema: Schema | None, columns: tuple[str, ...], keys: tuple[str, ...]
) -> None:
    needs = Needs(known=schema, optional_fields=("text", "page", "no name", "text"))
    assert choose(listed, "vec", needs) == Chosen(listed=listed, columns=columns, keys=keys)


def test_over_rest_keys_are_added_beside_the_clients_own() -> None:
    needs = Needs(known=REAL, optional_fields=("page",))
    assert choose(("own",), "vec", needs, keys_apart=True).keys == ("page",)


def test_a_field_that_must_come_along_and_cannot_leaves_the_search_alone() -> None:
    assert reason_of(choose, ("text",), "vec", Needs(payload_fields=("tenant",))) is Reason.PAYLOAD_SELECTOR
    assert choose(("tenant",), "vec", Needs(payload_fields=("tenant",))).columns == ("vec",)
    fixed = Schema(vectors=frozenset({"vec"}), scalars=frozenset({"text"}))
    with pytest.raises(UnsupportedError):
        choose(("text",), "vec", Needs(known=fixed, payload_fields=("tenant",)))


def over_rest(**members: object) -> Schema:
    fields = [{"name": "id", "type": "Int64", "primaryKey": True}, {"name": "vec", "type": "FloatVector"}]
    return read_rest_description(json.dumps({"code": 0, "data": {"fields": fields, **members}}).encode())


def test_over_rest_a_description_names_the_metrics_of_indexes() -> None:
    indexes = [{"fieldName": "vec", "metricType": "cosine"}, {"fieldName": "other"}, {}]
    description = over_rest(indexes=indexes)
    assert [description.metric_of(name) for name in ("vec", "other", "none")] == ["COSINE", None, None]
    assert over_rest().metric_of("vec") is None
    assert over_rest(indexes=None).metric_of("vec") is None
    assert over_rest(indexes=[{"fieldName": "vec", "metricType": None}]).metric_of("vec") is None
    twice = [{"fieldName": "vec", "metricType": metric} for metric in ("IP", "L2")]
    assert over_rest(indexes=twice).metric_of("vec") is None


@pytest.mark.parametrize(
    ("number", "shows_all"),
    [({"collectionID": 0}, True), ({"collectionID": 4711}, False), ({"collectionID": "0"}, False), ({}, False)],
)
def test_over_rest_only_a_collection_that_is_numbered_0_is_lites(number: dict[str, object], *, shows_all: bool) -> None:
    assert over_rest(**number).shows_all is shows_all


@pytest.mark.parametrize("makes_ids", [False, True])
def test_rows_whose_ids_the_database_makes_cannot_be_stored_again(makes_ids: bool) -> None:
    message = message_type("DescribeCollectionResponse").FromString(described(id=5, a=101, own=23))
    message.schema.fields[0].autoID = makes_ids
    assert read_description(message.SerializeToString()).is_restorable != makes_ids
    fields = [
        {"name": "id", "type": "Int64", "primaryKey": True, "autoId": makes_ids},
        {"name": "a", "type": "FloatVector(4)"},
    ]
    reply = json.dumps({"code": 0, "data": {"fields": fields}}).encode()
    assert read_rest_description(reply).is_restorable != makes_ids
