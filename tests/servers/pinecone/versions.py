"""API versions: which one a request speaks, and what that version has. They compare as text: `2025-10` < `2026-04`."""

from __future__ import annotations

import re
from collections.abc import Sequence

OLDEST = "2024-07"
NAMESPACES = "2025-04"
DEDICATED = "2025-10"
"""`maxCandidates`, `scanFactor`, `fetch_by_metadata`, update by filter."""
ALPHA = "2026-01.alpha"
SCHEMA = "2026-07"
"""Indexes are declared by a schema of fields; documents are there for all; `queries` is gone."""

_VERSION = re.compile(r"20\d\d-\d\d(\.alpha)?")


def version_of(sent: Sequence[str]) -> str:
    """The version a request asks for; the oldest behaviour when it names none, as the TypeScript client 2 does.

    The Python client 8 sends the header twice: the first counts, even if something on the way joined the two.
    """
    first = sent[0].split(",")[0].strip() if sent else ""
    return first if _VERSION.fullmatch(first) else OLDEST


def has_documents(version: str) -> bool:
    """Documents were tried in one alpha, left out of the next version, and came back for all."""
    return version == ALPHA or version >= SCHEMA


def speaks_schema(version: str) -> bool:
    """Whether indexes are described by `schema` and `deployment` instead of `dimension`, `metric` and `spec`."""
    return has_documents(version)
