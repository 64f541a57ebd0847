"""Upserts through the write gate while its process is killed, the database restarts and connections break. Alone: `make killed-gate`.

Shows that every point that was acknowledged is stored, or is in the journal with a survivor that is stored, that none is left out twice,
and that undo gives the collection that the same upserts give without the gate.
"""

from __future__ import annotations

import http.client
import json
import random
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from support import stack

WRITERS, COPIES, SIZE, COLLECTION, PAGE = 4, 0.3, 32, "chaos", 1000
SEED = 17


def free_port() -> int:
    with closing(socket.socket()) as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


def made(number: int) -> dict[str, object]:
    """A point: a new one, or a copy of an earlier new one in other white space."""
    chance = random.Random(SEED * 1_000_003 + number)
    is_copy = number > 10 and chance.random() < COPIES
    own = random.Random(f"{SEED} {chance.randrange(number) if is_copy else number}")
    vector = [round(own.gauss(0.0, 1.0), 6) for _ in range(SIZE)]
    text = "  ".join("".join(own.choices("abcdefghijklmnopqrstuvwxyz", k=7)) for _ in range(6))
    return {
        "id": number,
        "vector": vector,
        "payload": {"text": text.upper() if is_copy else text, "tags": [number % 7]},
    }


class Relay:
    """Carries connections to the database, and breaks all of them when it is told to."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._open: set[socket.socket] = set()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._carry, args=(client,), daemon=True).start()

    def _carry(self, client: socket.socket) -> None:
        try:
            database = socket.create_connection(("127.0.0.1", self._target))
        except OSError:
            client.close()
            return
        self._open |= {client, database}
        threading.Thread(target=self._pump, args=(client, database), daemon=True).start()
        self._pump(database, client)

    def _pump(self, source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while piece := source.recv(65_536):
                sink.sendall(piece)
        for each in (source, sink):
            self._open.discard(each)
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def drop(self) -> None:
        for each in list(self._open):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._listener.close()
        self.drop()


class World:
    """The engine, the relay before it, and the proxy: each can be ended and begun again on its port."""

    def __init__(self, folder: Path, write: Mapping[str, str]) -> None:
        self.journal = folder / "j.db"
        self._engine_port, self._proxy_port = free_port(), free_port()
        self._arguments = ("embedded", "--listen", f"127.0.0.1:{self._engine_port}", "--path", str(folder / "engine"))
        own = {f"VECSIEVE_POLICY_WRITE_{name.upper()}": value for name, value in write.items()}
        self._environment = {**own, "VECSIEVE_JOURNAL_PATH": str(self.journal)}
        self.engine = stack.Command(self._arguments, None, module=None)
        self.engine_url = self.engine.addresses(1)["embedded"]
        self.relay = Relay(self._engine_port)
        self.proxy = self._serve()

    def _serve(self) -> stack.Command:
        upstream = ("--upstream", f"http://127.0.0.1:{self.relay.port}")
        ports = ("--listen", f"127.0.0.1:{self._proxy_port}", "--admin", "127.0.0.1:0")
        running = stack.Command(("serve", *upstream, *ports), self._environment, module=None)
        self.url = running.addresses(2)["serve"]
        return running

    def kill_proxy(self) -> None:
        self.proxy.process.send_signal(signal.SIGKILL)
        self.proxy.process.wait(30)
        self.proxy.close()
        self.proxy = self._serve()

    def restart_engine(self) -> None:
        self.engine.close()
        self.engine = stack.Command(self._arguments, None, module=None)
        self.engine.addresses(1)

    def close(self) -> None:
        self.proxy.close()
        self.relay.close()
        self.engine.close()


@contextmanager
def faults(world: World, chance: random.Random, done: Counter[str]) -> Iterator[None]:
    """One after another, until the block ends."""
    over = threading.Event()

    def rage() -> None:
        while not over.wait(chance.uniform(2.0, 6.0)):
            kind = chance.choice(["drop", "drop", "kill", "restart"])
            {"drop": world.relay.drop, "kill": world.kill_proxy, "restart": world.restart_engine}[kind]()
            done[kind] += 1

    thread = threading.Thread(target=rage)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def write(world: World, numbers: Iterator[int], lock: threading.Lock, acknowledged: set[int]) -> None:
    """Each point once; one that is not acknowledged is not sent again, unless nobody took the connection."""
    while True:
        with lock:
            number = next(numbers, None)
        if number is None:
            return
        body = json.dumps({"points": [made(number)]}).encode()
        while True:
            try:
                sent = stack.exchange(world.url, "PUT", f"/collections/{COLLECTION}/points?wait=true", body)
            except ConnectionRefusedError:
                time.sleep(0.1)
                continue
            except (OSError, http.client.HTTPException):
                break
            if sent.status == 200:
                acknowledged.add(number)
            break


def everything(url: str, collection: str) -> dict[int, str]:
    found: dict[int, str] = {}
    offset: object = None
    while True:
        body = json.dumps({"limit": PAGE, "offset": offset, "with_payload": True, "with_vector": True}).encode()
        page = json.loads(
            stack.exchange(url, "POST", f"/collections/{collection}/points/scroll", body).body, parse_float=str
        )
        found |= {each["id"]: json.dumps(each) for each in page["result"]["points"]}
        if (offset := page["result"]["next_page_offset"]) is None:
            return found


def create(url: str, collection: str) -> None:
    body = b'{"vectors":{"size":%d,"distance":"Cosine"}}' % SIZE
    assert stack.exchange(url, "PUT", f"/collections/{collection}", body).status == 200


def settled(path: Path) -> list[tuple[int, int, str]]:
    """Id, survivor and kind of every row that counts, the oldest first."""
    question = "SELECT id, survivor, kind FROM points WHERE state = 'done' ORDER BY at, number"
    with closing(sqlite3.connect(path)) as connection:
        return [(int(one), int(other), kind) for one, other, kind in connection.execute(question)]


def survives(number: int, stored: Mapping[int, str], survivors: Mapping[int, int]) -> bool:
    """Whether a point, or the one that stands for it, is stored."""
    seen: set[int] = set()
    while number not in stored and number in survivors and number not in seen:
        seen.add(number)
        number = survivors[number]
    return number in stored


def check(world: World, acknowledged: set[int]) -> dict[str, int]:
    rows = settled(world.journal)
    survivors = {one: other for one, other, kind in rows if kind != "changed"}
    stored = everything(world.engine_url, COLLECTION)
    lost = [each for each in acknowledged if not survives(each, stored, survivors)]
    twice = [each for each, times in Counter(one for one, _, kind in rows if kind == "left_out").items() if times > 1]
    both = [one for one, _, kind in rows if kind == "left_out" and one in stored]
    assert not lost, f"lost: {lost[:9]}"
    assert not twice, f"twice in the journal: {twice[:9]}"
    assert not both, f"stored and left out: {both[:9]}"
    return {"stored": len(stored), "in the journal": len(survivors)}


def check_undo(world: World, acknowledged: set[int]) -> int:
    """The number of points."""
    command = (sys.executable, "-m", "vecsieve.proxy", "undo", "--journal", str(world.journal), "--rate", "10000")
    subprocess.run([*command, "--url", world.engine_url, "--apply"], check=True, capture_output=True)
    found = everything(world.engine_url, COLLECTION)
    assert acknowledged <= found.keys()
    create(world.engine_url, "plain")
    numbers = sorted(found)
    for start in range(0, len(numbers), PAGE):
        body = json.dumps({"points": [made(number) for number in numbers[start : start + PAGE]]}).encode()
        assert stack.exchange(world.engine_url, "PUT", "/collections/plain/points?wait=true", body).status == 200
    plain = everything(world.engine_url, "plain")
    other = [number for number in numbers if found[number] != plain[number]]
    assert not other, f"not as they came: {other[:3]}, {found[other[0]]} {plain[other[0]]}"
    return len(found)


def prove(count: int, mode: str, merge: str) -> str:
    """What was done. Raises AssertionError."""
    acknowledged: set[int] = set()
    done: Counter[str] = Counter()
    numbers, lock = iter(range(1, count + 1)), threading.Lock()
    started = time.perf_counter()
    with TemporaryDirectory() as folder, closing(World(Path(folder), {"mode": mode, "merge": merge})) as world:
        create(world.engine_url, COLLECTION)
        with faults(world, random.Random(SEED), done):
            writers = [
                threading.Thread(target=write, args=(world, numbers, lock, acknowledged)) for _ in range(WRITERS)
            ]
            for each in writers:
                each.start()
            for each in writers:
                each.join()
        seconds = time.perf_counter() - started
        found = check(world, acknowledged)
        after = check_undo(world, acknowledged)
    return (
        f"{mode} {merge}: {count} upserts in {seconds:.0f} s, {len(acknowledged)} acknowledged, {dict(done)}; {found}; "
        f"0 lost, 0 doubled; {after} after undo, as they came"
    )


if __name__ == "__main__":
    asked = int(sys.argv[1])
    for mode, merge in (("skip", "keep-newest"), ("merge", "keep-newest"), ("merge", "merge")):
        print(prove(asked, mode, merge), flush=True)
