"""`python -m deploy.kubernetes` from the repository root writes the rules in the form of the Prometheus operator, and copies rules and
dashboards into the Helm chart.

Rules and dashboards have one source, deploy/prometheus and deploy/grafana; tests compare. Kustomize packs those files itself; helm reads no
files outside its chart, and links do not survive every copy of a repository.
"""

from __future__ import annotations

from pathlib import Path

import yaml

HERE = Path(__file__).resolve().parent
MADE = HERE / "monitoring/prometheus-rule.yaml"
LABELS = {"app.kubernetes.io/name": "vecsieve", "release": "kube-prometheus-stack"}  # as in the PodMonitor
RULES = HERE.parent / "prometheus"
CHART = HERE.parent / "helm/files"
COPIED = (*sorted(RULES.glob("*.yaml")), *sorted((HERE.parent / "grafana").glob("vecsieve-*.json")))


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
    # Lines are not folded, so that an expression of one line stays readable.
    text = yaml.safe_dump(rule, sort_keys=False, allow_unicode=True, width=10_000)
    return f"# Made by `python -m deploy.kubernetes` of deploy/prometheus; a test compares.\n{text}"


if __name__ == "__main__":
    MADE.write_text(made(), encoding="utf-8")
    for file in COPIED:
        (CHART / file.name).write_bytes(file.read_bytes())
