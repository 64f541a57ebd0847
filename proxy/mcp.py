"""`vecsieve mcp`: tools for language models over the Model Context Protocol, with the official package (extra `mcp`). The transport is
standard input and output, or streamable HTTP. No tool writes to a database.

optimize  the same as `/v1/optimize`
search    a vector search through VecSieve or in the database
analyze   the same as `vecsieve analyze`
explain   the last searches of a running VecSieve, from its admin port

HTTP without a token works only on loopback, where the package refuses requests with a foreign Host header.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from io import TextIOWrapper
from threading import Thread
from typing import Annotated, Any

import msgspec
import numpy as np
import orjson
import typer
from msgspec import Meta, Struct

from vecsieve.config.addresses import Address, parse_address
from vecsieve.config.backends import DEFAULT_BACKEND
from vecsieve.config.problems import Problem, SettingsError, masked
from vecsieve.config.schema import Settings

from .admin.access import has_token, token_in
from .api.messages import OptimizeRequest, optimizing
from .api.problems import ProblemError, decoded
from .api.routes import schema_of
from .jobs.analyze.run import AnalyzeOptions, analyze
from .jobs.databases import BackendOption, KeyOption, SourceOptions, opened
from .jobs.embeddings import Embeddings
from .jobs.pages import as_json
from .jobs.source import SourceError
from .runtime.addresses import binding
from .runtime.files import NoAnswerError, exchanged, key_from
from .search.context.tokens import tokenizer

ADMIN_SECONDS = 5.0
# Of a whole call: official clients repeat a late request for minutes, and clients of the protocol usually wait for one minute.
SEARCH_SECONDS = 50.0
# The largest analysis, 100,000 points of Pinecone at 20 requests a second, takes 92 minutes.
ANALYZE_SECONDS = 7200.0
MOST_CALLS = 16  # calls to the database at once
LARGEST_BYTES = 16 * 1024 * 1024
MOST_RESULTS = 100


class ToolError(Exception):
    """The error of a tool, as text for the model. The text contains no secret."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """The servers that the tools use. ``url``: a data port of VecSieve, or the database. ``admin``: the URL of VecSieve's admin port.
    ``admin_token``: the bearer token for it. ``environment``: contains the key of the database. ``embeddings``: None: searches by vectors alone.
    """

    backend: str
    url: str
    admin: str
    admin_token: str | None
    tokenizer: str | None
    api_key_env: str | None
    environment: Mapping[str, str]
    embeddings: Embeddings | None = None

    @property
    def access(self) -> dict[str, Any]:
        """The options of a job that name the database."""
        return {"backend": self.backend, "url": self.url, "api_key_env": self.api_key_env}


class SearchArguments(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A vector search."""

    collection: str
    query: (
        Annotated[
            str, Meta(max_length=100_000, description="The query in words; needs --embeddings. Instead of `vector`.")
        ]
        | None
    ) = None
    vector: (
        Annotated[list[float], Meta(min_length=1, max_length=65_536, description="The embedding of the query.")] | None
    ) = None
    top_k: Annotated[int, Meta(ge=1, le=MOST_RESULTS)] = 8
    vector_name: Annotated[str | None, Meta(description="Which named vector; not needed when there is one.")] = None


class AnalyzeArguments(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The collection to analyze."""

    collection: str
    vector_name: Annotated[str | None, Meta(description="Which named vector; not needed when there is one.")] = None
    text_field: Annotated[str | None, Meta(description="Payload field with the text; dots for a path.")] = None
    points: Annotated[int, Meta(ge=2, le=100_000, description="Number of points to examine, evenly spread.")] = 2000


class ExplainArguments(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The searches to show."""

    collection: Annotated[str | None, Meta(description="Only searches of this collection.")] = None
    count: Annotated[int, Meta(ge=1, le=50, description="Number of searches, newest first.")] = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """``takes``: type of the arguments. ``call``: returns the reply as JSON. It raises ToolError, ProblemError."""

    name: str
    description: str
    takes: type[Struct]
    call: Callable[[bytes], Awaitable[bytes]]


class DatabaseCalls:
    """Runs the calls to the database, with one deadline each.

    Official clients block, and cannot be interrupted: a late call is answered, and its thread is left behind until the client gives up. The
    threads are daemons, so that they do not delay the end of the process.
    """

    def __init__(self, places: Places) -> None:
        self._places = places
        self._room = asyncio.Semaphore(MOST_CALLS)

    async def run(self, work: Callable[[Places, bytes], bytes], body: bytes, *, seconds: float) -> bytes:
        """Raises ToolError, ProblemError."""
        awaited = f"one of {MOST_CALLS} earlier calls to it to end"
        try:
            async with asyncio.timeout(seconds):
                await self._room.acquire()
                awaited = "its reply"
                reply: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
                Thread(target=self._run, args=(partial(work, self._places, body), reply), daemon=True).start()
                return await reply
        except TimeoutError:
            url = masked(self._places.url)
            raise ToolError(f"{url}: waited {seconds:g} seconds for {awaited}; is the database overloaded?") from None

    def _run(self, work: Callable[[], bytes], reply: asyncio.Future[bytes]) -> None:
        result: bytes | ToolError | ProblemError = ToolError("the call failed; standard error shows where")
        try:
            result = work()
        except (ToolError, ProblemError) as error:
            result = error
        finally:
            with suppress(RuntimeError):  # the loop is closed
                reply.get_loop().call_soon_threadsafe(self._ended, reply, result)

    def _ended(self, reply: asyncio.Future[bytes], result: bytes | ToolError | ProblemError) -> None:
        self._room.release()
        if reply.done():
            return  # too late, or the client cancelled the call
        if isinstance(result, bytes):
            reply.set_result(result)
        else:
            reply.set_exception(result)


def tools_of(places: Places) -> tuple[Tool, ...]:
    """Raises SettingsError if the tokenizer is not available."""
    optimize = optimizing(tokenizer(places.tokenizer, setting="--tokenizer"))
    database = DatabaseCalls(places)
    return (
        Tool(
            name="optimize",
            description="Remove text chunks that other chunks say already, select diverse ones and fit them into a token budget.",
            takes=OptimizeRequest,
            call=lambda body: asyncio.to_thread(optimize, body),
        ),
        Tool(
            name="search",
            description="Search a collection by words or by a vector. Through VecSieve no result repeats another.",
            takes=SearchArguments,
            call=partial(_search_tool, places, database),
        ),
        Tool(
            name="analyze",
            description="Report the repeats in a collection: how many points say nothing that another does not, families, sources. Read-only.",
            takes=AnalyzeArguments,
            call=lambda body: database.run(_analyze, body, seconds=ANALYZE_SECONDS),
        ),
        Tool(
            name="explain",
            description="Show the last searches of a running VecSieve: which results were removed, and why.",
            takes=ExplainArguments,
            call=partial(_explain, places),
        ),
    )


_SEARCH = msgspec.json.Decoder(SearchArguments)
_ANALYZE = msgspec.json.Decoder(AnalyzeArguments)
_EXPLAIN = msgspec.json.Decoder(ExplainArguments)


async def _search_tool(places: Places, database: DatabaseCalls, body: bytes) -> bytes:
    request = decoded(_SEARCH, body)
    if (request.query is None) == (request.vector is None):
        raise ToolError("wanted one of query and vector")
    if request.query is not None:
        if places.embeddings is None:
            raise ToolError("query: no embeddings are set (--embeddings URL); send the query's vector")
        try:
            vector = await places.embeddings.of(request.query)
        except SourceError as error:
            raise ToolError(str(error)) from None
        body = msgspec.json.encode(msgspec.structs.replace(request, query=None, vector=vector))
    return await database.run(_search, body, seconds=SEARCH_SECONDS)


def _search(places: Places, body: bytes) -> bytes:
    request = decoded(_SEARCH, body)
    vector = np.array([request.vector], np.float32)
    options = SourceOptions(**places.access, collection=request.collection, vector=request.vector_name)
    try:
        with closing(opened(options, places.environment)) as source:
            dimension = source.shape().dimension
            if dimension != vector.shape[1]:
                raise ToolError(
                    f"vector: saw {vector.shape[1]} numbers, wanted {dimension}, the dimension of the collection"
                )
            (hits,) = source.neighbours(vector, count=request.top_k)
    except (SourceError, SettingsError) as error:
        raise ToolError(str(error)) from None
    results = [
        {"id": point.id, "distance": round(far, 6) if np.isfinite(far) else None, "payload": dict(point.payload)}
        for point, far in hits
    ]
    return msgspec.json.encode({"results": results}, enc_hook=str)


def _analyze(places: Places, body: bytes) -> bytes:
    request = decoded(_ANALYZE, body)
    options = AnalyzeOptions(
        **places.access, collection=request.collection, vector=request.vector_name,
        text_field=request.text_field, limit=request.points,
    )  # fmt: skip
    try:
        with closing(opened(options, places.environment)) as source:
            return as_json(analyze(source, options))
    except (SourceError, SettingsError) as error:
        raise ToolError(str(error)) from None


async def _explain(places: Places, body: bytes) -> bytes:
    request = decoded(_EXPLAIN, body)
    head = {} if places.admin_token is None else {"Authorization": f"Bearer {places.admin_token}"}
    url, most = f"{places.admin}/explain", LARGEST_BYTES
    try:
        status, content = await exchanged("GET", url, headers=head, seconds=ADMIN_SECONDS, most_bytes=most)
    except NoAnswerError:
        raise ToolError(f"no VecSieve answers at {places.admin}: set --admin to the URL of its admin port") from None
    if status != 200:
        hint = ": set --admin-token-file to the file with its token" if status == 401 else ""
        raise ToolError(f"{places.admin}/explain answers with status {status}{hint}")
    try:
        explained = orjson.loads(content)
        records = [record for record in explained["records"] if request.collection in {None, record["collection"]}]
    except (ValueError, KeyError, TypeError):
        raise ToolError(f"{places.admin}/explain sent no valid reply: is it VecSieve's admin port?") from None
    return orjson.dumps({"keep": explained["keep"], "records": records[: request.count]})


async def called(known: Mapping[str, Tool], name: str, arguments: object) -> bytes:
    """Call a tool. Returns its reply. Raises ToolError."""
    tool = known.get(name)
    if tool is None:
        raise ToolError(f"unknown tool {name!r}; the tools are {', '.join(known)}")
    try:
        return await tool.call(msgspec.json.encode(arguments))
    except ProblemError as error:
        where = "" if error.problem.where is None else f" (at {error.problem.where})"
        raise ToolError(error.problem.detail + where) from None


PATH = "/mcp"
LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
BODY_BYTES = 16 * 1024 * 1024  # the default of api.body_bytes
SESSIONS = 64
Message = MutableMapping[str, Any]
Asgi = Callable[[Message, Callable[[], Awaitable[Message]], Callable[[Message], Awaitable[None]]], Awaitable[None]]


def server_of(tools: tuple[Tool, ...]) -> Any:
    """A server of the package with these tools. Raises ModuleNotFoundError without the package."""
    from mcp import types
    from mcp.server import Server

    known = {tool.name: tool for tool in tools}
    listed = types.ListToolsResult(
        tools=[
            types.Tool(name=tool.name, description=tool.description, input_schema=schema_of(tool.takes))
            for tool in tools
        ]
    )

    async def on_list_tools(_context: object, _params: object) -> types.ListToolsResult:
        return listed

    async def on_call_tool(_context: object, params: types.CallToolRequestParams) -> types.CallToolResult:
        try:
            answer = (await called(known, params.name, params.arguments or {})).decode()
        except ToolError as error:
            return types.CallToolResult(content=[types.TextContent(type="text", text=str(error))], is_error=True)
        text = types.TextContent(type="text", text=answer)
        return types.CallToolResult(content=[text], structured_content=orjson.loads(answer))

    return Server("vecsieve", version=version("vecsieve"), on_list_tools=on_list_tools, on_call_tool=on_call_tool)


class Lines(TextIOWrapper):
    """Standard input, of whose lines none takes more than BODY_BYTES of memory: a longer one is an empty one, which the package passes over."""

    def readline(self, size: int | None = -1, /) -> str:  # type: ignore[override]  # - a base in C has another signature
        line = piece = super().readline(BODY_BYTES)
        while len(piece) == BODY_BYTES and not piece.endswith("\n"):
            line, piece = "\n", super().readline(BODY_BYTES)
        return line


async def serve_stdio(server: Any) -> None:
    """Serve until standard input ends."""
    import anyio
    from mcp.server.stdio import stdio_server

    lines = anyio.wrap_file(Lines(sys.stdin.buffer, encoding="utf-8", errors="replace"))
    async with stdio_server(stdin=lines) as (reading, writing):
        await server.run(reading, writing, server.create_initialization_options())


def guarded(app: Asgi, token: bytes | None) -> Asgi:
    """The application, for requests with the token only. ``token``: None for no check."""
    if token is None:
        return app

    async def ask(
        scope: Message, receive: Callable[[], Awaitable[Message]], send: Callable[[Message], Awaitable[None]]
    ) -> None:
        given = dict(scope.get("headers") or ()).get(b"authorization", b"").decode("latin-1")
        if scope["type"] != "lifespan" and not has_token(token, given):
            head = [(b"www-authenticate", b"Bearer"), (b"content-length", b"0")]
            await send({"type": "http.response.start", "status": 401, "headers": head})
            await send({"type": "http.response.body", "body": b""})
            return
        await app(scope, receive, send)

    return ask


def serve_http(server: Any, at: Address, token: bytes | None) -> None:
    """Serve until told to stop. Raises UnusableAddressError."""
    import uvicorn
    from mcp.server.transport_security import TransportSecuritySettings

    security = TransportSecuritySettings(
        enable_dns_rebinding_protection=at.is_loopback,
        allowed_hosts=[f"{host}:*" for host in LOOPBACK],
        allowed_origins=[f"http://{host}:*" for host in LOOPBACK],
    )
    app = server.streamable_http_app(
        streamable_http_path=PATH, transport_security=security, max_request_body_size=BODY_BYTES, max_sessions=SESSIONS
    )
    family = socket.AF_INET6 if ":" in at.host else socket.AF_INET
    with binding(at.host, at.port, flag="--listen HOST:PORT"):
        listening = socket.create_server((at.host, at.port), family=family)
    name = f"[{at.host}]" if ":" in at.host else at.host
    sys.stdout.write(f"vecsieve mcp listening on http://{name}:{listening.getsockname()[1]}{PATH}\n")
    sys.stdout.flush()
    config = uvicorn.Config(guarded(app, token), log_level="warning", access_log=False, ws="none")
    uvicorn.Server(config).run(sockets=[listening])


@dataclass(frozen=True, slots=True, kw_only=True)
class Arguments:
    """The options of `mcp`. ``listen``: None for standard input and output."""

    url: Annotated[
        str, typer.Option(help="URL of a data port of VecSieve or of the database; for Pinecone, of the index.")
    ] = f"http://{Settings().listen}"
    backend: BackendOption = DEFAULT_BACKEND
    admin: Annotated[str, typer.Option(help="URL of VecSieve's admin port, for explain.")] = (
        f"http://{Settings().admin}"
    )
    admin_token_file: Annotated[
        str | None, typer.Option(help="File with the token of the admin port, as in explain.token_file.")
    ] = None
    tokenizer: Annotated[
        str | None, typer.Option(help="Tokenizer that counts tokens, as in api.tokenizer.", show_default=False)
    ] = None
    embeddings: Annotated[
        str | None,
        typer.Option(
            help="URL that embeds queries, as OpenAI's /v1/embeddings; then search takes words.", show_default=False
        ),
    ] = None
    embeddings_model: Annotated[str | None, typer.Option(help="Its model.", show_default=False)] = None
    embeddings_key_env: Annotated[str | None, typer.Option(help="Variable with its key.", show_default=False)] = None
    listen: Annotated[
        str | None,
        typer.Option(help="Serve HTTP on host:port instead of standard input and output.", show_default=False),
    ] = None
    token_file: Annotated[str | None, typer.Option(help="File with the token that HTTP requests must carry.")] = None
    api_key_env: KeyOption = None


def _embeddings(arguments: Arguments, environment: Mapping[str, str]) -> Embeddings | None:
    """Raises SettingsError."""
    url, name = arguments.embeddings, arguments.embeddings_key_env
    if url is None:
        return None
    key = None if name is None else key_from(environment, name, option="--embeddings-key-env")
    return Embeddings(url=url, model=arguments.embeddings_model, key=key)


def run(arguments: Arguments) -> int:
    """Serve until told to stop; the exit code is 0. Raises SettingsError."""
    admin_token = token_in(arguments.admin_token_file, "--admin-token-file")
    places = Places(
        backend=arguments.backend,
        url=arguments.url,
        admin=arguments.admin.rstrip("/"),
        admin_token=None if admin_token is None else admin_token.decode("latin-1"),
        tokenizer=arguments.tokenizer,
        api_key_env=arguments.api_key_env,
        environment=os.environ,
        embeddings=_embeddings(arguments, os.environ),
    )
    token, listen = token_in(arguments.token_file, "--token-file"), arguments.listen
    server = server_of(tools_of(places))
    if listen is None:
        asyncio.run(serve_stdio(server))
        return 0
    try:
        at = parse_address(listen)
    except ValueError:
        raise SettingsError([Problem("--listen", repr(listen), "host:port such as 127.0.0.1:9467")]) from None
    if token is None and not at.is_loopback:
        raise SettingsError([Problem("--listen", listen, "a loopback address, because --token-file is not set")])
    serve_http(server, at, token)
    return 0
