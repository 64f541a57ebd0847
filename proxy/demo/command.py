"""``vecsieve demo``: starts a database and the proxy, asks one question both ways, measures, then asks all questions."""

from __future__ import annotations

import sys
import threading
import webbrowser
from collections.abc import Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from io import TextIOWrapper
from typing import Annotated

import numpy as np
import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.rule import Rule
from rich.text import Text

from vecsieve.config.backends import DEFAULT_BACKEND
from vecsieve.config.problems import shown
from vecsieve.config.schema import Settings
from vecsieve.config.values import alternatives
from vecsieve.proxy.demo.children import ChildFailedError
from vecsieve.proxy.demo.chroma import CHROMA
from vecsieve.proxy.demo.comparison import Comparison, compare, summarise, timing
from vecsieve.proxy.demo.corpus import Choice, Corpus, CorpusDamagedError, UnknownQuestionError, choose, load
from vecsieve.proxy.demo.database import (
    NAME,
    Addresses,
    Answer,
    Database,
    DatabaseMissingError,
    DatabaseRefusedError,
    Store,
)
from vecsieve.proxy.demo.pinecone import PINECONE
from vecsieve.proxy.demo.qdrant import QDRANT
from vecsieve.proxy.demo.reasons import Pool
from vecsieve.proxy.demo.rendering import answers_table, legend, summary_table, timing_lines
from vecsieve.proxy.process.runtime import ended_by_signals
from vecsieve.proxy.search.fetch import fetch_k, grown_fetch_k
from vecsieve.proxy.search.policy import Policies, ResolvedPolicy

DEFAULT_QUESTION = "11"  # seven of its eight answers are one text, from as many classes
LIMIT = 8
PLAIN_WIDTH = 100  # columns of an output that is not a terminal
_ROUNDS = 25  # the medians move by less than 0.1 ms beyond that, and the demo stays under a minute
DATABASES: Mapping[str, Database] = {each.backend: each for each in (QDRANT, PINECONE, CHROMA)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Arguments:
    """Of `demo`. ``query``: None for the default question."""

    query: Annotated[str | None, typer.Option(help="A question's number, or text.")] = None
    keep: Annotated[bool, typer.Option("--keep", help="Leave everything running.")] = False
    backend: Annotated[
        str, typer.Option(help="Whose requests are shown: qdrant, pinecone (an emulator answers) or chroma.")
    ] = DEFAULT_BACKEND
    browse: Annotated[bool, typer.Option("--open", help="As --keep, and open the inspector in a browser.")] = False


def run(arguments: Arguments) -> int:
    """The exit code: 0, 2 for an unknown question or backend, 1 when the demo could not run, 130 on Ctrl-C."""
    query, browse = arguments.query, arguments.browse
    keep = arguments.keep or browse
    database = DATABASES.get(arguments.backend)
    if database is None:
        wanted = alternatives(tuple(DATABASES))
        sys.stderr.write(f"vecsieve demo: --backend: wanted {wanted}; saw {shown(arguments.backend)}\n")
        return 2
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # for characters that the terminal cannot encode
    console = Console(width=None if sys.stdout.isatty() else PLAIN_WIDTH, highlight=False)
    try:
        corpus = load()
        choice = choose([question.text for question in corpus.questions], DEFAULT_QUESTION if query is None else query)
        if database.opening is not None:
            console.print(database.opening, style="bold yellow")
        with ended_by_signals(), database.running() as addresses:
            _play(corpus, choice, database, addresses, console)
            if database.closing is not None:
                console.print(f"\n{database.closing(addresses)}", style="yellow")
            if keep:
                _keep(corpus, choice, database, addresses, console, browse=browse)
        if not keep:
            console.print(f"\n{invitation(len(corpus.questions), database.command)}", style="dim")
    except UnknownQuestionError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    except (CorpusDamagedError, ChildFailedError, DatabaseMissingError, DatabaseRefusedError) as error:
        sys.stderr.write(f"vecsieve demo: {error}\n")
        return 1
    except KeyboardInterrupt:
        sys.stderr.write("\nstopped\n")
        return 130
    return 0


def invitation(questions: int, command: str) -> str:
    return f"Another question: {command} --query NUMBER (1 to {questions}). To ask by yourself: {command} --keep"


def _play(corpus: Corpus, choice: Choice, database: Database, addresses: Addresses, console: Console) -> None:
    policy = Policies(Settings(backend=database.backend)).resolve(database.backend, NAME)
    first = fetch_k(LIMIT, policy=policy, cap=None)
    pools = (first, grown_fetch_k(first, policy=policy, cap=None))
    with closing(database.opened(addresses.engine)) as direct, closing(database.opened(addresses.proxy)) as proxied:
        stage = Stage(
            corpus=corpus, direct=direct, proxied=proxied, policy=policy, pools=pools, caution=database.caution
        )
        write(stage, console)
        present(stage, choice, console)


def _keep(
    corpus: Corpus, choice: Choice, database: Database, addresses: Addresses, console: Console, *, browse: bool
) -> None:
    nearest = int(np.argmax(corpus.vectors @ corpus.question_vectors[choice.index]))
    lines = database.instructions(addresses, row=nearest, question=choice.index, limit=LIMIT)
    console.print(lines, soft_wrap=True)  # a wrapped line could not be pasted
    console.print(f"What was left out, and why: [bold]{addresses.admin}/[/bold]\n", soft_wrap=True)
    if browse and not webbrowser.open(f"{addresses.admin}/"):
        console.print("No browser could be started: open that address in one.\n")
    with suppress(KeyboardInterrupt):
        threading.Event().wait()
    console.print("stopped")


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """What a presentation needs. ``pools``: how many candidates the proxy fetches for LIMIT results, and after growing.
    ``caution``: printed below the measured time.
    """

    corpus: Corpus
    direct: Store
    proxied: Store
    policy: ResolvedPolicy
    pools: tuple[int, int]
    caution: str


def write(stage: Stage, console: Console) -> None:
    """Write the corpus into the database directly, with a progress bar."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("Loading the Python documentation", total=len(stage.corpus.chunks))
        stage.direct.load(stage.corpus, progress=lambda written: progress.advance(task, written))


def present(stage: Stage, choice: Choice, console: Console) -> None:
    """Print one question's answers side by side, the added time, and the summary of all questions."""
    question = stage.corpus.questions[choice.index].text
    console.print()
    console.print(Rule(Text.assemble(f"Question {choice.index + 1}: ", (question, "bold")), align="left"))
    if choice.remark is not None:
        console.print(Text(choice.remark, style="yellow"))
    comparison = _compare(stage, choice.index)
    console.print(answers_table(stage.corpus, comparison))
    console.print(legend(comparison))
    console.print()
    console.print(timing_lines(timing([_ask_both(stage, choice.index) for _ in range(_ROUNDS)]), stage.caution))
    console.print()
    console.print(
        summary_table(stage.corpus, summarise([_compare(stage, index) for index in range(len(stage.corpus.questions))]))
    )


def _compare(stage: Stage, index: int) -> Comparison:
    direct, proxied = _ask_both(stage, index)
    fetched = stage.direct.ask(stage.corpus.question_vectors[index], limit=stage.pools[1])
    pool = Pool(answer=fetched, first=stage.pools[0], policy=stage.policy, size=proxied.pool_size)
    return compare(stage.corpus, pool, direct=direct, proxied=proxied)


def _ask_both(stage: Stage, index: int) -> tuple[Answer, Answer]:
    vector = stage.corpus.question_vectors[index]
    return stage.direct.ask(vector, limit=LIMIT), stage.proxied.ask(vector, limit=LIMIT)
