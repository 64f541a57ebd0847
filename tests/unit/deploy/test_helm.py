"""The Helm chart: rendered by real helm, it is the service overlay; a sidecar's container fits an application's chart."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from unit.deploy.kubernetes.test_manifests import CUSTOM, faults, versions

from deploy.kubernetes.__main__ import COPIED
from support.deploy.kustomize import Object
from support.deploy.manifests import MADE, ours
from support.deploy.prometheus_tools import ALERTS, RECORDING, rules_of
from support.sources import ROOT
from vecsieve.config.load import load
from vecsieve.config.schema import Settings
from vecsieve.proxy.server import FIXED

CHART = ROOT / "deploy/helm"
HELM = os.environ.get("HELM") or shutil.which("helm")
EVERYTHING = tuple(f"--set={name}.enabled=true" for name in ("podMonitor", "prometheusRule", "dashboards"))

needs_helm = pytest.mark.skipif(
    HELM is None, reason="helm is not installed: `go install helm.sh/helm/v3/cmd/helm@latest`; HELM names it elsewhere"
)


def helm(*arguments: str) -> subprocess.CompletedProcess[str]:
    assert HELM is not None
    return subprocess.run([HELM, *arguments], capture_output=True, text=True, check=False, timeout=120)


@cache
def rendered(*arguments: str, chart: Path = CHART) -> list[Object]:
    done = helm("template", "vecsieve", str(chart), "--namespace", "here", "--kube-version", "1.29", *arguments)
    assert done.returncode == 0, done.stderr
    return [manifest for manifest in yaml.safe_load_all(done.stdout) if manifest]


def only(objects: list[Object], kind: str) -> Object:
    (result,) = [manifest for manifest in objects if manifest["kind"] == kind]
    return result


def without_labels(value: Any) -> Any:
    """The same without the labels that helm's objects have in addition."""
    if isinstance(value, dict):
        return {key: without_labels(item) for key, item in value.items() if not _is_helms(key)}
    return [without_labels(item) for item in value] if isinstance(value, list) else value


def _is_helms(key: object) -> bool:
    return key == "helm.sh/chart" or (str(key).startswith("app.kubernetes.io/") and key != "app.kubernetes.io/name")


@needs_helm
def test_helm_lints_it_strictly() -> None:
    done = helm("lint", "--strict", str(CHART), *EVERYTHING)
    assert done.returncode == 0, done.stdout + done.stderr


@needs_helm
@pytest.mark.parametrize("placement", ["service", "sidecar"])
def test_every_object_is_valid_on_every_version(placement: str) -> None:
    objects = rendered(f"--set=placement={placement}", *EVERYTHING)
    for version in versions(29):
        assert faults(objects, version) == []


@needs_helm
@pytest.mark.parametrize(
    "kind", ["Deployment", "Service", "PodDisruptionBudget", "HorizontalPodAutoscaler", "NetworkPolicy"]
)
def test_with_its_defaults_it_is_the_service_overlay(kind: str) -> None:
    chart, overlay = only(rendered(), kind), only(MADE["service"], kind)
    ours_alone = {"imagePullPolicy"}
    spec = without_labels(chart["spec"])
    if kind == "Deployment":
        assert set(spec["template"]["metadata"].pop("annotations")) == {"checksum/settings"}
        (container,) = spec["template"]["spec"]["containers"]
        spec["template"]["spec"]["containers"] = [
            {key: value for key, value in container.items() if key not in ours_alone}
        ]
    assert spec == overlay["spec"]


@needs_helm
def test_its_settings_are_those_of_the_overlay_and_are_accepted(tmp_path: Path) -> None:
    text = only(rendered(), "ConfigMap")["data"]["settings.yaml"]
    assert yaml.safe_load(text) == yaml.safe_load(only(MADE["service"], "ConfigMap")["data"]["settings.yaml"])
    file = tmp_path / "settings.yaml"
    file.write_text(text)
    assert load(file=file, environment={}, flags={}).mode == "shadow"


def test_pods_are_replaced_for_every_setting_that_is_not_read_again() -> None:
    """`helm upgrade --set settings.mode=on` needs no restart; a change of `limits` does."""
    template = (CHART / "templates/service.yaml").read_text(encoding="utf-8")
    (omitted,) = re.findall(r"omit \.Values\.settings ([^|]+) \| toJson", template)
    names = set(re.findall(r'"(\w+)"', omitted))
    assert names == Settings.model_fields.keys() - {name.partition(".")[0] for name in FIXED}


@needs_helm
def test_a_changed_mode_keeps_the_pods_and_a_changed_limit_replaces_them() -> None:
    def checksum(*arguments: str) -> object:
        return only(rendered(*arguments), "Deployment")["spec"]["template"]["metadata"]["annotations"][
            "checksum/settings"
        ]

    assert checksum("--set=settings.mode=on") == checksum()
    assert checksum("--set=settings.limits.in_flight=7") != checksum()


@needs_helm
def test_rules_and_dashboards_are_the_files_themselves() -> None:
    objects = rendered(*EVERYTHING)
    groups = only(objects, "PrometheusRule")["spec"]["groups"]
    assert [rule for group in groups for rule in group["rules"]] == [*rules_of(RECORDING), *rules_of(ALERTS)]
    boards = {
        name: text for manifest in objects if manifest["kind"] == "ConfigMap" for name, text in manifest["data"].items()
    }
    for path in (ROOT / "deploy/grafana").glob("*.json"):
        assert json.loads(boards[path.name]) == json.loads(path.read_text(encoding="utf-8"))
    for kind in CUSTOM:
        assert only(objects, kind)["metadata"]["labels"]["release"] == "kube-prometheus-stack"


APPLICATION = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: application}
spec:
  selector:
    matchLabels: {app: application}
  template:
    metadata:
      labels:
        app: application
        {{- include "vecsieve.podLabels" .Subcharts.vecsieve | nindent 8 }}
    spec:
      initContainers:
        -
          {{- include "vecsieve.sidecar" .Subcharts.vecsieve | nindent 10 }}
      containers:
        - {name: application, image: "application:1"}
      volumes:
        {{- include "vecsieve.volumes" .Subcharts.vecsieve | nindent 8 }}
"""


@pytest.fixture(scope="module")
def application(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A chart of an application that has this one as a dependency."""
    chart = tmp_path_factory.mktemp("application")
    (chart / "templates").mkdir()
    shutil.copytree(CHART, chart / "charts/vecsieve")
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    dependency = {"name": "vecsieve", "version": version}
    metadata = {"apiVersion": "v2", "name": "application", "version": "1.0.0", "dependencies": [dependency]}
    (chart / "Chart.yaml").write_text(yaml.safe_dump(metadata))
    (chart / "values.yaml").write_text("vecsieve: {placement: sidecar, podMonitor: {enabled: true}}\n")
    (chart / "templates/deployment.yaml").write_text(APPLICATION)
    return chart


@needs_helm
def test_a_sidecar_in_the_chart_of_an_application_is_that_of_the_overlay(application: Path) -> None:
    objects = rendered(chart=application)
    assert {manifest["kind"] for manifest in objects} == {"ConfigMap", "Deployment", "PodMonitor"}
    pod = only(objects, "Deployment")["spec"]["template"]
    (container,) = pod["spec"]["initContainers"]
    container = {key: value for key, value in container.items() if key != "imagePullPolicy"}
    assert container == ours("sidecar")
    assert {"name": "vecsieve-settings", "configMap": {"name": only(objects, "ConfigMap")["metadata"]["name"]}} in pod[
        "spec"
    ]["volumes"]
    labels = only(objects, "PodMonitor")["spec"]["selector"]["matchLabels"]
    assert labels.items() <= pod["metadata"]["labels"].items()
    for version in versions(29):
        assert faults(objects, version) == []


@needs_helm
def test_what_may_be_set_reaches_the_objects() -> None:
    objects = rendered(
        "--set=autoscaling.enabled=false,replicas=2,networkPolicy.enabled=false,tlsSecret=pair",
        f"--set=image.digest=sha256:{'a' * 64},image.repository=registry/vecsieve,podLabels.team=search",
        "--set=settings.grpc=null,settings.backend=pinecone,settings.upstream.url=https://api.pinecone.io",
    )
    assert not {"NetworkPolicy", "HorizontalPodAutoscaler"} & {manifest["kind"] for manifest in objects}
    deployment = only(objects, "Deployment")["spec"]
    (container,) = deployment["template"]["spec"]["containers"]
    assert (deployment["replicas"], container["image"]) == (2, f"registry/vecsieve@sha256:{'a' * 64}")
    assert deployment["template"]["metadata"]["labels"]["team"] == "search"
    assert {"name": "vecsieve-tls", "secret": {"secretName": "pair"}} in deployment["template"]["spec"]["volumes"]
    environment = {variable["name"]: variable["value"] for variable in container["env"]}
    assert environment["VECSIEVE_TLS_KEY"] == "/etc/vecsieve-tls/tls.key"
    settings = yaml.safe_load(only(objects, "ConfigMap")["data"]["settings.yaml"])
    assert (settings["backend"], "grpc" in settings) == ("pinecone", False)
    for version in versions(29):
        assert faults(objects, version) == []


@needs_helm
@pytest.mark.parametrize("placement", ["service", "sidecar"])
def test_the_api_is_off_by_default(placement: str) -> None:
    objects = [manifest for manifest in rendered(f"--set=placement={placement}") if manifest["kind"] != "ConfigMap"]
    assert "9466" not in json.dumps(objects)


@needs_helm
def test_a_secret_with_its_token_opens_the_api() -> None:
    objects = rendered("--set=apiTokenSecret=bearer")
    pod = only(objects, "Deployment")["spec"]["template"]["spec"]
    environment = {variable["name"]: variable["value"] for variable in pod["containers"][0]["env"]}
    assert environment["VECSIEVE_API_LISTEN"] == "0.0.0.0:9466"
    assert environment["VECSIEVE_API_TOKEN_FILE"] == "/etc/vecsieve-api/token"
    assert {"name": "vecsieve-api", "secret": {"secretName": "bearer"}} in pod["volumes"]
    assert 9466 in [port["port"] for port in only(objects, "Service")["spec"]["ports"]]
    clients = only(objects, "NetworkPolicy")["spec"]["ingress"][0]["ports"]
    assert "vecsieve-api" in [client["port"] for client in clients]
    for version in versions(29):
        assert faults(objects, version) == []


@needs_helm
@pytest.mark.parametrize("placement", ["service", "sidecar"])
def test_the_webhooks_secret_is_no_part_of_the_settings_by_default(placement: str) -> None:
    assert "webhook" not in json.dumps(rendered(f"--set=placement={placement}"))


@needs_helm
def test_a_secret_signs_what_is_sent_to_the_webhook(tmp_path: Path) -> None:
    objects = rendered("--set=webhookSecret=hook,settings.webhook.url=https://hook.example/vecsieve")
    pod = only(objects, "Deployment")["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    environment = {variable["name"]: variable["value"] for variable in container["env"]}
    assert environment["VECSIEVE_WEBHOOK_SECRET_FILE"] == "/etc/vecsieve-webhook/secret"
    assert {"name": "vecsieve-webhook", "secret": {"secretName": "hook"}} in pod["volumes"]
    mount = {"name": "vecsieve-webhook", "mountPath": "/etc/vecsieve-webhook", "readOnly": True}
    assert mount in container["volumeMounts"]
    file = tmp_path / "settings.yaml"
    file.write_text(only(objects, "ConfigMap")["data"]["settings.yaml"])
    (tmp_path / "secret").write_text("a secret of a good length")
    expected = {"VECSIEVE_WEBHOOK_SECRET_FILE": str(tmp_path / "secret")}
    assert load(file=file, environment=expected, flags={}).webhook.url == "https://hook.example/vecsieve"
    for version in versions(29):
        assert faults(objects, version) == []


def test_each_secret_of_the_values_is_mounted_where_its_variable_looks() -> None:
    """Without helm: of each value `…Secret` the template has a variable, a mount and a volume."""
    template = (CHART / "templates/_helpers.tpl").read_text(encoding="utf-8")
    values = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
    properties = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))["properties"]
    secrets = [name for name in values if name.endswith("Secret")]
    assert secrets == ["tlsSecret", "apiTokenSecret", "webhookSecret"]
    for name, folder in zip(secrets, ("tls", "api", "webhook"), strict=True):
        assert properties[name] == {"type": "string"}
        assert template.count(f".root.Values.{name} }}}}") >= 2
        assert f"{{name: vecsieve-{folder}, mountPath: /etc/vecsieve-{folder}, readOnly: true}}" in template
        assert f"- name: vecsieve-{folder}\n  secret: {{secretName: {{{{ .Values.{name} }}}}}}" in template
        assert f'value: "/etc/vecsieve-{folder}/' in template


@needs_helm
@pytest.mark.parametrize(
    ("wrong", "named"),
    [("placment=sidecar", "placment"), ("placement=both", "placement"), ("image.digest=abc", "digest")],
)
def test_a_value_that_does_not_exist_is_refused_by_name(wrong: str, named: str) -> None:
    done = helm("template", "vecsieve", str(CHART), "--kube-version", "1.29", "--set", wrong)
    assert done.returncode != 0
    assert named in done.stderr


@needs_helm
def test_a_release_by_another_name_has_objects_that_find_each_other() -> None:
    done = helm("template", "search", str(CHART), "--kube-version", "1.29")
    objects = [manifest for manifest in yaml.safe_load_all(done.stdout) if manifest]
    labels = only(objects, "Deployment")["spec"]["template"]["metadata"]["labels"].items()
    assert only(objects, "Deployment")["metadata"]["name"] == "search-vecsieve"
    assert only(objects, "Service")["spec"]["selector"].items() <= labels
    assert only(objects, "HorizontalPodAutoscaler")["spec"]["scaleTargetRef"]["name"] == "search-vecsieve"
    volumes = only(objects, "Deployment")["spec"]["template"]["spec"]["volumes"]
    assert {"name": only(objects, "ConfigMap")["metadata"]["name"]} in [volume.get("configMap") for volume in volumes]


def test_the_versions_are_those_of_the_project() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert {chart["version"], chart["appVersion"]} == {project["version"]}
    assert chart["description"] == project["description"]


def test_the_charts_rules_and_dashboards_are_copies_and_no_links() -> None:
    """`python -m deploy.kubernetes` makes them."""
    files = {path.name: path for path in (CHART / "files").iterdir()}
    assert set(files) == {path.name for path in COPIED}
    assert {"recording.yaml", "alerts.yaml", "vecsieve-overview.json", "vecsieve-quality.json"} == set(files)
    for source in COPIED:
        assert not files[source.name].is_symlink()
        assert files[source.name].read_bytes() == source.read_bytes(), source.name
