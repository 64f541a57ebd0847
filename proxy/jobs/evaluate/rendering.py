"""The tables a person reads: the policies side by side over all sets, then each policy set by set."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from vecsieve.config.problems import one_line
from vecsieve.proxy.jobs.evaluate.contenders import PLAIN, Contender
from vecsieve.proxy.jobs.evaluate.summary import MANY_DROPS, REDUNDANT, Estimate, SetSummary, Summary, Worst

# Everything an evaluation found, as plain values for a program.


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What the figures hold for. ``pool``: the exact number of candidates fetched, None for each policy's own."""

    top_k: int
    every: int
    pool: int | None
    draws: int
    seed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """One geometry. ``geometry``: the name that the command line gave it, None for the sets' own embeddings."""

    geometry: str | None
    summaries: Mapping[str, Summary]


def as_json(found: Sequence[Findings], contenders: Sequence[Contender], terms: Terms) -> dict[str, object]:
    """For orjson, which writes NaN as null."""
    return {
        **asdict(terms),
        "policies": {each.name: each.settings.model_dump(by_alias=True, mode="json") for each in contenders},
        "geometries": [
            {
                "geometry": each.geometry,
                "policies": {name: _summary(summary) for name, summary in each.summaries.items()},
            }
            for each in found
        ],
    }


def _summary(summary: Summary) -> dict[str, object]:
    return {"headline": asdict(summary.headline), "sets": [asdict(each) for each in summary.sets]}


ABSENT = "-"

_Value = Callable[[SetSummary], float | None]


def report(findings: Findings, terms: Terms) -> RenderableType:
    """Everything about one geometry."""
    each = [_by_set(name, summary) for name, summary in findings.summaries.items() if name != PLAIN]
    spaced = [part for table in each for part in (Text(), table)]
    return Group(_headlines(findings, terms), _legend(terms), *spaced)


def _headlines(findings: Findings, terms: Terms) -> Table:
    some = next(iter(findings.summaries.values()))
    queries = sum(each.queries for each in some.sets)
    pool = "" if terms.pool is None else f", {terms.pool} candidates"
    vectors = "" if findings.geometry is None else f", embeddings {one_line(findings.geometry)}"
    title = (
        f"{_counted(len(some.sets), 'set')}, {_counted(queries, 'query', 'queries')}, top {terms.top_k}{pool}{vectors}"
    )
    table = Table(box=box.HORIZONTALS, title=Text(title), title_justify="left", show_lines=True, padding=0)
    table.add_column("\npolicy", min_width=12)
    for heading in (
        "redundancy\nremoved",
        "answer kept\nworst set",
        "\nmean",
        "S-recall\ngained",
        "\nworst set",
        "wrong\ndrops",
        "\nworst set",
    ):
        table.add_column(heading, justify="right")
    for heading in ("\nitems", "ms to\nchoose", "ms\nadded"):
        table.add_column(heading, justify="right", no_wrap=True, min_width=5)
    for name, summary in findings.summaries.items():
        table.add_row(Text(one_line(name)), *_headline_cells(name, summary))
    return table


def _headline_cells(name: str, summary: Summary) -> Sequence[str | Text]:
    line = summary.headline
    if name == PLAIN:  # what the others are held against: its own differences are zero by definition
        return [ABSENT] * 7 + [f"{line.returned:.2f}", ABSENT, ABSENT]
    return [
        _estimate(line.reduction),
        _worst(line.retention_worst),
        _estimate(line.retention_mean),
        _estimate(line.gain_mean, sign="+"),
        _worst(line.gain_worst, sign="+"),
        _estimate(line.wrong_mean),
        _worst(line.wrong_worst),
        f"{line.returned:.2f}",
        f"{line.choosing_ms:.2f}",
        f"{line.added_ms:.2f}",
    ]


def _legend(terms: Terms) -> Text:
    drawn = f" In brackets: 95 % of {terms.draws} draws of the queries, seed {terms.seed}." if terms.draws else ""
    return Text(
        f"Redundancy removed: mean over the sets whose plain answers are redundant to more than {REDUNDANT:.0%}. Answer kept: "
        "of the queries whose plain answer has a relevant item, the share that still has one. S-recall gained: share of a query's subtopics met, less the "
        "plain answer's. Wrong drops: of the plain answer's results that are gone, the share of whose labels fewer than half "
        f"stand in the answer; over sets with {MANY_DROPS} drops or more. Wrong by text: the same of drops with the same or a contained text.{drawn} Milliseconds: medians per "
        "search, for clusters, representatives and diversifier, and for everything but the database.",
        style="dim",
    )


def _by_set(name: str, summary: Summary) -> Table:
    table = Table(
        box=box.SIMPLE_HEAD,
        show_edge=False,
        title=Text(one_line(name), style="bold"),
        title_justify="left",
        padding=0,
    )
    table.add_column("\n\nset", no_wrap=True)
    for heading in _SET_COLUMNS:
        table.add_column(heading, justify="right")
    for each in summary.sets:
        values = _SET_COLUMNS.values()
        table.add_row(Text(one_line(each.name)), *(_number(value(each), form) for value, form in values))
    return table


# Heading -> what stands there, and its form. Three lines each, so that all columns stand in 120 characters.
_SET_COLUMNS: Mapping[str, tuple[_Value, str]] = {
    "\nque-\nries": (lambda each: each.queries, "d"),
    "redun\ndant,\nplain": (lambda each: each.plain_redundancy, ".3f"),
    "\n\nnow": (lambda each: each.redundancy, ".3f"),
    "\nre-\nmoved": (lambda each: None if each.reduction is None else each.reduction.value, ".3f"),
    "an-\nswer\nkept": (lambda each: each.retention.value, ".3f"),
    "sub-\ntop.\nkept": (lambda each: each.retained_subtopics, ".3f"),
    "S-\nre-\ncall": (lambda each: each.recall, ".3f"),
    "\n\ngained": (lambda each: each.gain.value, "+.3f"),
    "\n\ndrops": (lambda each: each.drops, "d"),
    "\n\nwrong": (lambda each: each.wrong.value, ".3f"),
    "of\nsame\ntext": (lambda each: each.wrong_same_text, ".2f"),
    "con-\ntain-\ned": (lambda each: each.wrong_contained, ".2f"),
    "\n\nnear": (lambda each: each.wrong_near, ".2f"),
    "\nα-\nnDCG": (lambda each: each.alpha_ndcg, ".3f"),
    "\n\nnDCG": (lambda each: each.ndcg, ".3f"),
    "dis-\ntinct\ndocs": (lambda each: each.documents, ".2f"),
    "\n\nitems": (lambda each: each.returned, ".2f"),
}


def _estimate(found: Estimate | None, *, sign: str = "") -> str:
    if found is None or math.isnan(found.value):
        return ABSENT
    value = f"{found.value:{sign}.3f}"
    return value if found.low is None or found.high is None else f"{value}\n[{_short(found.low)}, {_short(found.high)}]"


def _short(value: float) -> str:
    """Without the zero before the point: five intervals stand in a line."""
    return f"{value:.3f}".replace("0.", ".", 1)


def _worst(worst: Worst | None, *, sign: str = "") -> Text | str:
    if worst is None:
        return ABSENT
    value, _, interval = _estimate(worst.estimate, sign=sign).partition("\n")
    return Text.assemble(value, f"\n{interval}" if interval else "", "\n", (one_line(worst.name), "dim"))


def _number(value: float | None, form: str) -> str:
    return ABSENT if value is None or math.isnan(value) else f"{value:{form}}"


def _counted(count: int, one: str, many: str | None = None) -> str:
    return f"{count} {one if count == 1 else many or one + 's'}"
