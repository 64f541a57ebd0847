"""What came of one server: the calls, the differences by mode, and the table of all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rich.table import Table

MODES = ("off", "shadow", "on")
PRINTED = 8  # faults of one mode that are printed; the rest are counted


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """``calls``: made directly and in each mode; ``distinct``: of those, pages that mode on made distinct; ``unstable``: calls
    that two direct runs answered differently; ``faults``: by mode, what differs and must not.
    """

    server: str
    version: str
    client: str
    calls: int
    distinct: int
    unstable: int
    faults: Mapping[str, Sequence[str]]

    @property
    def is_good(self) -> bool:
        """Whether nothing differs that must not, and something was seen."""
        return self.distinct > 0 and not any(self.faults.values())


def table(verdicts: Sequence[Verdict]) -> Table:
    """One line a server."""
    grid = Table("server", "version", "client", "calls", *MODES, "pages made distinct", "unstable directly")
    for verdict in verdicts:
        counts = [str(len(verdict.faults[mode])) for mode in MODES]
        row = (
            verdict.server,
            verdict.version,
            verdict.client,
            str(verdict.calls),
            *counts,
            str(verdict.distinct),
            str(verdict.unstable),
        )
        grid.add_row(*row)
    return grid


def explained(verdict: Verdict) -> list[str]:
    """The faults in words."""
    lines: list[str] = []
    for mode in MODES:
        messages = verdict.faults[mode]
        lines += [f"{verdict.server}, {mode}: {fault}" for fault in messages[:PRINTED]]
        if messages[PRINTED:]:
            lines.append(f"{verdict.server}, {mode}: {len(messages)} differences in all")
    if not verdict.distinct:
        lines.append(f"{verdict.server}: no page was made distinct, so that nothing was seen")
    return lines
