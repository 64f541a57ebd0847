"""The command line: `vecsieve serve | embedded | demo | calibrate | analyze | sweep | evaluate | check | mcp`.

Holds the process fence, one of the two places that catch every exception. Heavy modules are imported inside the commands,
after the number of BLAS threads is set: numpy reads it once.
"""

from __future__ import annotations

import os
import sys
from enum import StrEnum
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from vecsieve.config.backends import DEFAULT_BACKEND

if TYPE_CHECKING:
    from vecsieve.proxy.jobs.databases import Wanted

# By the package that a command other than `serve` loads: the extra that brings it.
EXTRAS = {"qdrant_client": "demo", "qdrant_edge": "demo", "mcp": "mcp", "uvicorn": "mcp", "duckdb": "sweep"}

app = typer.Typer(
    name="vecsieve",
    help="Transparent reverse proxy that makes a vector database's top_k results distinct.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,  # a traceback with locals would print whatever a request carried
)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"vecsieve {metadata.version('vecsieve')}")
        raise typer.Exit


@app.callback()
def vecsieve(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Transparent reverse proxy that makes a vector database's top_k results distinct."""


class ModeFlag(StrEnum):
    """Values of `--mode`."""

    ON = "on"
    SHADOW = "shadow"
    OFF = "off"


ConfigFile = Annotated[Path | None, typer.Option("--config", help="Settings file (YAML).", show_default=False)]
BackendFlag = Annotated[str | None, typer.Option(help="Backend dialect.", show_default=DEFAULT_BACKEND)]
UpstreamFlag = Annotated[
    str | None,
    typer.Option(
        help="The database's URL; Pinecone: the control plane's.",
        show_default="http://127.0.0.1:6333, or the backend's own",
    ),
]


@app.command()
def serve(  # noqa: PLR0913, PLR0917 - every flag of a command is a parameter
    config: ConfigFile = None,
    backend: BackendFlag = None,
    upstream: UpstreamFlag = None,
    index_host: Annotated[
        str | None, typer.Option(help="Pinecone: the one index that plain paths lead to.", show_default=False)
    ] = None,
    index_port: Annotated[
        list[str] | None, typer.Option(help="Pinecone: PORT=HOST, a port for one index; repeatable.")
    ] = None,
    listen: Annotated[
        str | None, typer.Option(help="host:port for clients; port 0 picks one.", show_default="127.0.0.1:6343")
    ] = None,
    grpc_listen: Annotated[
        str | None, typer.Option(help="host:port for gRPC clients; port 0 picks one.", show_default=False)
    ] = None,
    grpc_upstream: Annotated[
        str | None, typer.Option(help="Where gRPC calls go: host:port, https://host:port for TLS.", show_default=False)
    ] = None,
    admin: Annotated[
        str | None, typer.Option(help="host:port for health and metrics.", show_default="127.0.0.1:9464")
    ] = None,
    api: Annotated[
        str | None, typer.Option(help="host:port for VecSieve's own endpoints, /v1/….", show_default="off")
    ] = None,
    mode: Annotated[
        ModeFlag | None, typer.Option(help="Overrides every policy's mode.", show_default="the policies' own, on")
    ] = None,
    workers: Annotated[
        int | None, typer.Option(help="Processes sharing the listening socket.", show_default="1")
    ] = None,
    profiles: Annotated[Path | None, typer.Option(help="Folder of profiles that `calibrate` wrote.")] = None,
    online: Annotated[bool | None, typer.Option("--online", help="Learn typical distances from traffic.")] = None,
) -> None:
    """Run the proxy."""
    from vecsieve.proxy.server import run

    flags = {
        "backend": backend,
        "upstream.url": upstream,
        "pinecone.index_host": index_host,
        "pinecone.index_ports": None if not index_port else _index_ports(index_port),
        "listen": listen,
        "grpc.listen": grpc_listen,
        "grpc.upstream": grpc_upstream,
        "admin": admin,
        "api.listen": api,
        "mode": None if mode is None else mode.value,
        "workers": workers,
        "profiles.directory": None if profiles is None else str(profiles),
        "profiles.online": online,
    }
    given = {path: value for path, value in flags.items() if value is not None}
    raise typer.Exit(run(config=config, environment=os.environ, flags=given))


def _index_ports(texts: list[str]) -> dict[str, str]:
    """Hosts by port; the settings validate both. Raises BadParameter for a malformed pair or a repeated port."""
    from vecsieve.config.problems import shown

    pairs = [text.partition("=") for text in texts]
    ports = {port: host for port, _, host in pairs}
    if len(ports) < len(pairs) or not all(equals for _, equals, _ in pairs):
        wanted = "PORT=HOST such as 8101=docs-abc123.svc.aped-4627-b74a.pinecone.io, each port once"
        raise typer.BadParameter(f"--index-port: wanted {wanted}; saw {shown(texts)}")
    return ports


@app.command()
def embedded(
    listen: Annotated[str, typer.Option(help="host:port; port 0 picks one.")] = "127.0.0.1:6333",
    path: Annotated[Path | None, typer.Option(help="Keep the data here; without it nothing is kept.")] = None,
    grpc_listen: Annotated[str | None, typer.Option(hidden=True)] = None,
) -> None:
    """Run the embedded Qdrant-compatible server, alone, over REST."""
    from vecsieve.proxy.demo.embedded.rest import run

    if grpc_listen is not None:
        # An option of earlier builds: the message says what replaces it.
        elsewhere = "a checkout has a server with gRPC: python tests/servers/qdrant --grpc-listen HOST:PORT"
        raise typer.BadParameter(f"--grpc-listen: the embedded server speaks REST only; {elsewhere}")
    run(listen=listen, path=path)


@app.command()
def demo(
    query: Annotated[str | None, typer.Option(help="A question's number, or text.")] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Leave everything running.")] = False,
    backend: Annotated[
        str, typer.Option(help="Whose requests are shown: qdrant, pinecone (an emulator answers) or chroma.")
    ] = DEFAULT_BACKEND,
    browse: Annotated[bool, typer.Option("--open", help="As --keep, and open the inspector in a browser.")] = False,
) -> None:
    """Ask real text directly and through the proxy, and show both answers side by side."""
    from vecsieve.proxy.demo.command import run

    raise typer.Exit(run(query=query, keep=keep or browse, backend=backend, browse=browse))


JobUrl = Annotated[
    str, typer.Option(help="The database's URL, with its port; for Pinecone the index's host.", show_default=False)
]
JobCollection = Annotated[
    str, typer.Option(help="The collection to read, for Pinecone the namespace; nothing is written to it.")
]
JobBackend = Annotated[str, typer.Option(help="Which database it is: qdrant, chroma, milvus or pinecone.")]
JobVector = Annotated[str | None, typer.Option(help="Which named vector; not needed when there is one.")]
JobRate = Annotated[float, typer.Option(help="Requests a second at most.", min=0.1, max=10_000.0)]
JobKey = Annotated[str | None, typer.Option(help="Variable with the key.", show_default="QDRANT_API_KEY and such")]


def _wanted(
    backend: str, url: str, collection: str, vector: str | None, rate: float, api_key_env: str | None
) -> Wanted:
    from vecsieve.proxy.jobs.databases import Wanted

    return Wanted(
        backend=backend,
        url=url,
        collection=collection,
        vector=vector,
        requests_per_second=rate,
        api_key_env=api_key_env,
    )


@app.command()
def calibrate(  # noqa: PLR0913, PLR0917 - one argument an option: typer reads them off the signature
    url: JobUrl,
    collection: JobCollection,
    backend: JobBackend = DEFAULT_BACKEND,
    vector: JobVector = None,
    sample: Annotated[int, typer.Option(help="How many points to look at.", min=20, max=100_000)] = 2000,
    text_field: Annotated[str | None, typer.Option(help="Payload field with the text, dots for a way.")] = None,
    pairs: Annotated[Path | None, typer.Option(help="Labelled pairs (JSON lines) to fit the cut to.")] = None,
    precision: Annotated[float, typer.Option(help="What share of the pairs must be right.", min=0.5, max=1.0)] = 0.95,
    out: Annotated[Path | None, typer.Option(help="Write the profile here, whole or not at all.")] = None,
    rate: JobRate = 20.0,
    api_key_env: JobKey = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of the report.")] = False,
) -> None:
    """Find out how near a copy is in a live collection: a report, and a profile file for the proxy."""
    from vecsieve.proxy.jobs.calibrate.command import Arguments, run

    arguments = Arguments(
        source=_wanted(backend, url, collection, vector, rate, api_key_env),
        sample=sample,
        text_field=text_field,
        pairs=pairs,
        precision=precision,
        out=out,
        as_json=as_json,
    )
    raise typer.Exit(run(arguments))


@app.command()
def analyze(  # noqa: PLR0913, PLR0917 - one argument an option: typer reads them off the signature
    url: JobUrl,
    collection: JobCollection,
    backend: JobBackend = DEFAULT_BACKEND,
    vector: JobVector = None,
    text_field: Annotated[str | None, typer.Option(help="Payload field with the text, dots for a way.")] = None,
    source_field: Annotated[str | None, typer.Option(help="Payload field that says where a point is from.")] = None,
    cut: Annotated[float | None, typer.Option(help="Distance up to which points are copies.", min=0.0, max=2.0)] = None,
    profile: Annotated[Path | None, typer.Option(help="Take the cut from this profile of `calibrate`.")] = None,
    limit: Annotated[int | None, typer.Option(help="Look at so many points, evenly spread.", min=1)] = None,
    rate: JobRate = 20.0,
    json: Annotated[str | None, typer.Option(help="Write the report as JSON; - prints it instead.")] = None,
    html: Annotated[Path | None, typer.Option(help="Write the report as one HTML page.")] = None,
    ids: Annotated[
        Path | None, typer.Option(help="Write here what could go, a line of JSON each, and for which survivor.")
    ] = None,
    state: Annotated[Path | None, typer.Option(help="Keep here how far it came; run again to go on.")] = None,
    api_key_env: JobKey = None,
) -> None:
    """Find the copies in a live collection: how many, in which families, from which sources."""
    from vecsieve.proxy.jobs.analyze.command import Arguments, run

    arguments = Arguments(
        source=_wanted(backend, url, collection, vector, rate, api_key_env),
        text_field=text_field,
        source_field=source_field,
        cut=cut,
        profile=profile,
        limit=limit,
        json=json,
        html=html,
        ids=ids,
        state=state,
    )
    raise typer.Exit(run(arguments))


KeepFlag = StrEnum("KeepFlag", ["newest", "oldest", "longest", "first"])  # those of proxy/jobs/sweep/run.py


@app.command()
def sweep(  # noqa: PLR0913, PLR0917 - one argument an option: typer reads them off the signature
    url: JobUrl,
    collection: JobCollection,
    work: Annotated[Path, typer.Option(help="Folder for what is read; run again with it to go on.")],
    backend: JobBackend = DEFAULT_BACKEND,
    vector: JobVector = None,
    similarity: Annotated[float, typer.Option(help="Least of copies' vectors.", min=0.9, max=1.0)] = 0.98,
    shared: Annotated[float, typer.Option(help="Least share of 3-grams of copies' texts.", min=0.5, max=1.0)] = 0.92,
    keep: Annotated[KeepFlag, typer.Option(help="Which point of a family stays.")] = KeepFlag.newest,
    text_field: Annotated[str | None, typer.Option(help="Payload field with the text, dots for a way.")] = None,
    time_field: Annotated[str | None, typer.Option(help="Payload field with the time, for --keep.")] = None,
    tenant_field: Annotated[list[str] | None, typer.Option(help="Field in which copies agree; repeatable.")] = None,
    report: Annotated[Path | None, typer.Option(help="Write the report as JSON.")] = None,
    ids: Annotated[
        Path | None, typer.Option(help="Write here what could go, a line of JSON each, and for which survivor.")
    ] = None,
    rate: JobRate = 20.0,
    api_key_env: JobKey = None,
) -> None:
    """Find which points of a whole collection are copies and could go. Deletes nothing; reads each point once."""
    from vecsieve.proxy.jobs.sweep.command import Arguments, run
    from vecsieve.proxy.jobs.sweep.run import Keep

    arguments = Arguments(
        source=_wanted(backend, url, collection, vector, rate, api_key_env),
        work=work,
        similarity=similarity,
        shared=shared,
        keep=Keep(keep.value),
        text_field=text_field,
        time_field=time_field,
        tenants=tuple(tenant_field or ()),
        report=report,
        ids=ids,
    )
    raise typer.Exit(run(arguments))


@app.command()
def evaluate(  # noqa: PLR0913, PLR0917 - one argument an option: typer reads them off the signature
    data: Annotated[
        Path | None, typer.Argument(help="Folder with labelled sets, or one set; without it a small sample set.")
    ] = None,
    policy: Annotated[
        list[str] | None, typer.Option(help="NAME=PRESET or NAME=YAML, instead of the usual ones; repeatable.")
    ] = None,
    config: ConfigFile = None,
    one_set: Annotated[list[str] | None, typer.Option("--set", help="Only this set; repeatable.")] = None,
    top_k: Annotated[int, typer.Option(help="Results per query.", min=2, max=1000)] = 8,
    pool: Annotated[int | None, typer.Option(help="Fetch exactly so many candidates.", min=1, max=10_000)] = None,
    every: Annotated[int, typer.Option(help="Only every n-th query, for a quick look.", min=1)] = 1,
    geometry: Annotated[
        list[str] | None, typer.Option(help="NAME=FOLDER with other embeddings of the sets; repeatable.")
    ] = None,
    bootstrap: Annotated[int, typer.Option(help="Draws for the intervals; 0: none.", min=0, max=100_000)] = 1000,
    seed: Annotated[int, typer.Option(help="Of the draws.", min=0)] = 0,
    json: Annotated[Path | None, typer.Option(help="Write everything here, too.")] = None,
    fit: Annotated[
        Path | None, typer.Option(help="Fit the calibrated rule to the sets and write its constants here (Python).")
    ] = None,
    more: Annotated[
        list[str] | None, typer.Option(help="With --fit: NAME=FOLDER with further sets in embedding NAME; repeatable.")
    ] = None,
    pictures: Annotated[
        Path | None,
        typer.Option(help="Folder for frontier.svg, of certainties unless --policy says; with --fit reliability.svg."),
    ] = None,
    gates: Annotated[
        bool,
        typer.Option("--gates", help="Judge by acceptance gates; exit 1 if one fails. Without DATA: seeded copies."),
    ] = False,
) -> None:
    """Run policies over labelled queries: redundancy removed, answers kept, subtopics found, time taken.

    A set is a folder with corpus.jsonl (id, doc, atoms: labels of what the item says, and its payload), queries.jsonl
    (subtopics: each need, with the ids that satisfy it) and the embeddings of both, corpus.f16.npy and queries.f16.npy.
    A policy given here is laid on --config's, without it on the defaults:

    vecsieve evaluate data --policy now={} --policy "wide={threshold: {relative: 0.3}}" --policy old=classical
    """
    from vecsieve.proxy.jobs.evaluate.command import Arguments, run

    arguments = Arguments(
        data=data,
        policies=tuple(policy or ()),
        config=config,
        sets=tuple(one_set or ()),
        top_k=top_k,
        every=every,
        pool=pool,
        draws=bootstrap,
        seed=seed,
        geometries=tuple(geometry or ()),
        json=json,
        fit=fit,
        more=tuple(more or ()),
        pictures=pictures,
        gates=gates,
    )
    raise typer.Exit(run(arguments))


@app.command()
def undo(
    journal: Annotated[Path, typer.Option(help="The journal: `journal.path` of the settings.", show_default=False)],
    url: Annotated[str, typer.Option(help="Qdrant's own URL: behind the write gate points are left out again.")],
    collection: Annotated[str | None, typer.Option(help="Only points of this collection.")] = None,
    since: Annotated[
        str | None, typer.Option(help="Only points since this date or moment, UTC without a zone.")
    ] = None,
    id: Annotated[str | None, typer.Option("--id", help="Only the point with this id.")] = None,  # noqa: A002 - the option's name
    apply: Annotated[bool, typer.Option("--apply", help="Store them; without it they are only listed.")] = False,
    api_key_env: JobKey = None,
) -> None:
    """Store the points that the write gate left out, as they came; a point whose id is stored by now stays as it is."""
    from vecsieve.proxy.jobs.undo import Arguments, run

    arguments = Arguments(
        journal=journal,
        url=url,
        collection=collection,
        since=since,
        id=id,
        apply=apply,
        api_key_env=api_key_env,
    )
    raise typer.Exit(run(arguments, os.environ))


@app.command()
def check(
    config: ConfigFile = None,
    backend: BackendFlag = None,
    upstream: UpstreamFlag = None,
    connect: Annotated[
        bool, typer.Option("--connect", help="Reach the database, try the credentials and a search; reads only.")
    ] = False,
    show: Annotated[bool, typer.Option("--show", help="Print every setting in force, secrets masked.")] = False,
    schema: Annotated[
        bool, typer.Option("--schema", help="Print the JSON Schema of settings files, for editors.")
    ] = False,
    api_key_env: Annotated[
        str | None, typer.Option(help="Variable with the key for --connect.", show_default="QDRANT_API_KEY and such")
    ] = None,
) -> None:
    """Validate the settings. Exit 0 when valid, 2 when not, 1 when --connect fails."""
    from vecsieve.config.document import schema_text
    from vecsieve.config.load import load
    from vecsieve.config.yaml_core import effective

    if schema:
        typer.echo(schema_text())
        return
    flags: dict[str, object] = {"backend": backend, "upstream.url": upstream}
    given = {path: value for path, value in flags.items() if value is not None}
    settings = load(file=config, environment=os.environ, flags=given)
    if show:
        typer.echo(effective(settings), nl=False)
    if connect:
        from vecsieve.proxy.jobs.check import CheckError, run

        try:
            run(settings, os.environ, api_key_env, typer.echo)
        except CheckError as error:
            typer.echo(str(error), err=True)
            raise typer.Exit(1) from None
    elif not show:
        typer.echo("The settings are valid. --show prints them all, --connect tries the database.")


@app.command()
def mcp(  # noqa: PLR0913, PLR0917 - one argument an option: typer reads them off the signature
    url: Annotated[
        str | None,
        typer.Option(
            help="A data port of VecSieve, or the database; Pinecone: of the index.", show_default="serve's own"
        ),
    ] = None,
    backend: JobBackend = DEFAULT_BACKEND,
    admin: Annotated[
        str | None, typer.Option(help="URL of VecSieve's admin port, for explain.", show_default="serve's own")
    ] = None,
    admin_token_file: Annotated[Path | None, typer.Option(help="The token of explain.token_file, as a file.")] = None,
    tokenizer: Annotated[str | None, typer.Option(help="Counts tokens, as api.tokenizer.", show_default=False)] = None,
    listen: Annotated[
        str | None, typer.Option(help="host:port for HTTP instead of standard input and output.", show_default=False)
    ] = None,
    token_file: Annotated[Path | None, typer.Option(help="File with a token that HTTP requests then need.")] = None,
    api_key_env: JobKey = None,
) -> None:
    """Offer optimize, search, analyze and explain to language models, over the Model Context Protocol."""
    from vecsieve.config.schema import Settings
    from vecsieve.proxy.mcp.server import Arguments, run

    arguments = Arguments(
        backend=backend,
        url=url or f"http://{Settings().listen}",
        admin=admin or f"http://{Settings().admin}",
        admin_token_file=None if admin_token_file is None else str(admin_token_file),
        tokenizer=tokenizer,
        api_key_env=api_key_env,
        listen=listen,
        token_file=None if token_file is None else str(token_file),
    )
    run(arguments, os.environ)


def main() -> None:
    """Run the command line. Exit 2 for unusable settings or arguments, 1 for every other failure."""
    # Before numpy is imported: at our sizes a second BLAS thread competes with the event loop for the core.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # Before grpc is imported: its core writes addresses of clients and databases to stderr, bypassing our log.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    from vecsieve.config.problems import SettingsError
    from vecsieve.proxy.addresses import UnusableAddressError

    try:
        app()
    except SettingsError as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(2)
    except UnusableAddressError as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(1)
    except ModuleNotFoundError as error:
        extra = EXTRAS.get(error.name or "")
        hint = "" if extra is None else f"; it comes with pip install 'vecsieve[{extra}]'"
        sys.stderr.write(f"vecsieve: {error.name} is not installed{hint}\n")
        sys.exit(1)
    except Exception as error:  # noqa: BLE001 - the process fence: a message instead of a traceback that may hold secrets
        sys.stderr.write(f"vecsieve: {type(error).__name__}: {error}\n")
        sys.exit(1)
