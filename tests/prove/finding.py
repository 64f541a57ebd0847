"""One measured figure beside its criterion, and how long a run lasts."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Finding:
    """``met`` None: a figure without a criterion, or not comparable."""

    name: str
    what: str
    criterion: str
    measured: str
    met: bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """How much a run does."""

    fault_rounds: int
    writes: int
    load_seconds: float
    reloads: int
    down_seconds: float
    soak_seconds: float


QUICK = Scale(fault_rounds=3, writes=2_000, load_seconds=3, reloads=100, down_seconds=3, soak_seconds=10)
WHOLE = Scale(fault_rounds=200, writes=20_000, load_seconds=60, reloads=100, down_seconds=60, soak_seconds=600)
