"""The run: the embedded engine, the proxy in front of it in every mode, and each client directly and through each.

With `--record`, what the clients send and are answered is written to tests/golden/qdrant_grpc instead, for a small plan.
"""

from __future__ import annotations

import argparse
import json
import re
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from foreign_clients.environments import CLIENTS, Client, NotAvailableError, ScenarioFailedError
from foreign_clients.record import GOLDEN, recorded
from support.exchanges.foreign_plan import plan
from support.exchanges.foreign_verdict import differences, faults, is_of_copies
from support.process.stack import Command, command
from support.qdrant.embedded import start_embedded_grpc_process

ROOT = Path(__file__).resolve().parents[2]
MODES = ("off", "shadow", "on")
SHOW_AT_MOST = 5  # faults of one client that are printed; the rest are counted
START_SECONDS = 60.0
_GRPC = re.compile(r"vecsieve \w+ gRPC on http://([\w.]+:\d+)")
_SMALL = {"bases": 5, "dimension": 4, "small": 3, "top_k": 2}


@dataclass(frozen=True, slots=True)
class Verdict:
    """What came of one client. ``calls``: how many it made directly; ``distinct``: of those, pages that the proxy changed."""

    client: str
    calls: int
    distinct: int
    faults: tuple[str, ...]


@contextmanager
def engine() -> Iterator[str]:
    """Where the embedded engine speaks gRPC."""
    with start_embedded_grpc_process() as (_, url):
        yield url.removeprefix("http://")


@contextmanager
def proxied(upstream: str, mode: str) -> Iterator[str]:
    """Where a proxy in front of it does."""
    options = ("serve", "--mode", mode, "--upstream", "http://127.0.0.1:9", "--grpc-upstream", upstream)
    ports = ("--listen", "127.0.0.1:0", "--grpc-listen", "127.0.0.1:0", "--admin", "127.0.0.1:0")
    with command(*options, *ports) as running:
        yield _address(running)


def judged(client: Client) -> Verdict:
    """One client's verdict; a program that ends badly is a fault like any other."""
    with tempfile.TemporaryDirectory() as folder, engine() as direct:
        file = Path(folder) / "plan.json"
        file.write_text(json.dumps(plan()), encoding="utf-8")
        try:
            before = json.loads(client.messages(direct, file))
            after = {}
            for mode in MODES:
                with proxied(direct, mode) as address:
                    after[mode] = json.loads(client.messages(address, file))
        except ScenarioFailedError as failed:
            return Verdict(client.name, 0, 0, (str(failed),))
    problems = [f"{mode}: {name}" for mode in ("off", "shadow") for name in differences(before, after[mode])]
    problems += [f"on: {fault}" for fault in faults(before, after["on"])]
    distinct = sum(map(is_of_copies, differences(before, after["on"])))
    if not distinct:
        problems.append("on: no page was made distinct, so that nothing was seen")
    return Verdict(client.name, len(before), distinct, tuple(problems))


def table(verdicts: list[Verdict]) -> Table:
    """One line a client."""
    summary = Table(
        "client", "calls", "pages made distinct", "verdict", title="Qdrant's clients over gRPC through VecSieve"
    )
    for verdict in verdicts:
        first = [
            *verdict.faults[:SHOW_AT_MOST],
            *([f"… {len(verdict.faults)} in all"] if verdict.faults[SHOW_AT_MOST:] else []),
        ]
        text = "\n".join(first) or "off and shadow as directly; on distinct and full"
        summary.add_row(verdict.client, str(verdict.calls), str(verdict.distinct), text)
    return summary


def main() -> int:
    """Run; 1 when a client saw what it must not, when one asked for by name is not to be had, or when none is."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("only", nargs="*", help="clients; all of them without any")
    parser.add_argument("--folder", type=Path, default=ROOT / ".clients", help="where what they need is kept")
    parser.add_argument("--record", action="store_true", help="write down what they send instead of judging")
    given = parser.parse_args()
    if unknown := set(given.only) - CLIENTS.keys():
        parser.error(f"no such client: {', '.join(sorted(unknown))}; there are {', '.join(CLIENTS)}")
    console = Console()
    clients, missing = had(given.folder.resolve(), given.only or list(CLIENTS))
    for name, reason in missing.items():
        console.print(f"{name} is not to be had here: {reason}", markup=False)
    if given.record:
        for client in clients:
            with engine() as direct:
                written(client, direct)
        return int(not clients)
    verdicts = [judged(client) for client in clients]
    if verdicts:
        console.print(table(verdicts))
    return int(any(verdict.faults for verdict in verdicts) or not verdicts or bool(given.only and missing))


def had(folder: Path, names: list[str]) -> tuple[list[Client], Mapping[str, str]]:
    """The clients that could be built, and why the others could not."""
    built, missing = [], {}
    for name in names:
        try:
            built.append(CLIENTS[name](folder))
        except NotAvailableError as reason:
            missing[name] = str(reason)
    return built, missing


def written(client: Client, engine_address: str) -> None:
    """Write a client's recording."""
    made = recorded(client, engine_address, plan(**_SMALL))
    GOLDEN.mkdir(parents=True, exist_ok=True)
    (GOLDEN / f"{client.name}.json").write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")


def _address(running: Command) -> str:
    running.wait_for("gRPC on ", START_SECONDS)
    match = _GRPC.search(running.output())
    if match is None:
        raise ValueError(f"no gRPC address in {running.output()!r}")
    return match[1]
