"""What processes hold: resident memory, open descriptors, threads, as the kernel counts them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

MIB = 2**20


@dataclass(frozen=True, slots=True)
class Usage:
    """One reading of some processes together. ``peak``: the most that was ever resident since ``forget_peak``."""

    resident: int
    peak: int
    descriptors: int
    threads: int


def usage(pids: Iterable[int]) -> Usage:
    """Read now. Raises FileNotFoundError for a process that is gone."""
    usages = [_one(pid) for pid in pids]
    return Usage(
        sum(one.resident for one in usages),
        sum(one.peak for one in usages),
        sum(one.descriptors for one in usages),
        sum(one.threads for one in usages),
    )


def forget_peak(pid: int) -> None:
    """Let the peak begin anew at what is resident now."""
    Path(f"/proc/{pid}/clear_refs").write_text("5", encoding="ascii")


def _one(pid: int) -> Usage:
    text = Path(f"/proc/{pid}/status").read_text(encoding="ascii", errors="replace")
    values = dict(re.findall(r"^(VmRSS|VmHWM|Threads):\s+(\d+)", text, re.MULTILINE))
    descriptors = len(list(Path(f"/proc/{pid}/fd").iterdir()))
    return Usage(int(values["VmRSS"]) * 1024, int(values["VmHWM"]) * 1024, descriptors, int(values["Threads"]))


def slope(points: list[tuple[float, float]]) -> float:
    """Least squares: how much the second grows for each of the first. Raises ValueError for fewer than two."""
    if len(points) < 2:
        raise ValueError("a slope of fewer than two points")
    x, y = (sum(point[axis] for point in points) / len(points) for axis in (0, 1))
    return sum((px - x) * (py - y) for px, py in points) / sum((px - x) ** 2 for px, _ in points)
