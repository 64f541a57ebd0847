"""`vecsieve sweep --apply` over planted copies in the embedded engine, killed on the way, and `vecsieve undo`. Alone: `make killed-sweep`.

Shows that what is gone is what was planted, that every point that is gone is in the journal, and that undo gives the same collection.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import orjson

from prove.planted_sweep import DIMENSION, planted
from support.process import stack
from support.qdrant.embedded import start_embedded_process

KILLS, COLLECTION, PAGE = 4, "planted", 1000


def loaded(url: str, count: int) -> list[int]:
    """The label of each id, from 0 on."""
    points, labels = planted(count)
    body = orjson.dumps({"vectors": {"size": DIMENSION, "distance": "Cosine"}})
    assert stack.exchange(url, "PUT", f"/collections/{COLLECTION}", body).status == 200
    for start in range(0, count, PAGE):
        batch = [
            {"id": point.id, "vector": point.vector, "payload": point.payload} for point in points[start : start + PAGE]
        ]
        sent = orjson.dumps({"points": batch}, option=orjson.OPT_SERIALIZE_NUMPY)
        assert stack.exchange(url, "PUT", f"/collections/{COLLECTION}/points?wait=true", sent).status == 200
    families: list[int] = labels.tolist()
    return families


def stored(url: str) -> Iterator[tuple[int, object]]:
    """Id and content of every point; numbers as they are spelled."""
    offset: object = None
    while True:
        body = json.dumps({"limit": PAGE, "offset": offset, "with_payload": True, "with_vector": True}).encode()
        answer = stack.exchange(url, "POST", f"/collections/{COLLECTION}/points/scroll", body).body
        result = json.loads(answer, parse_float=str)["result"]
        yield from ((point["id"], hash(json.dumps(point, sort_keys=True))) for point in result["points"])
        if (offset := result["next_page_offset"]) is None:
            return


def run(*arguments: str, killed_when: Callable[[], bool] | None = None) -> tuple[float, float]:
    """Seconds, and MB at the peak."""
    started = time.perf_counter()
    process = subprocess.Popen([sys.executable, "-m", "vecsieve.proxy", *arguments])
    if killed_when is not None:
        while not killed_when():
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == (0 if killed_when is None else -signal.SIGKILL), "it was over before it was killed"
    return time.perf_counter() - started, used.ru_maxrss / 1e3


def main(count: int) -> None:
    draw = random.Random(count)
    with TemporaryDirectory() as folder, start_embedded_process() as url:
        labels, before, work, journal = loaded(url, count), {}, Path(folder) / "work", Path(folder) / "journal.db"
        before = dict(stored(url))
        where = ("--url", url, "--collection", COLLECTION, "--rate", "10000")
        arguments = ("sweep", *where, "--work", str(work), "--apply", "--journal", str(journal))
        runs = []
        copies = count - len(np.unique(labels))
        reads = sorted(draw.randrange(count) for _ in range(KILLS // 2))
        deletions = sorted(draw.randrange(copies) for _ in range(KILLS - len(reads)))
        for so_many in reads:
            runs.append(run(*arguments, killed_when=passed(vectors, work, so_many)))
            print(f"killed with {vectors(work)} points read")
        for so_many in deletions:
            runs.append(run(*arguments, killed_when=passed(rows, journal, so_many)))
            print(f"killed with {rows(journal)} points in the journal")
        runs.append(run(*arguments))
        left = dict(stored(url))
        gone = before.keys() - left.keys()
        assert set(ids(journal)) == gone, "what is gone is in the journal, and nothing else"
        assert all(left[identifier] == before[identifier] for identifier in left), "what stays is as it was"
        kept = np.unique([labels[identifier] for identifier in left])
        print(f"{count} points, {copies} copies: {len(gone)} deleted, {len(kept) - len(np.unique(labels))} texts lost")
        print(f"found {len(gone) / copies:.4f} of the copies; each label has {len(left) / len(kept):.4f} points left")
        minutes, peak = sum(measured for measured, _ in runs) / 60, max(measured for _, measured in runs)
        print(
            f"{len(runs)} runs, {KILLS} of them killed: {minutes:.1f} minutes, {peak:.0f} MB at the peak of a process"
        )
        seconds, peak = run("undo", "--url", url, "--journal", str(journal), "--rate", "10000", "--apply")
        assert dict(stored(url)) == before, "undo gives the same collection"
        print(f"undo: {seconds / 60:.1f} minutes, {peak:.0f} MB; the collection is as it was")


def passed(count: Callable[[Path], int], path: Path, so_many: int) -> Callable[[], bool]:
    return lambda: count(path) > so_many


def vectors(work: Path) -> int:
    path = work / "vectors.f32"
    return path.stat().st_size // (4 * DIMENSION) if path.exists() else 0


def rows(journal: Path) -> int:
    with suppress(sqlite3.OperationalError):  # the table is not made yet
        return sum(1 for _ in ids(journal)) if journal.exists() else 0
    return 0


def ids(journal: Path) -> Iterator[int]:
    with closing(sqlite3.connect(journal)) as connection:
        for (identifier,) in connection.execute("SELECT id FROM points WHERE state = 'done'"):
            yield json.loads(identifier)


if __name__ == "__main__":
    main(int(sys.argv[1]))
