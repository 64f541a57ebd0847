"""`python -m deploy.kubernetes` from the repository root writes the rules as the Prometheus operator reads them.

Made of deploy/prometheus, so that a rule has one source; a test compares. Dashboards need no such copy: kustomize packs
deploy/grafana's own files.
"""

from __future__ import annotations

from pathlib import Path

import yaml

HERE = Path(__file__).resolve().parent
MADE = HERE / "monitoring/prometheus-rule.yaml"
LABELS = {"app.kubernetes.io/name": "vecsieve", "release": "kube-prometheus-stack"}  # as the PodMonitor has them
RULES = HERE.parent / "prometheus"


def made() -> str:
    """Recording rules and alerts, group by group, as one PrometheusRule."""
    files = (RULES / "recording.yaml", RULES / "alerts.yaml")
    groups = [group for file in files for group in yaml.safe_load(file.read_text(encoding="utf-8"))["groups"]]
    rule = {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": {"name": "vecsieve", "labels": LABELS},
        "spec": {"groups": groups},
    }
    # No line is folded: an expression that is one line for Prometheus stays one for the reader.
    text = yaml.safe_dump(rule, sort_keys=False, allow_unicode=True, width=10_000)
    return f"# Made by `python -m deploy.kubernetes` of deploy/prometheus; a test compares.\n{text}"


if __name__ == "__main__":
    MADE.write_text(made(), encoding="utf-8")
