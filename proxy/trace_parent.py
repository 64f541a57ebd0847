"""Which trace a request belongs to, by W3C's traceparent. Nothing but 32 hexadecimal digits, and the two ids as numbers, ever comes out.

Only a trace that its sender records: an exemplar must lead somewhere. The header itself goes on to the database untouched, unless
this process records a span of its own between the two (proxy/recording.py).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

NAME = "traceparent"
SAMPLED = 0x01
# What is passed on of the flags: recorded, and (level 2 of the recommendation) that the trace's id is random. The others have
# no meaning yet, and a sender of version 00 must set them to zero.
KNOWN_FLAGS = 0x03
# Version ff and ids of zeros are invalid; versions after 00 may say more behind the flags.
_FORM = re.compile(
    r"(?:00|(?P<later>(?!00|ff)[0-9a-f]{2}))"
    r"-(?P<trace>(?!0{32})[0-9a-f]{32})-(?P<span>(?!0{16})[0-9a-f]{16})-(?P<flags>[0-9a-f]{2})(?(later)(?:-.*)?)"
)


@dataclass(frozen=True, slots=True)
class Parent:
    """A well-formed traceparent: ids as numbers, and the flags that are passed on."""

    trace_id: int
    span_id: int
    flags: int

    @property
    def is_sampled(self) -> bool:
        """Whether its sender records the trace."""
        return bool(self.flags & SAMPLED)


def parent_of(values: Sequence[str]) -> Parent | None:
    """The parent in a request's traceparent fields; None unless there is exactly one, and well formed."""
    found = _FORM.fullmatch(values[0]) if len(values) == 1 else None
    if found is None:
        return None
    return Parent(int(found["trace"], 16), int(found["span"], 16), int(found["flags"], 16) & KNOWN_FLAGS)


def sampled_trace_id(values: Sequence[str]) -> str | None:
    """The id in a request's traceparent fields; None unless there is exactly one, well formed, of a recorded trace."""
    found = parent_of(values)
    return None if found is None or not found.is_sampled else f"{found.trace_id:032x}"


def written(trace_id: int, span_id: int, flags: int) -> str:
    """The field that names a span as the parent of what follows."""
    return f"00-{trace_id:032x}-{span_id:016x}-{flags:02x}"
