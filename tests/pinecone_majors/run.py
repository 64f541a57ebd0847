"""The run: an emulator, the proxy in front of it in modes off and on, and every client through each.

Mode on is asked twice, because how much more is fetched grows with what was found: the second answer is judged. Clients over
gRPC are asked directly, and must see what they see over REST.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from pinecone_majors.environments import PYTHON, TYPESCRIPT, Client, ScenarioFailed, python, typescript
from support.pinecone_loading import loaded_emulator
from support.pinecone_planted import plan
from support.pinecone_verdict import differences, faults, transported
from support.stack import serve

ROOT = Path(__file__).resolve().parents[2]
SHOWN = 5  # faults of one client that are printed; the rest are counted


@dataclass(frozen=True, slots=True)
class Setting:
    """Where the clients are pointed."""

    direct: str
    off: str
    on: str
    plan: Path


@dataclass(frozen=True, slots=True)
class Verdict:
    """What came of one client. ``calls``: observations that were no error when made directly. ``well``: what no fault means."""

    client: str
    calls: int
    faults: tuple[str, ...]
    well: str = "as directly; distinct and full"


@contextmanager
def standing() -> Iterator[Setting]:
    """Everything the clients talk to, loaded."""
    made = plan()
    with (
        tempfile.TemporaryDirectory() as folder,
        loaded_emulator(made, grpc=True) as emulator,
        serve(direct := emulator.url, "--backend", "pinecone", "--mode", "off") as (off, _),
        serve(direct, "--backend", "pinecone", "--mode", "on") as (on, _),
    ):
        file = Path(folder) / "plan.json"
        over_grpc = {direct: {name: emulator.grpc_address(name) for name in made["indexes"]}}
        file.write_text(json.dumps({**made, "grpc": over_grpc}), encoding="utf-8")
        yield Setting(direct, off, on, file)


def judged(client: Client, setting: Setting) -> Verdict:
    """One client's verdict; a program that ends badly is a fault like any other."""
    try:
        return _proxied(client, setting) if client.beside is None else _beside(client, client.beside, setting)
    except ScenarioFailed as failed:
        return Verdict(client.name, 0, (str(failed),))


def _proxied(client: Client, setting: Setting) -> Verdict:
    direct, off, _, on = (
        json.loads(client.told(url, setting.plan)) for url in (setting.direct, setting.off, setting.on, setting.on)
    )
    found = [f"off: {name}" for name in differences(_placeless(direct), _placeless(off))]
    found += [f"on: {fault}" for fault in faults(_placeless(direct), _placeless(on))]
    found += [f"{name}: false" for told in (off, on) for name in told if name.endswith("leads here") and not told[name]]
    return Verdict(client.name, _answered(direct), tuple(found))


def _beside(client: Client, rest: Client, setting: Setting) -> Verdict:
    over_grpc, over_rest = (json.loads(one.told(setting.direct, setting.plan)) for one in (client, rest))
    found = [f"{name}: not what it is over REST" for name in transported(over_rest, over_grpc)]
    return Verdict(client.name, _answered(over_grpc), tuple(found), well="as over REST, directly")


def _answered(direct: dict[str, Any]) -> int:
    return sum(not (isinstance(answer, dict) and "error" in answer) for answer in direct.values())


def _placeless(told: dict[str, Any]) -> dict[str, Any]:
    """Without what must differ: which listener the control plane's answers lead to."""
    return {name: answer for name, answer in told.items() if not name.endswith("leads here")}


def clients(folder: Path, wanted: set[str]) -> list[Client]:
    """Every client, or those of the wanted environments (`py8`, `ts2`), installed."""
    made = [python(folder, major) for major in PYTHON if not wanted or f"py{major}" in wanted]
    made += [typescript(folder, major) for major in TYPESCRIPT if not wanted or f"ts{major}" in wanted]
    return [client for group in made for client in group]


def table(verdicts: list[Verdict]) -> Table:
    """One line a client."""
    shown = Table(
        "client", "calls answered", "verdict", title="Pinecone clients through VecSieve, against the emulator"
    )
    for verdict in verdicts:
        first = [*verdict.faults[:SHOWN], *([f"… {len(verdict.faults)} in all"] if verdict.faults[SHOWN:] else [])]
        shown.add_row(verdict.client, str(verdict.calls), "\n".join(first) or verdict.well)
    return shown


def main() -> int:
    """Run; 1 when any client saw what it must not."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("only", nargs="*", help="environments such as py8 or ts2; all of them without any")
    parser.add_argument("--folder", type=Path, default=ROOT / ".clients", help="where the environments are kept")
    given = parser.parse_args()
    installed = clients(given.folder.resolve(), set(given.only))
    with standing() as setting:
        verdicts = [judged(client, setting) for client in installed]
    Console().print(table(verdicts))
    return int(any(verdict.faults for verdict in verdicts) or not verdicts)
