"""What answers hold while they wait for slow clients: lent, so that whoever lacks it may have it, from the slowest client first."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from aiohttp.client_reqrep import ConnectionKey


@dataclass(frozen=True, slots=True)
class Loan:
    """What one answer holds. ``host``: whom its connection leads to; ``speed``: of its client, in bytes a second.

    ``end``: cuts the client and gives back at once what the answer holds.
    """

    host: ConnectionKey | None
    speed: Callable[[], float]
    end: Callable[[], None]


class Loans:
    """What is lent, the longest first. Each loan is known by its holder."""

    __slots__ = ("_lent",)

    def __init__(self) -> None:
        self._lent: dict[object, Loan] = {}

    def __len__(self) -> int:
        return len(self._lent)

    def add(self, holder: object, loan: Loan) -> None:
        """Lend."""
        self._lent[holder] = loan

    def take_back(self, holder: object) -> None:
        """It is lent no more. Does nothing when it was called in."""
        self._lent.pop(holder, None)

    def call_in(self, host: ConnectionKey | None = None) -> bool:
        """End the one whose client reads slowest, of those to ``host`` or of all; False when there is none.

        Of clients that have taken nothing the one that has waited longest: nobody need look further.
        """
        slowest: object | None = None
        least = float("inf")
        for holder, loan in self._lent.items():
            if host is not None and loan.host != host:
                continue
            speed = loan.speed()
            if slowest is None or speed < least:
                slowest, least = holder, speed
            if speed <= 0:
                break
        if slowest is None:
            return False
        self._lent.pop(slowest).end()
        return True
