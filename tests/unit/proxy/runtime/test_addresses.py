"""The data ports that settings ask for."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vecsieve.config.schema import Settings
from vecsieve.proxy.runtime.addresses import DataPort, Origin, data_ports_of

INDEX_FLAG = "--index-port PORT=HOST"
PORTS = {8102: "http://127.0.0.1:5081", 8101: "docs-abc123.svc.aped-4627-b74a.pinecone.io"}


def listeners(**settings: object) -> tuple[DataPort, ...]:
    return data_ports_of(Settings.model_validate({"backend": "pinecone", **settings}))


def test_there_is_one_main_port_and_nothing_behind_it() -> None:
    assert listeners() == (DataPort("127.0.0.1", 6343),)
    assert listeners(backend="qdrant", listen="[::1]:1") == (DataPort("::1", 1),)


def test_the_fixed_index_is_behind_the_main_port() -> None:
    pinecone = {"index_host": "https://docs.example.com:8443"}
    index = Origin("https", "docs.example.com:8443")
    assert listeners(pinecone=pinecone) == (DataPort("127.0.0.1", 6343, index, index),)


@pytest.mark.parametrize(("listen", "host"), [("127.0.0.2:6343", "127.0.0.2"), ("[::]:6343", "::")])
def test_each_index_has_its_port_on_the_same_interface_in_the_order_of_the_numbers(listen: str, host: str) -> None:
    first, second = Origin("https", "docs-abc123.svc.aped-4627-b74a.pinecone.io"), Origin("http", "127.0.0.1:5081")
    assert listeners(listen=listen, pinecone={"index_ports": PORTS}) == (
        DataPort(host, 6343),
        DataPort(host, 8101, first, first, flag=INDEX_FLAG),
        DataPort(host, 8102, second, second, flag=INDEX_FLAG),
    )


def test_what_only_pinecone_has_opens_nothing_for_another_backend() -> None:
    pinecone = {"index_ports": PORTS, "index_host": "docs.example.com"}
    assert listeners(backend="qdrant", pinecone=pinecone) == (DataPort("127.0.0.1", 6343),)


def test_milvus_speaks_grpc_where_it_speaks_http() -> None:
    [listener] = listeners(backend="milvus", upstream={"url": "http://10.0.0.1:19530"})
    assert listener.grpc == Origin("http", "10.0.0.1:19530")
    apart = {"upstream": "10.0.0.1:19531", "listen": "127.0.0.1:6344"}
    assert {listener.grpc for listener in listeners(backend="milvus", grpc=apart)} == {Origin("http", "10.0.0.1:19531")}


def test_weaviate_has_a_port_for_each_of_its_protocols() -> None:
    main, apart = listeners(backend="weaviate")
    assert (main.port, main.is_for_grpc, apart.is_for_grpc) == (6343, False, True)
    assert apart.port != main.port
    assert main.grpc == apart.grpc == Origin("http", "127.0.0.1:50051")


def test_grpc_is_spoken_on_the_main_port_and_on_one_of_its_own_that_is_told_of_last() -> None:
    database = Origin("https", "db.example:6334")
    settings: dict[str, object] = {"backend": "qdrant", "grpc": {"upstream": "https://db.example:6334"}}
    assert listeners(**settings) == (DataPort("127.0.0.1", 6343, None, database),)
    apart = {"upstream": "https://db.example:6334", "listen": "[::1]:6344"}
    assert listeners(**{**settings, "grpc": apart}) == (
        DataPort("127.0.0.1", 6343, None, database),
        DataPort("::1", 6344, None, database, is_for_grpc=True, flag="--grpc-listen HOST:PORT"),
    )


def test_grpc_without_tls_is_meant_where_no_scheme_is_written() -> None:
    assert listeners(backend="qdrant", grpc={"upstream": "127.0.0.1:6334"})[0].grpc == Origin("http", "127.0.0.1:6334")


def test_a_fixed_index_may_answer_grpc_elsewhere_and_index_ports_lead_to_their_own() -> None:
    pinecone = {"index_host": "docs.example.com", "index_ports": PORTS}
    fixed, elsewhere = Origin("https", "docs.example.com"), Origin("http", "127.0.0.1:5082")
    main, *others, apart = listeners(pinecone=pinecone, grpc={"upstream": "127.0.0.1:5082", "listen": "127.0.0.1:6344"})
    assert (main.index, main.grpc) == (fixed, elsewhere)
    assert (apart.index, apart.grpc, apart.is_for_grpc) == (fixed, elsewhere, True)
    assert all(listener.grpc == listener.index != elsewhere for listener in others)


@pytest.mark.parametrize(
    ("url", "origin", "host"),
    [
        ("http://127.0.0.1:6333", Origin("http", "127.0.0.1:6333"), "127.0.0.1"),
        ("https://api.pinecone.io", Origin("https", "api.pinecone.io"), "api.pinecone.io"),
        ("https://api.pinecone.io:443", Origin("https", "api.pinecone.io"), "api.pinecone.io"),
        ("http://[::1]:6333", Origin("http", "[::1]:6333"), "::1"),
    ],
)
def test_an_origin_is_what_the_host_field_says(url: str, origin: Origin, host: str) -> None:
    assert Origin.of(url) == origin
    assert origin.host == host


@given(st.from_regex(r"/[\x21-\x7e]{0,30}", fullmatch=True))
def test_a_target_is_kept_as_it_is(target: str) -> None:
    """Invariant: whatever the target, it stands in the URL unchanged and the host is the origin's."""
    url = Origin("https", "idx.example.com:8443").url(target)
    assert url.raw_path == target
    assert (url.host, url.port, url.raw_query_string, url.raw_fragment) == ("idx.example.com", 8443, "", "")


def test_the_ports_of_the_api_come_last_and_are_no_data_ports() -> None:
    api = {"listen": "[::1]:9466"}
    ports = data_ports_of(Settings.model_validate({"api": api, "grpc": {"listen": "[::1]:2", "upstream": "db:6334"}}))
    assert ports[-1] == DataPort("::1", 9466, is_for_api=True, flag="--api HOST:PORT")
    assert [port.is_for_api for port in ports] == [False, False, True]
