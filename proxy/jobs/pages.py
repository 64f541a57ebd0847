"""A report as one value, written for two readers: a terminal, and one self-contained HTML page without scripts, fonts or images.

Texts of a collection are escaped on the page and never parsed as markup in a terminal. The page's content security policy forbids everything active.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files

import msgspec
from rich import box
from rich.console import RenderableType, group
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

Cells = tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """A table of figures. ``bars``: of the chart beside it, each a label and a count. ``has_total``: whether the last row sums the others. ``shares``: of
    the last cells of each row, for their shade.
    """

    caption: str
    heads: Cells
    rows: Sequence[Cells]
    bars: Sequence[tuple[str, int]] = ()
    has_total: bool = False
    shares: Sequence[Sequence[float]] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Examples:
    """A table of texts, which are its last column; the second one has ids."""

    caption: str
    heads: Cells
    rows: Sequence[Cells]


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    title: str
    tables: Sequence[Figures | Examples]
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """``tiles``: each a name, a value and a note, on the page only. ``sentences``: the most important first. ``cautions``: the limits of the figures.
    ``made``: by whom and how.
    """

    title: str
    facts: str
    tiles: Sequence[tuple[str, str, str]]
    sentences: Sequence[str] = ()
    cautions: Sequence[str] = ()
    sections: Sequence[Section]
    made: str


SHADED = 6  # columns with shades in a terminal of 80 columns; the page has all


@group()
def in_terminal(page: Page) -> Iterator[RenderableType]:
    yield Text.assemble((page.title, "bold"), f"  {page.facts}")
    yield Text()
    for sentence in page.sentences:
        yield Padding(Text(f"- {sentence}"), (0, 0, 0, 2))
    for sentence in page.cautions:
        yield Padding(Text(f"! {sentence}", style="yellow"), (0, 0, 0, 2))
    for section in page.sections:
        yield Text()
        # Not the table's own title, which a narrow table would wrap.
        yield Text(section.title, style="bold")
        for table in section.tables:
            yield _figures(table) if isinstance(table, Figures) else examples_table(table)


def _figures(figures: Figures) -> Table:
    table = Table(box=box.ROUNDED)
    shaded = len(figures.shares[0]) if figures.shares else 0
    plain = len(figures.heads) - shaded
    width = plain + min(shaded, SHADED)
    table.add_column(figures.heads[0], overflow="ellipsis", max_width=40)
    for head in figures.heads[1:plain]:
        table.add_column(Text(head), justify="right")
    for head in figures.heads[plain:width]:
        table.add_column(Text(head, overflow="fold"), justify="right", max_width=12)
    for number, row in enumerate(figures.rows, 1):
        is_total = figures.has_total and number == len(figures.rows)
        table.add_row(*map(Text, row[:width]), style="bold" if is_total else "")
    if shaded > SHADED:
        table.caption = f"the first {SHADED} of {shaded} columns; --json and --html have all"
    return table


def examples_table(examples: Examples) -> Table:
    table = Table(box=box.ROUNDED, title=Text(examples.caption), title_justify="left")
    first, second, *others, last = examples.heads
    table.add_column(first, min_width=9, overflow="fold")
    table.add_column(second, overflow="ellipsis", no_wrap=True, min_width=5, max_width=12)
    for head in others:
        table.add_column(head, overflow="ellipsis", no_wrap=True, max_width=20)
    table.add_column(last, overflow="ellipsis", ratio=1)
    for row in examples.rows:
        table.add_row(*map(Text, row))
    return table


def as_json(report: object) -> bytes:
    """A report as JSON: indented, keys in the order of its classes, with a final line break."""
    return msgspec.json.format(msgspec.json.encode(report), indent=2) + b"\n"


# The page.

_POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def style() -> str:
    return files("vecsieve.proxy.jobs").joinpath("page.css").read_text(encoding="utf-8")


def as_html(page: Page) -> bytes:
    """Lone surrogates of texts are written as escapes."""
    tiles = "".join(
        f"<div><dt>{escape(name)}</dt><dd>{escape(value)}<small>{escape(note)}</small></dd></div>"
        for name, value, note in page.tiles
    )
    items = "".join(f"<li>{escape(sentence)}</li>" for sentence in page.sentences)
    parts = [
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{escape(page.title)}</title>\n<style>\n{style()}</style>\n</head>\n<body>\n<main>",
        f'<header><h1>{escape(page.title)}</h1><p class="soft">{escape(page.facts)}</p></header>',
        f'<dl class="tiles">{tiles}</dl>',
        f"<ul>{items}</ul>" if items else "",
        *(f'<p class="warn">{escape(caution)}</p>' for caution in page.cautions),
        *map(_section_html, page.sections),
        f"<footer>{escape(page.made)}</footer>",
        "</main>\n</body>\n</html>\n",
    ]
    return "\n".join(part for part in parts if part).encode("utf-8", "backslashreplace")


def _section_html(section: Section) -> str:
    inside = "".join(
        _figures_html(table, section) if isinstance(table, Figures) else _examples_html(table)
        for table in section.tables
    )
    note = f'<p class="soft">{escape(section.note)}</p>' if section.note else ""
    return f"<section><h2>{escape(section.title)}</h2>{note}{inside}</section>"


def _table_html(frame: str, caption: str, heads: Iterable[tuple[str, str]], rows: Iterable[str]) -> str:
    """``heads``: each a class and its words."""
    cells = "".join(f'<th scope="col" class="{kind}">{escape(head)}</th>' for kind, head in heads)
    return (
        f'<div class="{frame}"><table><caption>{escape(caption)}</caption><thead><tr>{cells}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )


def _figures_html(figures: Figures, section: Section) -> str:
    first, *others = figures.heads
    heads = [("left", first), *(("name", head) for head in others)]
    table = _table_html("wide", figures.caption, heads, (_row_html(figures, at) for at in range(len(figures.rows))))
    if not figures.bars:
        return table
    return f'<div class="pair"><figure>{columns(section.title, figures.bars)}</figure>{table}</div>'


def _row_html(figures: Figures, number: int) -> str:
    name, *cells = figures.rows[number]
    shares = figures.shares[number] if figures.shares else ()
    plain = len(cells) - len(shares)
    inside = "".join(f"<td>{escape(cell)}</td>" for cell in cells[:plain])
    inside += "".join(
        f'<td class="shade" style="--share:{share:.2f}">{escape(cell)}</td>'
        for cell, share in zip(cells[plain:], shares, strict=True)
    )
    is_total = figures.has_total and number == len(figures.rows) - 1
    return f'<tr{" class=chosen" if is_total else ""}><th scope="row" class="name">{escape(name)}</th>{inside}</tr>'


def _examples_html(examples: Examples) -> str:
    kinds = ("figure", "id", *("source",) * (len(examples.heads) - 3), "text")
    heads = [(f"left {kind}", head) for kind, head in zip(kinds, examples.heads, strict=True)]
    rows = (
        f'<tr><th scope="row">{escape(first)}</th>'
        + "".join(f'<td class="left">{escape(cell)}</td>' for cell in others)
        + "</tr>"
        for first, *others in examples.rows
    )
    return _table_html("family", examples.caption, heads, rows)


# Charts are inline SVG. Their figures are also in the table beside them, for screen readers.
WIDTH, HEIGHT = 560, 260
LEFT, RIGHT, TOP, BOTTOM = 16, 16, 22, 34  # margins for the labels and the values above columns
GAP = 0.28  # share of a column's width


def columns(name: str, bars: Sequence[tuple[str, int]]) -> str:
    """Columns with a label below and their count above, the largest as high as the chart."""
    place, most = (WIDTH - LEFT - RIGHT) / max(1, len(bars)), max(1, *(count for _, count in bars), 0)
    floor = HEIGHT - BOTTOM
    parts = [f'<line class="axis" x1="{LEFT}" y1="{floor}" x2="{WIDTH - RIGHT}" y2="{floor}"/>']
    for number, (label, count) in enumerate(bars):
        left, middle = LEFT + place * (number + GAP / 2), LEFT + place * (number + 0.5)
        top = floor - (floor - TOP) * count / most
        parts += [
            f'<rect class="fill1" x="{left:.1f}" y="{top:.1f}" width="{place * (1 - GAP):.1f}" height="{floor - top:.1f}" rx="2"/>',
            f'<text class="value" x="{middle:.1f}" y="{top - 6:.1f}">{f"{count:,}" if count else ""}</text>',
            f'<text class="label" x="{middle:.1f}" y="{floor + 18}">{escape(label)}</text>',
        ]
    inside = "\n".join(parts)
    return f'<svg role="img" aria-label="{escape(name)}" viewBox="0 0 {WIDTH} {HEIGHT}">\n{inside}\n</svg>'
