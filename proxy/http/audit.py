"""What we lean on of aiohttp beyond its documentation, checked before a listener or a pool opens.

A release that renames one of these must stop the process with a sentence, not re-send a write (``_retry_connection``)
or lose the head deadline in silence. The range in pyproject.toml is the first guard, this is the second.
"""

from __future__ import annotations

import aiohttp
from aiohttp import http_parser, web
from aiohttp.web_protocol import RequestHandler

RELIED_ON: tuple[tuple[type, tuple[str, ...]], ...] = (
    (
        RequestHandler,
        (
            "_buffer_paused",
            "_current_request",
            "_keepalive_timeout",
            "_lingering_time",
            "_messages",
            "_pause_transport_reading",
            "_reading_paused",
            "_request_count",
            "_request_in_progress",
            "_resume_transport_reading",
            "_upgraded",
            "_waiter",
            "close",
            "data_received",
            "force_close",
            "handle_error",
            "log_debug",
            "log_exception",
            "max_field_size",
            "max_headers",
            "max_line_size",
            "resume_reading",
        ),
    ),
    (
        web.StreamResponse,
        (
            "_keep_alive",
            "_must_be_empty_body",
            "_payload_writer",
            "_prepare_headers",
            "_req",
            "_send_headers_immediately",
            "_write_headers",
        ),
    ),
    (aiohttp.TCPConnector, ("_create_connection", "_get", "_wait_for_available_connection")),
    (
        aiohttp.ClientRequest,
        (
            "_body",
            "_get_content_length",
            "update_body_from_data",
            "update_content_encoding",
            "update_expect_continue",
            "update_headers",
            "update_transfer_encoding",
        ),
    ),
)


class IncompatibleLibrary(RuntimeError):  # noqa: N818 - it names the state, and cli prints it
    """The installed aiohttp is not the one this data plane was built on."""


def audit_library() -> None:
    """Raise IncompatibleLibrary when aiohttp lacks what we rely on, or runs on its pure-Python parser.

    Two parsers that differ in what they accept are a smuggling risk of their own; the C parser is the tested one.
    """
    missing = [f"{owner.__name__}.{name}" for owner, names in RELIED_ON for name in names if not hasattr(owner, name)]
    if missing:
        raise IncompatibleLibrary(f"aiohttp {aiohttp.__version__} has no {', '.join(missing)}")
    if http_parser.HttpRequestParser is http_parser.HttpRequestParserPy:
        raise IncompatibleLibrary(
            "aiohttp runs on its pure-Python parser (AIOHTTP_NO_EXTENSIONS is set, or the wheel has no extensions)"
        )


def audit_connector(connector: aiohttp.BaseConnector) -> None:
    """Raise IncompatibleLibrary unless what its connections are counted by exists."""
    if missing := [
        name for name in ("_acquired", "_conns", "_limit", "_loop", "_waiters") if name not in vars(connector)
    ]:
        raise IncompatibleLibrary(f"aiohttp {aiohttp.__version__} has no BaseConnector.{', '.join(missing)}")


def audit_session(session: aiohttp.ClientSession) -> None:
    """Raise IncompatibleLibrary unless the switch that ends silent re-sending exists."""
    if "_retry_connection" not in vars(session):
        raise IncompatibleLibrary(
            f"aiohttp {aiohttp.__version__} has no ClientSession._retry_connection: it would re-send writes"
        )
