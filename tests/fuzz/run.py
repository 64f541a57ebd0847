"""Runs targets one after another, each in a process of its own, and prints what they executed, learnt and found."""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from fuzz.target import NAMES

FINDINGS = Path(".fuzz-findings")
RSS_MIB = 256
# By the clock, for what hangs without computing; what computes for over a second fails by itself.
HANG_SECONDS = 20
LONGEST_INPUT = 16_384
STATUS = re.compile(r"#(\d+)\s+(INITED|DONE|NEW|REDUCE|pulse)\s+cov: (\d+) ft: (\d+) corp: (\d+)/(\S+)")
PEAK = re.compile(r"stat::peak_rss_mb:\s+(\d+)")
MISSING = "atheris is not installed: `make fuzz` installs it beside the others (Linux, CPython 3.11 to 3.13)"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one target came to. ``covered``, ``kept``: at the start and at the end, edges and inputs worth keeping."""

    name: str
    executions: int
    covered: tuple[int, int]
    kept: tuple[int, int]
    peak_mib: int
    finding: str

    def row(self) -> str:
        """One line of the table."""
        covered, kept = (f"{first} → {last}" for first, last in (self.covered, self.kept))
        return f"{self.name:10} {self.executions:>10} {covered:>15} {kept:>13} {self.peak_mib:>8}  {self.finding or 'none'}"


def outcome(name: str, output: str, code: int) -> Outcome:
    """Read libFuzzer's own words. ``code``: how its process ended, zero when it found nothing."""
    statuses = [(int(match[1]), int(match[3]), int(match[5])) for match in STATUS.finditer(output)]
    peak = PEAK.search(output)
    finding = "" if code == 0 else _last_words(output)
    if not statuses:
        return Outcome(name, 0, (0, 0), (0, 0), 0, finding or "it never began")
    (_, first, few), (executions, last, many) = statuses[0], statuses[-1]
    return Outcome(name, executions, (first, last), (few, many), int(peak[1]) if peak else 0, finding)


def _last_words(output: str) -> str:
    lines = [line.strip() for line in output.splitlines()]
    raised = [line for line in lines if re.match(r"[\w.]*(Error|Exception|Interrupt)\b", line)]
    summary = [line for line in lines if line.startswith(("SUMMARY", "Test unit written"))]
    return " | ".join([*raised[:1], *summary[-1:]]) or (lines[-1] if lines else "nothing was said")


def fuzzed(name: str, seconds: int) -> Outcome:
    """Fuzz one target for so long. An input that fails is kept in FOUND."""
    folder = Path(tempfile.mkdtemp(prefix=f"fuzz-{name}-"))
    kept = FINDINGS / name
    options = [
        *(f"-max_total_time={seconds}", f"-timeout={HANG_SECONDS}", f"-rss_limit_mb={RSS_MIB}", "-print_final_stats=1"),
        *(f"-max_len={LONGEST_INPUT}", f"-artifact_prefix={folder}/"),
    ]  # fmt: skip
    command = [sys.executable, "-m", "fuzz.child", name, str(folder), *options]
    paths = os.pathsep.join(sys.path)
    try:
        done = subprocess.run(
            command,
            env={**os.environ, "PYTHONPATH": paths},
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
        for artifact in folder.glob("*-*"):
            kept.mkdir(parents=True, exist_ok=True)
            shutil.copy(artifact, kept)
        return outcome(name, done.stdout + done.stderr, done.returncode)
    finally:
        shutil.rmtree(folder)


def main() -> int:
    """The command line. Returns 1 when a target found something, 2 when there is nothing to fuzz with."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("target", nargs="*", help=f"which to run, of {', '.join(NAMES)}; all without one")
    parser.add_argument("--seconds", type=int, default=60, help="how long each runs")
    arguments = parser.parse_args()
    if unknown := set(arguments.target) - set(NAMES):
        parser.error(f"no target {', '.join(sorted(unknown))}; there are {', '.join(NAMES)}")
    if find_spec("atheris") is None:
        print(MISSING, file=sys.stderr)
        return 2
    print(f"{'target':10} {'executions':>10} {'edges':>15} {'corpus':>13} {'RSS, MiB':>8}  finding", flush=True)
    outcomes = []
    for name in arguments.target or NAMES:
        outcomes.append(fuzzed(name, arguments.seconds))
        print(outcomes[-1].row(), flush=True)
    return int(any(target.finding for target in outcomes))
