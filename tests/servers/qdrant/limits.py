"""Strict mode: a cap on how many results one request may ask for, and so many reads and writes a minute.

A search, a page, a count, a facet, a retrieved id and a write cost one each. The server counts a write by its points.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Literal, Protocol, runtime_checkable

from servers.embedded.collections import Collection
from servers.embedded.fields import (
    Body,
    Json,
    RefusalError,
    bad_request,
    limit_of,
    mapping,
    one_or_many,
    unsigned,
)
from servers.embedded.searches import DEFAULT_LIMIT

_MINUTE_SECONDS = 60.0

Kind = Literal["read", "write"]


class Rates:
    """What is left of a collection's limits. They are full at first, and after a change of settings."""

    def __init__(self, settings: Body) -> None:
        config = mapping(settings.get("strict_mode_config", {}))
        self._buckets: Mapping[Kind, _Bucket] = {
            kind: _Bucket(unsigned(most))
            for kind in ("read", "write")
            if (most := _limit(config, f"{kind}_rate_limit")) is not None
        }

    def take(self, kind: Kind, cost: int, *, at_seconds: float) -> None:
        """Spend, or raise the 429. `at_seconds`: of a clock that never goes back."""
        bucket = self._buckets.get(kind)
        if bucket is None:
            return
        wait = bucket.take(cost, at_seconds)
        if wait is not None:
            raise _rate_exceeded(kind, cost, bucket.tokens, bucket.size, wait)


class _Bucket:
    """Tokens, at most `size`, that fill up within a minute."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.tokens = float(size)
        self._seen_seconds: float | None = None

    def take(self, cost: int, now: float) -> int | None:
        """None when there were enough, whole seconds to wait otherwise."""
        elapsed = 0.0 if self._seen_seconds is None else now - self._seen_seconds
        self._seen_seconds = now
        self.tokens = min(self.size, self.tokens + elapsed * self.size / _MINUTE_SECONDS)
        if cost <= self.tokens:
            self.tokens -= cost
            return None
        return math.ceil((cost - self.tokens) * _MINUTE_SECONDS / self.size)


def _limit(config: Body, name: str) -> Json:
    return config.get(name) if config.get("enabled") is True else None


class RateExceededError(RefusalError):
    """429, with the whole seconds after which to ask again; None when no wait would be enough."""

    def __init__(self, message: str, retry_after_seconds: int | None = None) -> None:
        super().__init__(429, message)
        self.retry_after_seconds = retry_after_seconds


def _rate_exceeded(kind: str, cost: int, tokens: float, size: int, wait_seconds: int) -> RateExceededError:
    """429 of strict mode, with the time to wait unless it would never be enough."""
    what = f"Rate limiting exceeded: {kind.capitalize()} rate limit exceeded"
    if cost > size:
        return RateExceededError(f"{what}, operation requires {cost} tokens but the limit is {size}")
    missing = f"Operation requires {cost} tokens but only {tokens:.1f} were available. Retry after {wait_seconds}s"
    return RateExceededError(f"{what}: {missing}", wait_seconds)


def check_limit(collection: Collection, value: int) -> None:
    """Refuse more than `strict_mode_config.max_query_limit`, in Qdrant's words, when strict mode is enabled."""
    most = _most(collection)
    if most is not None and value > most:
        raise bad_request(
            f'Limit exceeded {value} > {most} for "limit". Help: Reduce the "limit" parameter to or below {most}.'
        )


def capped(collection: Collection, body: Body) -> None:
    """Refuse a prefetch, at any level, that asks for more than that."""
    if _most(collection) is None:
        return
    waiting = one_or_many(body.get("prefetch"))
    while waiting:
        level = mapping(waiting.pop())
        check_limit(collection, limit_of(level, "limit", default=DEFAULT_LIMIT))
        waiting.extend(one_or_many(level.get("prefetch")))


def _most(collection: Collection) -> int | None:
    config = mapping(collection.settings.get("strict_mode_config", {}))
    most = config.get("max_query_limit")
    return unsigned(most) if config.get("enabled") is True and most is not None else None


@runtime_checkable
class Metered(Protocol):
    """A collection that counts its reads."""

    def read(self, cost: int = 1) -> None:
        """Count reads before they are done. Raises RateExceededError."""


def take_read(collection: Collection, cost: int = 1) -> None:
    """Count reads of the tests' kind of collection. Raises RateExceededError."""
    assert isinstance(collection, Metered), "the product's collections have no strict mode"
    collection.read(cost)
