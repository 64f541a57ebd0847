"""Logging: where lines go, how records of other libraries are redacted, and the access log.

A line is one JSON object of at most 2 KiB. An access line has values of closed sets and numbers only: no path, query, header, collection or
message, except the database's own address if it cannot be reached. Trace ids are left out because they come from a header; the request id
is random and ours. Our own loggers (`vecsieve.*`) log fixed words and fields of closed sets; one line a
collection (`vecsieve.texts`) has its name and keys of its payloads. Records of other loggers are reduced to the
place and the class of the exception, because aiohttp logs the bytes of a malformed request, and asyncio prints the message of an exception
that was never awaited. No message of an exception and no local variable is ever printed.
"""

from __future__ import annotations

import json
import logging
import math
import os
import queue
import select
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from types import TracebackType
from typing import NamedTuple, Protocol

from .labels import Origin, Outcome
from .reports import Report
from .spans import known_method

# Sinks: a reader that stalls or disappears costs lines, never a request and never a crash.

QUEUED_LINES = 10_000  # at most 20 MiB of 2 KiB lines while the reader stalls
CLOSE_SECONDS = 1.0  # a blocked reader must not delay the exit


class LineSink(Protocol):
    """Takes whole lines. ``put`` never blocks and never raises; a line that cannot be written is dropped."""

    def put(self, line: bytes) -> None:
        """Write the line, which ends in a newline, soon."""

    def close(self) -> None:
        """Write what is queued, for a bounded time."""


class ThreadedSink:
    """A bounded queue and one writing thread, because a write to a full pipe blocks.

    Make it in the process that uses it: a thread does not survive a fork. ``on_drop`` is called once per lost line, from any thread.
    """

    def __init__(
        self, descriptor: int = 1, *, queued_lines: int = QUEUED_LINES, on_drop: Callable[[], None] = lambda: None
    ) -> None:
        self.on_drop = on_drop
        self._descriptor = descriptor
        self._lines: queue.Queue[bytes | None] = queue.Queue(maxsize=queued_lines)
        self._thread = threading.Thread(target=self._run, name="vecsieve-log", daemon=True)
        self._thread.start()

    def put(self, line: bytes) -> None:
        """Queue the line; drop it when the queue is full."""
        try:
            self._lines.put_nowait(line)
        except queue.Full:
            self.on_drop()

    def close(self) -> None:
        """Write what is queued, then end the thread; give up after a second."""
        try:
            self._lines.put(None, timeout=CLOSE_SECONDS)
        except queue.Full:
            return
        self._thread.join(CLOSE_SECONDS)

    def _run(self) -> None:
        is_torn = False
        while (line := self._lines.get()) is not None:
            whole = b"\n" + line if is_torn else line
            written = _write(self._descriptor, whole)
            is_torn = 0 < written < len(whole) or (is_torn and written == 0)
            if written < len(whole):
                self.on_drop()


class PollingSink:
    """Writes at once, and only if the descriptor takes a whole line without blocking: for a process that forks.

    A pipe that polls as writable has room for PIPE_BUF bytes, which is more than a line.
    """

    def __init__(self, descriptor: int = 1) -> None:
        self._descriptor = descriptor

    def put(self, line: bytes) -> None:
        """Write the line now, or drop it."""
        if select.select([], [self._descriptor], [], 0)[1]:
            _write(self._descriptor, line)

    def close(self) -> None:
        """Nothing is queued."""


def _write(descriptor: int, data: bytes) -> int:
    """Returns how many bytes were written before an error (closed reader, full disk, closed descriptor)."""
    written = 0
    while written < len(data):
        try:
            written += os.write(descriptor, data[written:])
        except BlockingIOError:
            # Another process made the shared descriptor non-blocking; this thread may wait.
            select.select([], [descriptor], [], 1.0)
        except OSError:
            break
    return written


FOREIGN = (
    "aiohttp",
    "aiohttp.access",
    "aiohttp.client",
    "aiohttp.internal",
    "aiohttp.server",
    "aiohttp.web",
    "aiohttp.websocket",
    "asyncio",
)


class Withhold(logging.Filter):
    """Replaces the text of a record by its place and the class of its exception."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Redact the record; it is still logged."""
        error = record.exc_info[0] if record.exc_info else None
        record.msg = "%s:%d %s (words withheld: they may quote a request)"
        record.args = (record.module, record.lineno, error.__name__ if error else "message")
        record.exc_info = record.exc_text = record.stack_info = None
        return True


def guard_foreign_loggers() -> None:
    """Install the guard once. A filter applies to one logger and not to its children, hence the list."""
    for name in FOREIGN:
        logger = logging.getLogger(name)
        if not any(isinstance(present, Withhold) for present in logger.filters):
            logger.addFilter(Withhold())


LINE_BYTES = 2048  # below PIPE_BUF (4096 on Linux), so that lines of several workers never mix
ROOT_LOGGER = "vecsieve"
FIELDS = "fields"  # the attribute of a record that holds its structured fields

Field = str | int | float | bool | None


def encode(fields: Mapping[str, Field]) -> bytes:
    """One line of ASCII JSON: no value can end the line or send control characters to a terminal."""
    line = _dump({name: _plain(value) for name, value in fields.items()})
    if len(line) <= LINE_BYTES:
        return line
    # The first fields are time, level and message: keep as many as fit, each truncated.
    cut: dict[str, Field] = {"truncated": True}
    for name, value in fields.items():
        longer = {**cut, name[:64]: value[:256] if isinstance(value, str) else _plain(value)}
        if len(_dump(longer)) > LINE_BYTES:
            break
        cut = longer
    return _dump(cut)


def timestamp(seconds: float) -> str:
    """Seconds since the epoch as RFC 3339 in UTC, with milliseconds."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def place_of(error: BaseException | None) -> str:
    """The class of an exception and where it was raised, without its message."""
    trace = None if error is None else error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    where = "unknown" if trace is None else f"{trace.tb_frame.f_globals.get('__name__', 'unknown')}:{trace.tb_lineno}"
    return f"{type(error).__name__} at {where}"


class JsonLines(logging.Formatter):
    """Formats a record as one line without its newline."""

    def format(self, record: logging.LogRecord) -> str:
        fields: dict[str, Field] = {
            "ts": timestamp(record.created),
            "level": record.levelname.lower(),
            "logger": record.name,
            "msg": record.getMessage(),
        }
        if record.exc_info and record.exc_info[1] is not None:
            fields["error"] = place_of(record.exc_info[1])
        extra = getattr(record, FIELDS, None)
        if isinstance(extra, Mapping):
            fields.update(extra)
        return encode(fields)[:-1].decode("ascii")


class ForeignWithheld(logging.Filter):
    """Redacts the records of all loggers that are neither ours nor in FOREIGN."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Redact the record unless it is ours or redacted already; it is still logged."""
        if record.name == ROOT_LOGGER or record.name.startswith(ROOT_LOGGER + "."):
            return True
        if any(isinstance(present, Withhold) for present in logging.getLogger(record.name).filters):
            return True
        return Withhold().filter(record)


def _plain(value: Field) -> Field:
    if isinstance(value, float) and not math.isfinite(value):
        return None  # JSON cannot express it
    return value


def _dump(fields: Mapping[str, Field]) -> bytes:
    # The standard library, not orjson: it accepts lone surrogates and escapes everything beyond ASCII.
    return json.dumps(fields, separators=(",", ":"), default=lambda value: type(value).__name__).encode("ascii") + b"\n"


SUCCESS_SHARE = 0.01  # all errors and fallbacks are logged, and one in a hundred other requests as a sample


class Ended(NamedTuple):
    """How a request ended, as its transport saw it. ``is_loopback``, ``is_reused``: whether the client is on this machine, and whether
    its connection had carried a request; None if unknown.

    ``status``: of HTTP, or the one HTTP has for a gRPC code; None: the client got none. ``code``: of gRPC. ``is_relayed``:
    the bytes of the answer came from upstream unchanged. ``cause``: why the database gave no answer.
    """

    method: str
    status: int | None
    origin: Origin
    request_bytes: int
    response_bytes: int
    is_relayed: bool
    is_loopback: bool | None
    is_reused: bool | None = None
    code: int | None = None
    cause: str = ""


class Access(NamedTuple):
    """One ended request. ``report``: of a classified search."""

    request_id: str
    operation: str
    backend: str
    outcome: Outcome
    seconds: float
    ended: Ended
    report: Report | None = None

    @property
    def is_trouble(self) -> bool:
        """Whether an operator should look at it: no answer, a 5xx, a refusal by the proxy, or a search that fell back.

        A 4xx of the database is its answer to the client, which no operator can fix. A 2xx of the proxy answers a write of which it left out
        everything.
        """
        status, least = self.ended.status, 400 if self.ended.origin is Origin.PROXY else 500
        return status is None or status >= least or self.outcome is Outcome.FAIL_OPEN


class AccessLog:
    """Writes all errors and fallbacks, and every n-th other request. ``least``: the least level that is written. ``wall_clock``: seconds
    since the epoch.
    """

    __slots__ = ("_least", "_owed", "_share", "_sink", "_wall_clock")

    def __init__(
        self,
        sink: LineSink,
        *,
        share: float = SUCCESS_SHARE,
        least: int = logging.INFO,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self._least = least
        self._sink = sink
        self._share = share
        self._wall_clock = wall_clock
        self._owed = 0.0

    def write(self, access: Access) -> None:
        """Log the request if it is selected. Never blocks, never raises."""
        is_trouble = access.is_trouble
        if (logging.WARNING if is_trouble else logging.INFO) < self._least:
            return
        if not is_trouble and (access.ended.status or 0) < 400:
            self._owed += self._share
            if self._owed < 1.0:
                return
            self._owed -= 1.0
        self._sink.put(encode({"ts": timestamp(self._wall_clock()), **_fields(access)}))


def _fields(access: Access) -> dict[str, Field]:
    ended, report = access.ended, access.report
    fields: dict[str, Field] = {
        "level": "warning" if access.is_trouble else "info",
        "msg": "access",
        "request_id": access.request_id,
        "method": known_method(ended.method),
        "operation": access.operation,
        "backend": access.backend,
        "status": ended.status,
        "origin": None if ended.status is None else ended.origin.value,
        "outcome": access.outcome.value,
        "duration_ms": _ms(access.seconds),
        "request_bytes": ended.request_bytes,
        "response_bytes": ended.response_bytes,
        "peer_is_loopback": ended.is_loopback,
        "connection_is_reused": ended.is_reused,
    }
    if ended.cause:
        fields["cause"] = ended.cause
    if report is not None:
        fields |= {
            "reason": report.reason,
            "upstream_ms": _ms(report.upstream_seconds),
            "added_ms": _ms(report.added_seconds),
            "searches": report.searches,
            "top_k": report.top_k,
            "candidates": report.counts.candidates,
            "collapsed": report.counts.collapsed,
            "returned": report.counts.returned,
        }
    return fields


def _ms(seconds: float) -> float:
    return round(seconds * 1000, 3)


# Only the command line installs it: an imported library must not take over the logging of its host.

LOGGER = logging.getLogger(ROOT_LOGGER)


class _SinkHandler(logging.Handler):
    """Passes formatted records to the sink."""

    def __init__(self, sink: LineSink) -> None:
        super().__init__()
        self._sink = sink
        self.setFormatter(JsonLines())
        self.addFilter(ForeignWithheld())

    def emit(self, record: logging.LogRecord) -> None:
        """Format in the calling thread, so that the objects of the record are released at once."""
        try:
            line = self.format(record)
        except (TypeError, ValueError, KeyError):
            # The arguments do not fit the format: logging would print both to standard error.
            self._sink.put(
                encode(
                    {
                        "level": "error",
                        "logger": record.name,
                        "msg": "a log record whose arguments do not fit its format",
                    }
                )
            )
            return
        self._sink.put(line.encode("ascii") + b"\n")

    def close(self) -> None:
        """Write what is queued."""
        super().close()
        self._sink.close()


@dataclass(frozen=True, slots=True)
class Logging:
    """What ``set_up`` installed."""

    _handler: logging.Handler
    _hooks: tuple[object, object, object]

    def close(self) -> None:
        """Undo ``set_up`` and write what is queued."""
        sys.excepthook, threading.excepthook, sys.unraisablehook = self._hooks  # type: ignore[assignment]  # - the hooks as saved
        logging.captureWarnings(capture=False)
        logging.getLogger().removeHandler(self._handler)
        self._handler.close()


def set_up(sink: LineSink, *, level: int = logging.INFO) -> Logging:
    """Send the records of all loggers, warnings and uncaught exceptions to the sink, redacted."""
    handler = _SinkHandler(sink)
    installed = Logging(handler, (sys.excepthook, threading.excepthook, sys.unraisablehook))
    root = logging.getLogger()
    root.addHandler(handler)
    root.setLevel(level)
    guard_foreign_loggers()
    logging.captureWarnings(capture=True)
    sys.excepthook = _uncaught
    threading.excepthook = lambda hooked: _uncaught(hooked.exc_type, hooked.exc_value, hooked.exc_traceback)
    sys.unraisablehook = lambda hooked: _uncaught(hooked.exc_type, hooked.exc_value, hooked.exc_traceback)
    return installed


def _uncaught(kind: type[BaseException], error: BaseException | None, trace: TracebackType | None) -> None:
    if issubclass(kind, KeyboardInterrupt):
        return
    where = place_of(error.with_traceback(trace)) if error is not None else kind.__name__
    LOGGER.critical("uncaught exception", extra={FIELDS: {"error": where}})
