"""Runs sections one after another, writes the report, and fails when a criterion is unmet."""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path

from bench.machine import machine

from prove import (
    answer_faults,
    costly_bodies,
    engine_searches,
    faults,
    first_look,
    grace,
    grpc_answers,
    grpc_farewell,
    grpc_faults,
    grpc_grace,
    grpc_inflated,
    grpc_load,
    grpc_soak,
    grpc_writes,
    hostile_host,
    inner_faults,
    instances,
    load,
    memory_soak,
    metrics,
    quotas,
    restarts,
    search_cost,
    security_canaries,
    security_floods,
    security_memory,
    security_peers,
    security_ports,
    security_smuggling,
    security_targets,
    security_tenants,
    security_texts,
    sequences,
    soak,
    time_limits,
    transparency,
    uploads,
    writes,
    yardstick,
)
from prove.finding import QUICK, WHOLE, Finding, Scale, Section
from prove.report import report

ROOT = Path(__file__).resolve().parent.parent.parent
REPORT = ROOT / "build" / "proof.md"  # generated, so not committed: docs/reliability.md has the figures that matter
Prove = Callable[[Scale], Awaitable[list[Finding]]]
# The first line of a function's module is its section's title.
SECTIONS: dict[str, Prove] = {
    "soak": soak.prove,
    "soak-memory": memory_soak.prove,
    "T": transparency.prove,
    "T-engine": engine_searches.prove,
    "F": faults.prove,
    "F-answers": answer_faults.prove,
    "F-inside": inner_faults.prove,
    "W": writes.prove,
    "W-uploads": uploads.prove,
    "W-restarts": restarts.prove,
    "L": load.prove,
    "L-search": search_cost.prove,
    "L-yardstick": yardstick.prove,
    "S-smuggling": security_smuggling.prove,
    "S-canaries": security_canaries.prove,
    "S-targets": security_targets.prove,
    "S-floods": security_floods.prove,
    "S-peers": security_peers.prove,
    "S-memory": security_memory.prove,
    "S-inflated": grpc_inflated.prove,
    "S-tenants": security_tenants.prove,
    "S-texts": security_texts.prove,
    "S-ports": security_ports.prove,
    "C": costly_bodies.prove,
    "S-sequences": sequences.prove,
    "Q": quotas.prove,
    "Q-metrics": metrics.prove,
    "Q-patience": time_limits.prove,
    "G": grace.prove,
    "G-instances": instances.prove,
    "G-host": hostile_host.prove,
    "F-grpc": grpc_faults.prove,
    "F-grpc-answers": grpc_answers.prove,
    "W-grpc": grpc_writes.prove,
    "L-grpc": grpc_load.prove,
    "G-grpc": grpc_grace.prove,
    "G-grpc-farewell": grpc_farewell.prove,
    "soak-grpc": grpc_soak.prove,
    "K": first_look.prove,
}

SHARED_FOLDER = frozenset({"soak"})  # in a thread with a loop of its own
# What may run while that does, first of all.
UNTIMED = frozenset(
    {
        "T",
        "T-engine",
        "F",
        "F-answers",
        "F-inside",
        "W",
        "W-uploads",
        "W-restarts",
        "S-smuggling",
        "S-canaries",
        "S-targets",
        "S-ports",
        "S-sequences",
    }
    | {"F-grpc", "F-grpc-answers", "W-grpc"}
)


def chosen(names: Sequence[str], sections: Mapping[str, Prove] = SECTIONS) -> dict[str, Prove]:
    """The sections whose name begins with one of ``names``, all when there are none. Raises ValueError for a name of none."""
    lower = [name.lower() for name in names]
    for name in lower:
        if not any(key.lower().startswith(name) for key in sections):
            raise ValueError(f"no section {name!r}; there are {', '.join(sections)}")
    return {key: prove for key, prove in sections.items() if not lower or key.lower().startswith(tuple(lower))}


async def proved(scale: Scale, sections: Mapping[str, Prove]) -> list[Section]:
    """What each found. What runs beside others is begun first, and has ended before any section that takes times."""
    background = {
        name: asyncio.create_task(asyncio.to_thread(asyncio.run, ran(name, prove, scale)))
        for name, prove in sections.items()
        if name in SHARED_FOLDER
    }
    done = {}
    for name in sorted(
        set(sections) - SHARED_FOLDER, key=lambda section: (section not in UNTIMED, list(sections).index(section))
    ):
        if name not in UNTIMED:
            await asyncio.gather(*background.values())
        done[name] = await ran(name, sections[name], scale)
    return [await background[name] if name in background else done[name] for name in sections]


async def ran(name: str, prove: Prove, scale: Scale) -> Section:
    """One section. One that breaks is itself a finding, unmet; the others go on."""
    gc.collect()
    gc.freeze()  # databases and clients run here: a collection of all that was imported stops them for 0.1 s
    begun, busy = time.monotonic(), os.getloadavg()[0]
    (findings,) = await asyncio.gather(prove(scale), return_exceptions=True)
    if isinstance(findings, BaseException):
        if not isinstance(findings, Exception):
            raise findings
        findings = [Finding(name, "the section", "runs to its end", repr(findings)[:500], met=False)]
    title = (sys.modules[prove.__module__].__doc__ or name).splitlines()[0]
    done = Section(title, findings, time.monotonic() - begun, busy)
    unmet = sum(finding.met is False for finding in findings)
    print(f"{name}: {done.seconds:.0f} s, {unmet} of {len(findings)} unmet", file=sys.stderr, flush=True)
    return done


def commit() -> str:
    """The commit that is proved, short; with a word when the tree differs from it."""
    output = subprocess.run(
        ["git", "describe", "--always", "--dirty= and changes"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return output.stdout.strip()


def main() -> int:
    """The command line. Returns 1 when a criterion is unmet. Only a run of all sections writes the report to REPORT."""
    parser = argparse.ArgumentParser(prog="python -m tests.prove", description=__doc__)
    parser.add_argument("section", nargs="*", help=f"which to run, by their names' beginnings: {', '.join(SECTIONS)}")
    parser.add_argument("--quick", action="store_true", help="shorter rounds")
    parser.add_argument("--out", type=Path, help="where the report goes; that of all sections goes to build/proof.md")
    options = parser.parse_args()
    try:
        sections = chosen(options.section)
    except ValueError as unknown:
        parser.error(str(unknown))
    shape, begun = machine(), time.monotonic()
    findings = asyncio.run(proved(QUICK if options.quick else WHOLE, sections))
    command = shlex.join(["python", "-m", "tests.prove", *(["--quick"] if options.quick else []), *options.section])
    page = report(findings, command=command, commit=commit(), machine=shape, seconds=time.monotonic() - begun)
    out = options.out or (None if options.section else REPORT)
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(page, encoding="utf-8")
    print(page)
    return int(any(finding.met is False for section in findings for finding in section.findings))
