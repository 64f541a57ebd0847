"""`vecsieve check`: checks the settings; with --connect also that the database is reachable, accepts the credentials and answers a search; with
--watch prints the verdict of a VecSieve that runs in mode shadow until it is go or no-go.

Reads only. Each request has one deadline for everything. The search is for a stored point of the first collection that has one.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, NamedTuple, TypeVar
from urllib.parse import quote

import typer

from vecsieve.config.addresses import parse_address
from vecsieve.config.backends import DEFAULT_BACKEND, DOCUMENT_TEXT
from vecsieve.config.fields import schema_text
from vecsieve.config.load import load
from vecsieve.config.problems import one_line
from vecsieve.config.schema import Settings
from vecsieve.config.yaml_core import effective

from ..http.upstream import Upstream
from ..process import talk
from ..process.files import read_files
from ..runtime.addresses import Origin
from ..runtime.files import NoAnswerError, exchanged, key_from
from ..search.collections.paths import judged, strings_of
from ..search.collections.profiles import Profiles
from ..search.collections.texts import readable_keys
from ..search.errors import FailureKind, LostReplyError, UpstreamExchangeError
from ..search.policy import Policies, Rules
from ..telemetry.verdict import Decision

T = TypeVar("T")

SECONDS = 5.0  # seconds for a request and its answer
LARGEST_BYTES = 4 * 1024 * 1024
SLOW_SECONDS = 1.0
POINTS = 10  # whose payloads show where the texts are
WATCH_SECONDS = 2.0
LONGEST_WORDS = 1_000  # characters of a sentence of the verdict
BROKEN_OFF = "Is it the port for REST, is its URL https://…, does it require a client's certificate (upstream.client_certificate)?"


@dataclass(frozen=True, slots=True)
class Wire:
    """How a database is asked. ``variable``: the usual variable with its key. ``header``: the one that carries it; ``{}`` is the key.

    ``listing``: method and path of a read that needs a key if keys are used. ``search``: searches one of the listed collections, and
    returns which with some of its payloads; None if none has a stored vector.
    """

    variable: str
    header: tuple[str, str]
    listing: tuple[str, str]
    search: Callable[[_Database, object], Awaitable[_Searched | None]]
    headers: tuple[tuple[str, str], ...] = ()

    def fields(self, key: str | None) -> dict[str, str]:
        """The header of a request."""
        name, form = self.header
        return {**dict(self.headers), **({} if key is None else {name: form.format(key)})}


class _Searched(NamedTuple):
    """A collection that answered a search, and payloads of its first points."""

    collection: str
    payloads: list[object]


class CheckError(Exception):
    """Why the database cannot be used with these settings, in one sentence that shows no key."""


@dataclass(frozen=True, slots=True)
class _Database:
    """``key``: None if the environment has none."""

    upstream: Upstream
    settings: Settings
    wire: Wire
    variable: str
    key: str | None

    async def json(self, method: str, path: str, body: object = None, *, base: str | None = None) -> object:
        """The answer's JSON. ``base``: the URL of another server of the same database. Raises CheckError."""
        where = f"the database at {base or self.settings.upstream.url}"
        status, content = await self._answer(method, path, {} if body is None and method == "POST" else body, base)
        if status in {401, 403}:
            raise CheckError(self._refused(where, status))
        if status != 200:
            hint = " Is it the right backend?" if status == 404 else ""
            words = one_line(content.decode("utf-8", "replace")) or "nothing"
            raise CheckError(f"{where} answered {method} {path} with status {status}: {words}.{hint}")
        try:
            return json.loads(content)
        except ValueError:
            raise CheckError(f"{where} answered {method} {path} with something other than JSON") from None

    async def _answer(self, method: str, path: str, body: object, base: str | None) -> tuple[int, bytes]:
        """The status and the body, which is empty if it is too large. Raises CheckError."""
        content = b"" if body is None else json.dumps(body).encode()
        fields = {"content-type": "application/json", "accept-encoding": "identity", **self.wire.fields(self.key)}
        try:
            reply = await self.upstream.open(
                method=method,
                raw_target=path if base is not None else self.settings.upstream.prefix + path,
                headers=[(name.encode(), value.encode("utf-8", "surrogateescape")) for name, value in fields.items()],
                body=content or None,
                content_length=len(content) if content else None,
                deadline_seconds=SECONDS,
                origin=None if base is None else Origin.of(base),
            )
            try:
                return reply.status, await reply.read_bounded(LARGEST_BYTES)
            finally:
                await reply.close()
        except LostReplyError:
            return reply.status, b""
        except UpstreamExchangeError as failure:
            if failure.kind is FailureKind.TIMEOUT:
                where = base or self.settings.upstream.url
                raise CheckError(f"the database at {where} did not answer within {SECONDS:g} s") from None
            hint = f". {BROKEN_OFF}" if failure.kind in {FailureKind.RESET, FailureKind.TRUNCATED} else ""
            raise CheckError(f"{failure.cause}{hint}") from None

    def _refused(self, where: str, status: int) -> str:
        if self.key is None:
            return (
                f"{where} requires a key (status {status}). Set the variable {self.variable}, or name another "
                "variable with --api-key-env; clients send their own through VecSieve"
            )
        return f"{where} refused the key in {self.variable} (status {status})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Arguments:
    """The options of `check`."""

    config: Annotated[Path | None, typer.Option(help="Settings file (YAML).", show_default=False)] = None
    backend: Annotated[str | None, typer.Option(help="Backend dialect.", show_default=DEFAULT_BACKEND)] = None
    upstream: Annotated[
        str | None,
        typer.Option(help="The database's URL; Pinecone: the control plane's.", show_default="the backend's own"),
    ] = None
    connect: Annotated[
        bool, typer.Option("--connect", help="Reach the database, try the credentials and a search; reads only.")
    ] = False
    watch: Annotated[
        bool,
        typer.Option(
            "--watch", help="Print whether mode on pays, as the VecSieve in mode shadow on `admin` measures it."
        ),
    ] = False
    show: Annotated[bool, typer.Option("--show", help="Print every setting in force, secrets masked.")] = False
    schema: Annotated[bool, typer.Option("--schema", help="Print the JSON Schema of settings files, for editors.")] = (
        False
    )
    api_key_env: Annotated[
        str | None, typer.Option(help="Variable with the key for --connect.", show_default="QDRANT_API_KEY and such")
    ] = None


def run(arguments: Arguments) -> int:
    """The exit code. Raises SettingsError for settings that are not valid."""
    if arguments.schema:
        typer.echo(schema_text())
        return 0
    flags = {"backend": arguments.backend, "upstream.url": arguments.upstream}
    settings = _timed("the settings", lambda: _read(arguments.config, flags))
    if settings.profiles.directory is not None:
        profiles = Profiles(Path(settings.profiles.directory))
        _timed(f"the profiles in {settings.profiles.directory}", profiles.reload_if_changed)
    if (journal := settings.journal.path) is not None and not Path(journal).parent.is_dir():
        unused = "no such folder, so `serve` would pass every write that skip, merge or reject should change"
        typer.echo(f"journal      {one_line(journal, LONGEST_WORDS)}: {unused}", err=True)
    if arguments.show:
        typer.echo(effective(settings), nl=False)
    try:
        if arguments.connect:
            asyncio.run(connect(settings, os.environ, arguments.api_key_env, typer.echo))
        if arguments.watch:
            asyncio.run(watch(settings, typer.echo))
    except CheckError as error:
        typer.echo(str(error), err=True)
        return 1
    if not (arguments.connect or arguments.watch or arguments.show):
        typer.echo("The settings are valid. --show prints them all, --connect tries the database.")
    return 0


def _read(config: Path | None, flags: Mapping[str, object]) -> Settings:
    """As `serve` does, and each reload. Raises SettingsError."""
    settings = load(file=config, environment=os.environ, flags=flags)
    read_files(settings)
    Rules.of(settings)
    return settings


def _timed(what: str, read: Callable[[], T]) -> T:
    """The result; one line where it takes long, since `serve` and each reload take as long."""
    started = time.monotonic()
    result = read()
    if (took := time.monotonic() - started) >= SLOW_SECONDS:
        count = f", {len(result.rules)} rules" if isinstance(result, Settings) else ""
        typer.echo(f"slow         {one_line(what)} took {took:.1f} s to read{count}", err=True)
    return result


async def connect(
    settings: Settings, environment: Mapping[str, str], variable: str | None, say: Callable[[str], None]
) -> None:
    """Print each step that succeeded. ``variable``: the key's, None for the usual one. Raises CheckError."""
    wire = WIRES[settings.backend]
    name = variable or wire.variable
    key = key_from(environment, variable, usual=wire.variable)
    fault = await talk.fault_of(settings.upstream)
    if fault is not None:
        raise CheckError(talk.advised(fault))
    say(f"reach        {settings.upstream.url} takes connections")
    upstream = Upstream(settings.upstream)
    try:
        database = _Database(upstream, settings, wire, name, key)
        listed = await database.json(*wire.listing)
        say(f"credentials  accepted, {f'the key in {name}' if key else 'without a key'}")
        started = time.monotonic()
        searched = await wire.search(database, listed)
        if searched is None:
            say("search       not tried: there is no collection with a dense vector")
            return
        took = (time.monotonic() - started) * 1000
        say(f"search       collection {one_line(json.dumps(searched.collection))} answered in {took:.0f} ms")
        say(f"texts        {_texts(settings, searched)}")
    finally:
        await upstream.close()


async def watch(settings: Settings, say: Callable[[str], None], *, every_seconds: float = WATCH_SECONDS) -> None:
    """Print each new sentence of the verdict, and its figures when it is go or no-go. Raises CheckError."""
    admin = parse_address(settings.admin)
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(admin.host, admin.host)  # noqa: S104 - nothing is bound
    url = f"http://{f'[{host}]' if ':' in host else host}:{admin.port}/status"
    printed = None
    while True:
        status = await _status(url)
        if (mode := _member(status, "mode")) in {"on", "off"}:
            raise CheckError(f"the VecSieve at {url} runs in mode {mode}; its mode shadow measures the verdict")
        verdict = _member(status, "verdict")
        sentence = one_line(
            str(_member(verdict, "sentence") or "Not enough yet: no search is measured."), LONGEST_WORDS
        )
        if sentence != printed:
            say(f"verdict      {sentence}")
            printed = sentence
        if _member(verdict, "figures", "decision") in {Decision.GO, Decision.NO_GO}:
            for name, words in _pairs(_member(verdict, "details")):
                say(f"{name:<22} {words}")
            return
        await asyncio.sleep(every_seconds)


async def _status(url: str) -> object:
    """Raises CheckError."""
    try:
        return json.loads((await exchanged("GET", url, seconds=SECONDS, most_bytes=LARGEST_BYTES))[1])
    except (NoAnswerError, ValueError):
        raise CheckError(
            f"no VecSieve answers at {url}: start `vecsieve serve --mode shadow`, or correct admin"
        ) from None


def _pairs(details: object) -> list[tuple[str, str]]:
    rows = [row for row in details if isinstance(row, list) and len(row) == 2] if isinstance(details, list) else []
    return [(one_line(str(name)), one_line(str(words), LONGEST_WORDS)) for name, words in rows]


def _texts(settings: Settings, searched: _Searched) -> str:
    """Where the texts of the collection are, as its first points show it. Names of keys only, never values."""
    policy = Policies(settings).resolve(settings.backend, searched.collection)
    payloads = [strings_of(payload) for payload in searched.payloads if isinstance(payload, dict)]
    if not (policy.text_fields or policy.guesses):
        return "not read, as the policy says"
    if not payloads:
        return "unknown: its first points have no payload"
    paths = (*policy.text_fields, *judged(payloads, None).paths)
    if paths:
        return f"under {', '.join(map(one_line, paths))}, as its first {len(payloads)} points show it"
    keys = readable_keys(dict.fromkeys(key for payload in payloads for key in payload))
    return (
        f"none found in its first {len(payloads)} points, keys seen: {', '.join(keys) or 'none'}; only equal vectors are removed. "
        "policy.text_fields can name the text"
    )


async def _in_qdrant(database: _Database, listed: object) -> _Searched | None:
    for collection in _members(listed, "result", "collections"):
        name = _member(collection, "name")
        path = f"/collections/{quote(str(name), safe='')}/points"
        stored = await database.json("POST", f"{path}/scroll", {"limit": 1, "with_vector": True})
        question = _question(_members(stored, "result", "points"))
        if question is not None:
            await database.json("POST", f"{path}/query", question)
            some = await database.json("POST", f"{path}/scroll", {"limit": POINTS, "with_payload": True})
            return _Searched(str(name), [_member(member, "payload") for member in _members(some, "result", "points")])
    return None


def _question(points: list[object]) -> dict[str, object] | None:
    """A search by a vector of the first point; None if it has no dense vector."""
    vectors = _member(points[0], "vector") if points else None
    named = vectors if isinstance(vectors, dict) else {"": vectors}
    for name, vector in named.items():
        if isinstance(vector, list) and vector and not isinstance(vector[0], list):
            return {"query": vector, "limit": 1, **({"using": name} if name else {})}
    return None


async def _in_chroma(database: _Database, listed: object) -> _Searched | None:
    for collection in listed if isinstance(listed, list) else []:
        path = f"{CHROMA}/{quote(str(_member(collection, 'id')), safe='')}"
        stored = await database.json("POST", f"{path}/get", {"limit": 1, "include": ["embeddings"]})
        vectors = _members(stored, "embeddings")
        if vectors:
            await database.json("POST", f"{path}/query", {"query_embeddings": vectors, "n_results": 1, "include": []})
            some = await database.json("POST", f"{path}/get", {"limit": POINTS, "include": ["documents", "metadatas"]})
            pairs = zip(_members(some, "metadatas"), _members(some, "documents"), strict=False)
            return _Searched(
                str(_member(collection, "name")),
                [{DOCUMENT_TEXT: text, **(metadata if isinstance(metadata, dict) else {})} for metadata, text in pairs],
            )
    return None


async def _in_milvus(database: _Database, listed: object) -> _Searched | None:
    for name in _members(listed, "data"):
        about = await _of_milvus(database, "collections/describe", {"collectionName": name})
        fields = [member for member in _members(about, "data", "fields") if _member(member, "type") == "FloatVector"]
        if not fields:
            continue
        field = _member(fields[0], "name")
        one = {"collectionName": name, "filter": "", "limit": 1, "outputFields": [field]}
        rows = _members(await _of_milvus(database, "entities/query", one), "data")
        vector = _member(rows[0], str(field)) if rows else None
        if vector is not None:
            question = {"collectionName": name, "data": [vector], "annsField": field, "limit": 1}
            await _of_milvus(database, "entities/search", question)
            names = [str(_member(member, "name")) for member in _members(about, "data", "fields")]
            plain = [name for name in names if name != field]
            some = {"collectionName": name, "filter": "", "limit": POINTS, "outputFields": plain}
            return _Searched(str(name), _members(await _of_milvus(database, "entities/query", some), "data"))
    return None


async def _of_milvus(database: _Database, path: str, body: object) -> object:
    """Milvus refuses with status 200 and a code. Raises CheckError."""
    answer = await database.json("POST", f"/v2/vectordb/{path}", body)
    if (code := _member(answer, "code")) != 0:
        words = one_line(str(_member(answer, "message")))
        raise CheckError(f"the database at {database.settings.upstream.url} refused {path} with code {code}: {words}")
    return answer


async def _in_pinecone(database: _Database, listed: object) -> _Searched | None:
    """By a stored id, so that the vector itself is not transferred. An index has its own host."""
    for index in _members(listed, "indexes"):
        host = _member(index, "host")
        if not isinstance(host, str) or _member(index, "vector_type") == "sparse":
            continue
        base = host if "://" in host else f"https://{host}"
        vectors = _members(await database.json("GET", "/vectors/list?limit=1", base=base), "vectors")
        if vectors:
            some = {"id": _member(vectors[0], "id"), "topK": POINTS, "includeMetadata": True}
            near = _members(await database.json("POST", "/query", some, base=base), "matches")
            return _Searched(str(_member(index, "name")), [_member(match, "metadata") for match in near])
    return None


async def _in_weaviate(database: _Database, listed: object) -> _Searched | None:
    for member in _members(listed, "classes"):
        name = str(_member(member, "class"))
        if _CLASS.fullmatch(name) is None or _member(member, "multiTenancyConfig", "enabled"):
            continue  # the tenant would have to be known
        rows = await _of_weaviate(database, name, "limit: 1", "vector")
        vector = _member(rows[0], "_additional", "vector") if rows else None
        if isinstance(vector, list) and vector:
            near = json.dumps([float(number) for number in vector])
            await _of_weaviate(database, name, f"limit: 1, nearVector: {{vector: {near}}}", "id")
            texts = [str(_member(prop, "name")) for prop in _members(member, "properties") if _is_text(prop)]
            some = await _of_weaviate(database, name, f"limit: {POINTS}", "id", " ".join(texts))
            return _Searched(name, [{text: _member(row, text) for text in texts} for row in some])
    return None


def _is_text(described: object) -> bool:
    """Whether a property is a text, with a name that GraphQL does not interpret."""
    name = _member(described, "name")
    return (
        _members(described, "dataType") == ["text"] and isinstance(name, str) and _PROPERTY.fullmatch(name) is not None
    )


async def _of_weaviate(
    database: _Database, name: str, arguments: str, additional: str, properties: str = ""
) -> list[object]:
    """GraphQL refuses with status 200 and errors. Raises CheckError."""
    query = f"{{ Get {{ {name}({arguments}) {{ {properties} _additional {{ {additional} }} }} }} }}"
    answer = await database.json("POST", "/v1/graphql", {"query": query})
    if errors := _members(answer, "errors"):
        words = one_line(str(_member(errors[0], "message")))
        raise CheckError(f"the database at {database.settings.upstream.url} refused a search in {name}: {words}")
    return _members(answer, "data", "Get", name)


async def _in_search_engine(database: _Database, listed: object) -> _Searched | None:
    """OpenSearch and Elasticsearch name the field's type and its search differently."""
    for index, about in listed.items() if isinstance(listed, dict) else ():
        types = _member(about, "mappings", "properties")
        for field, described in types.items() if isinstance(types, dict) else ():
            kind, path = _member(described, "type"), f"/{quote(str(index), safe='')}/_search"
            if kind not in {"knn_vector", "dense_vector"}:
                continue
            some = await database.json("POST", path, {"size": POINTS, "fields": [field]})
            vectors = [_members(hit, "fields", str(field)) for hit in _members(some, "hits", "hits")]
            vector = next(filter(None, vectors), None)
            if vector is not None:
                named = {"field": field, "query_vector": vector, "k": 1, "num_candidates": 10}
                query = {"query": {"knn": {field: {"vector": vector, "k": 1}}}}
                await database.json("POST", path, {"size": 1, **(query if kind == "knn_vector" else {"knn": named})})
                return _Searched(str(index), [_member(hit, "_source") for hit in _members(some, "hits", "hits")])
    return None


def _member(tree: object, *path: str) -> object:
    """The value at a path of keys; None if there is none."""
    for key in path:
        tree = tree.get(key) if isinstance(tree, dict) else None
    return tree


def _members(tree: object, *path: str) -> list[object]:
    values = _member(tree, *path)
    return values if isinstance(values, list) else []


CHROMA = "/api/v2/tenants/default_tenant/databases/default_database/collections"
_PROPERTY = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_CLASS = re.compile(r"[A-Z][A-Za-z0-9_]*")  # otherwise it would be interpreted as GraphQL

_MAPPINGS = ("GET", "/_mapping?filter_path=*.mappings.properties.*.type")
WIRES: Mapping[str, Wire] = {
    "qdrant": Wire("QDRANT_API_KEY", ("api-key", "{}"), ("GET", "/collections"), _in_qdrant),
    "pinecone": Wire(
        "PINECONE_API_KEY",
        ("Api-Key", "{}"),
        ("GET", "/indexes"),
        _in_pinecone,
        (("X-Pinecone-Api-Version", "2025-10"),),
    ),
    "chroma": Wire("CHROMA_API_KEY", ("x-chroma-token", "{}"), ("GET", CHROMA), _in_chroma),
    "milvus": Wire(
        "MILVUS_TOKEN", ("Authorization", "Bearer {}"), ("POST", "/v2/vectordb/collections/list"), _in_milvus
    ),
    "weaviate": Wire("WEAVIATE_API_KEY", ("Authorization", "Bearer {}"), ("GET", "/v1/schema"), _in_weaviate),
    # The whole field: Basic, Bearer or ApiKey with its credentials.
    "opensearch": Wire("OPENSEARCH_AUTHORIZATION", ("Authorization", "{}"), _MAPPINGS, _in_search_engine),
    "elasticsearch": Wire("ELASTICSEARCH_API_KEY", ("Authorization", "ApiKey {}"), _MAPPINGS, _in_search_engine),
}
