"""A real Prometheus server for a test: scrapes one target twice a second and evaluates our rules with short windows."""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import yaml

from support.deploy.prometheus_tools import ALERTS, RECORDING
from support.network.ports import free_ports
from support.process.stack import exchange

WINDOW = "6s"  # twelve scrapes; stands for every range and for $__rate_interval
HOLD = "1s"  # stands for every `for`
START_SECONDS = 20.0  # a cold start on a busy machine


@dataclass(frozen=True, slots=True)
class Prometheus:
    """A running server."""

    url: str

    def ask(self, expression: str) -> list[tuple[dict[str, str], float]]:
        """Labels and value of everything that an instant query finds. Fails the test when the query is refused."""
        answer = exchange(self.url, "GET", f"/api/v1/query?query={quote(expression, safe='')}")
        loaded = json.loads(answer.body)
        assert loaded["status"] == "success", f"{expression}: {loaded}"
        return [(series["metric"], float(series["value"][1])) for series in loaded["data"]["result"]]

    def traces(self, metric: str) -> set[str]:
        """The traces that a histogram's buckets lead to."""
        query = f"/api/v1/query_exemplars?query={metric}_bucket&start={time.time() - 60}&end={time.time()}"
        loaded = json.loads(exchange(self.url, "GET", query).body)
        assert loaded["status"] == "success", loaded
        return {exemplar["labels"]["trace_id"] for series in loaded["data"] for exemplar in series["exemplars"]}

    def firing(self) -> set[str]:
        """The alerts that fire now."""
        return {labels["alertname"] for labels, _ in self.ask('ALERTS{alertstate="firing"}')}


def hastened(rules: Path, target: Path) -> None:
    """Write the rules with every window and hold as short as a test can wait."""
    text = re.sub(r"\[\d+[smhd]\]", f"[{WINDOW}]", rules.read_text(encoding="utf-8"))
    target.write_text(re.sub(r"for: \d+[smhd]", f"for: {HOLD}", text), encoding="utf-8")


@contextmanager
def prometheus(directory: Path, target: str) -> Iterator[Prometheus]:
    """Run the server for the block. ``target``: host:port whose /metrics is scraped as job `proxy`."""
    for rules in (RECORDING, ALERTS):
        hastened(rules, directory / rules.name)
    configuration = {
        "global": {"scrape_interval": "500ms", "scrape_timeout": "500ms", "evaluation_interval": "500ms"},
        "rule_files": [RECORDING.name, ALERTS.name],
        "scrape_configs": [{"job_name": "proxy", "static_configs": [{"targets": [target]}]}],
    }
    (directory / "prometheus.yml").write_text(yaml.safe_dump(configuration), encoding="utf-8")
    (port,) = free_ports(1)
    with (directory / "prometheus.log").open("wb") as log:
        server = subprocess.Popen(
            [
                "prometheus",
                f"--config.file={directory / 'prometheus.yml'}",
                f"--storage.tsdb.path={directory / 'data'}",
                "--enable-feature=exemplar-storage",
                f"--web.listen-address=127.0.0.1:{port}",
                # Debian's defaults name directories of a package that is perhaps only unpacked.
                f"--web.console.templates={directory}",
                f"--web.console.libraries={directory}",
            ],
            stdout=log,
            stderr=log,
        )
    try:
        _wait(server, f"http://127.0.0.1:{port}", directory / "prometheus.log")
        yield Prometheus(f"http://127.0.0.1:{port}")
    finally:
        server.terminate()
        server.wait(timeout=10)


def _wait(server: subprocess.Popen[bytes], url: str, log: Path) -> None:
    until = time.monotonic() + START_SECONDS
    while time.monotonic() < until and server.poll() is None:
        try:
            if exchange(url, "GET", "/-/ready").status == 200:
                return
        except OSError:
            pass
        time.sleep(0.05)
    raise AssertionError("prometheus did not start: " + log.read_text(encoding="utf-8", errors="replace")[-2000:])
