"""The command line: one row of `COMMANDS` per command.

A row names a module with `Arguments`, a dataclass whose fields are the options, and `run(arguments)`, which returns the exit code. The
module is loaded when its command is called, after the number of BLAS threads is set, because numpy reads it once.

Contains the process fence, one of the two places that catch every exception.
"""

from __future__ import annotations

import atexit
import gc
import inspect
import os
import platform
import re
import sys
import sysconfig
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from importlib import import_module, metadata
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup

from vecsieve.config.backends import DEFAULT_BACKEND

ABOUT = "Transparent reverse proxy that makes a vector database's top_k results distinct."
EVALUATE = """Run policies over labelled queries: redundancy removed, answers kept, subtopics found, time taken.

A set is a folder with corpus.jsonl (id, doc, atoms: labels of the item's content, and its payload), queries.jsonl
(subtopics: each need, with the ids that satisfy it) and the embeddings of both, corpus.npy and queries.npy.
A policy given here changes --config's, or without it the default policy:

vecsieve evaluate data --policy now={} --policy "wide={threshold: {relative: 0.3}}" --policy old=classical
"""
COMMANDS = {
    "serve": ("cli", "Run the proxy."),
    "demo": ("demo.command", "Search real text directly and through the proxy, and show both answers side by side."),
    "calibrate": (
        "jobs.calibrate.command",
        "Find the distance of copies in a live collection: a report, and a profile file for the proxy.",
    ),
    "analyze": (
        "jobs.analyze.command",
        "Find the copies in a live collection: how many, in which families, from which sources.",
    ),
    "sweep": (
        "jobs.sweep.command",
        "Find the points of a whole collection that are copies; with --apply delete them. Reads each point once.",
    ),
    "compact": (
        "jobs.sweep.compact",
        "As sweep; with --apply the points that stay also get payload values that only their copies have (Qdrant).",
    ),
    "evaluate": ("jobs.evaluate.command", EVALUATE),
    "measure": (
        "jobs.measure.command",
        "Send a file of searches to your database plainly and through VecSieve: a verdict, times, bytes, one page. Reads only.",
    ),
    "undo": (
        "jobs.undo",
        "Restore points that the write gate left out or a sweep deleted; points that are stored now are not changed.",
    ),
    "check": ("jobs.check", "Validate the settings. Exit 0 when valid, 2 when not, 1 when --connect fails."),
    "mcp": (
        "mcp",
        "Serve the tools optimize, search, analyze and explain to language models, over the Model Context Protocol.",
    ),
}
# The extra with all that a command needs, for commands other than `serve`.
EXTRAS = {
    "demo": "demo",
    **dict.fromkeys(("analyze", "sweep", "compact"), "jobs"),
    "mcp": "mcp",
}
RAY = "daft"  # `--runner ray` alone needs it
AUTHORITIES = "SSL_CERT_FILE"  # OpenSSL's variable


def _version(is_requested: bool) -> None:
    if is_requested:
        typer.echo("\n".join([f"vecsieve {metadata.version('vecsieve')}", *_build()]))
        raise typer.Exit


def _build() -> list[str]:
    """What decides the speed, for reports and comparisons: the interpreter's build, and the optional parts in C."""
    from aiohttp import http_parser

    # Distributors and python.org's images build with profiles; pyenv and plain `configure` do not. Debian's own flags for that are not among these.
    build = "not optimised (--enable-optimizations), which takes a quarter more time"
    if "--enable-optimizations" in str(sysconfig.get_config_var("CONFIG_ARGS")):
        build = "optimised"
    elif sys.base_prefix == "/usr":
        build = "the distribution's build"
    is_in_python = http_parser.HttpRequestParser is http_parser.HttpRequestParserPy
    return [
        f"Python {platform.python_version()}, {build}",
        f"aiohttp {metadata.version('aiohttp')}, parser in {'Python' if is_in_python else 'C'}",
        *(f"{name} {_version_of(name)}" for name in ("uvloop", "pysimdjson")),
    ]


def _version_of(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "not installed"


def _with_plain_flags(parameters: list[Any]) -> list[Any]:
    """A flag takes no value: typer shows `<bool>`, as if it did."""
    for parameter in parameters:
        if getattr(parameter, "is_flag", False):
            parameter.metavar = ""
    return parameters


class _Command(TyperCommand):
    def get_params(self, ctx: Any) -> list[Any]:  # typer's and click's own types are not public
        return _with_plain_flags(super().get_params(ctx))

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Raises SettingsError for a value of another type: typer's own words, from pydantic, do not say what was seen."""
        try:
            return super().parse_args(ctx, args)
        except typer.BadParameter as error:
            if (problem := _problem(error)) is None:
                raise
            raise problem from error


def _problem(error: typer.BadParameter) -> Exception | None:
    """None for what pydantic did not refuse."""
    from pydantic import ValidationError

    from vecsieve.config.problems import Problem, SettingsError, excerpt

    if error.param is None or not isinstance(error.__cause__, ValidationError):
        return None
    (fault, *_), name = error.__cause__.errors(), error.param.opts[0]
    expected = re.sub(r".* is not one of |Input should be |, unable to .*|\.$", "", fault["msg"], flags=re.DOTALL)
    return SettingsError([Problem(name, excerpt(fault["input"], name=name), expected)])


class _Commands(TyperGroup):
    def get_params(self, ctx: Any) -> list[Any]:  # typer's and click's own types are not public
        return _with_plain_flags(super().get_params(ctx))


def app(words: Sequence[str]) -> typer.Typer:
    """The command line, with the options of the commands named in these words. Of other commands it has only the help."""
    line = typer.Typer(
        name="vecsieve",
        cls=_Commands,
        help=ABOUT,
        no_args_is_help=True,
        pretty_exceptions_enable=False,  # a traceback with locals would print data of a request
    )
    line.callback()(_options)
    for name, (module, about) in COMMANDS.items():
        line.command(name, cls=_Command, help=about)(_loaded(module) if name in words else _unloaded)
    return line


def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            callback=_version,
            is_eager=True,
            help="Print the version and the builds of what runs it, and exit.",
        ),
    ] = False,
) -> None:
    """The options before the name of a command."""


def _unloaded() -> None:
    raise AssertionError


def _loaded(name: str) -> Callable[..., None]:
    """The module's `run` in typer's form: with one parameter for each field of `Arguments`."""
    module = import_module(f"vecsieve.proxy.{name}")

    def call(**given: object) -> None:
        raise typer.Exit(module.run(module.Arguments(**given)))

    hints = get_type_hints(module.Arguments, include_extras=True)
    fields = inspect.signature(module.Arguments).parameters.values()
    signature = inspect.Signature([field.replace(annotation=hints[field.name]) for field in fields])
    call.__annotations__ = hints
    vars(call)["__signature__"] = signature
    return call


class ModeFlag(StrEnum):
    ON = "on"
    SHADOW = "shadow"
    OFF = "off"


@dataclass(frozen=True, slots=True, kw_only=True)
class Arguments:
    """The options of `serve`. None: the settings' value."""

    config: Annotated[Path | None, typer.Option(help="Settings file (YAML).", show_default=False)] = None
    backend: Annotated[str | None, typer.Option(help="Backend dialect.", show_default=DEFAULT_BACKEND)] = None
    upstream: Annotated[
        str | None,
        typer.Option(
            help="The database's URL; Pinecone: the control plane's.",
            show_default="http://127.0.0.1:6333, or the backend's own",
        ),
    ] = None
    index_host: Annotated[str | None, typer.Option(help="Pinecone: the index for plain paths.", show_default=False)] = (
        None
    )
    index_port: Annotated[
        list[str] | None, typer.Option(help="Pinecone: PORT=HOST, a port for one index; repeatable.")
    ] = None
    listen: Annotated[
        str | None, typer.Option(help="host:port for clients; port 0 picks one.", show_default="127.0.0.1:6343")
    ] = None
    grpc_listen: Annotated[
        str | None, typer.Option(help="host:port for gRPC clients; port 0 picks one.", show_default=False)
    ] = None
    grpc_upstream: Annotated[
        str | None,
        typer.Option(help="Upstream of gRPC calls: host:port, https://host:port for TLS.", show_default=False),
    ] = None
    admin: Annotated[
        str | None, typer.Option(help="host:port for health and metrics.", show_default="127.0.0.1:9464")
    ] = None
    api: Annotated[
        str | None, typer.Option(help="host:port for VecSieve's own endpoints, /v1/….", show_default="off")
    ] = None
    mode: Annotated[
        ModeFlag | None, typer.Option(help="Overrides every policy's mode.", show_default="the policies' own, on")
    ] = None
    workers: Annotated[
        int | None, typer.Option(help="Number of processes on the listening socket.", show_default="1")
    ] = None
    profiles: Annotated[Path | None, typer.Option(help="Folder of profiles that `calibrate` wrote.")] = None
    online: Annotated[bool | None, typer.Option("--online", help="Learn typical distances from traffic.")] = None

    def settings(self) -> dict[str, object]:
        """The settings that the options set, by their paths; None: not given."""
        return {
            "backend": self.backend,
            "upstream.url": self.upstream,
            "pinecone.index_host": self.index_host,
            "pinecone.index_ports": None if not self.index_port else _index_ports(self.index_port),
            "listen": self.listen,
            "grpc.listen": self.grpc_listen,
            "grpc.upstream": self.grpc_upstream,
            "admin": self.admin,
            "api.listen": self.api,
            "mode": None if self.mode is None else self.mode.value,
            "workers": self.workers,
            "profiles.directory": None if self.profiles is None else str(self.profiles),
            "profiles.online": self.online,
        }


def run(arguments: Arguments) -> int:
    """Serve; the exit code."""
    # What is imported is no garbage: to scan it again and again takes a twelfth of the time of a start. `collect_seldom` ends this.
    gc.disable()
    try:
        _load_aiohttp()
        from . import server

        return server.run(config=arguments.config, environment=os.environ, flags=arguments.settings())
    finally:
        gc.enable()


def _load_aiohttp() -> None:
    """Import aiohttp without the authorities of its client: 80 ms of a start and 2 MB.

    The client, which the proxy does not use, comes with the server, and reads the file of all authorities twice when it is imported. The
    connections to the database have contexts of their own, which are made later and read the real file.
    """
    given = os.environ.get(AUTHORITIES)
    os.environ[AUTHORITIES] = os.devnull
    try:
        import_module("aiohttp")
    finally:
        os.environ.pop(AUTHORITIES)
        os.environ.update({} if given is None else {AUTHORITIES: given})


def _index_ports(texts: list[str]) -> dict[str, str]:
    """Hosts by port; the settings validate both. Raises BadParameter for a malformed pair or a repeated port."""
    from vecsieve.config.problems import excerpt

    pairs = [text.partition("=") for text in texts]
    ports = {port: host for port, _, host in pairs}
    if len(ports) < len(pairs) or not all(equals for _, equals, _ in pairs):
        expected = "PORT=HOST such as 8101=docs-abc123.svc.aped-4627-b74a.pinecone.io, each port once"
        raise typer.BadParameter(f"--index-port: wanted {expected}; saw {excerpt(texts)}")
    return ports


def main() -> None:
    """Run the command line. Exit 2 for unusable settings or arguments, 1 for every other failure."""
    # Before numpy is imported: for our sizes a second BLAS thread competes with the event loop for the core.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # Before grpc is imported: its core writes addresses of clients and databases to stderr, bypassing our log.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    # The interpreter's last collections would scan all loaded objects, which takes a fifth of the time of a short command.
    atexit.register(gc.freeze)
    from vecsieve.config.problems import SettingsError, comes_with

    from .runtime.addresses import UnusableAddressError

    # A shell's completion passes the command in variables, not in the arguments.
    words = tuple(COMMANDS) if "_VECSIEVE_COMPLETE" in os.environ else sys.argv[1:]
    try:
        app(words)()
    except SettingsError as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(2)
    except UnusableAddressError as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(1)
    except ModuleNotFoundError as error:
        command = next((word for word in words if word in COMMANDS), "")
        extra = "ray" if error.name == RAY else EXTRAS.get(command)
        hint = "" if extra is None else f"; {comes_with(extra)}"
        sys.stderr.write(f"vecsieve: {error.name} is not installed{hint}\n")
        sys.exit(1)
    except Exception as error:  # noqa: BLE001 - the process fence: a message instead of a traceback that may hold secrets
        sys.stderr.write(f"vecsieve: {type(error).__name__}: {error}\n")
        sys.exit(1)
