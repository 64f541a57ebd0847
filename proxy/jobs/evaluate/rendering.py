"""The results of an evaluation: tables, JSON, and pictures as SVG.

The pictures are drawn without a library; the same figures give the same bytes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from html import escape

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from vecsieve.config.problems import one_line

from .fitting import Bin
from .reading import Repeats
from .searching import PLAIN, Contender
from .summary import MANY_REPEATS, REDUNDANT, Estimate, Headline, SetSummary, Summary, Worst

# All results of an evaluation, as plain values for a program.


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """The conditions of the figures. ``pool``: the exact number of candidates fetched, None for each policy's own."""

    top_k: int
    every: int
    pool: int | None
    draws: int
    seed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """One geometry. ``geometry``: its name on the command line, None for the sets' own embeddings."""

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
                "policies": {name: _plain(summary) for name, summary in each.summaries.items()},
            }
            for each in found
        ],
    }


def _plain(summary: Summary) -> dict[str, object]:
    return {
        "headlines": {kind.value: asdict(line) for kind, line in summary.headlines.items()},
        "sets": [asdict(each) for each in summary.sets],
    }


ABSENT = "-"

_Value = Callable[[SetSummary], float | None]


def report(findings: Findings, terms: Terms) -> RenderableType:
    each = [_by_set(name, summary) for name, summary in findings.summaries.items() if name != PLAIN]
    spaced = [part for table in each for part in (Text(), table)]
    kinds = next(iter(findings.summaries.values())).headlines
    heads = [part for kind in kinds for part in (_headlines(findings, kind, terms), Text())]
    return Group(*heads, _legend(terms), *spaced)


_KINDS = {
    Repeats.COPIES: "whose repeats are copies",
    Repeats.MEANINGS: "whose repeats have other words and one meaning",
    Repeats.NONE: "without repeats",
}


def _headlines(findings: Findings, kind: Repeats, terms: Terms) -> Table:
    some = next(iter(findings.summaries.values())).headlines[kind]
    pool = "" if terms.pool is None else f", {terms.pool} candidates"
    vectors = "" if findings.geometry is None else f", embeddings {one_line(findings.geometry)}"
    counts = f"{_counted(some.sets, 'set')} {_KINDS[kind]}, {_counted(some.queries, 'query', 'queries')}"
    title = Text(f"{counts}, top {terms.top_k}{pool}{vectors}")
    table = Table(box=box.HORIZONTALS, title=title, title_justify="left", show_lines=True, padding=0)
    table.add_column("\npolicy", min_width=12)
    for heading in (
        "strict\ncut",
        "redun.\nremoved",
        "answer kept\nworst set",
        "S-recall\ngained",
        "page: wrong\nby label",
        "\nby text",
        "pool: wrong\nby label",
        "\nby text",
    ):
        table.add_column(heading, justify="right")
    for heading in ("\nitems", "ms\nadded"):
        table.add_column(heading, justify="right", no_wrap=True, min_width=5)
    for name, summary in findings.summaries.items():
        table.add_row(Text(one_line(name)), *_headline_cells(name, summary.headlines[kind]))
    return table


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


# For each heading, the column's value and format. Three lines each, so that all columns fit into 120 characters.
_SET_COLUMNS: Mapping[str, tuple[_Value, str]] = {
    "\nque-\nries": (lambda each: each.queries, "d"),
    "strict\nre-\npeats": (lambda each: each.plain_strict, "d"),
    "\n\ncut": (lambda each: None if each.strict_cut is None else each.strict_cut.value, ".3f"),
    "redun\ndancy\ngone": (lambda each: None if each.reduction is None else each.reduction.value, ".3f"),
    "an-\nswer\nkept": (lambda each: each.retention.value, ".3f"),
    "sub-\ntop.\nkept": (lambda each: each.retained_subtopics, ".3f"),
    "S-\nre-\ncall": (lambda each: each.recall, ".3f"),
    "\n\ngained": (lambda each: each.gain.value, "+.3f"),
    "page:\n\ndrops": (lambda each: each.page.drops, "d"),
    "wrong\nby\nlabel": (lambda each: each.page.by_label, "d"),
    "\nby\ntext": (lambda each: each.page.by_text, "d"),
    "pool:\n\ndrops": (lambda each: each.walked.drops, "d"),
    "wrong\nby\nlabel ": (lambda each: each.walked.by_label, "d"),
    "\nby\ntext ": (lambda each: each.walked.by_text, "d"),
    "\nα-\nnDCG": (lambda each: each.alpha_ndcg, ".3f"),
    "dis-\ntinct\ndocs": (lambda each: each.documents, ".2f"),
    "\n\nitems": (lambda each: each.returned, ".2f"),
}


def _estimate(found: Estimate | None, *, sign: str = "") -> str:
    if found is None or math.isnan(found.value):
        return ABSENT
    value = f"{found.value:{sign}.3f}"
    return value if found.low is None or found.high is None else f"{value}\n[{_short(found.low)},{_short(found.high)}]"


def _wrong(count: int, drops: int, share: Estimate | None) -> str:
    """The share, its interval, and the counts."""
    return ABSENT if share is None else f"{_estimate(share)}\n{count} of {drops}"


def _short(value: float) -> str:
    """Without the zero before the point, so that seven intervals fit into a line."""
    return "1.00" if value >= 0.9995 else f"{value:.3f}".replace("0.", ".", 1)


def _worst(worst: Worst | None, *, sign: str = "") -> Text | str:
    if worst is None:
        return ABSENT
    value, _, interval = _estimate(worst.estimate, sign=sign).partition("\n")
    return Text.assemble(value, f"\n{interval}" if interval else "", "\n", (one_line(worst.name), "dim"))


def _number(value: float | None, form: str) -> str:
    return ABSENT if value is None or math.isnan(value) else f"{value:{form}}"


def _counted(count: int, one: str, many: str | None = None) -> str:
    return f"{count} {one if count == 1 else many or one + 's'}"


WIDTH, HEIGHT = 800, 430
LEFT, TOP, RIGHT, BOTTOM = 70, 50, 640, 370  # of the plot; the names of lines are to its right
COLOURS = ("#0969da", "#bf3989", "#1a7f37", "#9a6700", "#8250df", "#cf222e")
# What --pictures compares: one certainty at every rank, and the presets. Pages are not filled.
FRONTIER = (
    *(f"{sure:g}={{certainty: {sure:g}, short: allow}}" for sure in (0.95, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3)),
    "default={short: allow}",
    "vectors={text: none, short: allow}",
)
LABELLED_APART = 14  # pixels between two names

_FONT = 'font-family="system-ui, sans-serif" font-size="13"'
_STYLE = (
    ".ink{fill:#24292f}.soft{fill:#57606a}.grid{stroke:#d0d7de}.bg{fill:#ffffff}"
    "@media (prefers-color-scheme:dark){.ink{fill:#e6edf3}.soft{fill:#9198a1}.grid{stroke:#3d444d}.bg{fill:#0d1117}}"
)


@dataclass(frozen=True, slots=True)
class Point:
    """``name``: shown beside it; "" for none. ``size``: the radius in pixels."""

    x: float
    y: float
    name: str = ""
    size: float = 3.5


@dataclass(frozen=True, slots=True)
class Axis:
    """From ``low`` to ``high``, with lines ``step`` apart."""

    title: str
    low: float
    high: float
    step: float

    def ticks(self) -> list[float]:
        count = round((self.high - self.low) / self.step)
        return [self.low + self.step * place for place in range(count + 1)]


def frontier(found: Mapping[str, Mapping[str, Summary]]) -> str:
    """Over the sets of meanings, if there are any: only these are decided by certainty. ``found``: for each embedding the summaries by policy. Policies whose names are numbers are joined by a line."""
    lines, apart = {}, {}
    for geometry, summaries in found.items():
        points = {name: point for name, each in summaries.items() if (point := _point(name, each)) is not None}
        dialled = {name: point for name, point in points.items() if _is_number(name)}
        lines[geometry] = [dialled[name] for name in sorted(dialled, key=float, reverse=True)]
        apart[geometry] = [point for name, point in points.items() if name not in dialled]
    every = [point for group in (lines, apart) for points in group.values() for point in points]
    most = max((point.x for point in every), default=0.1)
    across = Axis("drops of the page that are wrong by label", 0.0, max(0.1, math.ceil(most * 20) / 20), 0.05)
    up = Axis("strict cut", 0.0, 1.0, 0.2)
    return _drawn("Certainty: strict cut against wrong drops", across, up, lines, apart)


def reliability(bins: Mapping[str, Sequence[Bin]]) -> str:
    """``bins``: by name of a line. A well calibrated probability is on the diagonal."""
    # An area that grows with the number of pairs, between a visible minimum and a maximum that hides no others.
    lines = {
        name: [
            Point((each.low + each.high) / 2, each.copies, size=min(9.0, 2.0 + math.log10(each.pairs)))
            for each in some
            if each.pairs
        ]
        for name, some in bins.items()
    }
    across, up = Axis("probability of a copy", 0.0, 1.0, 0.2), Axis("copies among the pairs", 0.0, 1.0, 0.2)
    diagonal = {"": [Point(0.0, 0.0, size=0.0), Point(1.0, 1.0, size=0.0)]}
    return _drawn("How often a probability is right, on sets left out of the fit", across, up, lines, {}, diagonal)


def _point(name: str, summary: Summary) -> Point | None:
    line = summary.headlines.get(Repeats.MEANINGS) or next(iter(summary.headlines.values()))
    if line.strict_cut is None or line.page.label_share is None:
        return None
    x, y = line.page.label_share.value, line.strict_cut.value
    return Point(x, y, name) if math.isfinite(x) and math.isfinite(y) else None


def _is_number(name: str) -> bool:
    try:
        return math.isfinite(float(name))
    except ValueError:
        return False


def _drawn(
    title: str,
    across: Axis,
    up: Axis,
    lines: Mapping[str, Sequence[Point]],
    apart: Mapping[str, Sequence[Point]],
    dashed: Mapping[str, Sequence[Point]] | None = None,
) -> str:
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-labelledby="t" {_FONT}>',
        f'<title id="t">{escape(title)}</title>',
        f"<style>{_STYLE}</style>",
        f'<rect class="bg" width="{WIDTH}" height="{HEIGHT}"/>',
        f'<text class="ink" x="16" y="22" font-weight="600">{escape(title)}</text>',
        *_grid(across, up),
    ]
    parts += [_path(each, across, up, 'stroke="#8c959f" stroke-dasharray="4 4"') for each in (dashed or {}).values()]
    names = list(dict.fromkeys((*lines, *apart)))
    for place, name in enumerate(names):
        colour = COLOURS[place % len(COLOURS)]
        parts.append(_path(lines.get(name, ()), across, up, f'stroke="{colour}" stroke-width="1.5"'))
        parts += _dots(lines.get(name, ()), across, up, colour, is_first=place == 0)
        parts += _dots(apart.get(name, ()), across, up, colour, is_first=place == 0, is_square=True)
        parts.append(f'<rect x="{RIGHT + 16}" y="{TOP + 22 * place}" width="12" height="12" fill="{colour}"/>')
        parts.append(f'<text class="ink" x="{RIGHT + 34}" y="{TOP + 11 + 22 * place}">{escape(name)}</text>')
    return "\n".join(part for part in parts if part) + "\n</svg>\n"


def _grid(across: Axis, up: Axis) -> list[str]:
    parts = []
    for value in up.ticks():
        y = _y(value, up)
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text class="soft" x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{value:.2g}</text>')
    for value in across.ticks():
        x = _x(value, across)
        parts.append(f'<text class="soft" x="{x:.1f}" y="{BOTTOM + 18}" text-anchor="middle">{value:.2g}</text>')
    middle = (LEFT + RIGHT) / 2
    parts.append(
        f'<text class="soft" x="{middle:.1f}" y="{BOTTOM + 40}" text-anchor="middle">{escape(across.title)}</text>'
    )
    parts.append(f'<text class="soft" x="{LEFT}" y="{TOP - 10}">{escape(up.title)}</text>')
    return parts


def _path(points: Sequence[Point], across: Axis, up: Axis, look: str) -> str:
    if len(points) < 2:
        return ""
    way = " ".join(f"{_x(each.x, across):.1f},{_y(each.y, up):.1f}" for each in points)
    return f'<polyline points="{way}" fill="none" {look}/>'


def _dots(
    points: Sequence[Point], across: Axis, up: Axis, colour: str, *, is_first: bool, is_square: bool = False
) -> list[str]:
    """The points; their names only on the first line, if there is room."""
    parts, last = [], -math.inf
    for each in points:
        x, y = _x(each.x, across), _y(each.y, up)
        shape = (
            f'<rect x="{x - 4:.1f}" y="{y - 4:.1f}" width="8" height="8" fill="{colour}"/>'
            if is_square
            else f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{each.size:.1f}" fill="{colour}"/>'
        )
        parts.append(shape)
        if each.name and is_first and abs(y - last) >= LABELLED_APART:
            side, anchor = (-8, "end") if is_square else (8, "start")
            parts.append(
                f'<text class="ink" x="{x + side:.1f}" y="{y + 4:.1f}" text-anchor="{anchor}">{escape(each.name)}</text>'
            )
            last = y
    return parts


def _x(value: float, axis: Axis) -> float:
    return LEFT + (RIGHT - LEFT) * (value - axis.low) / (axis.high - axis.low)


def _y(value: float, axis: Axis) -> float:
    return BOTTOM - (BOTTOM - TOP) * (value - axis.low) / (axis.high - axis.low)
