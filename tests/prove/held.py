"""What processes hold: resident memory, open descriptors, threads, as the kernel counts them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

MIB = 2**20


@dataclass(frozen=True, slots=True)
class Held:
    """One reading of some processes together. ``peak``: the most that was ever resident since ``forget_peak``."""

    resident: int
    peak: int
    descriptors: int
    threads: int


def held(pids: Iterable[int]) -> Held:
    """Read now. Raises FileNotFoundError for a process that is gone."""
    each = [_one(pid) for pid in pids]
    return Held(
        sum(one.resident for one in each),
        sum(one.peak for one in each),
        sum(one.descriptors for one in each),
        sum(one.threads for one in each),
    )


def forget_peak(pid: int) -> None:
    """Let the peak begin anew at what is resident now."""
    Path(f"/proc/{pid}/clear_refs").write_text("5", encoding="ascii")


def _one(pid: int) -> Held:
    text = Path(f"/proc/{pid}/status").read_text(encoding="ascii", errors="replace")
    said = dict(re.findall(r"^(VmRSS|VmHWM|Threads):\s+(\d+)", text, re.MULTILINE))
    descriptors = len(list(Path(f"/proc/{pid}/fd").iterdir()))
    return Held(int(said["VmRSS"]) * 1024, int(said["VmHWM"]) * 1024, descriptors, int(said["Threads"]))


def slope(points: list[tuple[float, float]]) -> float:
    """Least squares: how much the second grows for each of the first. Raises ValueError for fewer than two."""
    if len(points) < 2:
        raise ValueError("a slope of fewer than two points")
    x, y = (sum(point[axis] for point in points) / len(points) for axis in (0, 1))
    return sum((px - x) * (py - y) for px, py in points) / sum((px - x) ** 2 for px, _ in points)
