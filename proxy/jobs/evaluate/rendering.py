"""The results of an evaluation: tables and JSON."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Annotated

import typer
from rich import box
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from vecsieve.config.problems import one_line

from .reading import Repeats
from .searching import PLAIN, Contender
from .summary import MANY_REPEATS, REDUNDANT, Estimate, Headline, SetSummary, Summary, Worst

# All results of an evaluation, as plain values for a program.


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """The conditions of the figures. ``pool``: the exact number of candidates fetched, None for each policy's own."""

    top_k: Annotated[int, typer.Option(help="Results per query.", min=2, max=1000)] = 8
    every: Annotated[int, typer.Option(help="Only every n-th query, for a quick estimate.", min=1)] = 1
    pool: Annotated[int | None, typer.Option(help="Fetch exactly this many candidates.", min=1, max=10_000)] = None
    draws: Annotated[
        int, typer.Option("--bootstrap", help="Random draws for the intervals; 0: none.", min=0, max=100_000)
    ] = 1000
    seed: Annotated[int, typer.Option(help="Seed of the draws.", min=0)] = 0


Summaries = Mapping[str, Summary]
"""By policy, the plain answer first."""


def as_json(summaries: Summaries, contenders: Sequence[Contender], terms: Terms) -> dict[str, object]:
    """For orjson, which writes NaN as null."""
    return {
        **{field.name: getattr(terms, field.name) for field in fields(Terms)},
        "policies": {
            contender.name: contender.settings.model_dump(by_alias=True, mode="json") for contender in contenders
        },
        "results": {name: _plain(summary) for name, summary in summaries.items()},
    }


def _plain(summary: Summary) -> dict[str, object]:
    return {
        "headlines": {kind.value: asdict(line) for kind, line in summary.headlines.items()},
        "sets": [asdict(set_summary) for set_summary in summary.sets],
    }


ABSENT = "-"

_Value = Callable[[SetSummary], float | str | None]


def report(summaries: Summaries, terms: Terms) -> RenderableType:
    tables = [_by_set(name, summary) for name, summary in summaries.items() if name != PLAIN]
    spaced = [part for table in tables for part in (Text(), table)]
    kinds = next(iter(summaries.values())).headlines
    heads = [part for kind in kinds for part in (_headlines(summaries, kind, terms), Text())]
    return Group(*heads, _legend(terms), *spaced, Text(), _by_groups(summaries, terms))


_KINDS = {
    Repeats.COPIES: "whose repeats are copies",
    Repeats.MEANINGS: "whose repeats have other words and one meaning",
    Repeats.NONE: "without repeats",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Folded:
    """A table that goes on below, with its first column again, where not all columns fit into a line. ``columns``: by heading, a cell a row."""

    title: Text
    box: box.Box
    columns: Sequence[tuple[str, Sequence[str | Text]]]
    has_lines: bool = False

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        def width(column: tuple[str, Sequence[str | Text]]) -> int:
            heading, cells = column
            return 1 + max(Measurement.get(console, options, cell).maximum for cell in (heading, *cells))

        first, *others = self.columns
        room = options.max_width - width(first) - 2  # its edges
        part: list[tuple[str, Sequence[str | Text]]] = []
        for column in others:
            if part and sum(map(width, part)) + width(column) > room:
                yield self._table(first, *part)
                part = []
            part.append(column)
        yield self._table(first, *part)

    def _table(self, *columns: tuple[str, Sequence[str | Text]]) -> Table:
        table = Table(
            box=self.box,
            show_edge=self.has_lines,
            show_lines=self.has_lines,
            title=self.title,
            title_justify="left",
            padding=0,
        )
        for number, (heading, _) in enumerate(columns):
            table.add_column(heading, justify="right" if number else "left", no_wrap=True)
        for row in zip(*(cells for _, cells in columns), strict=True):
            table.add_row(*row)
        return table


_HEADLINES = (
    "strict\ncut",
    "redun.\nremoved",
    "answer kept\nworst set",
    "S-recall\ngained",
    "page: wrong\nby label",
    "\nby text",
    "pool: wrong\nby label",
    "\nby text",
    "\nitems",
    "ms\nadded",
)


def _headlines(summaries: Summaries, kind: Repeats, terms: Terms) -> _Folded:
    some = next(iter(summaries.values())).headlines[kind]
    pool = "" if terms.pool is None else f", {terms.pool} candidates"
    counts = f"{_counted(some.sets, 'set')} {_KINDS[kind]}, {_counted(some.queries, 'query', 'queries')}"
    title = Text(f"{counts}, top {terms.top_k}{pool}")
    names = [Text(one_line(name)) for name in summaries]
    rows = [_headline_cells(name, summary.headlines[kind]) for name, summary in summaries.items()]
    columns = [("\npolicy", names), *zip(_HEADLINES, zip(*rows, strict=True), strict=True)]
    return _Folded(title=title, box=box.HORIZONTALS, columns=columns, has_lines=True)


def _headline_cells(name: str, line: Headline) -> Sequence[str | Text]:
    if name == PLAIN:  # the baseline of the others: its own differences are zero by definition
        return [ABSENT] * 8 + [f"{line.returned:.2f}", ABSENT]
    return [
        _estimate(line.strict_cut),
        _number(None if line.reduction is None else line.reduction.value, ".3f"),
        _worst(line.retention_worst),
        _estimate(line.gain_mean, sign="+"),
        _wrong(line.page.by_label, line.page.drops, line.page.label_share),
        _wrong(line.page.by_text, line.page.drops, line.page.text_share),
        _wrong(line.walked.by_label, line.walked.drops, line.walked.label_share),
        _wrong(line.walked.by_text, line.walked.drops, line.walked.text_share),
        f"{line.returned:.2f}",
        f"{line.added_ms:.2f}",
    ]


def _legend(terms: Terms) -> Text:
    drawn = f" In brackets: 95 % of {terms.draws} draws of the queries, seed {terms.seed}." if terms.draws else ""
    return Text(
        "Strict cut: of the results whose labels all stand above them on the plain page, the share that is gone, mean over the sets with "
        f"{MANY_REPEATS} of them. Redundancy removed: the same of results with fewer than half of their labels new, over the sets with more than "
        f"{REDUNDANT:.0%}. Answer kept: of the queries whose plain answer has a relevant item, the share that still has one. S-recall gained: "
        "share of a query's subtopics met, less the plain answer's. Wrong: of the results left out as copies, of the plain page and of all the "
        "pool that the page reaches, those of whose labels fewer than half stand in the answer, and those whose words the answer does not all "
        f"say.{drawn} Milliseconds: median per search, for everything but the database.",
        style="dim",
    )


def _by_set(name: str, summary: Summary) -> _Folded:
    names = [Text(one_line(set_summary.name)) for set_summary in summary.sets]
    figures = [
        (heading, [_number(value(set_summary), form) for set_summary in summary.sets])
        for heading, (value, form) in _SET_COLUMNS.items()
    ]
    title = Text(one_line(name), style="bold")
    return _Folded(title=title, box=box.SIMPLE_HEAD, columns=[("\n\nset", names), *figures])


def _by_groups(summaries: Summaries, terms: Terms) -> Table:
    """RARE's measures: an item counts once for each need, however many say the same."""
    title = Text(
        f"Needs met by a page of {terms.top_k} (RARE): Coverage, PerfRecall (all of a question's), group nDCG",
        style="bold",
    )
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, title=title, title_justify="left", padding=0)
    table.add_column("set", no_wrap=True)
    table.add_column("policy", no_wrap=True)
    for heading in ("Coverage", "PerfRecall", "group nDCG"):
        table.add_column(f" {heading}", justify="right")
    for name, summary in summaries.items():
        for set_summary in summary.sets:
            figures = (f"{value:.3f}" for value in (set_summary.recall, set_summary.perfect, set_summary.group_ndcg))
            table.add_row(Text(one_line(set_summary.name)), Text(f" {one_line(name)}"), *figures)
    return table


# For each heading, the column's value and format. Three lines each, so that all columns fit into 120 characters; no word is divided.
_SET_COLUMNS: Mapping[str, tuple[_Value, str]] = {
    "\n\nqueries": (lambda summary: summary.queries, "d"),
    "\nstrict\nrepeats": (lambda summary: summary.plain_strict, "d"),
    "\nstrict\ncut": (lambda summary: None if summary.strict_cut is None else summary.strict_cut.value, ".3f"),
    "\nredun.\ngone": (lambda summary: None if summary.reduction is None else summary.reduction.value, ".3f"),
    "\nanswer\nkept": (lambda summary: summary.retention.value, ".3f"),
    "\nneeds\nkept": (lambda summary: summary.retained_subtopics, ".3f"),
    "\nS-\nrecall": (lambda summary: summary.recall, ".3f"),
    "\n\ngained": (lambda summary: summary.gain.value, "+.3f"),
    "page:\n\ndrops": (lambda summary: summary.page.drops, "d"),
    "wrong\nlabel/\ntext": (lambda summary: f"{summary.page.by_label}/{summary.page.by_text}", ""),
    "pool:\n\ndrops": (lambda summary: summary.walked.drops, "d"),
    "wrong\nlabel/\ntext ": (lambda summary: f"{summary.walked.by_label}/{summary.walked.by_text}", ""),
    "\nα-\nnDCG": (lambda summary: summary.alpha_ndcg, ".3f"),
    "\n\ndocs": (lambda summary: summary.documents, ".2f"),
    "\n\nitems": (lambda summary: summary.returned, ".2f"),
}


def _estimate(figure: Estimate | None, *, sign: str = "") -> str:
    if figure is None or math.isnan(figure.value):
        return ABSENT
    value = f"{figure.value:{sign}.3f}"
    return (
        value if figure.low is None or figure.high is None else f"{value}\n[{_short(figure.low)},{_short(figure.high)}]"
    )


def _wrong(count: int, drops: int, share: Estimate | None) -> str:
    """The share, its interval, and the counts."""
    return ABSENT if share is None else f"{_estimate(share)}\n{count} of {drops}"


def _short(value: float) -> str:
    """Without the zero before the point, so that seven intervals fit into a line."""
    return "1.00" if value >= 0.9995 else f"{value:.3f}".replace("0.", ".", 1)


def _worst(worst: Worst | None) -> Text | str:
    if worst is None:
        return ABSENT
    value, _, interval = _estimate(worst.estimate).partition("\n")
    return Text.assemble(value, f"\n{interval}" if interval else "", "\n", (one_line(worst.name), "dim"))


def _number(value: float | str | None, form: str) -> str:
    return ABSENT if value is None or (isinstance(value, float) and math.isnan(value)) else f"{value:{form}}"


def _counted(count: int, one: str, many: str | None = None) -> str:
    return f"{count} {one if count == 1 else many or one + 's'}"
