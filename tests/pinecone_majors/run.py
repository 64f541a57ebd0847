"""The run: an emulator, the proxy in front of it in modes off, shadow and on, and every client through each.

Mode on is asked twice, because how much more is fetched grows with what was found: the second answer is judged. Over gRPC an
index has a port of its own, and what a client sees directly must be what it sees over REST.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from servers.pinecone.server import Emulator

from pinecone_majors.environments import PYTHON, TYPESCRIPT, Client, ScenarioFailedError, Way, python, typescript
from support.network.certificates import make_certificates
from support.network.ports import free_ports
from support.pinecone.loading import loaded_emulator
from support.pinecone.planted import plan
from support.pinecone.verdict import differences, faults, transported
from support.process.stack import command
from vecsieve.proxy.http.tls import server_context

ROOT = Path(__file__).resolve().parents[2]
SHOW_AT_MOST = 5  # faults of one client that are printed; the rest are counted
MODES = ("off", "shadow", "on")
LOCAL = ("--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0")
PLACES = "places"  # of a plan: the URL of a control plane -> what the hosts that it tells of must be


@dataclass(frozen=True, slots=True)
class Setting:
    """URLs of control planes that the clients are pointed to: the emulator's own, and the proxy's by mode."""

    direct: str
    proxied: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Standing:
    """Everything that the clients talk to, and the file that tells them what to say."""

    settings: Mapping[Way, Setting]
    plan: Path


@dataclass(frozen=True, slots=True)
class Verdict:
    """What came of one client. ``calls``: observations that were no error when made directly. ``well``: what no fault means."""

    client: str
    calls: int
    faults: tuple[str, ...]
    well: str = ""


@contextmanager
def standing() -> Iterator[Standing]:
    """All of it, loaded. Whoever comes over TLS believes SSL_CERT_FILE, the proxy in front of the emulator too."""
    made = plan()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        files = make_certificates(folder)
        os.environ["SSL_CERT_FILE"] = str(files.authority)
        tls = server_context(files.leaf, files.key, with_grpc=True)
        plain = stack.enter_context(loaded_emulator(made, grpc=True))
        secured = stack.enter_context(loaded_emulator(made, grpc=True, tls=tls))
        environment = {"VECSIEVE_TLS_CERTIFICATE": str(files.leaf), "VECSIEVE_TLS_KEY": str(files.key)}
        places: dict[str, list[str]] = {}
        settings = {
            Way.REST: Setting(plain.url, {mode: stack.enter_context(by_path(plain, mode)) for mode in MODES}),
            Way.GRPC: Setting(
                plain.url, {mode: stack.enter_context(by_port(plain, mode, places, {})) for mode in MODES}
            ),
            Way.TLS: Setting(
                secured.url, {mode: stack.enter_context(by_port(secured, mode, places, environment)) for mode in MODES}
            ),
        }
        file = folder / "plan.json"
        file.write_text(json.dumps({**made, PLACES: places}), encoding="utf-8")
        yield Standing(settings, file)


@contextmanager
def by_path(emulator: Emulator, mode: str) -> Iterator[str]:
    """The URL of a proxy that tells of an index by a path."""
    with command("serve", *LOCAL, "--upstream", emulator.url, "--backend", "pinecone", "--mode", mode) as running:
        yield running.addresses(2)["serve"]


@contextmanager
def by_port(
    emulator: Emulator, mode: str, places: dict[str, list[str]], environment: Mapping[str, str]
) -> Iterator[str]:
    """The URL of a proxy that tells of an index by a port without a scheme, as gRPC's clients want it."""
    indexes = emulator.project.indexes
    ports = dict(zip(indexes, free_ports(len(indexes)), strict=True))
    pairs = [word for name, port in ports.items() for word in ("--index-port", f"{port}={indexes[name].host}")]
    with command(
        *("serve", *LOCAL, "--upstream", emulator.url, "--backend", "pinecone", "--mode", mode, *pairs),
        environment={"VECSIEVE_PINECONE_PUBLIC_FORM": "port_authority", **environment},
    ) as running:
        url = running.addresses(2)["serve"]
        places[url] = [f"127.0.0.1:{port}" for port in ports.values()]
        yield url


def judged(client: Client, standing: Standing) -> Verdict:
    """One client's verdict; a program that ends badly is a fault like any other."""
    setting = standing.settings[client.by]
    try:
        direct = _outcome(client, setting.direct, standing.plan)
        problems = (
            [] if client.companion is None else _compared(client.companion, direct, setting.direct, standing.plan)
        )
        problems += _proxied(client, direct, setting.proxied, standing.plan)
    except ScenarioFailedError as failed:
        return Verdict(client.name, 0, (str(failed),))
    well = (
        "as directly; distinct and full" if client.companion is None else "as directly and over REST; distinct and full"
    )
    return Verdict(client.name, _answered(direct), tuple(problems), well)


def _outcome(client: Client, control: str, plan: Path) -> dict[str, Any]:
    content = json.loads(client.messages(control, plan))
    assert isinstance(content, dict)
    return content


def _compared(rest: Client, over_grpc: dict[str, Any], control: str, plan: Path) -> list[str]:
    over_rest = _outcome(rest, control, plan)
    return [f"{name}: not what it is over REST" for name in transported(over_rest, over_grpc)]


def _proxied(client: Client, direct: dict[str, Any], urls: Mapping[str, str], plan: Path) -> list[str]:
    _outcome(client, urls["on"], plan)
    by_mode = {mode: _outcome(client, url, plan) for mode, url in urls.items()}
    plain = _placeless(direct)
    problems = [
        f"{mode}: {name}" for mode in ("off", "shadow") for name in differences(plain, _placeless(by_mode[mode]))
    ]
    problems += [f"on: {fault}" for fault in faults(plain, _placeless(by_mode["on"]))]
    return problems + [
        f"{mode}: {name}: false"
        for mode, answers in by_mode.items()
        for name in answers
        if name.endswith("leads here") and not answers[name]
    ]


def _answered(direct: dict[str, Any]) -> int:
    return sum(not (isinstance(answer, dict) and "error" in answer) for answer in direct.values())


def _placeless(answers: dict[str, Any]) -> dict[str, Any]:
    """Without what must differ: which listener the control plane's answers lead to."""
    return {name: answer for name, answer in answers.items() if not name.endswith("leads here")}


def clients(folder: Path, names: set[str]) -> list[Client]:
    """Every client, or those of the wanted environments (`py8`, `ts2`), installed."""
    made = [python(folder, major) for major in PYTHON if not names or f"py{major}" in names]
    made += [typescript(folder, major) for major in TYPESCRIPT if not names or f"ts{major}" in names]
    return [client for group in made for client in group]


def table(verdicts: list[Verdict]) -> Table:
    """One line a client."""
    summary = Table(
        "client", "calls answered", "verdict", title="Pinecone clients through VecSieve, against the emulator"
    )
    for verdict in verdicts:
        first = [
            *verdict.faults[:SHOW_AT_MOST],
            *([f"… {len(verdict.faults)} in all"] if verdict.faults[SHOW_AT_MOST:] else []),
        ]
        summary.add_row(verdict.client, str(verdict.calls), "\n".join(first) or verdict.well)
    return summary


def main() -> int:
    """Run; 1 when any client saw what it must not."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("only", nargs="*", help="environments such as py8 or ts2; all of them without any")
    parser.add_argument("--folder", type=Path, default=ROOT / ".clients", help="where the environments are kept")
    given = parser.parse_args()
    installed = clients(given.folder.resolve(), set(given.only))
    with standing() as everything:
        verdicts = [judged(client, everything) for client in installed]
    Console().print(table(verdicts))
    return int(any(verdict.faults for verdict in verdicts) or not verdicts)
