"""The command line: `vecsieve serve | embedded | demo | check`. Holds the process fence, the second of the two.

Everything heavy is imported inside the commands, after the number of BLAS threads is fixed: numpy reads it once.
"""

from __future__ import annotations

import os
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

EXTRAS = frozenset({"qdrant_client", "qdrant_edge"})  # `embedded` and `demo` load them, `serve` never does

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
def serve(
    config: ConfigFile = None,
    backend: Annotated[str | None, typer.Option(help="Backend dialect.", show_default="qdrant")] = None,
    upstream: Annotated[str | None, typer.Option(help="The database's URL.", show_default=False)] = None,
    listen: Annotated[str | None, typer.Option(help="host:port for clients; port 0 picks one.")] = None,
    admin: Annotated[str | None, typer.Option(help="host:port for health and metrics.")] = None,
    mode: Annotated[ModeFlag | None, typer.Option(help="Overrides every policy's mode.")] = None,
    workers: Annotated[int | None, typer.Option(help="Processes sharing the listening socket.")] = None,
) -> None:
    """Run the proxy."""
    from vecsieve.proxy.server import run

    flags = {
        "backend": backend,
        "upstream.url": upstream,
        "listen": listen,
        "admin": admin,
        "mode": None if mode is None else mode.value,
        "workers": workers,
    }
    given = {path: value for path, value in flags.items() if value is not None}
    raise typer.Exit(run(config=config, environment=os.environ, flags=given))


@app.command()
def embedded(
    listen: Annotated[str, typer.Option(help="host:port; port 0 picks one.")] = "127.0.0.1:6333",
    path: Annotated[Path | None, typer.Option(help="Keep the data here; without it nothing is kept.")] = None,
) -> None:
    """Run the embedded Qdrant-compatible server, alone."""
    from vecsieve.proxy.embedded.server import run

    run(listen=listen, path=path)


@app.command()
def demo(
    query: Annotated[str | None, typer.Option(help="A question's number, or text.")] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Leave everything running.")] = False,
) -> None:
    """Ask real text directly and through the proxy, and show both answers side by side."""
    from vecsieve.proxy.demo.command import run

    raise typer.Exit(run(query=query, keep=keep))


@app.command()
def check(config: ConfigFile = None) -> None:
    """Validate the settings and print the effective ones, secrets masked. Exit 0 when valid, 2 when not."""
    from vecsieve.config.display import effective
    from vecsieve.config.load import load

    typer.echo(effective(load(file=config, environment=os.environ, flags={})), nl=False)


def main() -> None:
    """Run the command line. Exit 2 for settings or arguments that cannot be used, 1 for everything else that fails."""
    # Before numpy is imported: a second BLAS thread fights the event loop for the core at our sizes.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
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
