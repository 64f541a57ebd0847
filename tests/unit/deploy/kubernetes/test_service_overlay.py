"""The service overlay: every object finds the replicas, the ports and the database that the others mean."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.deploy.kustomize import Object
from support.deploy.manifests import only, ours, pod, settings_of

SELECTORS: dict[str, Callable[[Object], Any]] = {
    "Deployment": lambda spec: spec["selector"]["matchLabels"],
    "Service": lambda spec: spec["selector"],
    "PodDisruptionBudget": lambda spec: spec["selector"]["matchLabels"],
    "NetworkPolicy": lambda spec: spec["podSelector"]["matchLabels"],
}


@pytest.mark.parametrize("kind", SELECTORS)
def test_every_selector_finds_the_replicas(kind: str) -> None:
    labels = only("service", "Deployment")["spec"]["template"]["metadata"]["labels"]
    selector = SELECTORS[kind](only("service", kind)["spec"])
    assert selector
    assert selector.items() <= labels.items()
    assert all(
        constraint["labelSelector"]["matchLabels"].items() <= labels.items()
        for constraint in pod("service")["topologySpreadConstraints"]
    )


def test_the_service_and_the_policy_name_ports_of_the_container() -> None:
    named = {port["name"] for port in ours("service")["ports"]}
    assert {port["targetPort"] for port in only("service", "Service")["spec"]["ports"]} < named
    policy = only("service", "NetworkPolicy")["spec"]
    assert {port["port"] for way in policy["ingress"] for port in way["ports"]} == named


def test_the_policy_lets_out_to_the_database_of_the_settings(tmp_path: Path) -> None:
    settings = settings_of("service", tmp_path)
    urls = (settings.upstream.url, str(settings.grpc.upstream))
    ports = {port["port"] for way in only("service", "NetworkPolicy")["spec"]["egress"] for port in way["ports"]}
    assert ports == {53, *(int(url.rpartition(":")[2]) for url in urls)}


def test_the_autoscaler_decides_how_many_and_a_rollout_takes_none_away() -> None:
    deployment, scaler = only("service", "Deployment"), only("service", "HorizontalPodAutoscaler")["spec"]
    assert "replicas" not in deployment["spec"]
    assert scaler["scaleTargetRef"]["name"] == deployment["metadata"]["name"]
    (metric,) = scaler["metrics"]
    assert metric["containerResource"]["container"] == ours("service")["name"]
    assert scaler["minReplicas"] >= 3
    assert deployment["spec"]["strategy"]["rollingUpdate"] == {"maxUnavailable": 0, "maxSurge": 1}
