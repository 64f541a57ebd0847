"""``vecsieve demo``: checks the arguments, starts the engine and the proxy, tells the story, ends both."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import TextIOWrapper

import numpy as np
from rich.console import Console

from vecsieve.config.schema import Settings
from vecsieve.proxy.demo.children import ChildFailed, child
from vecsieve.proxy.demo.choosing import Choice, UnknownQuestion, choose
from vecsieve.proxy.demo.collection import NAME, Collection
from vecsieve.proxy.demo.corpus import Corpus, CorpusDamaged
from vecsieve.proxy.demo.corpus import load as load_corpus
from vecsieve.proxy.demo.keeping import Addresses, instructions, invitation
from vecsieve.proxy.demo.story import LIMIT, Stage, load, tell
from vecsieve.proxy.ending import ended_by_signals
from vecsieve.proxy.fetching import fetch_k, grown_fetch_k
from vecsieve.proxy.policies import Policies

DEFAULT_QUESTION = "36"  # an everyday question whose two best answers each stand there three times
PLAIN_WIDTH = 100  # where the output is not a terminal there is no width to ask for
_ENGINE = "vecsieve embedded listening on"
_PROXY = "vecsieve serve listening on"
_ADMIN = "vecsieve serve admin on"
_ANY_PORT = "127.0.0.1:0"


def run(*, query: str | None, keep: bool) -> int:
    """Run the demo; the exit code: 0, 2 for a question that does not exist, 1 when it could not run, 130 on Ctrl-C.

    ``query``: a question's number or text, None for the default one. ``keep``: leave everything running until Ctrl-C.
    """
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # the documentation has signs that an old terminal has not
    console = Console(width=None if sys.stdout.isatty() else PLAIN_WIDTH, highlight=False)
    try:
        corpus = load_corpus()
        choice = choose([question.text for question in corpus.questions], DEFAULT_QUESTION if query is None else query)
        with ended_by_signals(), _servers() as addresses:
            _play(corpus, choice, addresses, console)
            if keep:
                _keep(corpus, choice, addresses, console)
        if not keep:
            console.print(f"\n{invitation(len(corpus.questions))}", style="dim")
    except UnknownQuestion as error:
        sys.stderr.write(f"{error}\n")
        return 2
    except (CorpusDamaged, ChildFailed) as error:
        sys.stderr.write(f"vecsieve demo: {error}\n")
        return 1
    except KeyboardInterrupt:
        sys.stderr.write("\nstopped\n")
        return 130
    return 0


def _play(corpus: Corpus, choice: Choice, addresses: Addresses, console: Console) -> None:
    policy = Policies(Settings()).resolve("qdrant", NAME)
    first = fetch_k(LIMIT, policy=policy, cap=None)
    pools = (first, grown_fetch_k(first, policy=policy, cap=None))
    with Collection(addresses.engine) as direct, Collection(addresses.proxy) as proxied:
        stage = Stage(corpus=corpus, direct=direct, proxied=proxied, policy=policy, pools=pools)
        load(stage, console)
        tell(stage, choice, console)


def _keep(corpus: Corpus, choice: Choice, addresses: Addresses, console: Console) -> None:
    nearest = int(np.argmax(corpus.vectors @ corpus.question_vectors[choice.index]))
    lines = instructions(addresses, row=nearest, question=choice.index, limit=LIMIT)
    console.print(lines, soft_wrap=True)  # a wrapped line could not be pasted
    with suppress(KeyboardInterrupt):
        threading.Event().wait()
    console.print("stopped")


@contextmanager
def _servers() -> Iterator[Addresses]:
    """The engine, and the proxy in front of it."""
    with child(("embedded", "--listen", _ANY_PORT), announces=(_ENGINE,)) as engine:
        upstream = engine[_ENGINE]
        listen = ("--listen", _ANY_PORT, "--admin", _ANY_PORT)
        proxy_arguments = ("serve", "--backend", "qdrant", "--upstream", upstream, *listen)
        with child(proxy_arguments, announces=(_PROXY, _ADMIN)) as proxy:
            yield Addresses(engine=upstream, proxy=proxy[_PROXY], admin=proxy[_ADMIN])
