"""`vecsieve analyze` over the planted copies of planted_sweep.py: what it finds, and what it takes. Alone: `make analyze`, `POINTS=1000000` for more.

The collection is in memory, so that the figures are of the analysis and not of a database.
"""

from __future__ import annotations

import resource
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import orjson

from prove.planted_sweep import phased, planted, timed
from support.jobs.memory_source import MemorySource
from vecsieve.proxy.jobs.analyze.reading import FieldNames
from vecsieve.proxy.jobs.analyze.run import AnalyzeOptions, Leaving, analyze

FIELDS = FieldNames(text=("text",), source=("source",))


def main(count: int) -> None:
    points, labels = planted(count)
    source = MemorySource(points)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    wall, cpu = time.perf_counter(), time.process_time()
    leaving: list[Leaving] = []
    with TemporaryDirectory() as folder:
        options = AnalyzeOptions(url="", collection="planted", source_field="source", work=Path(folder) / "work")
        report = phased(timed, lambda: analyze(source, options, take=leaving.append))
        disk = sum(entry.stat().st_size for entry in Path(folder).rglob("*") if entry.is_file())
    rows = [orjson.loads(line) for line in leaving[0].lines()]
    right = labels[[entry["id"] for entry in rows]] == labels[[entry["survivor"] for entry in rows]]
    planted_copies = count - len(np.unique(labels))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    print(
        f"{count} points, {planted_copies} copies: {report.repeats.points} could go, {report.families.count} families"
    )
    print(", ".join(f"{number} {name}" for name, number in report.repeats.parts))
    print(f"found {right.sum() / planted_copies:.4f} of the copies; {right.mean():.4f} of what could go is a copy")
    print(
        f"{time.perf_counter() - wall:.0f} s, {time.process_time() - cpu:.0f} s of CPU; disk {disk / count:.0f} bytes a point; {peak / 1e3:.0f} MB"
    )


if __name__ == "__main__":
    main(int(sys.argv[1]))
