"""The lines of a text: which are prose, which are code or rows of a table, and where one sentence cannot go on into the next line.

Layout says something in code, tables and nested lists only: the indentation of a statement or an item, the column of a cell, brackets and quotes.
Any other line of prose has none, because pipelines wrap it as they like. So a line is code or a row only by what stands in it, never by its length or its blanks alone.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from itertools import islice

from .words import IS_SPACELESS


class Kind(IntEnum):
    """What a line is."""

    PROSE = 0
    CODE = 1
    ROW = 2


@dataclass(frozen=True, slots=True)
class Line:
    """``words``: without bullet, heading marks, quote marks and a table's border. ``breaks``: whether no sentence goes on from the line before.
    ``indent``: blanks before it, in code and before a bullet. ``is_item``: behind a bullet. ``cells``: of a row. ``columns``: where each cell begins, in a table by blanks. ``is_quoted``: behind a quote mark.
    ``is_running``: what is left of a running title, without the page number.
    """

    kind: Kind
    words: str
    breaks: bool
    indent: int = 0
    cells: tuple[str, ...] = ()
    columns: tuple[int, ...] = ()
    is_quoted: bool = False
    is_item: bool = False
    is_running: bool = False


# A pattern holds the interpreter while it matches: blanks are possessive and begin where a run of them begins, because a pattern that could
# divide 2,000 of them in two ways took minutes.
_FENCE = re.compile("^\\s*(?:```|~~~)")
# Underlines of headings, rulers, borders of tables: marks only, three or more. Fewer than six of * + # . may be a rating or a finding, but for ***.
_RULE = re.compile(
    "^\\s*+(?:([=\\-~^_])(?:\\s?\\1){2,}|([*#+.])(?:\\s?\\2){5,}|\\*\\s?\\*\\s?\\*|[|+]?[\\s:|+=-]*-{2,}[\\s:|+=-]*)\\s*$"
)
# One # before a small letter makes a comment of a command or a setting.
_HEADING = re.compile("^\\s{0,3}#{1,6}\\s+(.*)$")
# No + and no ○: beside - and ● they say what is for and against, added and removed, chosen and not.
_BULLET = re.compile("^\\s*(?:[-*•‣◦▪–—●]|\\uf0b7)\\s+(?=\\S)")
_ITEM = re.compile("^\\s*(?:\\(?\\d{1,3}[.)]|\\(?[a-zA-Z][.)]|[☐☑✓✔✗✘-])\\s")
# Not > 40 ng/L.
_QUOTED = re.compile("^(?!\\s*+>[\\s>]*+[^\\w\\s>]?\\d)\\s*(?:>\\s?)+")
# A page number, alone in its line or set apart from a running title. An entry of an index has its own: Pump (page 3).
_PAGE = re.compile(
    "(?:^\\s*+|(?<!\\s)(?:\\s{2,}+|\\s*+[|·•–—-]\\s*+|,\\s++(?=\\w++\\s++\\d++\\s++(?:of|von|de|di|sur|из)\\s)))(?:page|seite|página|pagina|pag\\.|p\\.|стр\\.)\\s*+\\d{1,5}"
    "(?:\\s*+(?:of|von|de|di|sur|из|/)\\s*+\\d{1,5})?\\s*+[|)\\]–—-]?\\s*+$|^\\s*[-–]\\s*\\d{1,4}\\s*[-–]\\s*$",
    re.IGNORECASE,
)
# What separates the parts of a breadcrumb or a menu, and what such a part is: words of a site, not of its pages.
_PARTS = re.compile("(?<=\\S)\\s++[|>»›→•·]\\s++")
_MENU = re.compile(
    "(?:home|articles|help|settings|privacy|we use cookies\\.?(?: accept all)?|skip to (?:main )?content|sign (?:in|up|out)|log ?(?:in|out)|register|cookie (?:settings|policy)|privacy(?: policy)?|"
    "terms of (?:use|service)|imprint|impressum|datenschutz|mentions légales|contact us|subscribe|back to top|edit this page|view source|print this page|"
    "was this page helpful\\?(?: yes)?(?: / | \\| | )?(?:no)?|last (?:updated|modified)(?: on)?:? [\\d./-]+|all rights reserved\\.?)",
    re.IGNORECASE,
)
_NOTICE = re.compile(
    "^\\s*+©|^\\s*+(?:\\(c\\)|copyright)\\s++(?:\\d{4}\\b.*|.*(?:all rights reserved|do not distribute)\\.?\\s*)$",
    re.IGNORECASE,
)
_STATEMENT = re.compile(
    r"""^\s*(?:
      (?:def|class|if|elif|else|for|while|try|except|finally|with|switch|case|do|match)\b.*[:{]\s*(?:[#/].*)?$
    | (?:return|raise|yield|await|import|from|using|package|let|const|var|pub|fn|func|function|static|void|public|private|protected|export|throw|delete|struct|enum|break|continue|pass)\b(?:.*[;(){}=.]|\s*$|\s+\w+;?$)
    | (?:SELECT|INSERT|UPDATE|DELETE|CREATE|ALTER|DROP|WITH|FROM|WHERE|GROUP|ORDER|JOIN|LEFT|INNER|VALUES|SET|LIMIT)\b.*[A-Z_*=,();\d']
    | @\w[\w.]*(?:\(.*\))?\s*$ | \#include | \#! | // | /\*\* | \*/ | \$\s\S | >>>\s | \.\.\s[\w-]+:: | :\w+:\s*$
    | [\w.\[\]"'$>-]+\s*(?:\+|-|\*|/|%|\||&|:|\?\?)?=\s?\S
    | .*(?:[{};]|=>|->|\)\s*\{|\\|\(|\[)\s*$
    | [\])}]+[;,)]*\s*$
    | [\w.]++\(.*\)\s*+[;:,]?\s*+$
    | \{(?=.*?"[^"]*"\s*+:).*\}\s*+,?$ | \[.*[\]}]\s*,?$ | "[^"]*"\s*:\s*\S.*$
    | <[\w:/!?][^<>]*>.*$ | .*\$\{?[A-Za-z_]
    )""",
    re.VERBOSE,
)
# A command, or a setting of one value: what its quotes, dots and blanks say is not known. A command has a usual name, or an argument that no prose has.
_COMMAND = re.compile(
    r"""^(?:[$%]\s+)?(?:
      (?:sudo|rm|cp|mv|ls|cd|ln|git|docker|kubectl|curl|wget|pip|npm|echo|cat|grep|find|chmod|chown|tar|ssh|scp|mkdir|export|source|python|node|make|apt|brew|systemctl)\s+\S
    | [a-z][\w.-]*\s+(?:\S+\s+){0,3}?(?:--?[A-Za-z]|[~/*$"'|&>]|\.{1,2}(?:/|\s|$)|\d>)
    | [A-Z_]{2,}=\S*\s+\S
    | [a-z_][\w.-]*:\s+(?:"[^"]*"|'[^']*'|[\w.+-]+)$
    )""",
    re.VERBOSE,
)
_SETTING = re.compile("^\\s*(?:-\\s+)?[\\w.\"'/-]+:(?:\\s+\\S.*)?$")
_CODE_MARK = re.compile("[=(){}\\[\\];:<>@$#\\\\]|^\\s*(?:pass|break|continue|return|else)\\b|SELECT|FROM|WHERE")
_GAP = re.compile("\\S(?: {3,}| *\\t\\s*)\\S")
_CELL = re.compile("\\S+(?: {1,2}\\S+)*")
_WORDY = re.compile("(?<![^\\W\\d_])(?:[^\\W\\d_]{2,}+\\s++){3}[^\\W\\d_]{2}")

# A number with commas, alone between blanks, has no cells.
_THOUSANDS = re.compile("(?<!\\S)[^\\w\\s]?\\d{1,3}(?:,\\d{3})+(?!\\S*\\d)")

# Lines at each end that may be running ones, in texts of so many words: in shorter ones these lines are what the text says.
RUNNING, LEAST_WORDS = 3, 30
# Words of a menu's part that stands alone: not Contact.
LEAST_ALONE = 3
# From this many characters on a line may have been wrapped, so that a sentence may go on in the next.
WRAPPED = 36
# A line with more separators is no row that anybody reads.
MOST_CELLS = 200
_CLOSED = tuple(".!?:;。！？।॥۔…")


def lines_of(text: str, *, exact: bool = False) -> list[Line]:
    """The lines of a text without its dress (marks.py), without blank ones. ``exact``: with menus and notices."""
    if "\n" not in text:
        only = _line(text.strip(), "", is_after_blank=True, is_code=False) if text and not text.isspace() else None
        return [] if only is None else [only]
    rows = text.split("\n")
    size = len(text) if IS_SPACELESS.search(text) else len(text.split())
    running = frozenset[int]() if size < LEAST_WORDS else _without_running_lines(rows, exact=exact)
    has_settings = sum(_SETTING.match(row) is not None for row in rows) >= 2 and any(
        row[:2].isspace() and _SETTING.match(row) for row in rows
    )
    has_columns = sum(_GAP.search(row) is not None for row in rows) >= 2
    lines: list[Line] = []
    is_fenced = is_after_blank = False
    before = ""
    line: Line | None
    for place, row in enumerate(rows):
        if not row or row.isspace():
            is_after_blank = True
            continue
        if _FENCE.match(row):
            is_fenced, is_after_blank = not is_fenced, True
            continue
        if not is_fenced and row.strip(" \t=-~^*_#+.|:") == "" and _RULE.match(row):
            is_after_blank = True
            continue
        if has_columns and not is_fenced and _GAP.search(row) is not None and "|" not in row:
            line = _columned(row)
        else:
            line = _line(
                row,
                before,
                is_after_blank=is_after_blank,
                after=rows[place + 1] if place + 1 < len(rows) else None,
                is_code=is_fenced or (has_settings and _is_setting(row)) or _goes_on(lines, row, is_after_blank),
            )
        if line is None:
            is_after_blank = True
            continue
        lines.append(replace(line, is_running=True) if place in running else line)
        before, is_after_blank = line.words, False
    return lines


def _goes_on(before: Sequence[Line], row: str, is_after_blank: bool) -> bool:
    """Whether a line stands in a block of code: it is indented, or the line of code before it is."""
    if is_after_blank or not before or before[-1].kind is not Kind.CODE:
        return False
    return (row[:1].isspace() or before[-1].indent > 0) and _WORDY.search(row) is None


def _columned(row: str) -> Line:
    """A row of a table whose columns stand at the same places in each line."""
    spans = [(cell.start(), cell[0]) for cell in _CELL.finditer(row.expandtabs(8))]
    return Line(
        Kind.ROW,
        row.strip(),
        breaks=True,
        cells=tuple(cell for _, cell in spans),
        columns=tuple(start for start, _ in spans),
    )


def _is_setting(row: str) -> bool:
    return _SETTING.match(row) is not None or row.lstrip()[:2] == "- "


def _without_running_lines(rows: list[str], *, exact: bool) -> frozenset[int]:
    """Remove page numbers, menus and notices from the first and last lines that are not blank. The lines of which a title is left."""
    running: list[int] = []
    for places in (range(len(rows)), range(len(rows) - 1, -1, -1)):
        filled = (place for place in places if rows[place] and not rows[place].isspace())
        for place in islice(filled, RUNNING):
            title = _title(rows[place], exact=exact)
            if title is None:
                break
            rows[place] = title
            running.append(place)
    return frozenset(running)


def _title(row: str, *, exact: bool) -> str | None:
    """What a running line says beside page numbers, menus and notices; None for any other line. ``exact``: beside page numbers."""
    numbered = _PAGE.sub("", row)
    if exact:
        return None if numbered == row else numbered
    if _NOTICE.match(row):
        return ""
    parts = _PARTS.split(numbered.strip())
    titles = [part for part in parts if _MENU.fullmatch(part) is None]
    if len(titles) == len(parts) or (len(parts) == 1 and len(row.split()) < LEAST_ALONE):
        return None if numbered == row else numbered
    return " ".join(titles)


def _line(row: str, before: str, *, is_after_blank: bool, is_code: bool, after: str | None = None) -> Line | None:
    """The line; None for a quote mark alone. ``after``: the next line, None behind the last one."""
    words = row.strip()
    cells = _cells(words) if "|" in words or ";" in words or "," in words or "\t" in words else ()
    if cells:
        return Line(Kind.ROW, words, breaks=True, cells=cells)
    indent = len(row.expandtabs(4)) - len(row.expandtabs(4).lstrip()) if row[:1].isspace() else 0
    if (
        is_code
        or is_command(words)
        or (_CODE_MARK.search(words) is not None and _STATEMENT.match(words) is not None and not _is_prose(words))
    ):
        return Line(Kind.CODE, words, breaks=True, indent=indent)
    is_quoted = words[0] == ">" and _QUOTED.match(words) is not None
    if is_quoted:
        words = _QUOTED.sub("", words)
        if not words:
            return None
    # One # before a command or a setting is a comment, or a setting that is off.
    heading = (
        _HEADING.match(words)
        if words[:2] == "##" or (words[:1] == "#" and after is not None and _is_text(after))
        else None
    )
    if heading is not None:
        return Line(Kind.PROSE, _lowered(heading[1].rstrip("#").rstrip()), breaks=True, is_quoted=is_quoted)
    bare = _BULLET.sub("", words)
    is_item = bare is not words and bare != words
    breaks = is_after_blank or is_item or _breaks(before, words)
    return Line(
        Kind.PROSE, _lowered(bare), breaks=breaks, indent=indent if is_item else 0, is_quoted=is_quoted, is_item=is_item
    )


def _is_text(row: str) -> bool:
    """Whether a line is blank or prose, as behind a heading."""
    is_prose = row[:1] != "#" and _WORDY.search(row) is not None
    return not row.strip() or (is_prose and _STATEMENT.match(row) is None and _COMMAND.match(row) is None)


def is_command(words: str) -> bool:
    """Whether a line is a command or a setting, of which every blank and mark counts."""
    return _COMMAND.match(words) is not None and _WORDY.search(words) is None


def _is_prose(words: str) -> bool:
    """Whether a line that looks like a statement is a sentence: words in a row, and no mark of code among them."""
    return _WORDY.search(words) is not None and not any(
        mark in words for mark in ("==", "!=", "()", "{", "};", "=>", "->", " = ", "+=", "SELECT ", "FROM ")
    )


def _breaks(before: str, words: str) -> bool:
    """Whether a line cannot go on from the one before it."""
    if not before or before.endswith(_CLOSED) or _ITEM.match(words) is not None:
        return True
    return not words[0].islower() and len(before) < WRAPPED


def _lowered(words: str) -> str:
    """A line in capitals, as a heading may be, in small letters."""
    if len(words) >= 8 and words.isupper() and " " in words and sum(map(str.isalpha, words)) * 2 > len(words):
        return words.lower()
    return words


def _cells(words: str) -> tuple[str, ...]:
    """The cells of a table's row; () for any other line. Rows: between vertical bars, with two separators that no blank follows, or in columns."""
    if words.count("|") >= 2 and (words[0] == "|" or words[-1] == "|"):
        return tuple(cell.strip() for cell in words.strip("|").split("|")) if words.strip("| ") else ()
    counted = _THOUSANDS.sub("", words) if " " in words else words
    for separator in ("\t", ";", ","):
        count = counted.count(separator)
        if 2 <= count < MOST_CELLS and (
            separator == "\t" or separator * 2 in words or ", ," in words or _is_dense(words, separator, count)
        ):
            return tuple(cell.strip() for cell in words.split(separator))
    return ()


def _is_dense(words: str, separator: str, count: int) -> bool:
    """Whether no blank follows any separator, and no sentence stands in the line."""
    return words.count(separator + " ") == 0 and count >= 2 and _WORDY.search(words) is None and words[-1] not in "{}。"
