"""`vecsieve sweep` over planted copies: what it finds, and what it takes. Alone: `make sweep`, or `make sweep POINTS=1000000 KEEP=first`.
With `RUNNERS="local ray"` what is read once is joined by each of them, and all must find the same. With `KILLS=4` the
sweep is killed four times first; each run continues the one before.

The collection is in memory, so that the figures are of the sweep and not of a database. A sixth of the points are copies of others:
equal texts, parts of texts, and equal vectors without a text. As many have one word changed, and are no copies.
"""

from __future__ import annotations

import os
import resource
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar
from unittest.mock import patch

import numpy as np
import numpy.typing as npt
import orjson

from support.jobs.memory_source import MemorySource
from vecsieve.proxy.jobs.pairs.joining import Runner
from vecsieve.proxy.jobs.source import Point
from vecsieve.proxy.jobs.sweep.deciding import Keep, SweepOptions
from vecsieve.proxy.jobs.sweep.report import Report
from vecsieve.proxy.jobs.sweep.run import lines, opened_store, sweep
from vecsieve.proxy.runtime.files import Advance

DIMENSION, WORDS, SENTENCE = 384, 40, 8
COPIED = 5  # one point in so many is made of another
BARE = 10  # one in so many has no text
NOISE = 0.15
CHANGED = 2
LIFE_SECONDS = 45e-6  # of a process that is killed, for each point: a fifth of what the sweep takes on two cores


def planted(count: int) -> tuple[list[Point], npt.NDArray[np.intp]]:
    """So many points in any order, and what each says: copies have one label."""
    draw = np.random.default_rng(1)
    vocabulary = np.array([f"word{number}" for number in range(5000)])
    originals = count - count // COPIED
    middle = 2.0 * draw.normal(size=DIMENSION)
    made: list[Point] = []
    labels = np.concatenate((np.arange(originals), draw.integers(originals, size=count - originals)))
    order = draw.permutation(count)
    for number, label in enumerate(labels.tolist()):
        rng = np.random.default_rng((2, label))
        vector = middle + rng.normal(size=DIMENSION)
        words = rng.choice(vocabulary, WORDS).tolist()
        if label % BARE == 0:
            words = []
        elif number >= originals:
            vector = vector + NOISE * np.linalg.norm(vector) / np.sqrt(DIMENSION) * draw.normal(size=DIMENSION)
            edit = number % 3
            words = (words, words[SENTENCE:], [*words[:9], "other", *words[10:]])[edit]
            if edit == CHANGED:
                labels[number] = count + label
        payload = {"text": written(words)} if words else {}
        made.append(Point(id=int(order[number]), vector=vector.astype(np.float32), payload=payload))
    by_id = np.argsort(order)
    return [made[place] for place in by_id.tolist()], labels[by_id]


def written(words: Sequence[str]) -> str:
    """The words in sentences."""
    return " ".join(
        f"{' '.join(words[start : start + SENTENCE])}.".capitalize() for start in range(0, len(words), SENTENCE)
    )


@contextmanager
def timed(title: str, _total: int | None) -> Iterator[Advance]:
    wall, cpu = time.perf_counter(), time.process_time()
    yield lambda _done: None
    print(f"{title}: {time.perf_counter() - wall:.1f} s, {time.process_time() - cpu:.1f} s of CPU")


T = TypeVar("T")
Bar = Callable[[str, int | None], AbstractContextManager[Advance]]
listed = ("pairs.reading", "sweep.families", "sweep.run", "analyze.reading", "analyze.run")


def phased(bar: Bar, work: Callable[[], T]) -> T:
    """The result of a job, with this in place of its progress bars."""
    with ExitStack() as stack:
        for module in listed:
            stack.enter_context(patch(f"vecsieve.proxy.jobs.{module}.progress_bar", bar))
        return work()


class HasReadError(Exception):
    """All is read, and nothing is joined: raised to stop there, as a kill would."""


@contextmanager
def until_read(title: str, total: int | None) -> Iterator[Advance]:
    if title == "looking for candidates":
        raise HasReadError
    with timed(title, total) as advance:
        yield advance


def killed(source: MemorySource, options: SweepOptions, seconds: float) -> None:
    """Sweep in a process of its own, and kill it after so long. It continues what the one before has read."""
    child = os.fork()
    if child == 0:
        with opened_store(source, options) as store:
            phased(timed, lambda: sweep(source, options, store))
        os._exit(0)
    time.sleep(seconds)
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == -signal.SIGKILL, "it was over before it was killed"
    read = (options.folder / "vectors.f32").stat().st_size // (4 * DIMENSION)
    print(f"killed after {seconds:.0f} s, with {read} points read", flush=True)


def main(count: int, keep: Keep, runners: Sequence[Runner], kills: int) -> None:
    points, labels = planted(count)
    source = MemorySource(points)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with TemporaryDirectory() as folder:
        work = Path(folder) / "read"
        options = SweepOptions(url="", collection="planted", keep=keep, text_field="text", work=work)
        for _ in range(kills):
            killed(source, options, LIFE_SECONDS * count)
        with suppress(HasReadError), opened_store(source, options) as store:
            phased(until_read, lambda: sweep(source, options, store))
        results: list[tuple[Report, list[bytes]]] = []
        for runner in runners:
            run_folder = Path(folder) / runner.value
            if len(runners) > 1:
                print(f"runner {runner.value}")
                shutil.copytree(work, run_folder)
            else:
                work.rename(run_folder)
            entry = replace(options, work=run_folder, runner=runner)
            with opened_store(source, entry) as store:
                results.append((phased(timed, partial(sweep, source, entry, store)), list(lines(store))))
        disk = sum(entry.stat().st_size for entry in run_folder.rglob("*") if entry.is_file())
    report, output = results[0]
    rows = [orjson.loads(line) for line in output]
    if len(runners) > 1:
        print(
            f"{report.candidates} candidates; the runners' reports and ids are {'the same' if results[1:] == results[:-1] else 'DIFFERENT'}"
        )
    right = labels[[entry["id"] for entry in rows]] == labels[[entry["survivor"] for entry in rows]]
    copies = count - len(np.unique(labels))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    print(f"{count} points of {DIMENSION} dimensions, {copies} copies: {report.redundant} could go")
    print(f"found {right.sum() / copies:.4f} of the copies; {right.mean():.4f} of what could go is a copy")
    print(f"disk {disk / count:.0f} bytes a point; memory beside the collection's own {peak / 1e3:.0f} MB at the peak")


if __name__ == "__main__":
    chosen = [Runner(name) for name in sys.argv[3:]] or [Runner.LOCAL]
    main(int(sys.argv[1]), Keep(sys.argv[2]), chosen, int(os.environ.get("KILLS", "0")))
