"""Upserts through the write gate while its process is killed, the database restarts and connections of both sides break. Alone: `make killed-gate`.

Clients send each point until it is stored or refused. Shows that then every point that was acknowledged is stored, or is in the journal with a
survivor that is stored; that none is left out or stored twice; that nothing is stored of a write that was refused, and that it is refused
again; and that undo gives the collection that the same upserts give without the gate, byte for byte.

`python -m prove.killed_gate POINTS TOGETHER [BACKEND[:MODE] …]`: in writes of one point to so many; all backends and modes, unless named.
"""

from __future__ import annotations

import http.client
import itertools
import json
import random
import signal
import sqlite3
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from prove.killed_databases import DATABASES, PAGE, REFUSED, STORED, Database
from prove.planted_points import COPIES, SEED, made
from prove.resets import Relay
from support.deploy.expositions import counts
from support.network.ports import free_ports
from support.process import stack
from support.process.commands import forked_command

WRITERS, COLLECTION, CONTROL = 4, "chaos", "control"
# A fault in every so many points, one after another; of each kind so many parts of all.
BETWEEN = 40
KINDS = {"drop": 20, "client drop": 20, "kill": 4, "restart": 2}
# A client waits up to so long before each write. After a restart of the database the gate rests, for ten seconds at most: few writes should come
# then, and most after.
PAUSE_SECONDS = 0.03
RESTING_PAUSE_SECONDS = 10.0
AGAIN_SECONDS = 0.02
# After the faults: the gate rests for ten seconds at most.
JUDGES_AGAIN_SECONDS = 60.0
# In which copies differ here.
SETTINGS = "policy: {ignore: [tag, tags, n]}"


class World:
    """The database and the proxy, which can be ended and begun again on their ports, each behind a relay."""

    def __init__(self, folder: Path, backend: str, write: Mapping[str, str]) -> None:
        self.journal = folder / "j.db"
        (self._proxy_port,) = free_ports(1)
        self.database: Database = DATABASES[backend](folder)
        self.relay = Relay(self.database.port)
        self.relay_url = f"http://127.0.0.1:{self.relay.port}"
        settings = {f"VECSIEVE_POLICY_WRITE_{name.upper()}": value for name, value in write.items()}
        self._config = folder / "settings.yaml"
        self._config.write_text(SETTINGS)
        self._environment = {
            **settings,
            **self.database.settings(self.relay_url),
            "VECSIEVE_BACKEND": backend,
            "VECSIEVE_JOURNAL_PATH": str(self.journal),
        }
        self._counted: Counter[str] = Counter()
        self.proxy = self._serve()
        self.front = Relay(self._proxy_port)
        self.url = f"http://127.0.0.1:{self.front.port}"

    def _serve(self) -> stack.Command:
        options = ("--config", str(self._config), "--listen", f"127.0.0.1:{self._proxy_port}", "--admin", "127.0.0.1:0")
        running = stack.Command(("serve", *options), self._environment, module=None)
        self._admin = running.addresses(self.database.listeners)["admin"]
        return running

    def _now(self) -> Counter[str]:
        """What this life of the proxy has counted."""
        return Counter({name: int(count) for name, count in counts(self._admin, "writes_total", "outcome").items()})

    def outcomes(self) -> Counter[str]:
        """Of all lives, but for what a life counted in its last moments."""
        return self._counted + self._now()

    def kill_proxy(self) -> None:
        self._counted += self._now()
        self.proxy.process.send_signal(signal.SIGKILL)
        self.proxy.process.wait(30)
        self.proxy.close()
        self.proxy = self._serve()

    def restart_database(self) -> None:
        self.database.end()
        self.database.start()

    def age(self) -> None:
        """Where the gate waits for reads, as if ten minutes had passed."""
        if self.database.is_old_at_once:
            with (
                suppress(sqlite3.OperationalError),
                closing(sqlite3.connect(self.journal, isolation_level=None)) as file,
            ):
                file.execute("DELETE FROM unseen")

    def upsert(self, numbers: Sequence[int]) -> int | None:
        """The status; None where there was no whole answer."""
        self.age()
        try:
            return self.database.upsert(self.url, COLLECTION, [made(number) for number in numbers])
        except (OSError, http.client.HTTPException):
            return None

    def everything(self, name: str) -> dict[int, str]:
        """By number, all that is stored."""
        texts: dict[int, str] = {}
        for number, content in self.database.everything(name):
            assert number not in texts, f"{number} is stored twice"
            texts[number] = content
        return texts

    def close(self) -> None:
        self.front.close()
        self.proxy.close()
        self.relay.close()
        self.database.end()


class Upserts:
    """The numbers of points in writes of one to ``together``, and what became of each. ``doubtful``: a write that was not answered may have been
    carried out. ``judges``: cleared while the gate rests.
    """

    def __init__(self, count: int, together: int) -> None:
        self._numbers = iter(range(1, count + 1))
        self._sizes, self._together = random.Random(SEED), together
        self._lock = threading.Lock()
        self.acknowledged: set[int] = set()
        self.refused: set[int] = set()
        self.doubtful: set[int] = set()
        self.attempts = 0
        self.judges = threading.Event()
        self.judges.set()

    def next(self) -> list[int]:
        """Of the next write; none at the end."""
        with self._lock:
            return list(itertools.islice(self._numbers, self._sizes.randint(1, self._together)))

    @property
    def settled(self) -> int:
        return len(self.acknowledged) + len(self.refused)


@contextmanager
def faults(world: World, upserts: Upserts, chance: random.Random, done: Counter[str], between: int) -> Iterator[None]:
    """One after another, until the block ends."""
    over = threading.Event()

    def rage() -> None:
        due = 0
        while True:
            due += chance.randint(1, 2 * between)
            while upserts.settled < due:
                if over.wait(0.001):
                    return
            (kind,) = chance.choices(list(KINDS), list(KINDS.values()))
            doing: Mapping[str, Callable[[], None]] = {
                "drop": partial(world.relay.drop, chance),
                "client drop": partial(world.front.drop, chance),
                "kill": world.kill_proxy,
                "restart": partial(restart, world, upserts, over),
            }
            doing[kind]()
            done[kind] += 1

    with ThreadPoolExecutor(1) as pool:
        raging = pool.submit(rage)
        try:
            yield
        finally:
            over.set()
        raging.result()


def restart(world: World, upserts: Upserts, over: threading.Event) -> None:
    """Of the database. From before it until the gate has judged a write again, or all have come, few writes come."""
    upserts.judges.clear()
    world.restart_database()
    before = world.outcomes()["judged"]
    while world.outcomes()["judged"] == before and not over.wait(AGAIN_SECONDS):
        pass
    upserts.judges.set()


def send(world: World, upserts: Upserts, *, may_be_refused: bool) -> None:
    """Each write until it is acknowledged or refused."""
    chance = random.Random()
    while numbers := upserts.next():
        time.sleep(chance.uniform(0.0, PAUSE_SECONDS))
        upserts.judges.wait(chance.uniform(0.0, RESTING_PAUSE_SECONDS))
        while (status := world.upsert(numbers)) is None or status >= 500:
            upserts.attempts += 1
            upserts.doubtful.update(numbers)
            time.sleep(AGAIN_SECONDS)
        upserts.attempts += 1
        assert status in STORED or (status == REFUSED and may_be_refused), status
        (upserts.acknowledged if status in STORED else upserts.refused).update(numbers)


def rows(world: World, state: str) -> list[tuple[int, int, str]]:
    """Id, survivor and kind of every row in this state, the oldest first."""
    question = "SELECT id, survivor, kind FROM points WHERE state = ? ORDER BY at, number"
    number_of = world.database.number_of
    with closing(sqlite3.connect(world.journal)) as connection:
        entries = connection.execute(question, (state,)).fetchall()
    return [(number_of(json.loads(one)), number_of(json.loads(other)), kind) for one, other, kind in entries]


def survives(number: int, stored: Mapping[int, str], survivors: Mapping[int, int]) -> bool:
    """Whether a point, or the one that stands for it, is stored."""
    seen: set[int] = set()
    while number not in stored and number in survivors and number not in seen:
        seen.add(number)
        number = survivors[number]
    return number in stored


def check(world: World, count: int) -> dict[str, int]:
    settled = rows(world, "done")
    survivors = {one: other for one, other, kind in settled if kind != "changed"}
    stored = world.everything(COLLECTION)
    lost = [identifier for identifier in range(1, count + 1) if not survives(identifier, stored, survivors)]
    twice = [
        identifier
        for identifier, times in Counter(one for one, _, kind in settled if kind == "left_out").items()
        if times > 1
    ]
    assert not lost, f"lost: {lost[:9]}"
    assert not twice, f"twice in the journal: {twice[:9]}"
    assert len(survivors) > count * COPIES / 4, f"only {len(survivors)} in the journal: the gate was hardly at work"
    # A point that was left out, and not acknowledged, may be stored when it comes again and cannot be judged: undo leaves it.
    both = [one for one, _, kind in settled if kind == "left_out" and one in stored]
    totals = {"stored": len(stored), "lost": 0, "doubled": 0, "stored and left out": len(both)}
    return totals | {
        f"journalled as {kind}": number for kind, number in Counter(kind for _, _, kind in settled).items()
    }


def check_refused(world: World, upserts: Upserts) -> dict[str, int]:
    """Of mode reject. A refused point is stored only where an earlier write of it, which was not answered, was carried out later."""
    stored, refused = world.everything(COLLECTION), upserts.refused
    survivors = {one: other for one, other, _ in rows(world, "rejected")}
    lost = sorted(upserts.acknowledged - stored.keys())
    present = sorted((refused & stored.keys()) - upserts.doubtful)
    unknown = sorted(identifier for identifier in refused if survivors.get(identifier) not in stored)
    assert not lost, f"acknowledged and not stored: {lost[:9]}"
    assert not present, f"refused and stored: {present[:9]}"
    assert not unknown, f"refused without a stored original in the journal: {unknown[:9]}"
    assert len(refused) > len(stored) * COPIES / 4, f"only {len(refused)} were refused: the gate was hardly at work"
    wait_until_it_judges(world, min(upserts.acknowledged))
    before = world.outcomes()
    again = {identifier for identifier in sorted(refused - stored.keys()) if world.upsert([identifier]) != REFUSED}
    outcomes = world.outcomes() - before
    # On a busy machine a write may be late, and is stored then.
    unjudged = outcomes.total() - outcomes["judged"]
    known = {identifier for identifier in again if world.database.finds(COLLECTION, made(identifier))}
    assert len(known) <= unjudged, f"stored when they came again: {sorted(known)[:9]}, {dict(outcomes)}"
    after = world.everything(COLLECTION)
    assert {number: after[number] for number in stored} == stored, "a refused write changed what is stored"
    assert after.keys() - stored.keys() == again, "a refused write is stored"
    both = len(refused & stored.keys())
    totals = {"refused": len(refused), "refused and stored": both, "refused again": len(refused) - both - len(again)}
    return {"stored": len(stored), "lost": 0, **totals, "not found again": len(again)}


def wait_until_it_judges(world: World, number: int) -> None:
    """``number``: of a stored point, which is an update."""
    before, until = world.outcomes()["judged"], time.monotonic() + JUDGES_AGAIN_SECONDS
    while world.outcomes()["judged"] == before:
        assert time.monotonic() < until, "the gate judges nothing any more"
        world.upsert([number])
        time.sleep(AGAIN_SECONDS)


def check_undo(world: World, count: int, *options: str) -> None:
    database = world.database
    arguments = (
        "undo",
        "--journal",
        str(world.journal),
        "--rate",
        "10000",
        "--url",
        world.relay_url,
        "--backend",
        database.backend,
    )
    world.age()
    done = forked_command(*arguments, *options, "--apply", **database.environment())
    assert done.returncode == 0, done.stdout + done.stderr
    points = world.everything(COLLECTION)
    database.create(CONTROL)
    numbers = range(1, count + 1)
    for start in range(0, count, PAGE):
        batch = [made(number) for number in numbers[start : start + PAGE]]
        assert database.upsert(database.url, CONTROL, batch) in STORED
    control = world.everything(CONTROL)
    other = [number for number in numbers if points.get(number) != control[number]]
    assert not other, f"{len(other)} are not as they came: {other[:3]}, {points.get(other[0])} {control[other[0]]}"
    assert points.keys() == control.keys()


def prove(count: int, backend: str, mode: str, merge: str = "", *, together: int = 1, between: int = BETWEEN) -> str:
    """What was done. ``between``: a fault in every so many points. Raises AssertionError."""
    done: Counter[str] = Counter()
    upserts, is_reject = Upserts(count, together), mode == "reject"
    write = {"mode": mode, **({"merge": merge} if merge else {})}
    with TemporaryDirectory() as folder, closing(World(Path(folder), backend, write)) as world:
        world.database.create(COLLECTION)
        started = time.perf_counter()
        with faults(world, upserts, random.Random(SEED), done, between), ThreadPoolExecutor(WRITERS) as pool:
            sending = [pool.submit(send, world, upserts, may_be_refused=is_reject) for _ in range(WRITERS)]
            for thread in sending:
                thread.result()
        seconds = time.perf_counter() - started
        outcomes = world.outcomes()
        totals = check_refused(world, upserts) if is_reject else check(world, count)
        check_undo(world, count, *(["--rejected"] if is_reject else []))
    return (
        f"{' '.join((backend, *write.values()))}: {count} points, up to {together} in a write, in {seconds:.0f} s, all answered after {upserts.attempts} attempts; "
        f"faults {dict(done)}; writes by outcome {dict(outcomes)}; {totals}; after undo byte for byte as the control"
    )


def chosen(names: list[str]) -> Iterator[tuple[str, str, str]]:
    """Backend, mode and policy of each run."""
    for backend in DATABASES:
        for mode, merge in (("skip", ""), ("merge", "keep-newest"), ("merge", "merge"), ("reject", "")):
            if not names or backend in names or f"{backend}:{mode}" in names:
                yield backend, mode, merge


if __name__ == "__main__":
    for database_kind in chosen(sys.argv[3:]):
        # A refused write has more than copies, which no journal has: of mode reject each has one point.
        together = 1 if "reject" in database_kind else int(sys.argv[2])
        print(prove(int(sys.argv[1]), *database_kind, together=together), flush=True)
