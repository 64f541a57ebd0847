"""How a status is read: the numbers from the metrics, so that one process and several are read the same way."""

from __future__ import annotations

from dataclasses import dataclass

from prometheus_client import CollectorRegistry

from vecsieve.proxy.admin.status import Status, WorkerStatus
from vecsieve.proxy.labels import BreakerState
from vecsieve.proxy.lifecycle import State
from vecsieve.proxy.metrics_catalogue import PREFIX
from vecsieve.proxy.worker_board import Board, Phase

WORST_FIRST = (BreakerState.OPEN, BreakerState.PROBING, BreakerState.CLOSED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What does not change while the process runs, but for a reload. ``upstream``: host and port only.

    ``index_ports``: the ports with one Pinecone index behind each; which one is for the settings to say.
    """

    version: str
    backend: str
    mode: str | None
    upstream: str
    settings_hash: str
    index_ports: tuple[int, ...] = ()


def read_status(
    registry: CollectorRegistry,
    facts: Facts,
    *,
    state: State,
    uptime_seconds: float,
    workers: tuple[WorkerStatus, ...] = (),
) -> Status:
    """One reading. With several workers, numbers are sums and the breaker is the one in the worst state."""
    gauges, breakers = _gauges(registry)
    return Status(
        version=facts.version,
        state=state.value,
        uptime_seconds=round(uptime_seconds, 1),
        backend=facts.backend,
        mode=facts.mode,
        upstream=facts.upstream,
        settings_hash=facts.settings_hash,
        index_ports=facts.index_ports,
        requests_in_flight=int(gauges.get("requests_in_flight", 0)),
        searches_in_flight=int(gauges.get("searches_in_flight", 0)),
        breaker=next((each for each in WORST_FIRST if each.value in breakers), BreakerState.CLOSED),
        learned_collections=int(gauges.get("learned_collections", 0)),
        workers=workers,
    )


def state_of(board: Board) -> State:
    """The state of the proxy as a whole: ready while one worker is."""
    if board.is_draining:
        return State.DRAINING
    is_ready = any(board.phase(number) is Phase.READY for number in _workers(board))
    return State.READY if is_ready else State.STARTING


def worker_statuses(board: Board) -> tuple[WorkerStatus, ...]:
    """Every worker's, in order."""
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


def _gauges(registry: CollectorRegistry) -> tuple[dict[str, float], set[str]]:
    """Gauges without labels by their short name, and the states that some breaker is in."""
    gauges: dict[str, float] = {}
    breakers: set[str] = set()
    for metric in registry.collect():
        for sample in metric.samples if metric.type == "gauge" else ():
            name = sample.name.removeprefix(PREFIX)
            if not sample.labels:
                gauges[name] = sample.value
            elif name == "breaker_state" and sample.value:
                breakers.add(sample.labels["state"])
    return gauges, breakers
