"""The report as one self-contained HTML page: no scripts, fonts or images.

The collection's texts are escaped, and the page's content security policy forbids everything active.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

from .families import SourceRow, Sources
from .report import (
    Family,
    Member,
    Report,
    cautions,
    conclusions,
    counted,
    cut_said,
    percent,
    size_said,
)

# Charts are inline SVG. Their figures are also in a table beside them, for screen readers.
WIDTH, HEIGHT = 560, 260
LEFT, RIGHT, TOP, BOTTOM = 46, 16, 22, 34  # margins for the scale, the labels and the values above columns
STEPS = 4
GAP = 0.28  # share of a column's width


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """``label``: below. ``said``: above. ``height``: from 0.0 to 1.0."""

    label: str
    said: str
    height: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """``points``: x on the scale, increasing; y from 0.0 to 1.0. ``kind``: colour 1 or 2 of the style sheet."""

    name: str
    kind: int
    points: tuple[tuple[float, float], ...]


def columns(name: str, bars: Sequence[Column]) -> str:
    place = (WIDTH - LEFT - RIGHT) / max(1, len(bars))
    parts = [_line(LEFT, HEIGHT - BOTTOM, WIDTH - RIGHT, HEIGHT - BOTTOM, "axis")]
    for number, bar in enumerate(bars):
        left, middle = LEFT + place * (number + GAP / 2), LEFT + place * (number + 0.5)
        top = _y(bar.height)
        parts.append(
            f'<rect class="fill1" x="{left:.1f}" y="{top:.1f}" width="{place * (1 - GAP):.1f}" '
            f'height="{HEIGHT - BOTTOM - top:.1f}" rx="2"/>'
        )
        parts.append(_text(middle, top - 6, bar.said, "value"))
        parts.append(_text(middle, HEIGHT - BOTTOM + 18, bar.label, "label"))
    return _svg(name, parts)


def curves(name: str, lines: Sequence[Curve], *, end: float, mark: tuple[float, str] | None) -> str:
    """Curves over a scale from 0 to ``end``. ``mark``: a position on it, and its label."""
    parts = _shares()
    parts += [
        _text(_x(at, end), HEIGHT - BOTTOM + 18, f"{at:.2f}", "label") for at in (end * step / 6 for step in range(7))
    ]
    if mark is not None:
        at = _x(mark[0], end)
        parts.append(_line(at, TOP, at, HEIGHT - BOTTOM, "mark"))
        near_the_end = mark[0] > 0.7 * end
        parts.append(_text(at + (-5 if near_the_end else 5), TOP - 6, mark[1], "end" if near_the_end else "start"))
    for line in lines:
        path = " ".join(f"{_x(x, end):.1f},{_y(y):.1f}" for x, y in line.points)
        parts.append(f'<polyline class="line{line.kind}" points="{path}"/>')
        parts += [
            f'<circle class="fill{line.kind}" cx="{_x(x, end):.1f}" cy="{_y(y):.1f}" r="3.5"/>' for x, y in line.points
        ]
    return _svg(name, parts)


def _shares() -> list[str]:
    """Horizontal lines at every quarter, in per cent."""
    parts: list[str] = []
    for step in range(STEPS + 1):
        y = _y(step / STEPS)
        parts.append(_line(LEFT, y, WIDTH - RIGHT, y, "grid" if step else "axis"))
        parts.append(_text(LEFT - 6, y + 4, f"{100 * step // STEPS} %", "end"))
    return parts


def _x(value: float, end: float) -> float:
    return LEFT + (WIDTH - LEFT - RIGHT) * value / end


def _y(share: float) -> float:
    return HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * min(max(share, 0.0), 1.0)


def _line(left: float, top: float, right: float, bottom: float, kind: str) -> str:
    return f'<line class="{kind}" x1="{left:.1f}" y1="{top:.1f}" x2="{right:.1f}" y2="{bottom:.1f}"/>'


def _text(x: float, y: float, said: str, kind: str) -> str:
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}">{escape(said)}</text>'


def _svg(name: str, parts: Sequence[str]) -> str:
    inside = "\n".join(parts)
    return f'<svg role="img" aria-label="{escape(name)}" viewBox="0 0 {WIDTH} {HEIGHT}">\n{inside}\n</svg>'


STYLE = """
:root { color-scheme: light dark; --ink: #1d2430; --soft: #5b6675; --paper: #ffffff; --panel: #f4f6f9; --rule: #d9dfe7;
  --one: #2563a8; --two: #c2571a; --warn: #8a5a00; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6eaf0; --soft: #9aa6b5; --paper: #14181f; --panel: #1c222c;
  --rule: #333d4b; --one: #6ea8e6; --two: #f0925a; --warn: #e0b458; } }
@media print { :root { --ink: #000; --soft: #444; --paper: #fff; --panel: #fff; --rule: #bbb; } section { break-inside: avoid; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 72rem; padding: 2rem 1.5rem 4rem; background: var(--paper); color: var(--ink);
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; }
h1 { font-size: 1.7rem; line-height: 1.25; margin: 0 0 .2rem; overflow-wrap: anywhere; }
h2 { font-size: 1.15rem; margin: 2.6rem 0 .3rem; }
p, ul { margin: .4rem 0; max-width: 46rem; }
.soft, figcaption, footer { color: var(--soft); font-size: .9rem; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(11rem, 1fr)); gap: .8rem; margin: 1.4rem 0; padding: 0; }
.tiles div { background: var(--panel); border: 1px solid var(--rule); border-radius: 8px; padding: .8rem 1rem; }
.tiles dt { color: var(--soft); font-size: .85rem; }
.tiles dd { margin: 0; font-size: 1.75rem; font-weight: 650; line-height: 1.25; }
.tiles dd small { display: block; color: var(--soft); font-size: .8rem; font-weight: 400; }
.warn { border-left: 4px solid var(--warn); background: var(--panel); padding: .5rem .9rem; border-radius: 0 6px 6px 0; }
.pair { display: grid; grid-template-columns: minmax(0, 3fr) minmax(0, 2fr); gap: 1.6rem; align-items: start; margin-top: .8rem; }
@media (max-width: 50rem) { .pair { grid-template-columns: minmax(0, 1fr); } }
figure { margin: 0; }
.wide { overflow-x: auto; }
svg { width: 100%; height: auto; display: block; }
svg text { font-size: 12px; fill: var(--soft); }
svg .label, svg .value { text-anchor: middle; }
svg .value { fill: var(--ink); font-weight: 600; }
svg .end { text-anchor: end; }
svg .axis { stroke: var(--soft); }
svg .grid { stroke: var(--rule); }
svg .mark { stroke: var(--ink); stroke-dasharray: 4 3; }
svg .fill1, .key1 { fill: var(--one); color: var(--one); }
svg .fill2, .key2 { fill: var(--two); color: var(--two); }
svg .line1 { stroke: var(--one); fill: none; stroke-width: 2.5; }
svg .line2 { stroke: var(--two); fill: none; stroke-width: 2.5; stroke-dasharray: 7 3; }
table { border-collapse: collapse; font-size: .9rem; width: 100%; }
caption { text-align: left; color: var(--soft); padding-bottom: .3rem; }
th, td { padding: .3rem .6rem; border-bottom: 1px solid var(--rule); text-align: right; font-variant-numeric: tabular-nums;
  vertical-align: top; }
thead th { color: var(--soft); font-weight: 500; border-bottom-color: var(--soft); }
th[scope=row], .left { text-align: left; font-weight: 400; }
tr.chosen > * { font-weight: 700; background: var(--panel); }
.name { max-width: 14rem; overflow-wrap: anywhere; }
.heat td { background: color-mix(in srgb, var(--one) calc(var(--share) * 55%), transparent); }
.family { border: 1px solid var(--rule); border-radius: 8px; margin: .9rem 0; padding: .2rem .4rem .4rem; }
.family table { table-layout: fixed; }
.family td, .family th { overflow-wrap: anywhere; }
.family tr:last-child > * { border-bottom: 0; }
.family .figure { width: 6.5rem; } .family .id { width: 9rem; } .family .source { width: 10rem; }
footer { margin-top: 3rem; border-top: 1px solid var(--rule); padding-top: .8rem; }
"""

_POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def page(report: Report) -> str:
    title = escape(f"Redundancy of {report.about.collection}")
    parts = (
        _opening(report),
        _density(report),
        _saving(report),
        _families(report) if report.families.count else "",
        _sources(report.sources) if report.sources is not None else "",
        _examples(report.families.examples) if report.families.examples else "",
        _closing(report),
    )
    return document(title, parts)


def document(title: str, parts: Iterable[str]) -> str:
    """``title``, ``parts``: HTML."""
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{title}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>\n"
        + "\n".join(part for part in parts if part)
        + "\n</main>\n</body>\n</html>\n"
    )


def _opening(report: Report) -> str:
    about = report.about
    vector = f", vector {about.vector_name}" if about.vector_name else ""
    facts = f"{about.points:,} points{vector}, {about.dimension} dimensions, {about.distance}. Copies: within a distance of "
    said = "".join(f"<li>{escape(each)}</li>" for each in conclusions(report))
    warned = "".join(f'<p class="warn">{escape(each)}</p>' for each in cautions(report))
    return (
        f"<header><h1>Redundancy of {escape(about.collection)}</h1>"
        f'<p class="soft">{escape(facts + cut_said(report))}.</p></header>\n{_tiles(report)}\n<ul>{said}</ul>\n{warned}'
    )


def _tiles(report: Report) -> str:
    whole, saving = report.about.examined, report.saving
    could_go = "not known" if report.near.redundant is None else percent(report.near.redundant, whole)
    average = f"{saving.copies / saving.searches:.1f}" if saving.searches else "-"
    tiles = (
        ("have a copy", percent(report.near.with_copy, whole), f"{report.near.with_copy:,} of {whole:,} points"),
        ("have an exact copy", percent(report.exact.with_copy, whole), f"{report.exact.with_copy:,} points"),
        ("could go", could_go, "if each family kept one"),
        ("families", f"{report.families.count:,}", f"the largest of {report.families.largest:,} points"),
        (f"copies in a top {saving.top_k}", average, f"mean of {saving.searches:,} searches"),
    )
    return boxes(tiles)


def boxes(tiles: Iterable[tuple[str, str, str]]) -> str:
    """Each box has a name, a value and a note."""
    return (
        '<dl class="tiles">'
        + "".join(
            f"<div><dt>{escape(name)}</dt><dd>{escape(value)}<small>{escape(note)}</small></dd></div>"
            for name, value, note in tiles
        )
        + "</dl>"
    )


def _density(report: Report) -> str:
    whole = max(1, report.about.examined)
    curve = report.density
    have = Curve(name="have a copy", kind=1, points=tuple((each.cut, each.with_copy / whole) for each in curve))
    known = tuple((each.cut, each.redundant / whole) for each in curve if each.redundant is not None)
    lines = [have, Curve(name="could go", kind=2, points=known)] if known else [have]
    end = max(0.3, *(each.cut for each in curve))
    chart = curves(
        "Share of points with a copy, by distance", lines, end=end, mark=(report.cut.value, f"{report.cut.value:.3f}")
    )
    rows = [_density_row("exact", report.exact.with_copy, report.exact.redundant, whole)]
    for each in curve:
        name = f"{each.cut:.3f}" + (", relative" if each.cut == report.cut.relative else "")
        name += ", estimated" if each.estimated else ""
        rows.append(_density_row(name, each.with_copy, each.redundant, whole))
    at = next((number for number, each in enumerate(curve) if each.cut == report.cut.value), -2)
    keys = " ".join(
        f'<span class="key{line.kind}">{"━━" if line.kind == 1 else "╍╍"}</span> {line.name}' for line in lines
    )
    caption = f"By the distance up to which points count as copies. {keys}"
    table = figures("Points by distance", ("distance", "have a copy", "could go"), rows, chosen=at + 1)
    return section("How many points have a copy", _pair(chart, caption, table))


def _density_row(name: str, with_copy: int, redundant: int | None, whole: int) -> tuple[str, str, str]:
    return name, counted(with_copy, whole), "not known" if redundant is None else counted(redundant, whole)


def _saving(report: Report) -> str:
    saving = report.saving
    most = max(1, *saving.by_copies)
    bars = [
        Column(label=str(copies), said=f"{searches:,}" if searches else "", height=searches / most)
        for copies, searches in enumerate(saving.by_copies)
    ]
    rows = [
        (str(copies), f"{searches:,}", percent(searches, saving.searches))
        for copies, searches in enumerate(saving.by_copies)
    ]
    caption = (
        f"Searches by how many of their first {saving.top_k} results are copies of a better one. The questions are stored "
        "points spread over the collection; real queries find somewhat fewer copies."
    )
    chart = columns(f"Searches by copies among the first {saving.top_k} results", bars)
    table = figures("Searches by copies", ("copies", "searches", "share"), rows)
    return section("What a search returns", _pair(chart, caption, table))


def _families(report: Report) -> str:
    sizes = report.families.sizes
    most = max(1, *(each.points for each in sizes))
    bars = [
        Column(
            label=size_said(each.smallest, each.largest),
            said=f"{each.points:,}" if each.points else "",
            height=each.points / most,
        )
        for each in sizes
    ]
    rows = [
        (size_said(each.smallest, each.largest), f"{each.families:,}", f"{each.points:,}")
        for each in sizes
        if each.families
    ]
    caption = (
        "Points by the size of their family. A family is a leader and the points within the cut of it, without chains."
    )
    table = figures("Families by size", ("size", "families", "points"), rows)
    return section("Families of copies", _pair(columns("Points by size of family", bars), caption, table))


def _sources(sources: Sources) -> str:
    heads = "".join(f'<th scope="col" class="name">{escape(row.name)}</th>' for row in sources.rows)
    body = "".join(_source_row(row) for row in sources.rows)
    more = f" {sources.distinct:,} sources in all." if sources.distinct > len(sources.rows) else ""
    return section(
        "Copies between sources",
        "<p class=\"soft\">The share of the row's source with a copy in the column's. On the diagonal: in the source itself."
        f"{more}</p>"
        '<div class="wide"><table class="heat"><caption>Share of each source with a copy in each source</caption><thead><tr>'
        '<th scope="col" class="left">source</th><th scope="col">points</th><th scope="col">have a copy</th>'
        f"{heads}</tr></thead><tbody>{body}</tbody></table></div>",
    )


def _source_row(row: SourceRow) -> str:
    cells = "".join(
        f'<td style="--share:{copied / max(1, row.points):.2f}">{escape(percent(copied, row.points))}</td>'
        for copied in row.copied
    )
    return (
        f'<tr><th scope="row" class="name">{escape(row.name)}</th><td style="--share:0">{row.points:,}</td>'
        f'<td style="--share:0">{escape(percent(row.with_copy, row.points))}</td>{cells}</tr>'
    )


def _examples(examples: Iterable[Family]) -> str:
    return section(
        "The largest families",
        '<p class="soft">The leader, and members from the nearest to the farthest: read the last line of each to judge '
        "whether the cut is right.</p>" + "".join(_family(family) for family in examples),
    )


def _family(family: Family) -> str:
    same = f", {family.exact:,} of them with the same text" if family.exact > 1 else ""
    rows = [_member(family.leader, is_leader=True), *(_member(each, is_leader=False) for each in family.members)]
    return (
        f'<div class="family"><table><caption>{family.size:,} points{same}</caption><thead><tr>'
        '<th scope="col" class="left figure">distance</th><th scope="col" class="left id">id</th>'
        '<th scope="col" class="left source">source</th><th scope="col" class="left">text</th></tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )


def _member(member: Member, *, is_leader: bool) -> str:
    far = "not known" if member.distance is None else f"{member.distance:.3f}"
    repeats = member.exact and not is_leader
    text = '<span class="soft">the same text</span>' if repeats and member.text else escape(member.text or "")
    cells = (escape(str(member.id)), escape(member.source or ""), text)
    return (
        f'<tr><th scope="row">{"leader" if is_leader else far}</th>'
        + "".join(f'<td class="left">{cell}</td>' for cell in cells)
        + "</tr>"
    )


def _found_by(report: Report) -> str:
    return "the database's own index" if report.cut.found is None else "sketches of their vectors and texts"


def _closing(report: Report) -> str:
    about, cut = report.about, report.cut
    median = "" if cut.median is None else f" Median distance in pools around {cut.pools:,} points: {cut.median:.3f}."
    said = (
        f"Made by VecSieve {report.version} from {about.examined:,} points and {_found_by(report)}, read-only. "
        f"Texts under {', '.join(about.text_fields)}; sources under {', '.join(about.source_fields)}.{median}"
    )
    return f"<footer>{escape(said)}</footer>"


def section(title: str, inside: str) -> str:
    return f"<section><h2>{escape(title)}</h2>{inside}</section>"


def _pair(chart: str, caption: str, table: str) -> str:
    """``caption``: HTML."""
    return f'<div class="pair"><figure>{chart}<figcaption>{caption}</figcaption></figure>{table}</div>'


def figures(caption: str, heads: Sequence[str], rows: Sequence[Sequence[str]], *, chosen: int = -1) -> str:
    """``chosen``: the highlighted row."""
    first, *others = heads
    top = f'<th scope="col" class="left">{escape(first)}</th>' + "".join(
        f'<th scope="col">{escape(head)}</th>' for head in others
    )
    body = "".join(
        ('<tr class="chosen">' if number == chosen else "<tr>")
        + f'<th scope="row">{escape(row[0])}</th>'
        + "".join(f"<td>{escape(cell)}</td>" for cell in row[1:])
        + "</tr>"
        for number, row in enumerate(rows)
    )
    return f"<table><caption>{escape(caption)}</caption><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"
