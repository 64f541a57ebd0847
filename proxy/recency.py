"""How new things are, from whatever a payload says of it: a number, a date, or a release.

Each kind has an order of its own and no common scale with another: 2024 may be a year, a count of seconds is one, a
release is neither. So a pool is compared in the kind of its best-ranked candidate that says anything, and the others are
unknown.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from vecsieve.proxy.payload_values import number, string

# 3, 3.0.3, v2.1, 1.0rc2, 2.0.0-beta.1, 1.4.post2: what releases and Python packages are called; build names after + do
# not order releases (semver.org, 10). Digits are bounded as Python bounds them, with room.
_RELEASE = re.compile(
    r"v?(\d{1,20}(?:\.\d{1,20}){0,7})(?:[-._]?(dev|alpha|a|beta|b|rc|c|pre|preview|post)[-._]?(\d{0,20}))?(?:\+[\w.-]*)?",
    re.ASCII | re.IGNORECASE,
)
_FINAL = 0
_PHASES = {"dev": -4, "alpha": -3, "a": -3, "beta": -2, "b": -2, "rc": -1, "c": -1, "pre": -1, "preview": -1, "post": 1}

Release = tuple[tuple[int, ...], int, int]


class Kind(IntEnum):
    """In which order a moment stands."""

    NUMBER = 0
    DATE = 1
    RELEASE = 2


Moment = tuple[Kind, float | Release]


def recency(moments: Sequence[Moment | None]) -> npt.NDArray[np.float64] | None:
    """(n,) larger is newer, NaN where unknown; None where all are. Dates are seconds, releases the place in their order."""
    kind = next((moment[0] for moment in moments if moment is not None), None)
    if kind is None:
        return None
    values = [None if moment is None or moment[0] is not kind else moment[1] for moment in moments]
    places = {value: float(place) for place, value in enumerate(sorted({v for v in values if isinstance(v, tuple)}))}
    return np.array(
        [np.nan if value is None else places[value] if isinstance(value, tuple) else value for value in values]
    )


def moment(raw: bytes) -> Moment | None:
    """A JSON number; a string with an ISO 8601 date, without a zone in UTC; a string with a release. Else None."""
    value = number(raw)
    if value is not None:
        return Kind.NUMBER, value
    text = string(raw)
    if text is None:
        return None
    seconds = None if text.isdigit() else _seconds(text.strip())
    if seconds is not None:
        return Kind.DATE, seconds
    release = _release(text.strip())
    return None if release is None else (Kind.RELEASE, release)


def _seconds(text: str) -> float | None:
    try:
        read = datetime.fromisoformat(text)
        return (read if read.tzinfo is not None else read.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None


def _release(text: str) -> Release | None:
    """Comparable: trailing zeros do not count (1.0 is 1.0.0), a release candidate comes before its release."""
    match = _RELEASE.fullmatch(text)
    if match is None:
        return None
    parts = [int(part) for part in match[1].split(".")]
    while len(parts) > 1 and not parts[-1]:
        parts.pop()
    phase = _FINAL if match[2] is None else _PHASES[match[2].lower()]
    return tuple(parts), phase, int(match[3] or 0)
