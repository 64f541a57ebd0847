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
    percent,
    size_text,
)

# Charts are inline SVG. Their figures are also in a table beside them, for screen readers.
WIDTH, HEIGHT = 560, 260
LEFT, RIGHT, TOP, BOTTOM = 16, 16, 22, 34  # margins for the labels and the values above columns
GAP = 0.28  # share of a column's width


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """``label``: below. ``text``: above. ``height``: from 0.0 to 1.0."""

    label: str
    text: str
    height: float


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
        parts.append(_text(middle, top - 6, bar.text, "value"))
        parts.append(_text(middle, HEIGHT - BOTTOM + 18, bar.label, "label"))
    return _svg(name, parts)


def _y(share: float) -> float:
    return HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * min(max(share, 0.0), 1.0)


def _line(left: float, top: float, right: float, bottom: float, kind: str) -> str:
    return f'<line class="{kind}" x1="{left:.1f}" y1="{top:.1f}" x2="{right:.1f}" y2="{bottom:.1f}"/>'


def _text(x: float, y: float, text: str, kind: str) -> str:
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}">{escape(text)}</text>'


def _svg(name: str, parts: Sequence[str]) -> str:
    inside = "\n".join(parts)
    return f'<svg role="img" aria-label="{escape(name)}" viewBox="0 0 {WIDTH} {HEIGHT}">\n{inside}\n</svg>'


STYLE = """
:root { color-scheme: light dark; --ink: #1d2430; --soft: #5b6675; --paper: #ffffff; --panel: #f4f6f9; --rule: #d9dfe7;
  --one: #2563a8; --warn: #8a5a00; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6eaf0; --soft: #9aa6b5; --paper: #14181f; --panel: #1c222c;
  --rule: #333d4b; --one: #6ea8e6; --warn: #e0b458; } }
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
svg .axis { stroke: var(--soft); }
svg .fill1 { fill: var(--one); }
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
        _repeats(report),
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
    facts = f"{about.points:,} points{vector}, {about.dimension} dimensions, {about.distance}."
    items = "".join(f"<li>{escape(each)}</li>" for each in conclusions(report))
    warned = "".join(f'<p class="warn">{escape(each)}</p>' for each in cautions(report))
    return (
        f"<header><h1>Redundancy of {escape(about.collection)}</h1>"
        f'<p class="soft">{escape(facts)}</p></header>\n{_tiles(report)}\n<ul>{items}</ul>\n{warned}'
    )


def _tiles(report: Report) -> str:
    whole, saving, repeats = report.about.examined, report.saving, report.repeats
    average = f"{saving.repeats / saving.searches:.1f}" if saving.searches else "-"
    tiles = (
        ("say nothing of their own", percent(repeats.points, whole), f"{repeats.points:,} of {whole:,} points"),
        ("equal to another", percent(repeats.equal, whole), f"{repeats.equal:,} points"),
        ("families", f"{report.families.count:,}", f"the largest of {report.families.largest:,} points"),
        (f"repeats in a top {saving.top_k}", average, f"mean of {saving.searches:,} searches"),
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


def _repeats(report: Report) -> str:
    whole, parts = max(1, report.about.examined), report.repeats.parts
    most = max(1, *(count for _, count in parts))
    bars = [
        Column(
            label=name.partition(",")[0].removesuffix(" in one other"),
            text=f"{count:,}" if count else "",
            height=count / most,
        )
        for name, count in parts
    ]
    rows = [
        *((name, counted(count, whole)) for name, count in parts),
        ("in all", counted(report.repeats.points, whole)),
    ]
    caption = (
        "Points that say nothing that another point does not; of several that say the same, all but one. Searches remove all of these from "
        "answers; a sweep deletes equal and contained texts."
    )
    table = figures("Points by what they repeat", ("why", "points"), rows, chosen=len(parts))
    return section("How many points repeat others", _pair(columns("Points by what they repeat", bars), caption, table))


def _saving(report: Report) -> str:
    saving = report.saving
    most = max(1, *saving.by_repeats)
    bars = [
        Column(label=str(repeats), text=f"{searches:,}" if searches else "", height=searches / most)
        for repeats, searches in enumerate(saving.by_repeats)
    ]
    rows = [
        (str(repeats), f"{searches:,}", percent(searches, saving.searches))
        for repeats, searches in enumerate(saving.by_repeats)
    ]
    caption = (
        f"Searches by how many of their first {saving.top_k} results repeat better ones. The questions are stored "
        "points spread over the collection; real queries find somewhat fewer repeats."
    )
    chart = columns(f"Searches by repeats among the first {saving.top_k} results", bars)
    table = figures("Searches by repeats", ("repeats", "searches", "share"), rows)
    return section("What a search returns", _pair(chart, caption, table))


def _families(report: Report) -> str:
    sizes = report.families.sizes
    most = max(1, *(size.points for size in sizes))
    bars = [
        Column(
            label=size_text(size.smallest, size.largest),
            text=f"{size.points:,}" if size.points else "",
            height=size.points / most,
        )
        for size in sizes
    ]
    rows = [
        (size_text(size.smallest, size.largest), f"{size.families:,}", f"{size.points:,}")
        for size in sizes
        if size.families
    ]
    caption = "Points by the size of their family. A family is a leader and the points all of which the leader says, without chains."
    table = figures("Families by size", ("size", "families", "points"), rows)
    return section("Families of repeats", _pair(columns("Points by size of family", bars), caption, table))


def _sources(sources: Sources) -> str:
    heads = "".join(f'<th scope="col" class="name">{escape(row.name)}</th>' for row in sources.rows)
    body = "".join(_source_row(row) for row in sources.rows)
    more = f" {sources.distinct:,} sources in all." if sources.distinct > len(sources.rows) else ""
    return section(
        "Repeats between sources",
        "<p class=\"soft\">The share of the row's source that is repeated in the column's. On the diagonal: in the source itself."
        f"{more}</p>"
        '<div class="wide"><table class="heat"><caption>Share of each source that is repeated in each source</caption><thead><tr>'
        '<th scope="col" class="left">source</th><th scope="col">points</th><th scope="col">repeated</th>'
        f"{heads}</tr></thead><tbody>{body}</tbody></table></div>",
    )


def _source_row(row: SourceRow) -> str:
    cells = "".join(
        f'<td style="--share:{copied / max(1, row.points):.2f}">{escape(percent(copied, row.points))}</td>'
        for copied in row.copied
    )
    return (
        f'<tr><th scope="row" class="name">{escape(row.name)}</th><td style="--share:0">{row.points:,}</td>'
        f'<td style="--share:0">{escape(percent(row.repeated, row.points))}</td>{cells}</tr>'
    )


def _examples(examples: Iterable[Family]) -> str:
    return section(
        "The largest families",
        '<p class="soft">The leader, and members from the nearest to the farthest: read the last line of each to judge '
        "whether the cut is right.</p>" + "".join(_family(family) for family in examples),
    )


def _family(family: Family) -> str:
    same = f", {family.equal:,} of them equal" if family.equal > 1 else ""
    rows = [_member(family.leader), *map(_member, family.members)]
    return (
        f'<div class="family"><table><caption>{family.size:,} points{same}</caption><thead><tr>'
        '<th scope="col" class="left figure">why</th><th scope="col" class="left id">id</th>'
        '<th scope="col" class="left source">source</th><th scope="col" class="left">text</th></tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )


def _member(member: Member) -> str:
    why = "leader" if member.evidence is None else member.evidence.replace("_", " ")
    text = '<span class="soft">the same text</span>' if member.evidence == "equal" else escape(member.text or "")
    cells = (escape(str(member.id)), escape(member.source or ""), text)
    return (
        f'<tr><th scope="row">{escape(why)}</th>' + "".join(f'<td class="left">{cell}</td>' for cell in cells) + "</tr>"
    )


def _closing(report: Report) -> str:
    about = report.about
    method = "the database's own index" if report.sampled else "hashes of their texts and vectors"
    footer = (
        f"Made by VecSieve {report.version} from {about.examined:,} points and {method}, read-only. "
        f"Texts under {', '.join(about.text_fields)}; sources under {', '.join(about.source_fields)}."
    )
    return f"<footer>{escape(footer)}</footer>"


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
