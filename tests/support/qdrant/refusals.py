"""Whether the embedded server's code refused, for tests that allow both an answer and a refusal."""

from __future__ import annotations

from collections.abc import Callable

from servers.embedded.fields import RefusalError


def refusal_of(work: Callable[[], object]) -> RefusalError | None:
    """The refusal `work` raised, None when it answered; every other exception goes through and fails the test."""
    try:
        work()
    except RefusalError as refusal:
        return refusal
    return None
