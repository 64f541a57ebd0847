"""What widened requests cost in reply bytes, per collection, and the budget that bounds it.

Some backends bill the bytes of their replies: at 1536 dimensions a pool of 50 with its vectors is 1.1 MB of JSON where the
plain answer has a few kB. What a search cost is what was read for it less what went out to the client, which is as large as
the plain answer would have been. Where the plain answer was fetched beside it (shadow, or after a failure), all of it is
extra. Of a reply that was cut before its end nothing is counted, and a client's content coding is not taken into account.
"""

from __future__ import annotations

import json
import logging
import math
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from vecsieve.adapters.contract import Operation

LOGGER = logging.getLogger("vecsieve.egress")
ENTRIES = 1024  # collections counted by name: about 300 kB


@dataclass(slots=True)
class _Spent:
    searches: int = 0
    extra_bytes: int = 0

    def add(self, extra_bytes: int, searches: int = 1) -> None:
        self.searches += searches
        self.extra_bytes += extra_bytes


class Egress:
    """Counts one process's extra bytes of this UTC calendar month, and says when the budget is spent.

    ``budget_bytes``: None without one. ``now``: seconds since the epoch; a clock that is set back does not begin a month
    anew. Searches under way when the budget runs out are finished: it may be passed by as many replies.
    """

    __slots__ = ("_budget_bytes", "_entries", "_held", "_is_told", "_month", "_now", "_others", "_total")

    def __init__(self, budget_bytes: int | None, *, now: Callable[[], float], entries: int = ENTRIES) -> None:
        self._budget_bytes = budget_bytes
        self._now = now
        self._entries = entries
        self._month = (0, 0)
        self._turn()

    def spend(self, operation: Operation, extra_bytes: int) -> None:
        """Count one search's extra bytes; a negative number counts as none."""
        self._turn()
        extra = max(0, extra_bytes)
        self._total.add(extra)
        held = self._held.setdefault((operation.backend, operation.collection), _Spent())
        held.add(extra)
        self._held.move_to_end((operation.backend, operation.collection))
        while len(self._held) > self._entries:
            _, oldest = self._held.popitem(last=False)
            self._others.add(oldest.extra_bytes, oldest.searches)
        self._tell()

    def resize(self, budget_bytes: int | None) -> None:
        """Another budget from now on; what is spent stays spent."""
        self._budget_bytes = budget_bytes
        self._is_told = False
        self._tell()

    @property
    def is_spent(self) -> bool:
        """Whether searches are to pass through until the month turns."""
        return self.remaining_bytes <= 0

    @property
    def remaining_bytes(self) -> float:
        """What this month may still cost; infinite without a budget."""
        if self._budget_bytes is None:
            return math.inf
        self._turn()
        return max(0, self._budget_bytes - self._total.extra_bytes)

    def as_json(self) -> bytes:
        """The figures of this month, the dearest collection first, ties by name."""
        self._turn()
        dearest = sorted(self._held.items(), key=lambda item: (-item[1].extra_bytes, item[0]))
        page = {
            "month": "{:04}-{:02}".format(*self._month),
            "budget_bytes": self._budget_bytes,
            **_figures(self._total),
            "collections": [
                {"backend": backend, "collection": name, **_figures(spent)} for (backend, name), spent in dearest
            ],
            "others": _figures(self._others),
        }
        return json.dumps(page, separators=(",", ":")).encode("ascii") + b"\n"

    def _turn(self) -> None:
        """Begin anew when the month has turned."""
        at = datetime.fromtimestamp(self._now(), UTC)
        month = (at.year, at.month)
        if month > self._month:
            self._month = month
            self._total, self._others = _Spent(), _Spent()
            self._held: OrderedDict[tuple[str, str], _Spent] = OrderedDict()
            self._is_told = False

    def _tell(self) -> None:
        """Say once a month that the budget is spent: what follows looks like a proxy that does nothing."""
        if self.is_spent and not self._is_told:
            self._is_told = True
            fields = {"budget_bytes": self._budget_bytes, "extra_bytes": self._total.extra_bytes}
            LOGGER.warning("this month's egress budget is spent: searches pass through", extra={"fields": fields})


def _figures(spent: _Spent) -> dict[str, int]:
    return {"searches": spent.searches, "extra_bytes": spent.extra_bytes}
