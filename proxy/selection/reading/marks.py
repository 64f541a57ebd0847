"""Which marks are formatting, and which markup goes: the text without its dress.

Every printable mark counts unless it stands in one of the lists here. A mark that is taken for formatting makes two different texts equal, so
an unknown mark counts. Markup is removed only where it is complete: a tag with a known name, a pair of asterisks around words.
"""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Iterator

# Dropped wherever they stand, unless the tokens say otherwise (numbers, operators, code): stops, quotes, brackets, dashes.
STOPS = frozenset(".,;:!…。、，；：！｡､،؛۔।॥¡·")
QUOTES = frozenset("\"'`“”„‟‘’‚‛«»‹›「」『』《》〈〉＂＇´")
BRACKETS = frozenset("()[]{}（）［］｛｝【】〔〕〖〗")
DASHES = frozenset("-‐‑‒–—―－〜")
FORMATTING = STOPS | QUOTES | BRACKETS | DASHES
# A sentence ends with one of these, perhaps before quotes and brackets.
ENDS = ".!?…。！？؟।॥۔｡"
CLOSERS = "\"'”’»›)]}）】」』*_`"

# Characters that pipelines insert or lose: soft hyphen, joiners, direction marks, byte order mark, variation selectors.
_INVISIBLE = "\u00ad\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff\ufe00-\ufe0f"
# Points of Arabic and Hebrew, and the tatweel: they are written or left out.
TATWEEL = "\u0640"
POINTS = "\u0610-\u061a\u064b-\u0652\u0670\u06d6-\u06dc\u06df-\u06e4\u06e7\u06e8\u06ea-\u06ed\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7"
REMOVED = re.compile(f"[{_INVISIBLE}{POINTS}{TATWEEL}]+")

# One character for another: ligatures of fonts, full-width forms, and one sign for each kind of apostrophe, minus and hyphen. Compatibility
# composition (NFKC) would also turn 10² into 102.
_SAME = {
    **{0xFF01 + offset: chr(0x21 + offset) for offset in range(94)},
    0x3000: " ", 0x2019: "'", 0x02BC: "'", 0x2018: "'", 0x201B: "'", 0x2212: "-", 0x2010: "-", 0x2011: "-", 0xFF0D: "-",
    0xFB00: "ff", 0xFB01: "fi", 0xFB02: "fl", 0xFB03: "ffi", 0xFB04: "ffl", 0xFB05: "st", 0xFB06: "st",
    0x05F3: "'", 0x05F4: '"', 0x0132: "IJ", 0x0133: "ij", 0x00B5: "\u03bc", 0x2126: "\u03a9", 0x212A: "K", 0x212B: "\u00c5",
}  # fmt: skip
_HAS_SAME = re.compile("[" + "".join(map(chr, _SAME)) + "]")
_SUBSCRIPTS = re.compile("(?<=[^\\W\\d_])[₀-₉]+|(?<=[)\\]])[₀-₉]+")
_SUBSCRIPT_DIGITS = {0x2080 + digit: str(digit) for digit in range(10)}

# The Thai vowel am in two parts.
_SPLIT_AM = "\u0e4d\u0e32"
# Half-width kana and presentation forms of Arabic: the same letters, as some pipelines write them.
_PRESENTED = re.compile("[\uff61-\uff9f\ufb50-\ufdff\ufe70-\ufefc]+")
_COLOURS = re.compile("\x1b\\[[0-9;]{0,20}[A-Za-z]")

# Elements whose tags are markup. Others may be placeholders: <user>, <port>.
_BLOCKS = "p|div|br|li|ul|ol|dl|dt|dd|h[1-6]|table|thead|tbody|tfoot|tr|hr|blockquote|section|article|header|footer|nav|main|pre|figure|figcaption|body|html|head|title|form|fieldset|aside"
_INLINES = (
    "span|b|i|em|strong|small|u|font|center|code|kbd|samp|var|tt|abbr|cite|q|mark|label|sub|time|ins|img|big|bdi|bdo"
)
# Possessive and bounded: a text of tags that never close takes linear time.
_ATTRIBUTES = "(?:\\s++[\\w:-]++\\s*+=\\s*+(?:\"[^\"<>]*+\"|'[^'<>]*+'|[^\\s\"'<>]++))*+\\s*+/?>"
_BLOCK = re.compile(f"</?(?:{_BLOCKS}){_ATTRIBUTES}", re.IGNORECASE)
_INLINE = re.compile(f"</?(?:{_INLINES}){_ATTRIBUTES}", re.IGNORECASE)
# What a tag says to a reader beside the words within it.
_SPOKEN = re.compile(
    "\\s(?:alt|title|aria-label|datetime|start|value)\\s*+=\\s*+(?:\"([^\"<>]*+)\"|'([^'<>]*+)'|([^\\s\"'<>/]++))",
    re.IGNORECASE,
)
_CELL = re.compile(f"<t[dh]{_ATTRIBUTES}", re.IGNORECASE)
_CELL_END = re.compile("</t[dh]\\s*>", re.IGNORECASE)
_RAISED = re.compile("<sup>", re.IGNORECASE)
_RAISED_END = re.compile("</sup>", re.IGNORECASE)
_COMMENT = re.compile("<!--[^<>]*-->")
# AnythingLLM writes the metadata of a document before each chunk of it. As in a payload, they tell where a text stands.
_METADATA = re.compile("\\A\\s*+<document_metadata>\\n((?:\\w{1,40}:[^\\n]{0,500}\\n){1,20})</document_metadata>")
_WHERE = re.compile(
    "^(?:sourceDocument|source|title|url|author|published|created|updated):.*\\n", re.MULTILINE | re.IGNORECASE
)
_STRUCK = re.compile(
    "<(del|s|strike)>([^<>]{1,2000})</\\1>|~~([^~\\n]{1,2000})~~|<span\\s[^<>]{0,300}?line-through[^<>]{0,300}+>([^<>]{1,2000})</span>",
    re.IGNORECASE,
)
_ANCHOR = re.compile(
    "<a\\s[^<>]{0,300}?href\\s*+=\\s*+(?:\"([^\"<>]{0,2000})\"|'([^'<>]{0,2000})'|([^\\s\"'<>]{1,2000}+))[^<>]{0,300}+>([^<>]{0,2000}+)</a>",
    re.IGNORECASE,
)
_IMAGE = re.compile("<img\\s[^<>]{0,300}?src\\s*+=\\s*+[\"']?+([^\\s\"'<>]{1,2000}+)", re.IGNORECASE)
_ANCHOR_TAG = re.compile(f"</?a{_ATTRIBUTES}", re.IGNORECASE)
_LINK = re.compile('!?\\[([^\\[\\]\\n]{0,500})\\]\\(([^()\\s]{1,2000})(?:\\s+"[^"\\n]{0,200}")?\\)')
_ABSOLUTE = re.compile("[a-zA-Z][a-zA-Z0-9+.-]*:")
_EMPHASIS = re.compile("(?<![\\w*\\\\])(\\*{1,3})(?=[^\\s*])([^*\\n]{1,500}?)(?<=[^\\s*])\\1(?![\\w*])")
_STRESSED = re.compile("<(b|strong|i|em|u|mark)>([^<>]{1,500})</\\1>", re.IGNORECASE)
_UNDERSCORED = re.compile("(?<![\\w\\\\])(_{1,2})(?=[^\\s_])([^_\\n]{1,500}?)(?<=[^\\s_])\\1(?!\\w)")
_BOX = re.compile("^([^\\S\\n]*+(?:[-*+][^\\S\\n]++)?)\\[([ xX])\\](?=\\s)", re.MULTILINE)
BROKEN_WORD = re.compile("(?<=[^\\W\\d_])-[^\\S\\n]*+\\n[^\\S\\n]*+(?=[^\\W\\d_A-Z])")

# The brackets of an interval say whether its ends belong to it. They become marks that are no formatting.
_INTERVAL = re.compile(
    "([\\[(\\]])([-+]?[\\d.]+ ?[,;] ?[-+]?[\\d.]+|[-+]?[\\d.]+ ?[,;] ?[-+]?∞|-∞ ?[,;] ?[-+]?[\\d.]+)([\\])\\[])"
)
_ACCOUNTED = re.compile("\\d{1,3}(?:,\\d{3})+")
_OPEN, _CLOSED = {"[": "⟦", "(": "⦅", "]": "⟧"}, {"]": "⟧", ")": "⦆", "[": "⟦"}

_INCHES = re.compile('(?<=\\d)"(?=[\\s.,;:)x×]|$)')
_FEET = re.compile("(?<=\\d)'(?=[\\s\\d.,;:)x×]|$)")
_OPENED = re.compile("(?:^|[\\s(])'\\w")
# The derivatives y' and y''.
_DERIVED = re.compile("(?<![\\w'])([a-zA-Z])('{1,3}|\")(?=[\\s=+*/(),;:-]|$)")
# Before a line without a blank: a setting that is switched off, or a path that is not ignored.
_LEADING = re.compile("^([;!])(?=[\\w/.*])", re.MULTILINE)
_LED = {";": "\u204f", "!": "\u2757"}

# The blank before a French semicolon or colon.
_FRENCH = re.compile("(?<=[^\\W\\d_]) (?=[;:](?:\\s|$))")
# Code within a sentence of which quotes, dots or blanks say something: one run that is read as it is.
_SPAN = re.compile("(?<!`)`([^`\\n]{2,200})`(?!`)")
_LITERAL = re.compile("\\.\\.|[\"']|[^\\w\\s.]\\s|\\s[^\\w\\s]")
VERBATIM = "\ue000"
STRUCK = "\u232b"  # before each word that is struck out: it makes another word
TICKED, UNTICKED = "\u2611", "\u2610"


def undressed(text: str) -> str:
    """The text composed (NFC), without invisible characters, points, HTML and inline Markdown; its lines are kept.

    Relative link targets go, absolute ones stand behind the text of their link.
    """
    if not text.isascii():
        text = _composed(text)
    if "\x1b" in text or "\r" in text:
        text = _COLOURS.sub("", text).replace("\r\n", "\n").replace("\r", "\n")
    if "<" in text and ">" in text:
        text = _without_tags(text)
    if "&" in text and ";" in text:
        text = html.unescape(text)
        if not text.isascii():
            text = _composed(text)
    if "'" in text or '"' in text:
        text = _primed(text)
    if ";" in text or "!" in text:
        text = _LEADING.sub(lambda match: _LED[match[1]], text)
    if "," in text or ";" in text:
        text = _INTERVAL.sub(_interval, text)
    text = _without_markdown(text)
    if "-" in text and "\n" in text:
        text = BROKEN_WORD.sub("", text)
    return text


def _primed(text: str) -> str:
    """Feet and inches, minutes and seconds as primes: a quote behind a digit that closes nothing."""
    if text.count('"') % 2:
        text = _INCHES.sub("″", text)
    if _OPENED.search(text) is not None:
        return text
    text = _DERIVED.sub(lambda match: match[1] + "′" * (2 if match[2] == '"' else len(match[2])), text)
    return _FEET.sub("′", text)


def _without_markdown(text: str) -> str:
    """Inline Markdown: struck words are marked, links have their target behind them, emphasis goes, and code is read as it is."""
    if "`" in text:
        text = _SPAN.sub(_literal, text)
    if " ;" in text or " :" in text:
        text = _FRENCH.sub("", text)
    if "~~" in text:
        text = _STRUCK.sub(_struck, text)
    if "](" in text:
        text = _LINK.sub(lambda match: _with_target(match[1], match[2]), text)
    if "*" in text:
        text = _EMPHASIS.sub(r"\2", text)
    if "_" in text:
        text = _UNDERSCORED.sub(_plain, text.replace("\\_", "_"))
    if "[" in text:
        text = _BOX.sub(lambda match: match[1] + (UNTICKED if match[2] == " " else TICKED), text)
    return text


def _composed(text: str) -> str:
    if not unicodedata.is_normalized("NFC", text):
        text = unicodedata.normalize("NFC", text)
    text = REMOVED.sub("", text)
    if _HAS_SAME.search(text) is not None:  # str.translate() takes 100 µs for a text of a hundred words
        text = text.translate(_SAME)
    if _SPLIT_AM in text:
        text = text.replace(_SPLIT_AM, "\u0e33")
    if _PRESENTED.search(text) is not None:
        text = _PRESENTED.sub(lambda match: unicodedata.normalize("NFKC", match[0]), text)
    if not unicodedata.is_normalized("NFC", text):  # marks that an invisible character kept apart
        text = unicodedata.normalize("NFC", text)
    return _SUBSCRIPTS.sub(lambda match: match[0].translate(_SUBSCRIPT_DIGITS), text)


def _without_tags(text: str) -> str:
    text = _COMMENT.sub("", _METADATA.sub(lambda match: _WHERE.sub("", match[1]), text))
    text = _STRUCK.sub(_struck, text)
    text = _ANCHOR.sub(lambda match: _with_target(match[4], match[1] or match[2] or match[3] or ""), text)
    for pattern, replacement in (
        (_CELL, "| "),
        (_CELL_END, " "),
        (_RAISED, "^"),
        (_RAISED_END, " "),
        (_ANCHOR_TAG, ""),
    ):
        text = pattern.sub(replacement, text)
    text = _INLINE.sub(_spoken, text)
    return _BLOCK.sub(lambda match: f"\n{_spoken(match)}", text)


def _spoken(match: re.Match[str]) -> str:
    """What the attributes of a tag say."""
    if "=" not in match[0]:
        return ""
    values = [one or two or three for one, two, three in _SPOKEN.findall(match[0])]
    return f" {' '.join(values)} " if any(values) else ""


def _struck(match: re.Match[str]) -> str:
    return " ".join(STRUCK + word for word in (match[2] or match[3] or match[4]).split())


def _with_target(words: str, target: str) -> str:
    return f"{words} {target}" if _ABSOLUTE.match(target) and target != words else words


def linked_files(text: str) -> Iterator[tuple[str, str]]:
    """The words of each relative link, none of an image in HTML, and the name of the file that it leads to: folders differ where a page was moved. Its
    query or place is a name of its own.
    """
    if "](" not in text and "<" not in text:
        return
    links = [(link[1], link[2]) for link in _LINK.finditer(text)]
    links += [(link[4], link[1] or link[2] or link[3] or "") for link in _ANCHOR.finditer(text)]
    links += [("", image[1]) for image in _IMAGE.finditer(text)]
    for words, target in links:
        if _ABSOLUTE.match(target):
            continue
        path, mark, place = re.split("([?#])", f"{target}#", maxsplit=1)
        for key, name in ((words, path.rstrip("/").rpartition("/")[2]), (words + mark, place.rstrip("#"))):
            if name:
                yield key, name


def stressed(text: str) -> set[str]:
    """What is emphasised, in small letters."""
    if "*" not in text and "_" not in text and "<" not in text:
        return set()
    patterns = (_EMPHASIS, _UNDERSCORED, _STRESSED)
    return {match[2].strip(" .,:;").lower() for pattern in patterns for match in pattern.finditer(text)}


def _interval(match: re.Match[str]) -> str:
    if _ACCOUNTED.fullmatch(match[2]):
        return match[0]
    return f"{_OPEN[match[1]]}{match[2]}{_CLOSED[match[3]]}"


def _literal(match: re.Match[str]) -> str:
    return match[0] if _LITERAL.search(match[1]) is None else VERBATIM + "\u2423".join(match[1].split())


def _plain(match: re.Match[str]) -> str:
    """What stands between underscores, unless it is an identifier such as __init__."""
    words = match[2]
    return words if " " in words or (len(match[1]) == 1 and words.isalpha()) else match[0]
