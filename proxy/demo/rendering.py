"""What the demo prints, as rich renderables. No measuring, no asking: values in, something to print out."""

from __future__ import annotations

from itertools import zip_longest
from pathlib import PurePosixPath

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from vecsieve.proxy.demo.comparison import CameIn, Comparison, Note, PassedOver, Repeat, Side
from vecsieve.proxy.demo.corpus import Chunk, Corpus
from vecsieve.proxy.demo.summary import Summary, Timing

_SNIPPET_CHARACTERS = 160  # more than any cell shows: the table cuts it to its width
_CAUTION = (
    "The embedded engine is here for trying things out, it is not built for speed: fetching more results with their "
    "vectors costs it more than it costs a Qdrant server."
)
_SMALL_PRINT = (
    "By wording: at least half of a result's three-word runs stand in one single result above it. "
    "Results of equal text count as the same result: the engine may list either first."
)


def answers_table(corpus: Corpus, comparison: Comparison) -> Table:
    """Both lists side by side, one result a row."""
    table = Table(box=box.ROUNDED, expand=True)
    table.add_column("#", justify="right")
    table.add_column(_heading("Asked directly", comparison.direct), ratio=1)
    table.add_column(_heading("Asked through VecSieve", comparison.proxied), ratio=1)
    sides = zip_longest(_cells(corpus, comparison.direct), _cells(corpus, comparison.proxied), fillvalue=Text())
    for number, (left, right) in enumerate(sides, 1):
        table.add_row(str(number), left, right, end_section=True)
    return table


def legend(comparison: Comparison) -> Text:
    """How the notes of the table come about."""
    return Text(
        f"A result repeats another when the cosine distance of their vectors is at most {comparison.threshold:.3f}: "
        "the cut that VecSieve derives from how far apart this question's candidates lie.",
        style="dim",
    )


def timing_lines(timing: Timing) -> Text:
    """What it cost, and what the number is worth."""
    measured = (
        f"{timing.added_milliseconds:+.1f} ms a search (medians of {timing.rounds}: {timing.direct_milliseconds:.1f} ms "
        f"directly, {timing.proxied_milliseconds:.1f} ms through VecSieve, both as the client waits).\n"
    )
    return Text.assemble(("Added time: ", "bold"), measured, (_CAUTION, "dim"))


def summary_table(summary: Summary) -> RenderableType:
    """All questions in a few lines."""
    table = Table(
        box=box.ROUNDED, title=f"All {summary.questions} questions, {summary.results} results", title_justify="left"
    )
    table.add_column("")
    table.add_column("directly", justify="right")
    table.add_column("through VecSieve", justify="right")
    table.add_row("results that repeat one above, by vector", *_pair(summary.by_vector, summary.results))
    table.add_row("results that repeat one above, by wording", *_pair(summary.by_wording, summary.results))
    table.add_row("questions with a repeat among the results", *(str(count) for count in summary.with_repeats))
    facts = Text.assemble(
        f"{summary.changed} answers changed, {summary.unchanged} had nothing to collapse and came back unchanged; "
        f"the first result stayed first in {summary.first_kept} of {summary.questions}.\n",
        (_SMALL_PRINT, "dim"),
    )
    return Group(table, facts)


def _heading(title: str, side: Side) -> Text:
    repeats = side.counts.by_vector
    said = "no repeats" if repeats == 0 else f"{repeats} of {side.counts.results} repeat a result above"
    return Text.assemble((title, "bold"), "\n", (said, "bold green" if repeats == 0 else "bold red"))


def _cells(corpus: Corpus, side: Side) -> list[Text]:
    return [_cell(corpus.chunks[row], note) for row, note in zip(side.rows, side.notes, strict=True)]


def _cell(chunk: Chunk, note: Note | None) -> Text:
    faded = isinstance(note, Repeat)
    cell = Text(no_wrap=True, overflow="ellipsis")
    cell.append(_name(chunk), style="dim" if faded else "bold")
    cell.append(f"\n{chunk.text[:_SNIPPET_CHARACTERS]}", style="dim")
    if note is not None:
        cell.append("\n")
        cell.append_text(_note(note))
    return cell


def _name(chunk: Chunk) -> str:
    """A docstring is named by its object; an excerpt of a page by the page's file and what most of it describes."""
    if chunk.source == "docstring":
        return f"{chunk.document} (docstring)"
    return f"{PurePosixPath(chunk.document).name}: {chunk.title}"


def _note(note: Note) -> Text:
    match note:
        case Repeat(place=place, same_text=True):
            return Text(f"= same text as {place + 1}", style="red")
        case Repeat(place=place, distance=distance):
            return Text(f"= repeats {place + 1} (distance {distance:.3f})", style="red")
        case PassedOver():
            return Text("- left out for variety", style="yellow")
        case CameIn(rank=None):
            return Text("+ came in from further down", style="green")
        case CameIn(rank=rank):
            return Text(f"+ came in, was number {rank}", style="green")


def _pair(counts: tuple[int, int], results: int) -> tuple[str, str]:
    before, after = (f"{count} ({count / max(1, results):.0%})" for count in counts)
    return before, after
