"""The canary: mode `on` for a part of the searches that the settings leave in shadow, until it does harm.

    mode shadow ─► member? ─── no, or stopped ──────► shadow
                     │ yes                               ▲
                     └─► on, and measured ── a bound ────┘  until its settings change

The decision is made where the policy of a search is resolved, before its body is read, by a hash of its client and collection. So all pages of
one client have one mode, in every worker and replica. All workers of a proxy stop together. At the moment of the stop, a client in the
middle of a list gets the database's own next page, as in every fallback.
"""

from __future__ import annotations

import logging
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from types import MappingProxyType

from vecsieve.adapters.contract import Operation
from vecsieve.config.schema import CanarySettings

from ...runtime.lifecycle import Board
from ...telemetry.labels import CanaryState
from ...telemetry.metrics import Metrics
from ...telemetry.reports import Report
from ...telemetry.requests import Watch
from ..collections.learned import LEARNED_ENTRIES, Lru
from .clients import Client

LOGGER = logging.getLogger("vecsieve.canary")

# Counts, not shares of what came so far: what fails always stops it after a few searches, what fails once does not. 500 are enough for a p99.
WINDOW = 500
# Searches of the last WINDOW from which on it stops.
BOUNDS: Mapping[CanaryState, int] = MappingProxyType(
    {
        CanaryState.ERRORS: 6,  # more than 1 %
        CanaryState.SLOW: 6,  # the p99 exceeds that of plain searches by ADDED_SECONDS, or the usual one by SLOWED_SECONDS
        CanaryState.FAIL_OPEN: 26,  # more than 5 %, as the alert VecSieveFailOpenHigh; the first searches of a collection may fall back
        CanaryState.SHORT: 51,  # more than 10 %: a page is short where only copies are left
    }
)
ADDED_SECONDS = 0.1  # what a person notices; usual are 2 to 5 ms
# The database itself has become slow, plain searches too: it should get no larger ones. As long as a hedge waits at most.
SLOWED_SECONDS = 0.5
_WHY: Mapping[CanaryState, str] = MappingProxyType(
    {
        CanaryState.ERRORS: "were answered with an error",
        CanaryState.SLOW: f"took {ADDED_SECONDS:g} s longer than the database's own, or {SLOWED_SECONDS:g} s longer than usual",
        CanaryState.FAIL_OPEN: "fell back to the plain answer",
        CanaryState.SHORT: "had short pages",
    }
)
_STATES = tuple(CanaryState)  # their places are the numbers on the board
TOO_MANY_REQUESTS = 429


@dataclass(frozen=True, slots=True)
class Members:
    """Which searches are in the canary. ``are_off``: all searches are in mode off, and it is as it was when the mode is back."""

    share: float
    keys: frozenset[str]
    collections: tuple[str, ...]
    networks: tuple[IPv4Network | IPv6Network, ...]
    are_off: bool = field(default=False, compare=False)

    @classmethod
    def of(cls, settings: CanarySettings, *, are_off: bool = False) -> Members | None:
        """None if the settings name none."""
        networks = tuple([ip_network(address) for address in settings.clients])
        members = cls(settings.share, frozenset(settings.keys), settings.collections, networks, are_off)
        return members if settings.is_any else None

    def admits(self, client: Client, operation: Operation, ruled_by: str) -> bool:
        """``ruled_by``: the collection's name as rules know it. The share is by its id, because the name may become known between two pages."""
        return (
            client.place(operation.id or operation.collection) < self.share
            or any(fnmatchcase(ruled_by, pattern) for pattern in self.collections)
            or (bool(self.keys) and client.key_digest() in self.keys)
            or (bool(self.networks) and self._is_near(client.address))
        )

    def _is_near(self, address: str) -> bool:
        try:
            parsed = ip_address(address)
        except ValueError:
            return False
        return any(parsed in network for network in self.networks)


class Canary:
    """Measures the searches of the canary of one process, and stops it. ``board``: shared by all workers."""

    __slots__ = ("_board", "_counts", "_last", "_members", "_metrics", "_now", "_state", "_usual")

    def __init__(self, board: Board, metrics: Metrics, members: Members | None, *, now: Callable[[], float]) -> None:
        """``members``: None if the settings name none. ``now``: seconds since the epoch."""
        self._board, self._metrics, self._members, self._now = board, metrics, members, now
        board.canary_members = board.canary_members or hash(members)
        self._last = deque[tuple[CanaryState, ...]](maxlen=WINDOW)
        self._counts = Counter[CanaryState]()
        # By collection, seconds of the slowest plain searches when its first one was measured.
        self._usual = Lru[str, float](LEARNED_ENTRIES)
        self._state = CanaryState.NONE
        self.look()  # a worker that starts later finds it stopped

    @property
    def is_stopped(self) -> bool:
        return self._board.canary[0] != 0

    def take(self, members: Members | None) -> None:
        """The members of the settings that are now in force. Other members start it again, once for all workers: a worker that starts late
        reads the new settings after the others.
        """
        if members != self._members:
            self._last.clear()
            self._counts.clear()
            self._usual.clear()
        self._members = members
        if hash(members) != self._board.canary_members:
            self._board.stop_canary(0, now_ms=0)
            self._board.canary_members = hash(members)
        self.look()

    def look(self) -> None:
        """Show the state, which another worker may have changed."""
        has_none = self._members is None or self._members.are_off
        state = stopped_by(self._board) or (CanaryState.NONE if has_none else CanaryState.ON)
        if state is not self._state:
            self._state = state
            self._metrics.canary_is(state)

    def watch(self, collection: str, plain: Sequence[float], *, may_be_short: bool) -> Watch:
        """What measures one search. ``plain``: seconds of the last searches of its collection that were sent unchanged. ``may_be_short``: its
        policy asks for short pages.
        """

        def ended(status: int | None, seconds: float, report: Report | None) -> None:
            if self.is_stopped or (report is not None and report.bypass is not None):
                return
            is_slow = (
                self._is_left(collection, seconds, plain)
                if report is None
                else self._is_slow(collection, report, plain)
            )
            faults = faults_of(status, report, is_slow=is_slow)
            self._add(tuple([fault for fault in faults if not (may_be_short and fault is CanaryState.SHORT)]))

        return ended

    def _is_slow(self, collection: str, report: Report, plain: Sequence[float]) -> bool:
        """The slowest of the last plain searches stands for their p99. Without any, and for batches, which take as long as they are large, the wait
        for the database is the measure.
        """
        if report.searches != 1:
            return report.added_seconds > ADDED_SECONDS
        waited = max(plain, default=report.upstream_seconds)
        usual = self._usual.use(collection, lambda: waited)
        return report.total_seconds > min(waited + ADDED_SECONDS, usual + SLOWED_SECONDS)

    def _is_left(self, collection: str, seconds: float, plain: Sequence[float]) -> bool:
        """Whether a client disconnected that had waited longer than a plain search takes."""
        return seconds > max(plain, default=self._usual.get(collection, seconds)) + ADDED_SECONDS

    def _add(self, faults: tuple[CanaryState, ...]) -> None:
        if len(self._last) == WINDOW:
            self._counts.subtract(self._last[0])
        self._last.append(faults)
        self._counts.update(faults)
        for fault in faults:
            if self._counts[fault] >= BOUNDS[fault]:
                self._stop(fault)
                return

    def _stop(self, fault: CanaryState) -> None:
        self._board.stop_canary(_STATES.index(fault), now_ms=int(self._now() * 1000))
        self.look()
        fields = {"state": fault.value, "searches": len(self._last), "faults": {**self._counts}}
        LOGGER.warning(
            "canary back in shadow: %s; other settings of `canary`, or a restart, start it again",
            _why(fault),
            extra={"fields": fields},
        )


def stopped_by(board: Board) -> CanaryState | None:
    """None if the canary was not stopped."""
    number, _ = board.canary
    return _STATES[number] if number else None


def in_words(state: CanaryState) -> str:
    """The state for a person."""
    return f"back in shadow: {_why(state)}" if state in BOUNDS else state.value


def _why(state: CanaryState) -> str:
    return f"{BOUNDS[state]} of its last {WINDOW} searches {_WHY[state]}"


def faults_of(status: int | None, report: Report | None, *, is_slow: bool) -> tuple[CanaryState, ...]:
    """What was wrong with one search. ``status``: None if the client disconnected; that alone is no fault."""
    faults: list[CanaryState] = []
    if status is not None and (status >= 500 or status == TOO_MANY_REQUESTS):
        faults.append(CanaryState.ERRORS)
    if is_slow:
        faults.append(CanaryState.SLOW)
    if report is not None and report.fail_open is not None:
        faults.append(CanaryState.FAIL_OPEN)
    if report is not None and any(figure.short for figure in report.figures):
        faults.append(CanaryState.SHORT)
    return tuple(faults)
