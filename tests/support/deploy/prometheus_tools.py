"""Prometheus's own programs, where the machine has them: promtool to judge rules, the server to run them.

Debian's package need not be installed: `apt-get download prometheus`, `dpkg -x`, and its `usr/bin` on PATH will do.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[3]
RULES = ROOT / "deploy/prometheus"
RECORDING = RULES / "recording.yaml"
ALERTS = RULES / "alerts.yaml"

needs_promtool = pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
needs_prometheus = pytest.mark.skipif(shutil.which("prometheus") is None, reason="prometheus is not installed")


def promtool(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run promtool; what it says is in both of its streams."""
    return subprocess.run(["promtool", *map(str, arguments)], capture_output=True, text=True, check=False, timeout=60)


def rules_of(path: Path) -> list[dict[str, object]]:
    """Every rule of a file, in order."""
    loaded = yaml.safe_load(path.read_text(encoding="utf-8"))
    return [rule for group in loaded["groups"] for rule in group["rules"]]
