"""What one raw JSON value of a payload says, read strictly: whatever is odd says nothing, and nothing raises.

Nor does what is too long: a name, a number or a date that fills pages is none, and a payload may hold megabytes of digits.
"""

from __future__ import annotations

import math

import orjson

LAST_POSITION = 2.0**53
# Names, dates, releases: the longest path of Linux (PATH_MAX), the longest that browsers take of a URL is half of it.
STRING_BYTES = 4096
# The largest number a float holds has 309 digits, the smallest 324 behind the point and 17 that count.
NUMBER_BYTES = 400
QUOTE = b'"'
_NUMBER_STARTS = frozenset(b"-0123456789")
_WORDS = {b"true": "true", b"false": "false"}
_EMPTY = frozenset({b"null", b"false", b'""', b"[]", b"{}"})


def string(raw: bytes, *, most_bytes: int = STRING_BYTES) -> str | None:
    """A string that is not blank and, as JSON, has at most so many bytes."""
    if raw[:1] != QUOTE or len(raw) > most_bytes:
        return None
    try:
        value = orjson.loads(raw)
    except orjson.JSONDecodeError:
        return None  # a lone surrogate: legal for the database, not for a strict reader
    return value if value and not value.isspace() else None


def name(raw: bytes) -> str | None:
    """What names a document, a section or a source: a string, or the JSON text of a number or a boolean.

    So 7 and "7" are one name: within a collection identifiers are of one kind, and where they are not they mean the same.
    """
    if raw[:1] == QUOTE:
        return string(raw)
    return raw.decode() if number(raw) is not None else _WORDS.get(raw)


def number(raw: bytes) -> float | None:
    """A finite number. A number in a string is none."""
    if not raw or raw[0] not in _NUMBER_STARTS or len(raw) > NUMBER_BYTES:
        return None
    try:
        value = float(orjson.loads(raw))
    except orjson.JSONDecodeError:
        return None
    return value if math.isfinite(value) else None


def position(raw: bytes) -> float | None:
    """A place in a document: a number from 0 that a float counts without gaps."""
    value = number(raw)
    return value if value is not None and 0.0 <= value <= LAST_POSITION else None


def is_filled(raw: bytes) -> bool:
    """Whether there is something: not null, false, blank or empty. A long string is something, whatever it says."""
    return raw not in _EMPTY and (raw[:1] != QUOTE or len(raw) > STRING_BYTES or string(raw) is not None)
