"""``vecsieve demo``: starts a database and the proxy, asks one question both ways, measures, then asks all questions."""

from __future__ import annotations

import sys
import threading
import webbrowser
from collections import Counter
from collections.abc import Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import PurePosixPath
from typing import Annotated

import numpy as np
import typer
from rich import box
from rich.console import Console, Group, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from vecsieve.config.backends import DEFAULT_BACKEND
from vecsieve.config.problems import excerpt
from vecsieve.config.schema import Settings
from vecsieve.config.values import alternatives

from ..runtime.files import output_console
from ..runtime.lifecycle import ended_by_signals
from ..search.fetch import fetch_k, grown_fetch_k
from ..search.policy import Policies, ResolvedPolicy
from ..selection.values import Link
from .backends import CHROMA, PINECONE, QDRANT
from .comparison import (
    NEAR,
    WORDING_SHARE,
    Comparison,
    Note,
    Side,
    Sign,
    Summary,
    Timing,
    compare,
    summarise,
    timing,
)
from .corpus import Choice, Chunk, Corpus, CorpusDamagedError, UnknownQuestionError, choose, load
from .database import (
    NAME,
    Addresses,
    Answer,
    ChildFailedError,
    Database,
    DatabaseMissingError,
    DatabaseRefusedError,
    Store,
)
from .reasons import Pool

DEFAULT_QUESTION = "11"  # seven of its eight results have the same text, from seven classes
LIMIT = 8
PLAIN_WIDTH = 100  # columns of an output that is not a terminal
_ROUNDS = 25  # more rounds change the medians by less than 0.1 ms, and the demo takes less than a minute
DATABASES: Mapping[str, Database] = {database.backend: database for database in (QDRANT, PINECONE, CHROMA)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Arguments:
    """The options of `demo`. ``query``: None for the default question."""

    query: Annotated[str | None, typer.Option(help="The number of a question, or a text.")] = None
    keep: Annotated[bool, typer.Option("--keep", help="Keep everything running until Ctrl-C.")] = False
    backend: Annotated[str, typer.Option(help="The database: qdrant, pinecone (an emulator) or chroma.")] = (
        DEFAULT_BACKEND
    )
    browse: Annotated[bool, typer.Option("--open", help="As --keep, and open the inspector in a browser.")] = False


def run(arguments: Arguments) -> int:
    """The exit code: 0, 2 for an unknown question or backend, 1 when the demo could not run, 130 on Ctrl-C."""
    query, browse = arguments.query, arguments.browse
    keep = arguments.keep or browse
    database = DATABASES.get(arguments.backend)
    if database is None:
        expected = alternatives(tuple(DATABASES))
        sys.stderr.write(f"vecsieve demo: --backend: wanted {expected}; saw {excerpt(arguments.backend)}\n")
        return 2
    console = output_console(PLAIN_WIDTH)
    try:
        corpus = load()
        choice = choose([question.text for question in corpus.questions], DEFAULT_QUESTION if query is None else query)
        if database.opening is not None:
            console.print(database.opening, style="bold yellow")
        with ended_by_signals(), database.running(is_kept=keep) as addresses:
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
    return f"Another question: {command} --query NUMBER (1 to {questions}). To search yourself: {command} --keep"


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
    console.print(f"Results that were left out, and why: [bold]{addresses.admin}/[/bold]\n", soft_wrap=True)
    if browse and not webbrowser.open(f"{addresses.admin}/"):
        console.print("No browser could be started: open that address in one.\n")
    with suppress(KeyboardInterrupt):
        threading.Event().wait()
    console.print("stopped")


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """The parameters of a presentation. ``pools``: how many candidates the proxy fetches for LIMIT results, and after growing. ``caution``:
    printed below the measured time.
    """

    corpus: Corpus
    direct: Store
    proxied: Store
    policy: ResolvedPolicy
    pools: tuple[int, int]
    caution: str


def write(stage: Stage, console: Console) -> None:
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


_SNIPPET_CHARACTERS = 160  # more than any cell shows: the table truncates it
_SMALL_PRINT = (
    "Results like one above are counted by one rule, which is not the rule of VecSieve. By vector: within "
    f"{NEAR.factor:.2f} x the typical distance of the question's candidates from a result above. By wording: "
    f"{WORDING_SHARE:.0%} or more of its three-word runs are in a single result above. Results of equal text count as "
    "the same result: the engine may list either first."
)
_WHY_LEFT_OUT = {
    Link.EQUAL: "the same text",
    Link.CONTAINED: "all in one result",
    Link.JOINED: "all in several pieces or results",
    Link.EDITED: "edited copies",
    Link.REWORDED: "in other words",
    Link.DISTANCE: "near by vector",
}

_COLOURS = {
    Sign.COPY: "red",
    Sign.STAYS: "cyan",
    Sign.ALIKE: "yellow",
    Sign.PASSED_OVER: "yellow",
    Sign.CAME_IN: "green",
}
_LEGEND = {
    Sign.COPY: "left out, or repeated to fill the page: the results that it names say all of it.",
    Sign.STAYS: "it stays: it says something that the result like it does not say.",
    Sign.ALIKE: "similar by the counting rule below, but no words that prove a repeat.",
}

# Doubtful results that the summary lists.
LISTED = 12


def answers_table(corpus: Corpus, comparison: Comparison) -> Table:
    table = Table(box=box.ROUNDED, expand=True)
    table.add_column("#", justify="right")
    direct, proxied = comparison.direct, comparison.proxied
    table.add_column(_heading("Asked directly", direct, proxied, "left out"), ratio=1)
    table.add_column(_heading("Asked through VecSieve", proxied, direct, "came in"), ratio=1)
    sides = zip_longest(_cells(corpus, direct), _cells(corpus, proxied), fillvalue=Text())
    for number, (left, right) in enumerate(sides, 1):
        table.add_row(str(number), left, right, end_section=True)
    return table


def legend(comparison: Comparison) -> Text:
    """Explains the signs in the table, and how repeats are counted."""
    signs = {note.sign for side in (comparison.direct, comparison.proxied) for notes in side.notes for note in notes}
    lines = [f"{sign} {words}" for sign, words in _LEGEND.items() if sign in signs]
    lines.append(
        f"Repeats are counted by one fixed rule for both lists: vectors within {comparison.yardstick:.3f} of a result "
        f"above, or {WORDING_SHARE:.0%} of its wording in one."
    )
    return Text("\n".join(lines), style="dim")


def timing_lines(timing: Timing, caution: str) -> Text:
    added = timing.proxied_milliseconds - timing.direct_milliseconds
    measured = (
        f"{added:+.1f} ms a search (medians of {timing.rounds}: {timing.direct_milliseconds:.1f} ms "
        f"directly, {timing.proxied_milliseconds:.1f} ms through VecSieve, both as the client waits).\n"
    )
    return Text.assemble(("Added time: ", "bold"), measured, (caution, "dim"))


def summary_table(corpus: Corpus, summary: Summary) -> RenderableType:
    table = Table(
        box=box.ROUNDED, title=f"All {summary.questions} questions, {summary.results} results", title_justify="left"
    )
    table.add_column("")
    table.add_column("directly", justify="right")
    table.add_column("through VecSieve", justify="right")
    table.add_row(
        Text("copies of a result above, word for word", style="bold"), *_pair(summary.word_for_word, summary.results)
    )
    table.add_row("results like one above", *_pair(summary.by_either, summary.results))
    table.add_row("  by vector", *_pair(summary.by_vector, summary.results))
    table.add_row("  by wording", *_pair(summary.by_wording, summary.results))
    table.add_row("questions with a result like one above", *(str(count) for count in summary.with_repeats))
    return Group(table, _facts(corpus, summary))


def _facts(corpus: Corpus, summary: Summary) -> Text:
    before, after = summary.word_for_word
    say_more = f", {summary.say_more} of them because they say more than a result above" if summary.say_more else ""
    return Text.assemble(
        (f"Word for word copies: {before} → {after}. ", "bold"),
        f"Alike but different, kept on purpose: {summary.by_either[1]}{say_more}.\n",
        f"{summary.changed} answers changed, {summary.questions - summary.changed} had nothing to collapse and came back unchanged; "
        f"the first result stayed first in {summary.first_kept} of {summary.questions}.\n",
        f"{_reasons(summary)}{_doubtful(corpus, summary)}",
        (_SMALL_PRINT, "dim"),
    )


def _reasons(summary: Summary) -> str:
    """Why direct results are missing in the other answers: the reasons that occurred, with counts."""
    counted = ((words, summary.left_out.get(link, 0)) for link, words in _WHY_LEFT_OUT.items())
    text = ", ".join(f"{words} {count}" for words, count in counted if count)
    if not text:
        return ""
    total = sum(summary.left_out.values())
    return f"Left out for a result above: {total} ({text}).\n"


def _doubtful(corpus: Corpus, summary: Summary) -> str:
    """The pairs that a person should judge."""
    if not summary.doubtful:
        return ""
    listed = "".join(
        f"  {_name(corpus.chunks[pair.row])} for {_name(corpus.chunks[pair.above])} ({pair.note.words})\n"
        for pair in summary.doubtful[:LISTED]
    )
    more = len(summary.doubtful) - LISTED
    return f"Not proven, so check these pairs:\n{listed}" + (f"  and {more} more\n" if more > 0 else "")


def _heading(title: str, side: Side, other: Side, moved: str) -> Text:
    """``moved``: what happened to results that are only in this list."""
    repeats = side.counts.by_either
    text = "no repeats" if repeats == 0 else f"{repeats} of {side.counts.results} repeat a result above"
    unique = (Counter(side.texts) - Counter(other.texts)).total()
    return Text.assemble(
        (title, "bold"),
        "\n",
        (text, "bold green" if repeats == 0 else "bold red"),
        f", {unique} {moved}" if unique else "",
    )


def _cells(corpus: Corpus, side: Side) -> list[Text]:
    return [_cell(corpus.chunks[row], note) for row, note in zip(side.rows, side.notes, strict=True)]


def _cell(chunk: Chunk, notes: tuple[Note, ...]) -> Text:
    faded = any(note.sign is Sign.COPY for note in notes)
    cell = Text(no_wrap=True, overflow="ellipsis")
    cell.append(_name(chunk), style="dim" if faded else "bold")
    cell.append(f"\n{chunk.text[:_SNIPPET_CHARACTERS]}", style="dim")
    for note in notes:
        cell.append(f"\n{note.sign} {note.words}", style=_COLOURS[note.sign])
    return cell


def _name(chunk: Chunk) -> str:
    if chunk.source == "docstring":
        return f"{chunk.document} (docstring)"
    return f"{PurePosixPath(chunk.document).name}: {chunk.title}"


def _pair(counts: tuple[int, int], results: int) -> tuple[str, str]:
    before, after = (f"{count} ({count / max(1, results):.0%})" for count in counts)
    return before, after
