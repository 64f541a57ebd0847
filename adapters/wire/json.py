"""Exact byte spans of the members of a JSON object and of the elements of a JSON array.

msgspec checks the grammar in C and returns each value as raw bytes; a walk over the text then locates each of them. No value is
decoded, so nothing is rounded, reordered or re-escaped. Spans are half-open byte offsets. Whatever is ambiguous raises ValueError.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt

from ..contract import Allowance, Bounds, Reason, UnsupportedError

Span = tuple[int, int]


class Member(NamedTuple):
    """Offsets of a member: its key's opening quote, its value's first byte, the byte past its value.

    A NamedTuple: a frozen dataclass takes three times as long to make, and a reply has hundreds.
    """

    key: int
    value: int
    end: int

    @property
    def span(self) -> Span:
        """Of its value."""
        return self.value, self.end


Members = dict[str, Member]


class RepeatedKeyError(ValueError):
    """An object has a key twice. Readers differ in which value counts."""


_KEY = re.compile(rb'[ \t\n\r]*+"((?:[^"\\]++|\\.)*+)"[ \t\n\r]*+:[ \t\n\r]*+', re.DOTALL)
_SPACE = re.compile(rb"[ \t\n\r]*+")
_ESCAPE_BYTES = 6
_BACKSLASH = ord("\\")
_BLOCK = 1 << 20  # bytes masked at a time; each takes up to 9 bytes more
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F][0-9a-fA-F]{2}")
# Members that are located, in one object and in all objects of a text: each takes 2 microseconds.
MOST_MEMBERS = 1 << 14
MOST_MEMBERS_IN_ALL = 1 << 15
_OBJECT = msgspec.json.Decoder(dict[str, msgspec.Raw])
_ABSENT = msgspec.Raw()
_UNNAMEABLE = frozenset('"\\') | {chr(code) for code in range(0x20)}
_ARRAY = msgspec.json.Decoder(list[msgspec.Raw])
# Far above any name that a database accepts; a longer one would be copied into each widened search.
LONGEST_NAME = 64 * 1024
_COPIED = 1 << 16  # up to this size a copy is faster than a view
_DELIMITERS = b",}]"
_CLOSE_OBJECT = ord("}")

_Decoded = TypeVar("_Decoded")

_HEXADECIMAL = b"0123456789abcdefABCDEF"


def without_surrogates(text: bytes) -> bytes:
    r"""The same structure at the same offsets, with every ``\uD800``-``\uDFFF`` escape replaced by another escape.

    msgspec refuses a lone surrogate even in a value that it skips, so this text is walked and the output is cut from the
    original. A ``\\ud800`` that is no escape changes as well, without effect.
    """
    # One byte shows a text without escapes; the pattern takes a third of the time of `in` with two bytes.
    first = _SURROGATE.search(text) if b"\\" in text else None
    if first is None:
        return text
    masked = bytearray(text)
    for start in range(first.start(), len(text), _BLOCK):
        _mask_surrogates(np.frombuffer(masked, np.uint8)[start : start + _BLOCK + _ESCAPE_BYTES - 1])
    return bytes(masked)


def _mask_surrogates(codes: npt.NDArray[np.uint8]) -> None:
    """In place, vectorized: a pattern takes 170 ns for each escape, and a reply of escaped emoji has a million."""
    starts = np.flatnonzero(codes[: 1 - _ESCAPE_BYTES] == _BACKSLASH)
    for place, is_listed in enumerate(_SURROGATE_BYTES, 1):
        starts = starts[is_listed[codes[starts + place]]]
    for place, code in enumerate(b"\\u0041"):
        codes[starts + place] = code


def _among(listed: bytes) -> npt.NDArray[np.bool_]:
    """(256,) True for the listed bytes."""
    table = np.zeros(256, np.bool_)
    table[list(listed)] = True
    return table


def members_of(text: bytes, span: Span) -> Members:
    """The members of the object that fills ``span``, in document order. Raises RepeatedKeyError, and ValueError for too many.

    The walk is exact although a dict drops earlier values of a repeated key: JSON values are prefix-free (a number ends at the
    delimiter that is checked), so bytes that match at the expected offset are the value there. By induction every key is read
    at its offset, and a repeated one is found.
    """
    start, end = span
    raws = _parse(_OBJECT, part(text, span))
    members: Members = {}
    position = start + 1
    if not raws:
        return members
    if len(raws) > MOST_MEMBERS:
        raise ValueError(f"{len(raws)} members at byte {start}")
    while True:
        match = _KEY.match(text, position, end)
        if match is None:
            raise ValueError(f"no key at byte {position}")
        key, value = _text(match[1]), match.end()
        raw = raws.get(key)
        if key in members or raw is None:
            raise RepeatedKeyError(f"repeated key at byte {position}")
        finish = value + len(raw)
        if not text.startswith(raw, value):
            raise RepeatedKeyError(f"repeated key at byte {position}")
        members[key] = Member(match.start(1) - 1, value, finish)
        position = _delimiter(text, finish)
        if text[position] == _CLOSE_OBJECT:
            break
        position += 1
    if position != end - 1:
        raise ValueError(f"object ends at byte {position}, wanted {end - 1}")
    return members


def value_spans(members: Members) -> dict[str, Span]:
    """The spans of the values by name, those of null too."""
    return {name: member.span for name, member in members.items()}


def check_members(text: bytes) -> None:
    """Raises ValueError if the objects of a text have too many members in all. A colon after a quote inside a string counts too."""
    count = text.count(b'":')
    if count > MOST_MEMBERS_IN_ALL:
        raise ValueError(f"{count} members in all")


def last_values(
    text: bytes | memoryview, keys: tuple[str, ...], allowance: Allowance | None = None
) -> tuple[bytes | None, ...]:
    """The value of each key in an object, None if absent or beyond the ``allowance``; all None if the text is no object.

    The last value of a repeated key counts. Other members, perhaps 100,000, are skipped.
    """
    decoder = _reading(keys)
    try:
        values_read = decoder.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return (None,) * len(keys)
    values = map(values_read.get, keys) if isinstance(values_read, dict) else msgspec.structs.astuple(values_read)
    return tuple(
        [
            None
            if value is None or value is _ABSENT or not (allowance is None or allowance.covers(len(value)))
            else bytes(value)
            for value in values
        ]
    )


def last_values_of(
    texts: Sequence[bytes], keys: tuple[str, ...], allowance: Allowance
) -> tuple[tuple[bytes | None, ...], ...]:
    """As ``last_values`` of each text."""
    decoder = _reading(keys)
    if decoder is _OBJECT or len(keys) > 1 or sum(map(len, texts)) > allowance.left_bytes:
        return tuple([last_values(text, keys, allowance) for text in texts])
    try:
        values = [decoder.decode(text).m0 for text in texts]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return tuple([last_values(text, keys, allowance) for text in texts])
    return tuple([(None,) if value is _ABSENT else (bytes(value),) for value in values])


@lru_cache(maxsize=256)
def _reading(keys: tuple[str, ...]) -> msgspec.json.Decoder[Any]:
    """Decodes these members into a struct; into a dict where msgspec does not accept a key as a field's name."""
    if any(not _UNNAMEABLE.isdisjoint(key) for key in keys) or len(set(keys)) < len(keys):
        return _OBJECT
    names = [f"m{place}" for place in range(len(keys))]
    fields = [(name, msgspec.Raw, _ABSENT) for name in names]
    return msgspec.json.Decoder(msgspec.defstruct("Members", fields, rename=dict(zip(names, keys, strict=True))))


def elements(text: bytes, span: Span) -> list[Span]:
    """The spans of the elements of the array that fills ``span``, in order: from their lengths, with commas and white space between them."""
    spans: list[Span] = []
    position = span[0] + 1
    for raw in _parse(_ARRAY, part(text, span)):
        value = position if text[position] > 32 else _skip(text, position)
        finish = value + len(raw)
        spans.append((value, finish))
        position = _delimiter(text, finish) + 1
    return spans


def cuts(members: Members, dropped: Collection[str]) -> list[Span]:
    """The spans to remove from an object, disjoint and ascending, so that it has no members ``dropped``.

    A member is removed with the comma before it, or with the one after it if no member before it is kept.
    """
    removed: list[Span] = []
    entries = list(members.items())
    kept_before = False
    for index, (name, member) in enumerate(entries):
        if name not in dropped:
            kept_before = True
        elif kept_before:
            removed.append((entries[index - 1][1].end, member.end))
        else:
            following = entries[index + 1][1].key if index + 1 < len(entries) else member.end
            removed.append((member.key, following))
    return removed


def object_of(values: Iterable[tuple[bytes, bytes]]) -> bytes:
    """An object from keys and values, both as JSON."""
    return b"{%s}" % b",".join([b"%s:%s" % pair for pair in values])


def splice(text: bytes, edits: Iterable[tuple[int, int, bytes]]) -> bytes:
    """``text`` with each span ``(start, end)`` replaced by its bytes. Edits are disjoint, in any order; insertions at the same offset
    (start == end) keep their order.
    """
    pieces: list[bytes] = []
    position = 0
    for start, end, replacement in sorted(edits, key=lambda edit: edit[:2]):
        pieces += (text[position:start], replacement)
        position = end
    pieces.append(text[position:])
    return b"".join(pieces)


def whole(text: bytes) -> Span:
    """The span of a document without the white space around it."""
    start = _skip(text, 0)
    return start, max(start, len(text.rstrip(b" \t\n\r")))


def part(text: bytes, span: Span) -> bytes | memoryview:
    """The bytes of ``span``; a view of a large one."""
    start, end = span
    return text[start:end] if end - start <= _COPIED else memoryview(text)[start:end]


def string(text: bytes) -> str:
    """The value of a JSON string of at most 64 KiB. Raises ValueError, also for a lone surrogate."""
    if text[:1] != b'"' or len(text) > LONGEST_NAME:  # checked before parsing: the text may be a list of megabytes
        raise ValueError(f"{len(text)} bytes are no name")
    value: str = json.loads(text)
    value.encode()
    return value


def _parse(decoder: msgspec.json.Decoder[_Decoded], text: bytes | memoryview) -> _Decoded:
    try:
        return decoder.decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        # RecursionError: msgspec stops at the interpreter's recursion limit, within microseconds. Qdrant stops at 128 levels.
        raise ValueError(f"no JSON of the wanted kind: {error}") from None


def _text(key: bytes) -> str:
    return string(b'"' + key + b'"') if b"\\" in key else key.decode()


def _skip(text: bytes, position: int) -> int:
    match = _SPACE.match(text, position)
    return match.end() if match is not None else position


def _delimiter(text: bytes, position: int) -> int:
    if text[position] not in _DELIMITERS:
        position = _skip(text, position)
    if text[position] not in _DELIMITERS:
        raise ValueError(f"no delimiter at byte {position}")
    return position


_SURROGATE_BYTES = tuple(map(_among, (b"u", b"dD", b"89abcdefABCDEF", _HEXADECIMAL, _HEXADECIMAL)))

# Limits on requests and replies, counted in linear time before parsing. Characters inside strings count too, so a count may be too high,
# never too low; a search beyond a limit is passed through.
#
# Measured for 4 MiB: 1 to 2 ms for the counts, 10 to 25 ms if vectors are removed first.

# Numbers of all vectors of a request: decoding them takes 25 to 45 ms without pysimdjson. 4 MiB contain fewer numbers of eight
# characters.
NUMBERS = 512 * 1024
# Dimensions of a vector: the largest that a database accepts (Qdrant 65,536, Weaviate 65,535, Milvus 32,768).
DIMENSIONS = 65_536
# Average length of the numbers of a long vector, with blanks: a float64 in full has 25. Numbers of a megabyte take 140 ms on a busy
# machine.
NUMBER_BYTES = 64

# A reply without its vectors: 4 MiB of plain text take 30 ms. A thousand candidates have 4 kB each.
REPLY_BYTES = 4 * 1024 * 1024
# Its strings, lists and objects: a microsecond each. A thousand candidates have 65 each.
REPLY_PARTS = 64 * 1024
# Its surrogate escapes, which are replaced before parsing.
REPLY_SURROGATES = 64 * 1024

# A list of numbers. Possessive, so that each byte is scanned at most twice.
_VECTOR = re.compile(rb"\[[-+.0-9eE, \t\r\n]*+\]")
_QUOTE, _COMMA, _LIST, _OBJECT_START, _ESCAPE = b'",[{\\'


def check_size(body: bytes, bounds: Bounds) -> None:
    """Raises UnsupportedError for a body with more parts than the bounds allow: strings, list items, lists and objects."""
    if len(body) <= bounds.parts:  # each part has at least one byte
        return
    counts = _counts(body, (_QUOTE, _LIST, _OBJECT_START, _COMMA))
    parts, commas = counts[0] // 2 + counts[1] + counts[2], counts[3]
    if parts > bounds.parts or commas > NUMBERS:
        raise UnsupportedError(Reason.TOO_MANY_PARTS)
    if parts + commas <= bounds.parts:
        return
    between = _VECTOR.sub(b"", body).count(b",")
    if parts + between > bounds.parts:
        raise UnsupportedError(Reason.TOO_MANY_PARTS)


def check_reply(text: bytes) -> None:
    """Raises ValueError for a reply that is too large. ``text``: without its vectors."""
    if len(text) > REPLY_BYTES:
        raise ValueError(f"{len(text)} bytes beside vectors, wanted {REPLY_BYTES} at most")
    if len(text) <= REPLY_PARTS:
        return
    quotes, lists, objects, escapes = _counts(text, (_QUOTE, _LIST, _OBJECT_START, _ESCAPE))
    parts = quotes // 2 + lists + objects
    if parts > REPLY_PARTS:
        raise ValueError(f"{parts} strings, lists and objects, wanted {REPLY_PARTS} at most")
    if escapes > REPLY_SURROGATES and text.count(b"\\ud") + text.count(b"\\uD") > REPLY_SURROGATES:
        raise ValueError(f"more than {REPLY_SURROGATES} surrogates")


def check_dimensions(body: bytes, start: int, end: int) -> None:
    """Raises UnsupportedError for a vector with too many numbers, or with very long ones."""
    if end - start <= 2 * DIMENSIONS:
        return
    numbers = body.count(b",", start, end) + 1
    if numbers > DIMENSIONS or end - start > NUMBER_BYTES * numbers:
        raise UnsupportedError(Reason.TOO_MANY_PARTS)


def _counts(body: bytes, codes: tuple[int, ...]) -> list[int]:
    view = np.frombuffer(body, dtype=np.uint8)
    return [int(np.count_nonzero(view == byte)) for byte in codes]
