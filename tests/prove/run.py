"""Runs the sections one after another, writes the report, and fails when a criterion is unmet."""

from __future__ import annotations

import argparse
import asyncio
import subprocess
import sys
import time
from pathlib import Path

from bench.machine import machine

from prove import faults, grace, load, writes
from prove.finding import QUICK, WHOLE, Finding, Scale
from prove.report import report

ROOT = Path(__file__).resolve().parent.parent.parent
SECTIONS = {"F": faults.prove, "W": writes.prove, "L": load.prove, "G": grace.prove}


async def proved(scale: Scale) -> list[Finding]:
    """The findings of all sections. A section that breaks stops the run: half a report is none."""
    found: list[Finding] = []
    for name, prove in SECTIONS.items():
        begun = time.monotonic()
        found += await prove(scale)
        print(f"{name}: {time.monotonic() - begun:.0f} s", file=sys.stderr, flush=True)
    return found


def commit() -> str:
    """The commit that is proved, short; with a word when the tree differs from it."""
    said = subprocess.run(
        ["git", "describe", "--always", "--dirty= and changes"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return said.stdout.strip()


def main() -> int:
    """The command line. Returns 1 when a criterion is unmet."""
    parser = argparse.ArgumentParser(prog="python -m tests.prove", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="at most three minutes instead of thirty")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "proof.md")
    asked = parser.parse_args()
    shape, begun = machine(), time.monotonic()
    found = asyncio.run(proved(QUICK if asked.quick else WHOLE))
    kind = "quick" if asked.quick else "whole"
    page = report(found, kind=kind, commit=commit(), machine=shape, seconds=time.monotonic() - begun)
    asked.out.write_text(page, encoding="utf-8")
    print(page)
    return int(any(finding.met is False for finding in found))
