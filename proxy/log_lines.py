"""What a log line says: one JSON object, at most 2 KiB, nothing of a request's words.

Our own loggers (`vecsieve.*`) are trusted to say fixed words and fields from closed sets. Every other logger is not: of
its records only the place and the exception's class remain. No exception's message and no local is ever printed.
"""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Mapping
from datetime import UTC, datetime
from types import TracebackType

from vecsieve.proxy.redaction import Withhold

LINE_BYTES = 2048  # below PIPE_BUF (4096 on Linux), so that lines of several workers never mix
OWN = "vecsieve"
FIELDS = "fields"  # the attribute of a record that holds its structured fields

Field = str | int | float | bool | None


def encode(fields: Mapping[str, Field]) -> bytes:
    """One line of ASCII JSON: whatever a value holds, it cannot end the line or reach a terminal."""
    line = _dump({name: _plain(value) for name, value in fields.items()})
    if len(line) <= LINE_BYTES:
        return line
    # The first fields say when, how bad and what: as many as fit, each cut.
    cut: dict[str, Field] = {"truncated": True}
    for name, value in fields.items():
        longer = {**cut, name[:64]: value[:256] if isinstance(value, str) else _plain(value)}
        if len(_dump(longer)) > LINE_BYTES:
            break
        cut = longer
    return _dump(cut)


def timestamp(seconds: float) -> str:
    """Seconds since the epoch as RFC 3339 in UTC, to the millisecond."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def place_of(error: BaseException) -> str:
    """The class of an exception and where it was raised: enough to find it, nothing of what it was about."""
    return f"{type(error).__name__} at {_where(error.__traceback__)}"


def _where(trace: TracebackType | None) -> str:
    if trace is None:
        return "unknown"
    while trace.tb_next is not None:
        trace = trace.tb_next
    return f"{trace.tb_frame.f_globals.get('__name__', 'unknown')}:{trace.tb_lineno}"


class JsonLines(logging.Formatter):
    """Formats a record as one line without its newline."""

    def format(self, record: logging.LogRecord) -> str:
        """The record's words and fields, with the class and place of its exception."""
        fields: dict[str, Field] = {
            "ts": timestamp(record.created),
            "level": record.levelname.lower(),
            "logger": record.name,
            "msg": record.getMessage(),
        }
        if record.exc_info and record.exc_info[1] is not None:
            fields["error"] = place_of(record.exc_info[1])
        own = getattr(record, FIELDS, None)
        if isinstance(own, Mapping):
            fields.update(own)
        return encode(fields)[:-1].decode("ascii")


class ForeignWithheld(logging.Filter):
    """Withholds the words of every logger that is not ours, for those the guard by name does not know."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Redact the record unless it is ours or was redacted already; it is still logged."""
        if record.name == OWN or record.name.startswith(OWN + "."):
            return True
        if any(isinstance(present, Withhold) for present in logging.getLogger(record.name).filters):
            return True
        return Withhold().filter(record)


def _plain(value: Field) -> Field:
    if isinstance(value, float) and not math.isfinite(value):
        return None  # JSON has no word for it
    return value


def _dump(fields: Mapping[str, Field]) -> bytes:
    # The standard library, not orjson: it takes lone surrogates, and escapes everything beyond ASCII.
    return json.dumps(fields, separators=(",", ":"), default=lambda value: type(value).__name__).encode("ascii") + b"\n"
