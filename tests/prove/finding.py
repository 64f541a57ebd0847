"""One measured figure beside its criterion, a section of them, and how much a run does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Finding:
    """``met`` None: a figure without a criterion, or one that could not be had; ``measured`` says which."""

    name: str
    what: str
    criterion: str
    measured: str
    met: bool | None


@dataclass(frozen=True, slots=True)
class Section:
    """Findings that belong together, how long they took, and how busy the machine was when they began."""

    title: str
    findings: Sequence[Finding]
    seconds: float
    load_average: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """How much a run does. ``restarts``: of each of two instances, twice: over kept and over fresh connections. ``largest_body_bytes``: of the largest upload."""

    fault_rounds: int
    writes: int
    load_seconds: float
    overload_seconds: float
    reloads: int
    restarts: int
    long_request_seconds: float
    down_seconds: float
    soak_seconds: float
    largest_body_bytes: int
    tenant_requests: int
    sequences: int
    slow_connections: int
    idle_connections: int
    transparent_messages: int
    engine_requests: int


QUICK = Scale(
    fault_rounds=3,
    writes=2_000,
    load_seconds=3,
    overload_seconds=3,
    reloads=100,
    restarts=1,
    long_request_seconds=2,
    down_seconds=3,
    soak_seconds=10,
    largest_body_bytes=32 * 2**20,
    tenant_requests=5_000,
    sequences=100,
    slow_connections=400,
    idle_connections=6_000,
    transparent_messages=500,
    engine_requests=1_000,
)
WHOLE = Scale(
    fault_rounds=200,
    writes=20_000,
    load_seconds=20,
    overload_seconds=60,
    reloads=100,
    restarts=5,
    long_request_seconds=20,
    down_seconds=60,
    soak_seconds=600,
    largest_body_bytes=200 * 2**20,
    tenant_requests=50_000,
    sequences=1_000,
    slow_connections=2_000,
    idle_connections=10_000,
    transparent_messages=5_000,
    engine_requests=20_000,
)
