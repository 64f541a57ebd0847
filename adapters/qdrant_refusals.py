"""What the words of Qdrant's refusals say. They are the same over both of its interfaces."""

from __future__ import annotations

import re

# `Bad request: Limit exceeded 50 > 10 for "limit". Help: ..`: max_query_limit, for the root or for a prefetch.
_REFUSED = re.compile(r'Limit exceeded \d+ > (\d{1,18}) for "limit"')

_UNKNOWN_VECTOR = "Not existing vector name"


def refused_limit(words: str) -> int | None:
    """The largest ``limit`` strict mode takes, when these words are its refusal of a larger one; else None."""
    match = _REFUSED.search(words)
    return int(match[1]) if match else None


def names_unknown_vector(words: str) -> bool:
    """Whether the server says that a named vector does not exist: dropped, or never there."""
    return _UNKNOWN_VECTOR in words
