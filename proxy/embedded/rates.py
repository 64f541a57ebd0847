"""Strict mode's rate limits: so many reads and so many writes a minute, told with how long to wait.

A search, a page, a count, a facet, a retrieved id and a write cost one each. The server counts a write by its points.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Literal

from vecsieve.proxy.embedded.errors import rate_exceeded
from vecsieve.proxy.embedded.fields import Body, Json, mapping, unsigned

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
            raise rate_exceeded(kind, cost, bucket.tokens, bucket.size, wait)


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
