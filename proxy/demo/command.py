"""``vecsieve demo``: checks the arguments, starts the database and the proxy, tells the story, ends both."""

from __future__ import annotations

import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from io import TextIOWrapper

import numpy as np
from rich.console import Console

from vecsieve.config.backends import DEFAULT_BACKEND
from vecsieve.config.problems import shown
from vecsieve.config.schema import Settings
from vecsieve.config.values import alternatives
from vecsieve.proxy.demo.children import ChildFailedError
from vecsieve.proxy.demo.chroma import Chroma
from vecsieve.proxy.demo.corpus import Choice, Corpus, CorpusDamagedError, UnknownQuestionError, choose
from vecsieve.proxy.demo.corpus import load as load_corpus
from vecsieve.proxy.demo.database import NAME, Addresses, Database, DatabaseMissingError, DatabaseRefusedError
from vecsieve.proxy.demo.pinecone import Pinecone
from vecsieve.proxy.demo.qdrant import Qdrant, invitation
from vecsieve.proxy.demo.story import LIMIT, Stage, load, tell
from vecsieve.proxy.runtime import ended_by_signals
from vecsieve.proxy.search.fetch import fetch_k, grown_fetch_k
from vecsieve.proxy.search.policy import Policies

DEFAULT_QUESTION = "36"  # an everyday question whose two best answers each stand there three times
PLAIN_WIDTH = 100  # where the output is not a terminal there is no width to ask for
DATABASES: Mapping[str, Database] = {each.backend: each for each in (Qdrant(), Pinecone(), Chroma())}


def run(*, query: str | None, keep: bool, backend: str = DEFAULT_BACKEND) -> int:
    """Run the demo; the exit code: 0, 2 for a question or backend that does not exist, 1 when it could not run, 130 on Ctrl-C.

    ``query``: a question's number or text, None for the default one. ``keep``: leave everything running until Ctrl-C.
    """
    database = DATABASES.get(backend)
    if database is None:
        wanted = alternatives(tuple(DATABASES))
        sys.stderr.write(f"vecsieve demo: --backend: wanted {wanted}; saw {shown(backend)}\n")
        return 2
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # the documentation has signs that an old terminal has not
    console = Console(width=None if sys.stdout.isatty() else PLAIN_WIDTH, highlight=False)
    try:
        corpus = load_corpus()
        choice = choose([question.text for question in corpus.questions], DEFAULT_QUESTION if query is None else query)
        _say(database.words.opening, console, "bold yellow")
        with ended_by_signals(), database.running() as addresses:
            _play(corpus, choice, database, addresses, console)
            _say(database.closing(addresses), console, "yellow", apart=True)
            if keep:
                _keep(corpus, choice, database, addresses, console)
        if not keep:
            console.print(f"\n{invitation(len(corpus.questions), database.words.command)}", style="dim")
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


def _say(words: str | None, console: Console, style: str, *, apart: bool = False) -> None:
    if words is not None:
        console.print(f"\n{words}" if apart else words, style=style)


def _play(corpus: Corpus, choice: Choice, database: Database, addresses: Addresses, console: Console) -> None:
    policy = Policies(Settings(backend=database.backend)).resolve(database.backend, NAME)
    first = fetch_k(LIMIT, policy=policy, cap=None)
    pools = (first, grown_fetch_k(first, policy=policy, cap=None))
    with database.opened(addresses.engine) as direct, database.opened(addresses.proxy) as proxied:
        stage = Stage(
            corpus=corpus,
            direct=direct,
            proxied=proxied,
            policy=policy,
            pools=pools,
            caution=database.words.caution,
        )
        load(stage, console)
        tell(stage, choice, console)


def _keep(corpus: Corpus, choice: Choice, database: Database, addresses: Addresses, console: Console) -> None:
    nearest = int(np.argmax(corpus.vectors @ corpus.question_vectors[choice.index]))
    lines = database.instructions(addresses, row=nearest, question=choice.index, limit=LIMIT)
    console.print(lines, soft_wrap=True)  # a wrapped line could not be pasted
    with suppress(KeyboardInterrupt):
        threading.Event().wait()
    console.print("stopped")
