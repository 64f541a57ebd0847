"""The status page for operators of a running process. It shows no credential, and no path or header of a request.

The numbers are read from the metrics, in the same way for one process and for several workers.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from urllib.parse import urlsplit

from prometheus_client import CollectorRegistry

from vecsieve.config.problems import SettingsError
from vecsieve.config.schema import Settings

from ..runtime.lifecycle import Board, Phase, State
from ..search.context.canary import in_words, stopped_by
from ..telemetry.exposition import Samples
from ..telemetry.labels import BreakerState, CanaryState, InFlight
from ..telemetry.log import timestamp

MOST_PROBLEMS = 20  # a file of a thousand rules may have as many


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerStatus:
    """One worker process. ``restarts``: how often its place was filled again."""

    index: int
    state: str
    pid: int
    restarts: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Facts that change only on a reload. ``mode``: of searches for which no rule has another. ``upstream``: host and port only. ``index_ports``: the ports of single Pinecone indexes.
    ``needs_restart``: settings that changed and are fixed until then.
    """

    version: str
    backend: str
    mode: str
    upstream: str
    settings_hash: str
    index_ports: tuple[int, ...] = ()
    needs_restart: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FailedReload:
    """The settings in force are not those of the file. ``since``: when the first reload failed after the last good one. ``problems``: of the
    last one, the first of them, each in a line: where, what was wanted and seen.
    """

    since: str
    problems: tuple[str, ...]

    @classmethod
    def of(cls, error: SettingsError, before: FailedReload | None, *, at: float) -> FailedReload:
        """``at``: seconds since the epoch."""
        lines = tuple([str(problem) for problem in error.problems[:MOST_PROBLEMS]])
        more = len(error.problems) - len(lines)
        since = timestamp(at) if before is None else before.since
        return cls(since, (*lines, f"and {more} more, which the log has") if more else lines)


@dataclass(frozen=True, slots=True, kw_only=True)
class Status(Facts):
    """One reading. ``canary``: its state in words, and why it was stopped. ``texts``: per collection, where its texts
    are. ``verdict``: of mode shadow; None if it measured nothing. ``failed_reload``: None after a good one.
    """

    state: str
    uptime_seconds: float
    requests_in_flight: int
    searches_in_flight: int
    breaker: BreakerState
    canary: str
    canary_stopped_since: str | None = None
    learned_collections: int
    workers: tuple[WorkerStatus, ...] = ()
    texts: tuple[dict[str, object], ...] = ()
    verdict: dict[str, object] | None = None
    failed_reload: dict[str, object] | None = None

    def as_json(self) -> bytes:
        return json.dumps(asdict(self), separators=(",", ":")).encode("ascii") + b"\n"


def upstream_address(url: str) -> str:
    """Host and port of a URL without user, password, path and query; "invalid" if it cannot be parsed."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        return "invalid"
    if not host:
        return "invalid"
    name = f"[{host}]" if ":" in host else host
    return name if port is None else f"{name}:{port}"


def settings_hash(settings: Settings) -> str:
    """Twelve hexadecimal digits that change with any setting, to compare replicas.

    Of the upstream URL only host and port count: a hash of a password could be used to guess it.
    """
    plain = settings.model_dump(mode="json", by_alias=True)
    plain["upstream"]["url"] = upstream_address(settings.upstream.url)
    text = json.dumps(plain, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode("utf-8")).hexdigest()[:12]


WORST_FIRST = (BreakerState.OPEN, BreakerState.PROBING, BreakerState.CLOSED)


def read_status(
    registry: CollectorRegistry,
    facts: Facts,
    board: Board,
    *,
    state: State,
    uptime_seconds: float,
    workers: tuple[WorkerStatus, ...] = (),
) -> Status:
    """One reading. With several workers, numbers are sums, and the breaker is the one in the worst state."""
    samples, stopped = Samples(registry), stopped_by(board)
    in_flight, breakers, canaries = (
        samples.by(name, label)
        for name, label in (("in_flight", "kind"), ("breaker_state", "state"), ("canary_state", "state"))
    )
    return Status(
        **asdict(facts),
        state=state.value,
        uptime_seconds=round(uptime_seconds, 1),
        requests_in_flight=int(in_flight.get(InFlight.REQUESTS, 0)),
        searches_in_flight=int(in_flight.get(InFlight.SEARCHES, 0)),
        breaker=next((state for state in WORST_FIRST if breakers.get(state)), BreakerState.CLOSED),
        canary=in_words(stopped or (CanaryState.ON if canaries.get(CanaryState.ON) else CanaryState.NONE)),
        canary_stopped_since=None if stopped is None else timestamp(board.canary[1] / 1000),
        learned_collections=int(samples.total("learned_collections")),
        workers=workers,
    )


def state_of(board: Board) -> State:
    """The state of the whole proxy: ready if any worker is."""
    if board.is_draining:
        return State.DRAINING
    is_ready = any(board.phase(number) is Phase.READY for number in _workers(board))
    return State.READY if is_ready else State.STARTING


def worker_statuses(board: Board) -> tuple[WorkerStatus, ...]:
    return tuple(
        WorkerStatus(
            index=number,
            state=board.phase(number).name.lower(),
            pid=board.pid(number),
            restarts=board.restarts(number),
        )
        for number in _workers(board)
    )


def _workers(board: Board) -> range:
    return range(board.places - 1)  # the last place is the admin process
