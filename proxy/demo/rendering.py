"""The demo's tables and texts, as rich renderables."""

from __future__ import annotations

from collections import Counter
from itertools import zip_longest
from pathlib import PurePosixPath

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from vecsieve.proxy.demo.comparison import (
    NEAR,
    WORDING_SHARE,
    Alike,
    CameIn,
    Comparison,
    CopyOf,
    KeptApart,
    Note,
    PassedOver,
    Side,
    Summary,
    Timing,
)
from vecsieve.proxy.demo.corpus import Chunk, Corpus
from vecsieve.proxy.selection.values import Link, Veto

_SNIPPET_CHARACTERS = 160  # more than any cell shows: the table cuts it to its width
_SMALL_PRINT = (
    "Both columns are counted by one rule, which is not the one VecSieve chooses by. By vector: within "
    f"{NEAR.factor:.2f} x the typical distance of the question's candidates from a result above. By wording: "
    f"{WORDING_SHARE:.0%} or more of its three-word runs stand in one single result above. Results of equal text count as "
    "the same result: the engine may list either first."
)
_KEPT_APART = {
    Veto.TENANT: "another tenant's",
    Veto.SOURCE: "its source stays",
    Veto.VERSION: "versions differ",
    Veto.DATE: "dates differ",
    Veto.AMOUNT: "amounts differ",
    Veto.NUMBER: "numbers differ",
    Veto.NEGATION: "opposite words",
    Veto.UNREAD: "too much to read",
    Veto.SUBJECT: "names differ",
    Veto.TEMPLATE: "of one template",
}
_WHY_LEFT_OUT = (
    ("same text", {Link.IDENTICAL}),
    ("contained", {Link.CONTAINMENT}),
    ("overlapping parts of a document", {Link.SPAN}),
    ("much the same words", {Link.JACCARD, Link.INDEL, Link.MINHASH, Link.SIMHASH, Link.NEAR_TEXT}),
    ("near", {Link.DISTANCE}),
)


# What the calibrated rule finds: its probability is a matter of the cut.
_BY_CERTAINTY = {Link.CONTAINMENT, Link.DISTANCE}

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
    """Explains the signs that occur in the table, and how repeats are counted."""
    notes = [note for side in (comparison.direct, comparison.proxied) for each in side.notes for note in each]
    lines = []
    if any(isinstance(note, CopyOf) for note in notes):
        lines.append("= a copy: the result it names stands for it.")
    if any(isinstance(note, KeptApart) for note in notes):
        lines.append("! a look-alike that a guard keeps: a name, a figure or an opposite word makes it another thing.")
    if any(isinstance(note, Alike) for note in notes):
        lines.append("~ a look-alike that stays: not certain enough at its place.")
    if any(isinstance(note, CopyOf) and note.link in _BY_CERTAINTY for note in notes):
        lines.append(_cut_line(comparison))
    lines.append(
        f"Repeats are counted by one fixed rule for both lists: vectors within {comparison.yardstick:.3f} of a result "
        f"above, or {WORDING_SHARE:.0%} of its wording in one."
    )
    return Text("\n".join(lines), style="dim")


def _cut_line(comparison: Comparison) -> str:
    first, last = comparison.cuts
    above = max(1, len(comparison.direct.rows) - 1)
    return (
        "A result that is near or contained is left out when the probability that it repeats a result above reaches the cut "
        f"at its place: here {first:.2f} below 1 result, {last:.2f} below {above}."
    )


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
    table.add_row("results that repeat one above", *_pair(summary.by_either, summary.results))
    table.add_row("  by vector", *_pair(summary.by_vector, summary.results))
    table.add_row("  by wording", *_pair(summary.by_wording, summary.results))
    table.add_row("questions with a repeat", *(str(count) for count in summary.with_repeats))
    return Group(table, _facts(corpus, summary))


def _facts(corpus: Corpus, summary: Summary) -> Text:
    guarded = f", {summary.kept_apart} of them because a guard says they differ" if summary.kept_apart else ""
    return Text.assemble(
        f"{summary.changed} answers changed, {summary.questions - summary.changed} had nothing to collapse and came back unchanged; "
        f"the first result stayed first in {summary.first_kept} of {summary.questions}.\n",
        f"{_reasons(summary)}{_doubtful(corpus, summary)}Repeats that stay: {summary.by_either[1]}{guarded}.\n",
        (_SMALL_PRINT, "dim"),
    )


def _reasons(summary: Summary) -> str:
    """Why direct results are not in the other answers: the reasons that occurred, with counts."""
    counted = ((words, sum(summary.left_out.get(link, 0) for link in sorted(links))) for words, links in _WHY_LEFT_OUT)
    said = ", ".join(f"{words} {count}" for words, count in counted if count)
    if not said:
        return ""
    total = sum(summary.left_out.values())
    return f"Left out for a result above: {total} ({said}).\n"


def _doubtful(corpus: Corpus, summary: Summary) -> str:
    """The pairs that a person should judge."""
    if not summary.doubtful:
        return ""
    listed = "".join(
        f"  {_name(corpus.chunks[pair.row])} for {_name(corpus.chunks[pair.above])} ({pair.similarity:.2f}, cut {pair.cut:.2f})\n"
        for pair in summary.doubtful[:LISTED]
    )
    more = len(summary.doubtful) - LISTED
    return f"Only near, so check these pairs:\n{listed}" + (f"  and {more} more\n" if more > 0 else "")


def _heading(title: str, side: Side, other: Side, moved: str) -> Text:
    """``moved``: what happened to results that only this list has."""
    repeats = side.counts.by_either
    said = "no repeats" if repeats == 0 else f"{repeats} of {side.counts.results} repeat a result above"
    own = (Counter(side.texts) - Counter(other.texts)).total()
    return Text.assemble(
        (title, "bold"), "\n", (said, "bold green" if repeats == 0 else "bold red"), f", {own} {moved}" if own else ""
    )


def _cells(corpus: Corpus, side: Side) -> list[Text]:
    return [_cell(corpus.chunks[row], note) for row, note in zip(side.rows, side.notes, strict=True)]


def _cell(chunk: Chunk, notes: tuple[Note, ...]) -> Text:
    faded = any(isinstance(note, CopyOf) for note in notes)
    cell = Text(no_wrap=True, overflow="ellipsis")
    cell.append(_name(chunk), style="dim" if faded else "bold")
    cell.append(f"\n{chunk.text[:_SNIPPET_CHARACTERS]}", style="dim")
    for note in notes:
        cell.append("\n")
        cell.append_text(_note(note))
    return cell


def _name(chunk: Chunk) -> str:
    if chunk.source == "docstring":
        return f"{chunk.document} (docstring)"
    return f"{PurePosixPath(chunk.document).name}: {chunk.title}"


def _note(note: Note) -> Text:
    match note:
        case CopyOf():
            return Text(f"= {_copied(note)}", style="red")
        case KeptApart(place=place, veto=veto, from_copy=from_copy):
            whom = f"a copy of {place + 1}" if from_copy else f"{place + 1}"
            return Text(f"! kept beside {whom}: {_KEPT_APART[veto]}", style="cyan")
        case Alike():
            return Text(f"~ {_alike(note)}", style="yellow")
        case PassedOver():
            return Text("- left out, nothing stands for it", style="yellow")
        case CameIn(rank=None):
            return Text("+ came in from further down", style="green")
        case CameIn(rank=rank):
            return Text(f"+ came in, was number {rank}", style="green")


def _copied(note: CopyOf) -> str:
    place, share = note.place + 1, f"{note.similarity:.0%}"
    match note.link:
        case Link.IDENTICAL:
            return f"same text as {place}"
        case Link.SPAN:
            return f"overlaps {place}: {share} of the shorter"
        case Link.CONTAINMENT:
            return f"contains {place}" if note.is_longer else f"contained in {place}"
        case Link.JACCARD | Link.INDEL | Link.MINHASH | Link.NEAR_TEXT:
            return f"words {share} like {place}"
        case Link.SIMHASH:
            return f"words much like {place}"
        case _:
            return f"near {place} ({note.similarity:.2f}, cut {note.cut:.2f})"


def _alike(note: Alike) -> str:
    place = note.place + 1
    if note.share is not None:
        return f"{note.share:.0%} of its words are in {place}"
    return f"like {place}: {note.distance:.3f} apart"


def _pair(counts: tuple[int, int], results: int) -> tuple[str, str]:
    before, after = (f"{count} ({count / max(1, results):.0%})" for count in counts)
    return before, after
