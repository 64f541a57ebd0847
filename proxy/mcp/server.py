"""The server of the protocol: the official package's, over standard input and output or over HTTP (streamable).

Over HTTP it listens on loopback unless there is a token, and the package refuses requests for other hosts there.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from importlib.metadata import version
from typing import Annotated, Any

import orjson
import typer

from vecsieve.config.addresses import Address, parse_address
from vecsieve.config.backends import DEFAULT_BACKEND
from vecsieve.config.problems import Problem, SettingsError
from vecsieve.config.schema import Settings
from vecsieve.proxy.addresses import binding
from vecsieve.proxy.admin.access import is_held, token_in
from vecsieve.proxy.api.openapi import schema_of
from vecsieve.proxy.jobs.databases import BackendOption, KeyOption
from vecsieve.proxy.mcp.tools import Places, Tool, ToolError, called, tools_of

PATH = "/mcp"
LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
BODY_BYTES = 16 * 1024 * 1024  # as api.body_bytes
SESSIONS = 64
Message = MutableMapping[str, Any]
Asgi = Callable[[Message, Callable[[], Awaitable[Message]], Callable[[Message], Awaitable[None]]], Awaitable[None]]


def server_of(tools: tuple[Tool, ...]) -> Any:
    """The package's server with these tools. Raises ModuleNotFoundError without the package."""
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


async def serve_stdio(server: Any) -> None:
    """Serve until standard input ends."""
    from mcp.server.stdio import stdio_server

    async with stdio_server() as (reading, writing):
        await server.run(reading, writing, server.create_initialization_options())


def guarded(app: Asgi, token: bytes | None) -> Asgi:
    """The application, for holders of the token alone."""
    if token is None:
        return app

    async def ask(
        scope: Message, receive: Callable[[], Awaitable[Message]], send: Callable[[Message], Awaitable[None]]
    ) -> None:
        given = dict(scope.get("headers") or ()).get(b"authorization", b"").decode("latin-1")
        if scope["type"] == "http" and not is_held(token, given):
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

    own = TransportSecuritySettings(
        enable_dns_rebinding_protection=at.is_loopback,
        allowed_hosts=[f"{host}:*" for host in LOOPBACK],
        allowed_origins=[f"http://{host}:*" for host in LOOPBACK],
    )
    app = server.streamable_http_app(
        streamable_http_path=PATH, transport_security=own, max_request_body_size=BODY_BYTES, max_sessions=SESSIONS
    )
    family = socket.AF_INET6 if ":" in at.host else socket.AF_INET
    with binding(at.host, at.port, flag="--listen HOST:PORT"):
        listening = socket.create_server((at.host, at.port), family=family)
    name = f"[{at.host}]" if ":" in at.host else at.host
    sys.stdout.write(f"vecsieve mcp listening on http://{name}:{listening.getsockname()[1]}{PATH}\n")
    sys.stdout.flush()
    config = uvicorn.Config(guarded(app, token), log_level="warning", access_log=False)
    uvicorn.Server(config).run(sockets=[listening])


@dataclass(frozen=True, slots=True, kw_only=True)
class Arguments:
    """Of `mcp`. ``listen``: None for standard input and output."""

    url: Annotated[str, typer.Option(help="A data port of VecSieve, or the database; Pinecone: of the index.")] = (
        f"http://{Settings().listen}"
    )
    backend: BackendOption = DEFAULT_BACKEND
    admin: Annotated[str, typer.Option(help="URL of VecSieve's admin port, for explain.")] = (
        f"http://{Settings().admin}"
    )
    admin_token_file: Annotated[str | None, typer.Option(help="The token of explain.token_file, as a file.")] = None
    tokenizer: Annotated[str | None, typer.Option(help="Counts tokens, as api.tokenizer.", show_default=False)] = None
    listen: Annotated[
        str | None, typer.Option(help="host:port for HTTP instead of standard input and output.", show_default=False)
    ] = None
    token_file: Annotated[str | None, typer.Option(help="File with a token that HTTP requests then need.")] = None
    api_key_env: KeyOption = None


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
        raise SettingsError([Problem("--listen", listen, "an address on loopback, because there is no --token-file")])
    serve_http(server, at, token)
    return 0
