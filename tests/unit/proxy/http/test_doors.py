"""The data ports that settings ask for."""

from __future__ import annotations

import pytest

from vecsieve.config.schema import Settings
from vecsieve.proxy.http.doors import Door, doors_of
from vecsieve.proxy.http.origin import Origin

PORTS = {8102: "http://127.0.0.1:5081", 8101: "docs-abc123.svc.aped-4627-b74a.pinecone.io"}


def doors(**settings: object) -> tuple[Door, ...]:
    return doors_of(Settings.model_validate({"backend": "pinecone", **settings}))


def test_there_is_one_main_port_and_nothing_behind_it() -> None:
    assert doors() == (Door("127.0.0.1", 6343),)
    assert doors(backend="qdrant", listen="[::1]:1") == (Door("::1", 1),)


def test_the_fixed_index_is_behind_the_main_port() -> None:
    own = {"index_host": "https://docs.example.com:8443"}
    assert doors(pinecone=own) == (Door("127.0.0.1", 6343, Origin("https", "docs.example.com:8443")),)


@pytest.mark.parametrize(("listen", "host"), [("127.0.0.2:6343", "127.0.0.2"), ("[::]:6343", "::")])
def test_each_index_has_its_port_on_the_same_interface_in_the_order_of_the_numbers(listen: str, host: str) -> None:
    assert doors(listen=listen, pinecone={"index_ports": PORTS}) == (
        Door(host, 6343),
        Door(host, 8101, Origin("https", "docs-abc123.svc.aped-4627-b74a.pinecone.io")),
        Door(host, 8102, Origin("http", "127.0.0.1:5081")),
    )


def test_what_only_pinecone_has_opens_nothing_for_another_backend() -> None:
    own = {"index_ports": PORTS, "index_host": "docs.example.com"}
    assert doors(backend="qdrant", pinecone=own) == (Door("127.0.0.1", 6343),)


def test_milvus_speaks_grpc_where_it_speaks_http() -> None:
    [door] = doors(backend="milvus", upstream={"url": "http://10.0.0.1:19530"})
    assert door.grpc == Origin("http", "10.0.0.1:19530")
    apart = {"upstream": "10.0.0.1:19531", "listen": "127.0.0.1:6344"}
    assert {door.grpc for door in doors(backend="milvus", grpc=apart)} == {Origin("http", "10.0.0.1:19531")}
