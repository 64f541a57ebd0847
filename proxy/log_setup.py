"""How a process logs: every record, warning and uncaught exception as a redacted line in one sink.

Called by the command line alone: a library that is imported must not take over the host's logging.
"""

from __future__ import annotations

import logging
import sys
import threading
from dataclasses import dataclass
from types import TracebackType

from vecsieve.proxy.log_lines import FIELDS, OWN, ForeignWithheld, JsonLines, encode, place_of
from vecsieve.proxy.log_sink import LineSink
from vecsieve.proxy.redaction import guard_foreign_loggers

LOGGER = logging.getLogger(OWN)


class _SinkHandler(logging.Handler):
    """Hands formatted records to the sink."""

    def __init__(self, sink: LineSink) -> None:
        super().__init__()
        self._sink = sink
        self.setFormatter(JsonLines())
        self.addFilter(ForeignWithheld())

    def emit(self, record: logging.LogRecord) -> None:
        """Format here, in the calling thread, so that the record's objects are free at once."""
        try:
            line = self.format(record)
        except (TypeError, ValueError, KeyError):
            # A message whose arguments do not fit it. logging would print both to standard error.
            self._sink.put(
                encode({"level": "error", "logger": record.name, "msg": "a record that does not fit its words"})
            )
            return
        self._sink.put(line.encode("ascii") + b"\n")


@dataclass(frozen=True, slots=True)
class Logging:
    """What ``set_up`` installed."""

    sink: LineSink
    _handler: logging.Handler
    _hooks: tuple[object, object, object]

    def close(self) -> None:
        """Take everything back and write what is held."""
        sys.excepthook, threading.excepthook, sys.unraisablehook = self._hooks  # type: ignore[assignment]  # - as they were
        logging.captureWarnings(capture=False)
        logging.getLogger().removeHandler(self._handler)
        self.sink.close()


def set_up(sink: LineSink, *, level: int = logging.INFO) -> Logging:
    """Send every logger's records, warnings and uncaught exceptions to the sink, redacted."""
    handler = _SinkHandler(sink)
    installed = Logging(sink, handler, (sys.excepthook, threading.excepthook, sys.unraisablehook))
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
