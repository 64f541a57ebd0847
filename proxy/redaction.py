"""The guard on foreign loggers: no record of aiohttp's or asyncio's may carry a header value, a path or a traceback.

aiohttp writes the offending bytes of a malformed request into its log, and asyncio prints the message of an exception
nobody awaited. What remains of such a record is where it came from and which class of exception it was: enough to find
the place, nothing of the request.
"""

from __future__ import annotations

import logging

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
    """Replaces a record's words by its place and the class of its exception."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Redact the record; it is still logged."""
        error = record.exc_info[0] if record.exc_info else None
        record.msg = "%s:%d %s (words withheld: they may quote a request)"
        record.args = (record.module, record.lineno, error.__name__ if error else "message")
        record.exc_info = record.exc_text = record.stack_info = None
        return True


def guard_foreign_loggers() -> None:
    """Install the guard, once. A filter works on one logger, not on its children, hence the list."""
    for name in FOREIGN:
        logger = logging.getLogger(name)
        if not any(isinstance(present, Withhold) for present in logger.filters):
            logger.addFilter(Withhold())
