"""How a database could read the bytes that reach it: three readers that differ where HTTP/1 parsers have been known to.

What is well framed, all of them read alike. Pure: bytes in, requests out.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

LINE_END = re.compile(rb"\r\n")
ANY_LINE_END = re.compile(rb"\r?\n")
HEX = re.compile(rb"\s*\+?(?:0x)?([0-9a-fA-F]+)")
DIGITS = re.compile(rb"\s*\+?([0-9]+)")


@dataclass(frozen=True, slots=True)
class Reader:
    """``is_coding_first``: with a length and a coding, the coding frames. ``is_lax``: takes bare LF, spaces before a colon, any
    value that has `chunked` in it, the first number it finds, and of two lengths the last.
    """

    name: str
    is_coding_first: bool = True
    is_lax: bool = False


READERS = (
    Reader("coding first"),
    Reader("length first", is_coding_first=False),
    Reader("lax", is_lax=True),
    Reader("lax, length first", is_coding_first=False, is_lax=True),
)


@dataclass(frozen=True, slots=True)
class Request:
    """A start line, the names of its fields in small letters, and a body without its chunks."""

    line: bytes
    names: frozenset[bytes]
    content: bytes


def requests(raw: bytes, reader: Reader) -> tuple[list[Request], bytes]:
    """The whole requests of a connection, and what is left: the beginning of one more, or nothing."""
    parsed: list[Request] = []
    while True:
        raw = re.sub(rb"\A(?:\r?\n)+", b"", raw)
        whole = _first(raw, reader)
        if whole is None:
            return parsed, raw
        parsed.append(whole[0])
        raw = whole[1]


def _first(raw: bytes, reader: Reader) -> tuple[Request, bytes] | None:
    end = ANY_LINE_END if reader.is_lax else LINE_END
    match = re.search(end.pattern * 2, raw)
    if match is None:
        return None
    lines = end.split(raw[: match.start()])
    fields = _fields(lines[1:], reader)
    body = _body(fields, raw[match.end() :], reader)
    return None if body is None else (Request(lines[0], frozenset(fields), body[0]), body[1])


def _fields(lines: list[bytes], reader: Reader) -> dict[bytes, bytes]:
    pairs = [line.partition(b":") for line in lines]
    return {
        (name.strip() if reader.is_lax else name).lower(): value.strip(
            b" \t\r\x0b\x0c\x00\xa0" if reader.is_lax else b" \t"
        )
        for name, _, value in pairs
    }


def _body(fields: dict[bytes, bytes], rest: bytes, reader: Reader) -> tuple[bytes, bytes] | None:
    coding, length = fields.get(b"transfer-encoding", b"").lower(), fields.get(b"content-length")
    is_chunked = b"chunked" in coding if reader.is_lax else coding == b"chunked"
    if is_chunked and (reader.is_coding_first or length is None):
        return _unchunked(rest, reader)
    number = DIGITS.match(length or b"0")
    size = int(number[1]) if number is not None else 0
    return (rest[:size], rest[size:]) if len(rest) >= size else None


def _unchunked(rest: bytes, reader: Reader) -> tuple[bytes, bytes] | None:
    end, content = ANY_LINE_END if reader.is_lax else LINE_END, b""
    while (line := end.search(rest)) is not None:
        number = HEX.match(rest[: line.start()])
        size = int(number[1], 16) if number is not None else 0
        if size == 0:
            last = re.search(rb"(?:\A|" + end.pattern + rb")" + end.pattern, rest[line.end() :])
            return None if last is None else (content, rest[line.end() + last.end() :])
        content, rest = content + rest[line.end() : line.end() + size], rest[line.end() + size :]
        closing = end.match(rest)
        if closing is None:
            return None
        rest = rest[closing.end() :]
    return None
