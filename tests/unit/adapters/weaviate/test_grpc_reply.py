from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from support.grpc.wire_fields import number_field
from support.weaviate.conversations import EVERYTHING, search
from support.weaviate.messages import message_type, packed
from support.weaviate.model import Collection, Hit, Stored
from vecsieve.adapters.contract import Needs, Operation, Pool
from vecsieve.adapters.weaviate.grpc import read_reply
from vecsieve.adapters.weaviate.grpc_request import Document, read_request
from vecsieve.adapters.wire.protobuf import length_field

OPERATION = Operation(backend="weaviate", name="search", collection="Docs")
FIRST, SECOND = ("00000000-0000-0000-0000-00000000000" + digit for digit in "1a")
PROPERTIES: dict[str, Any] = {"text": "é", "owner": "o", "place": None, "number": 3}
HITS = (
    Hit(stored=Stored(id=FIRST, properties=PROPERTIES, vector=[3.0, 4.0]), number=0.25),
    Hit(stored=Stored(id=SECOND, properties={"text": "b"}), number=0.5),
)
DOCS = Collection(name="Docs", properties=("text", "owner", "place", "number"))
NEAR: dict[str, Any] = {"near_vector": {"vector_bytes": packed([1.0, 0.0])}}


def asked(needs: Needs | None = None, **way: Any) -> tuple[Document, Any]:
    body = search(collection="Docs", limit=5, metadata=EVERYTHING, **(way or NEAR))
    document = read_request(OPERATION, body, needs or Needs())[1]
    assert isinstance(document, Document)
    return document, message_type("SearchRequest").FromString(body)


def read(needs: Needs | None = None, hits: tuple[Hit, ...] = HITS, **way: Any) -> tuple[Pool, bytes]:
    document, request = asked(needs, **way)
    return read_reply(document, needs or Needs(), DOCS.reply(hits, request).SerializeToString())


def test_a_pool_has_what_selection_compares() -> None:
    pool, _ = read()
    assert pool.scores.tolist() == [0.25, 0.5]
    assert pool.ids == (b'"%s"' % FIRST.encode(), b'"%s"' % SECOND.encode())
    assert np.array_equal(pool.vectors, np.array([[3, 4], [np.nan, np.nan]]), equal_nan=True)
    assert (pool.unusable, pool.vector_name, pool.compared_by) == (1, "", "")
    assert (pool.fields, pool.alone) == (((), ()), ())


def test_hybrid_searches_have_scores() -> None:
    pool, _ = read(hybrid_search={"query": "x"})
    assert pool.scores.tolist() == [0.25, 0.5]


def test_a_distance_of_zero_is_not_written_and_one_that_is_not_there_is_no_number() -> None:
    hits = (Hit(stored=HITS[0].stored, number=0.0), Hit(stored=HITS[1].stored))
    pool, _ = read(hits=hits)
    assert pool.scores[0] == 0.0
    assert np.isnan(pool.scores[1])


def test_the_object_that_a_search_is_made_by_is_never_merged_with_others() -> None:
    pool, _ = read(near_object={"id": SECOND.upper()})
    assert pool.alone == (1,)


def with_result(*parts: bytes) -> bytes:
    """A reply of one result."""
    return length_field(2, b"".join(parts))


METADATA = length_field(2, length_field(1, b"x"))


def test_what_decides_about_tenants_is_not_guessed_and_what_is_optional_is_absent_where_it_cannot_be_spelled() -> None:
    document, _ = asked()
    odd = message_type("PropertiesResult")()
    odd.non_ref_props.fields["place"].geo_value.SetInParent()
    odd.non_ref_props.fields["text"].text_value = "t"
    body = with_result(METADATA, length_field(1, odd.SerializeToString()))
    pool, _ = read_reply(document, Needs(optional_fields=("place", "text")), body)
    assert pool.fields == ((None, b'"t"'),)
    with pytest.raises(ValueError, match=r"."):
        read_reply(document, Needs(payload_fields=("place",)), body)


def test_properties_in_the_form_of_old_servers_are_not_taken_for_none() -> None:
    document, _ = asked()
    old = message_type("PropertiesResult")()
    old.old_properties["owner"] = "o"
    body = with_result(METADATA, length_field(1, old.SerializeToString()))
    assert read_reply(document, Needs(), body)[0].size == 1
    with pytest.raises(ValueError, match=r"1\.23"):
        read_reply(document, Needs(payload_fields=("owner",)), body)


@pytest.mark.parametrize(
    "body",
    [
        b"\xff",
        number_field(2, 1),
        length_field(4, b""),
        with_result(),
        with_result(length_field(2, b"")),
        with_result(METADATA, METADATA),
        with_result(METADATA, length_field(3, b"")),
        with_result(length_field(2, length_field(1, b"x") + number_field(7, 1))),
        with_result(length_field(2, length_field(1, b"x") * 2)),
        with_result(length_field(2, length_field(1, b"\xff"))),
        with_result(METADATA, length_field(1, length_field(11, number_field(1, 1)))),
    ],
)
def test_what_is_not_understood_with_certainty_is_malformed(body: bytes) -> None:
    document, _ = asked()
    with pytest.raises(ValueError, match=r"."):
        read_reply(document, Needs(), body)
