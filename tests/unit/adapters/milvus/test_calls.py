"""The methods that are passed on at less cost, against the installed client's own description of the service."""

from __future__ import annotations

from importlib import import_module

from support.milvus.server import NEEDS_MILVUS
from vecsieve.adapters.milvus.calls import METHODS, UNARY


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
