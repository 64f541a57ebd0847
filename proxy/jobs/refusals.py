"""What the official client raised, as one line an operator can act on. Bodies of errors are quoted, keys never are."""

from __future__ import annotations

import json
from collections.abc import Callable

from vecsieve.config.problems import one_line
from vecsieve.proxy.jobs.source import SourceError


def known_errors() -> tuple[type[Exception], ...]:
    """What a request of the official client may raise for reasons outside this program."""
    from qdrant_client.common.client_exceptions import QdrantException
    from qdrant_client.http.exceptions import ApiException

    return ApiException, QdrantException


def explained(error: Exception, *, url: str, collection: str, names: Callable[[], tuple[str, ...]]) -> SourceError:
    """Say what it means. ``names``: asks for the collections there are, where that helps."""
    from qdrant_client.http.exceptions import ResponseHandlingException, UnexpectedResponse

    if isinstance(error, ResponseHandlingException):
        return SourceError(f"{url} does not answer as Qdrant does: {_kind(error.source)}")
    if not isinstance(error, UnexpectedResponse):
        return SourceError(f"{url}: too many requests for the database's own limit; a lower --rate may pass")
    status = error.status_code or 0
    if status in {401, 403}:
        return SourceError(
            f"{url} refused to show collection {collection!r} (status {status}); wanted a key that may read it, "
            "in the environment variable that --api-key-env names"
        )
    if status == 404:
        there = ", ".join(names()) or "none that this key may see"
        return SourceError(f"{url} has no collection {collection!r}; it has: {there}")
    return SourceError(f"{url} answered with status {status}: {_said(error.content)}")


def _kind(source: object) -> str:
    """The kind of failure and its words, which name addresses and times, never headers."""
    return one_line(f"{type(source).__name__}: {source}")


def _said(content: bytes) -> str:
    """Qdrant's own words when the body has them."""
    try:
        said = json.loads(content)["status"]["error"]
    except (ValueError, KeyError, TypeError):
        said = content.decode("utf-8", "replace")
    return one_line(str(said))
