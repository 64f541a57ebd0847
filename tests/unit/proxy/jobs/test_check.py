"""`check --connect` against a database that is dead, slow, locked, healthy, or none at all."""

from __future__ import annotations

import asyncio
import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
from qdrant_client import QdrantClient

from support.chroma import server as chroma_server
from support.network.certificates import make_certificates
from support.network.http_scripts import Script, in_a_thread
from support.network.ports import free_ports
from support.network.streams import serving
from support.pinecone.loading import KEY as PINECONE_KEY
from support.pinecone.loading import loaded
from support.process.commands import command_line
from support.qdrant import planted
from support.qdrant.embedded import start_embedded_process
from vecsieve.adapters.backends import BACKENDS
from vecsieve.config.problems import SettingsError
from vecsieve.config.schema import Settings
from vecsieve.proxy.demo.backends import chroma_server as running_chroma
from vecsieve.proxy.jobs import check
from vecsieve.proxy.jobs.check import WIRES, CheckError, connect

KEY = "c4nary-key"
Reply = Callable[[BaseHTTPRequestHandler], tuple[int, bytes]]


@contextmanager
def database(reply: Reply) -> Iterator[str]:
    class Database(Script):
        def do_GET(self) -> None:
            status, body = reply(self)
            self.answer(body, status)

        do_POST = do_GET  # noqa: N815 - the standard library finds it by this name

    with in_a_thread(Database) as url:
        yield url


def fails(url: str, *, backend: str = "qdrant", key: str | None = None, variable: str | None = None) -> str:
    environment = {} if key is None else {variable or WIRES[backend].variable: key}
    settings = Settings.model_validate({"backend": backend, "upstream": {"url": url}})
    with pytest.raises(CheckError) as caught:
        asyncio.run(connect(settings, environment, variable, lambda _: None))
    assert KEY not in str(caught.value)
    return str(caught.value)


def test_every_backend_has_its_way_to_be_asked() -> None:
    assert WIRES.keys() == BACKENDS.keys()


def test_a_dead_database_is_named_with_the_reason() -> None:
    address = f"127.0.0.1:{free_ports(1)[0]}"
    words = f"VecSieve cannot reach the database at {address}: connection refused. Is upstream.url right, and does the database run?"
    assert fails(f"http://{address}") == words


def test_a_slow_database_is_given_up_after_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check, "SECONDS", 0.2)
    over = threading.Event()

    def slow(_: BaseHTTPRequestHandler) -> tuple[int, bytes]:
        over.wait(10)
        return 200, b"{}"

    with database(slow) as url:
        try:
            assert fails(url) == f"the database at {url} did not answer within 0.2 s"
        finally:
            over.set()


def test_a_database_that_drips_its_answer_is_given_up_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check, "SECONDS", 0.3)

    async def drip(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
        while not writer.is_closing():
            writer.write(b" ")
            await asyncio.sleep(0.05)

    ready, over = threading.Event(), threading.Event()
    ports: list[int] = []

    async def serve() -> None:
        async with serving(drip) as port:
            ports.append(port)
            ready.set()
            await asyncio.to_thread(over.wait, 10)

    thread = threading.Thread(target=lambda: asyncio.run(serve()), daemon=True)
    thread.start()
    assert ready.wait(10)
    try:
        assert "did not answer within 0.3 s" in fails(f"http://127.0.0.1:{ports[0]}")
    finally:
        over.set()
        thread.join(10)


@pytest.mark.parametrize("backend", WIRES)
@pytest.mark.parametrize("status", [401, 403])
def test_a_locked_database_says_where_a_key_goes(backend: str, status: int) -> None:
    with database(lambda _: (status, b"")) as url:
        message = fails(url, backend=backend)
    assert f"requires a key (status {status}). Set the variable {WIRES[backend].variable}" in message


def test_a_refused_key_is_named_by_its_variable_and_not_shown() -> None:
    with database(lambda _: (401, b"")) as url:
        assert fails(url, key=KEY) == f"the database at {url} refused the key in QDRANT_API_KEY (status 401)"
        assert "refused the key in MY_KEY" in fails(url, key=KEY, variable="MY_KEY")


def test_a_variable_that_is_not_set_is_told_before_anything_is_sent() -> None:
    settings = Settings.model_validate({"upstream": {"url": "http://127.0.0.1:9"}})
    with pytest.raises(
        SettingsError, match=r"--api-key-env: wanted a variable that holds a key; saw .MY_KEY., which is not set"
    ):
        asyncio.run(connect(settings, {}, "MY_KEY", lambda _: None))


@pytest.mark.parametrize("backend", WIRES)
def test_the_key_is_sent_as_the_backend_takes_it(backend: str) -> None:
    seen: list[tuple[str, str | None]] = []
    name, form = WIRES[backend].header

    def reply(request: BaseHTTPRequestHandler) -> tuple[int, bytes]:
        seen.append((request.path, request.headers.get(name)))
        return 200, b'{"result": {"collections": []}, "code": 0}'

    output: list[str] = []
    with database(reply) as url:
        settings = Settings.model_validate({"backend": backend, "upstream": {"url": url}})
        asyncio.run(connect(settings, {WIRES[backend].variable: KEY}, None, output.append))
    assert seen == [(WIRES[backend].listing[1], form.format(KEY))]
    assert [line.split()[0] for line in output] == ["reach", "credentials", "search"]
    assert "not tried" in output[2]


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ((404, b"nope"), "with status 404: nope. Is it the right backend?"),
        ((500, b"a\nb"), "with status 500: a\\u000ab."),
        ((200, b"<html>"), "with something other than JSON"),
        ((200, b" " * (check.LARGEST_BYTES + 1)), "with something other than JSON"),
    ],
)
def test_an_answer_of_something_else_is_quoted(answer: tuple[int, bytes], words: str) -> None:
    with database(lambda _: answer) as url:
        assert words in fails(url)


@pytest.mark.parametrize("content", [b"[]", b'{"result": 5}', b'{"result": {"collections": [7, {}]}}', b"null"])
def test_an_odd_list_of_collections_is_no_crash(content: bytes) -> None:
    output: list[str] = []
    with database(lambda _: (200, content)) as url:
        asyncio.run(connect(Settings.model_validate({"upstream": {"url": url}}), {}, None, output.append))
    assert output[-1].endswith("there is no collection with a dense vector")


def test_a_healthy_database_answers_a_search_in_the_command(tmp_path: Path) -> None:
    with start_embedded_process() as url:
        file = tmp_path / "x.yaml"
        file.write_text(f"upstream: {url}\n")
        empty = command_line("check", "--config", str(file), "--connect")
        assert (empty.returncode, empty.stderr) == (0, "")
        assert "there is no collection with a dense vector" in empty.stdout
        client = QdrantClient(url=url, timeout=30)
        planted.load_named(client, "named")
        client.close()
        done = command_line("check", "--config", str(file), "--connect")
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    reach, credentials, search, texts = done.stdout.splitlines()
    assert reach == f"reach        {url} takes connections"
    assert credentials == "credentials  accepted, without a key"
    assert search.startswith('search       collection "named" answered in ')
    assert texts.startswith("texts        ")


def test_the_flags_of_serve_name_the_database_to_check() -> None:
    done = command_line("check", "--upstream", "http://127.0.0.1:9", "--connect")
    assert done.returncode == 1
    assert done.stderr.startswith("VecSieve cannot reach the database at 127.0.0.1:9: connection refused")
    printed = command_line("check", "--backend", "chroma", "--upstream", "http://db:8000", "--show")
    assert "backend: chroma" in printed.stdout
    assert "url: http://db:8000" in printed.stdout


def searched(backend: str, url: str, key: str | None = None) -> str:
    """The line of the search."""
    return lines_of(backend, url, key)[2]


def lines_of(backend: str, url: str, key: str | None = None) -> list[str]:
    output: list[str] = []
    settings = Settings.model_validate({"backend": backend, "upstream": {"url": url}})
    asyncio.run(connect(settings, {} if key is None else {WIRES[backend].variable: key}, None, output.append))
    return output


PASSAGE = "The valve of the pump is closed before the cover is opened, and the pressure is read twice, part {}."


@pytest.mark.parametrize(
    ("payload", "words"),
    [
        ({"text": PASSAGE}, "under text, as its first 6 points show it"),
        ({"_node_content": json.dumps({"text": PASSAGE})}, "under _node_content.text, as its first 6 points show it"),
        ({"document": "pump.pdf", "passage": PASSAGE}, "under passage, as its first 6 points show it"),
        ({"file": "secret.pdf", "my key": "secret words"}, "keys seen: file; only equal vectors are removed"),
        (None, "unknown: its first points have no payload"),
    ],
    ids=str,
)
def test_it_says_where_the_texts_are_by_their_keys_and_shows_no_value(
    payload: dict[str, str] | None, words: str
) -> None:
    points = [
        {
            "id": number,
            "vector": [1.0, float(number)],
            "payload": payload and {key: value.replace("{}", str(number)) for key, value in payload.items()},
        }
        for number in range(6)
    ]

    def reply(request: BaseHTTPRequestHandler) -> tuple[int, bytes]:
        if request.path == "/collections":
            return 200, b'{"result": {"collections": [{"name": "c"}]}}'
        return 200, json.dumps({"result": {"points": points}}).encode()

    with database(reply) as url:
        line = lines_of("qdrant", url)[-1]
    assert line.startswith("texts        ")
    assert words in line
    assert "secret" not in line


@chroma_server.NEEDS_CHROMA
def test_a_real_chroma_is_searched() -> None:
    with running_chroma() as url:
        chroma_server.create(url, "empty")
        assert searched("chroma", url).endswith("there is no collection with a dense vector")
        chroma_server.create(url, "filled")
        chroma_server.add(url, "filled", chroma_server.records(1, "l2"))
        assert searched("chroma", url).startswith('search       collection "filled" answered in ')


def test_an_emulated_pinecone_is_searched_at_the_host_of_its_index() -> None:
    record = {"id": "a", "values": [1.0, 0.5]}
    created = {"dimension": 2, "metric": "cosine"}
    plan = {"empty": {"created": created, "records": {}}, "full": {"created": created, "records": {"": [record]}}}
    with loaded({"indexes": plan}) as url:
        assert searched("pinecone", url, PINECONE_KEY).startswith('search       collection "full" answered in ')


MILVUS: dict[str, dict[str, Any]] = {
    "collections/list": {"data": ["sparse", "docs"]},
    "collections/describe": {
        "data": {"fields": [{"name": "id", "type": "Int64"}, {"name": "v", "type": "FloatVector"}]}
    },
    "entities/query": {"data": [{"id": 1, "v": [0.5, 0.25]}]},
    "entities/search": {"data": [{"id": 1, "distance": 1.0}]},
}


def content_of(request: BaseHTTPRequestHandler) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(request.rfile.read(int(request.headers["Content-Length"])))
    return content


def test_milvus_is_searched_by_a_stored_vector_of_its_first_dense_field() -> None:
    seen: list[tuple[str, dict[str, Any]]] = []

    def reply(request: BaseHTTPRequestHandler) -> tuple[int, bytes]:
        path, body = request.path.removeprefix("/v2/vectordb/"), content_of(request)
        seen.append((path, body))
        answer = MILVUS[path]
        if body.get("collectionName") == "sparse":
            answer = {"data": {"fields": [{"name": "s", "type": "SparseFloatVector"}]}}
        return 200, json.dumps({"code": 0, **answer}).encode()

    with database(reply) as url:
        assert searched("milvus", url).startswith('search       collection "docs" answered in ')
    assert seen[-2:] == [
        (
            "entities/search",
            {"collectionName": "docs", "data": [[0.5, 0.25]], "annsField": "v", "limit": 1},
        ),
        ("entities/query", {"collectionName": "docs", "filter": "", "limit": 10, "outputFields": ["id"]}),
    ]


@pytest.mark.parametrize(
    ("backend", "kind", "search"),
    [
        ("opensearch", "knn_vector", {"query": {"knn": {"v": {"vector": [0.5, 1.0], "k": 1}}}}),
        (
            "elasticsearch",
            "dense_vector",
            {"knn": {"field": "v", "query_vector": [0.5, 1.0], "k": 1, "num_candidates": 10}},
        ),
    ],
)
def test_search_engines_are_searched_by_a_stored_vector_of_the_first_index_that_has_one(
    backend: str, kind: str, search: dict[str, Any]
) -> None:
    seen: list[tuple[str, dict[str, Any]]] = []
    mappings = {
        "logs": {"mappings": {"properties": {"line": {"type": "text"}}}},
        "bare": {"mappings": {}},
        "empty": {"mappings": {"properties": {"v": {"type": kind}}}},
        "docs": {"mappings": {"properties": {"text": {"type": "text"}, "v": {"type": kind}}}},
    }

    def reply(request: BaseHTTPRequestHandler) -> tuple[int, bytes]:
        if request.command == "GET":
            assert request.headers["Authorization"] in {"Basic x", "ApiKey Basic x"}
            return 200, json.dumps(mappings).encode()
        seen.append((request.path, content_of(request)))
        hit = {"_source": {"text": PASSAGE}, "fields": {"v": [0.5, 1.0]}}
        hits = [] if request.path == "/empty/_search" else [hit]
        return 200, json.dumps({"hits": {"hits": hits}}).encode()

    with database(reply) as url:
        lines = lines_of(backend, url, "Basic x")
    assert lines[2].startswith('search       collection "docs" answered in ')
    assert "under text" in lines[3]
    some = {"size": 10, "fields": ["v"]}
    assert seen == [("/empty/_search", some), ("/docs/_search", some), ("/docs/_search", {"size": 1, **search})]


def test_a_code_of_milvus_is_a_refusal_although_the_status_is_200() -> None:
    def reply(request: BaseHTTPRequestHandler) -> tuple[int, bytes]:
        path = request.path.removeprefix("/v2/vectordb/")
        code = 106 if path == "entities/search" else 0
        return 200, json.dumps({"code": code, "message": "collection not loaded", **MILVUS[path]}).encode()

    with database(reply) as url:
        assert "refused entities/search with code 106: collection not loaded" in fails(url, backend="milvus")


@pytest.mark.parametrize("tenants", [True, False])
def test_weaviate_is_searched_where_no_tenant_must_be_known(tenants: bool) -> None:
    queries: list[str] = []
    schema = {
        "classes": [
            {"class": "Docs(x", "vectorizer": "none"},
            {"class": "Docs", "multiTenancyConfig": {"enabled": tenants}},
        ]
    }
    row = {"_additional": {"vector": [0.5, 0.25], "id": "x"}}

    def reply(request: BaseHTTPRequestHandler) -> tuple[int, bytes]:
        if request.path == "/v1/schema":
            return 200, json.dumps(schema).encode()
        queries.append(content_of(request)["query"])
        return 200, json.dumps({"data": {"Get": {"Docs": [row]}}}).encode()

    with database(reply) as url:
        output = searched("weaviate", url)
    if tenants:
        assert output.endswith("there is no collection with a dense vector")
        assert queries == []
    else:
        assert output.startswith('search       collection "Docs" answered in ')
        assert "nearVector: {vector: [0.5, 0.25]}" in queries[-2]


def test_errors_of_graphql_are_a_refusal_although_the_status_is_200() -> None:
    def reply(request: BaseHTTPRequestHandler) -> tuple[int, bytes]:
        if request.path == "/v1/schema":
            return 200, b'{"classes": [{"class": "Docs"}]}'
        return 200, b'{"errors": [{"message": "no\\nsuch thing"}]}'

    with database(reply) as url:
        assert "refused a search in Docs: no" in fails(url, backend="weaviate")


def test_a_failed_attempt_is_one_line_and_exit_1(tmp_path: Path) -> None:
    file = tmp_path / "x.yaml"
    file.write_text(json.dumps({"upstream": "http://127.0.0.1:9"}))
    done = command_line("check", "--config", str(file), "--connect")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("VecSieve cannot reach the database at 127.0.0.1:9: connection refused")


# For each file that a setting may name: the other settings that it needs, and what should be there.
FILES: dict[str, tuple[dict[str, Any], str]] = {
    "tls.certificate": (
        {"tls": {"key": "absent.key"}},
        "a readable PEM file with the certificate, its issuers after it",
    ),
    "upstream.ca_file": ({"upstream": {"url": "https://db"}}, "a readable PEM file with certificates of authorities"),
    "upstream.client_certificate": (
        {"upstream": {"url": "https://db", "client_key": "absent.key"}},
        "a readable PEM file with the certificate, its issuers after it",
    ),
    "tracing.headers_file": (
        {"tracing": {"endpoint": "http://collector:4318"}},
        "a readable file with one `name: value` per line",
    ),
    "sessions.password_file": ({"sessions": {"url": "redis://db"}}, "a readable file with a password"),
    "explain.token_file": ({}, "a readable file with a token"),
    "api.token_file": ({"api": {"listen": "0.0.0.0:9466"}}, "a readable file with a token"),
    "webhook.secret_file": ({"webhook": {"url": "https://receiver"}}, "a readable file with a token"),
}


@pytest.mark.parametrize("setting", FILES)
def test_a_file_that_is_not_there_is_named_with_its_setting(setting: str, tmp_path: Path) -> None:
    settings, expected = FILES[setting]
    section, name = setting.split(".")
    file, absent = tmp_path / "x.yaml", tmp_path / "absent.pem"
    file.write_text(json.dumps({**settings, section: {**settings.get(section, {}), name: str(absent)}}))
    done = command_line("check", "--config", str(file))
    (line,) = done.stderr.splitlines()
    assert done.returncode == 2
    assert line.startswith(f"{setting}: wanted {expected}; saw "), line
    assert str(absent) in line


def test_a_missing_key_is_reported_beside_other_missing_files(tmp_path: Path) -> None:
    made, file, absent = make_certificates(tmp_path), tmp_path / "x.yaml", tmp_path / "absent"
    tls = {"certificate": str(made.leaf), "key": str(absent)}
    file.write_text(json.dumps({"tls": tls, "explain": {"token_file": str(absent)}}))
    done = command_line("check", "--config", str(file))
    assert done.stderr.splitlines() == [
        f"tls.key: wanted a readable PEM file with the certificate's private key; saw {absent}: No such file or directory",
        f"explain.token_file: wanted a readable file with a token; saw {absent}: no such file or directory",
    ]


@pytest.mark.parametrize(("folder", "has_warning"), [("there", False), ("absent", True)])
def test_a_journal_whose_folder_does_not_exist_is_no_journal(tmp_path: Path, folder: str, has_warning: bool) -> None:
    (tmp_path / "there").mkdir()
    file, journal = tmp_path / "x.yaml", tmp_path / folder / "journal.db"
    file.write_text(json.dumps({"journal": {"path": str(journal)}}))
    done = command_line("check", "--config", str(file))
    line = f"journal      {journal}: no such folder, so `serve` would pass every write that skip, merge or reject should change\n"
    assert (done.returncode, done.stderr) == (0, line if has_warning else "")
    assert not journal.exists()


@pytest.mark.parametrize(("least", "is_reported"), [(0.0, True), (60.0, False)])
def test_what_is_slow_to_read_is_told_in_a_line_each(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    least: float,
    *,
    is_reported: bool,
) -> None:
    monkeypatch.setattr(check, "SLOW_SECONDS", least)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "profiles").mkdir()
    settings = tmp_path / "settings.yaml"
    rules = "".join(f"  - {{collection: c{number}, policy: {{mode: off}}}}\n" for number in range(3))
    settings.write_text(f"profiles: {{directory: profiles}}\nrules:\n{rules}")
    given: dict[str, Any] = dict.fromkeys(("backend", "upstream", "api_key_env"))
    assert check.run(check.Arguments(config=settings, **given)) == 0
    lines = re.sub(r"took \d+\.\d s", "took 1.0 s", capsys.readouterr().err).splitlines()
    expected = [
        "slow         the settings took 1.0 s to read, 3 rules",
        "slow         the profiles in profiles took 1.0 s to read",
    ]
    assert lines == (expected if is_reported else [])
