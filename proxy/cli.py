"""The command line: `vecsieve serve | embedded | demo | calibrate | analyze | evaluate | check`.

Holds the process fence, the second of the two.

Everything heavy is imported inside the commands, after the number of BLAS threads is fixed: numpy reads it once.
"""

from __future__ import annotations

import os
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from vecsieve.config.backends import DEFAULT_BACKEND

EXTRAS = frozenset({"qdrant_client", "qdrant_edge"})  # `embedded`, `demo` and the jobs load them, `serve` never does

app = typer.Typer(
    name="vecsieve",
    help="Transparent reverse proxy that makes a vector database's top_k results distinct.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,  # a traceback with locals would print whatever a request carried
)


class ModeFlag(StrEnum):
    """What `--mode` takes."""

    ON = "on"
    SHADOW = "shadow"
    OFF = "off"


ConfigFile = Annotated[Path | None, typer.Option("--config", help="Settings file (YAML).", show_default=False)]


@app.command()
def serve(  # noqa: PLR0913, PLR0917 - every flag of a command is a parameter
    config: ConfigFile = None,
    backend: Annotated[str | None, typer.Option(help="Backend dialect.", show_default=DEFAULT_BACKEND)] = None,
    upstream: Annotated[
        str | None, typer.Option(help="The database's URL; Pinecone: the control plane's.", show_default=False)
    ] = None,
    index_host: Annotated[
        str | None, typer.Option(help="Pinecone: the one index that plain paths lead to.", show_default=False)
    ] = None,
    index_port: Annotated[
        list[str] | None, typer.Option(help="Pinecone: PORT=HOST, a port for one index; repeatable.")
    ] = None,
    listen: Annotated[str | None, typer.Option(help="host:port for clients; port 0 picks one.")] = None,
    grpc_listen: Annotated[
        str | None, typer.Option(help="host:port for gRPC clients; port 0 picks one.", show_default=False)
    ] = None,
    grpc_upstream: Annotated[
        str | None, typer.Option(help="Where gRPC calls go: host:port, https://host:port for TLS.", show_default=False)
    ] = None,
    admin: Annotated[str | None, typer.Option(help="host:port for health and metrics.")] = None,
    mode: Annotated[ModeFlag | None, typer.Option(help="Overrides every policy's mode.")] = None,
    workers: Annotated[int | None, typer.Option(help="Processes sharing the listening socket.")] = None,
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
        "mode": None if mode is None else mode.value,
        "workers": workers,
        "profiles.directory": None if profiles is None else str(profiles),
        "profiles.online": online,
    }
    given = {path: value for path, value in flags.items() if value is not None}
    raise typer.Exit(run(config=config, environment=os.environ, flags=given))


def _index_ports(texts: list[str]) -> dict[str, str]:
    """Hosts by port; the settings judge both. Raises BadParameter for what is no pair, or a port twice."""
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
    from vecsieve.proxy.demo.embedded.server import run

    if grpc_listen is not None:
        # The option of earlier builds: told what became of it, not that it is unknown.
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
) -> None:
    """Ask real text directly and through the proxy, and show both answers side by side."""
    from vecsieve.proxy.demo.command import run

    raise typer.Exit(run(query=query, keep=keep, backend=backend))


@app.command()
def calibrate(  # noqa: PLR0913, PLR0917 - one argument an option: typer reads them off the signature
    url: Annotated[str, typer.Option(help="The database's URL; without a port 6333.", show_default=False)],
    collection: Annotated[str, typer.Option(help="The collection to read; nothing is written to it.")],
    vector: Annotated[str | None, typer.Option(help="Which named vector; not needed when there is one.")] = None,
    sample: Annotated[int, typer.Option(help="How many points to look at.", min=20, max=100_000)] = 2000,
    text_field: Annotated[str | None, typer.Option(help="Payload field with the text, dots for a way.")] = None,
    pairs: Annotated[Path | None, typer.Option(help="Labelled pairs (JSON lines) to fit the cut to.")] = None,
    precision: Annotated[float, typer.Option(help="What share of the pairs must be right.", min=0.5, max=1.0)] = 0.95,
    out: Annotated[Path | None, typer.Option(help="Write the profile here, whole or not at all.")] = None,
    rate: Annotated[float, typer.Option(help="Requests a second at most.", min=0.1, max=10_000.0)] = 20.0,
    api_key_env: Annotated[
        str | None, typer.Option(help="Variable with the key.", show_default="QDRANT_API_KEY")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of the report.")] = False,
) -> None:
    """Find out how near a copy is in a live collection: a report, and a profile file for the proxy."""
    from vecsieve.proxy.jobs.calibrate.command import Arguments, run

    arguments = Arguments(
        url=url,
        collection=collection,
        vector=vector,
        sample=sample,
        text_field=text_field,
        pairs=pairs,
        precision=precision,
        out=out,
        requests_per_second=rate,
        api_key_env=api_key_env,
        as_json=as_json,
    )
    raise typer.Exit(run(arguments))


@app.command()
def analyze(  # noqa: PLR0913, PLR0917 - one argument an option: typer reads them off the signature
    url: Annotated[str, typer.Option(help="The database's URL; without a port 6333.", show_default=False)],
    collection: Annotated[str, typer.Option(help="The collection to read; nothing is written to it.")],
    vector: Annotated[str | None, typer.Option(help="Which named vector; not needed when there is one.")] = None,
    text_field: Annotated[str | None, typer.Option(help="Payload field with the text, dots for a way.")] = None,
    source_field: Annotated[str | None, typer.Option(help="Payload field that says where a point is from.")] = None,
    cut: Annotated[float | None, typer.Option(help="Distance up to which points are copies.", min=0.0, max=2.0)] = None,
    profile: Annotated[Path | None, typer.Option(help="Take the cut from this profile of `calibrate`.")] = None,
    limit: Annotated[int | None, typer.Option(help="Look at so many points, evenly spread.", min=1)] = None,
    rate: Annotated[float, typer.Option(help="Requests a second at most.", min=0.1, max=10_000.0)] = 20.0,
    json: Annotated[str | None, typer.Option(help="Write the report as JSON; - prints it instead.")] = None,
    html: Annotated[Path | None, typer.Option(help="Write the report as one HTML page.")] = None,
    state: Annotated[Path | None, typer.Option(help="Keep here how far it came; run again to go on.")] = None,
    api_key_env: Annotated[
        str | None, typer.Option(help="Variable with the key.", show_default="QDRANT_API_KEY")
    ] = None,
) -> None:
    """Find the copies in a live collection: how many, in which families, from which sources."""
    from vecsieve.proxy.jobs.analyze.command import Arguments, run

    arguments = Arguments(
        url=url,
        collection=collection,
        vector=vector,
        text_field=text_field,
        source_field=source_field,
        cut=cut,
        profile=profile,
        limit=limit,
        requests_per_second=rate,
        json=json,
        html=html,
        state=state,
        api_key_env=api_key_env,
    )
    raise typer.Exit(run(arguments))


@app.command()
def evaluate(  # noqa: PLR0913, PLR0917 - one argument an option: typer reads them off the signature
    data: Annotated[Path, typer.Argument(help="Folder with labelled sets, or one set.", show_default=False)],
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
    )
    raise typer.Exit(run(arguments))


@app.command()
def check(config: ConfigFile = None) -> None:
    """Validate the settings and print the effective ones, secrets masked. Exit 0 when valid, 2 when not."""
    from vecsieve.config.load import load
    from vecsieve.config.yaml_core import effective

    typer.echo(effective(load(file=config, environment=os.environ, flags={})), nl=False)


def main() -> None:
    """Run the command line. Exit 2 for settings or arguments that cannot be used, 1 for everything else that fails."""
    # Before numpy is imported: a second BLAS thread fights the event loop for the core at our sizes.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # Before grpc is imported: its core writes addresses of clients and databases to stderr, past our log.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    from vecsieve.config.problems import SettingsError

    try:
        app()
    except SettingsError as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(2)
    except ModuleNotFoundError as error:
        hint = "; it comes with pip install 'vecsieve[demo]'" if error.name in EXTRAS else ""
        sys.stderr.write(f"vecsieve: {error.name} is not installed{hint}\n")
        sys.exit(1)
    except Exception as error:  # noqa: BLE001 - the process fence: a message instead of a traceback that may hold secrets
        sys.stderr.write(f"vecsieve: {type(error).__name__}: {error}\n")
        sys.exit(1)
