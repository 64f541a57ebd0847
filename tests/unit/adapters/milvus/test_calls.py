"""The methods that are passed on at less cost, against the installed client's own description of the service."""

from __future__ import annotations

import json
from importlib import import_module

from support.milvus.server import NEEDS_MILVUS
from vecsieve.adapters.milvus.calls import METHODS, UNARY, MilvusDialect
from vecsieve.adapters.milvus.grpc_description import MilvusGrpcDialect


def test_searches_are_among_them() -> None:
    assert set(METHODS) <= UNARY


@NEEDS_MILVUS
def test_each_is_a_method_of_one_message_each_way() -> None:
    service = import_module("pymilvus.grpc_gen.milvus_pb2").DESCRIPTOR.services_by_name["MilvusService"]
    known = {method.name: method for method in service.methods}
    named = {path.rpartition("/")[2] for path in UNARY}
    streams = {name for name, method in known.items() if method.client_streaming or method.server_streaming}
    assert not named & streams
    assert known.keys() - streams == named & known.keys(), "of the installed version all are known"


# How errors of ours look to Milvus's clients, and what its refusals tell.


def test_an_error_over_rest_has_a_code_and_a_message() -> None:
    answer = MilvusDialect().error(503, 'no "upstream"')
    assert (answer.status, json.loads(answer.body)) == (503, {"code": 65535, "message": 'no "upstream"'})


def test_an_error_over_grpc_is_its_sentence() -> None:
    answer = MilvusGrpcDialect().error(14, "überlastet")
    assert (answer.status, answer.content_type, answer.body.decode()) == (14, "", "überlastet")


def test_the_largest_topk_is_read_from_the_servers_words() -> None:
    """As the real 2.3.5 words it, over both of its protocols."""
    words = b"topk [16385] is invalid, top k should be in range [1, 16384], but got 16385"
    for dialect in (MilvusDialect(), MilvusGrpcDialect()):
        assert dialect.refused_limit(0, words) == 16384
        assert dialect.refused_limit(0, b'"' + words + b'"') == 16384
        assert dialect.refused_limit(0, b"nq [9] is invalid, nq should be in range [1, 3], but got 9") is None
        assert not dialect.names_unknown_vector(0, b"field vec not exist")
