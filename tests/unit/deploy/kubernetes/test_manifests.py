"""The manifests: valid on every version, restricted, alike where they should be, and in step with the program they run."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import pytest
import yaml

from support.deploy.kustomize import Object, build
from support.deploy.manifests import KUBERNETES, MADE, OVERLAYS, environment, only, ours, pod, settings_of
from vecsieve.config.load import load
from vecsieve.config.yaml_core import effective

ROOT = Path(__file__).resolve().parents[4]
# Native sidecars are on by default from 1.29; the legacy overlay is for what is older.
OLDEST = {"sidecar": 29, "legacy-sidecar": 25, "service": 29}
CUSTOM = {"PodMonitor", "PrometheusRule"}  # kinds of the Prometheus operator: no schema of Kubernetes knows them
DEFAULT_GRACE_SECONDS = 30

overlays = pytest.mark.parametrize("overlay", OVERLAYS)


def versions(oldest: int) -> list[str]:
    kubernetes_validate = pytest.importorskip("kubernetes_validate", reason="kubernetes-validate is not installed")
    newest = int(kubernetes_validate.latest_version().split(".")[1])
    assert newest >= 37
    return [f"1.{minor}" for minor in range(oldest, newest + 1)]


def faults(objects: list[Object], version: str) -> list[str]:
    """What the schemas of that version do not allow, such as members that they do not have."""
    import kubernetes_validate

    problems: list[str] = []
    for stored in objects:
        if stored["kind"] not in CUSTOM:
            try:
                kubernetes_validate.validate(stored, version, strict=True)
            except kubernetes_validate.ValidationError as error:
                problems.append(f"{stored['kind']}: {error.message}")
    return problems


@overlays
def test_every_object_is_valid_on_every_version(overlay: str) -> None:
    for version in versions(OLDEST[overlay]):
        assert faults(MADE[overlay], version) == []


def test_the_dashboards_config_maps_are_valid_and_hold_whole_dashboards() -> None:
    objects = build(KUBERNETES / "monitoring")
    for version in versions(29):
        assert faults(objects, version) == []
    boards = [manifest for manifest in objects if manifest["kind"] == "ConfigMap"]
    content = {name: text for board in boards for name, text in board["data"].items()}
    assert set(content) == {file.name for file in (ROOT / "deploy/grafana").glob("*.json")}
    assert all(json.loads(text)["uid"] == name.removesuffix(".json") for name, text in content.items())
    # `kubectl apply` keeps a copy in an annotation, and all annotations together may have 256 KiB.
    assert all(len(json.dumps(board)) < 200_000 for board in boards)


def test_a_misspelt_member_would_be_found() -> None:
    versions(29)
    broken = json.loads(json.dumps(only("sidecar", "Deployment")).replace("restartPolicy", "restartPolcy"))
    (fault,) = faults([broken], "1.29")
    assert "restartPolcy" in fault


@overlays
def test_the_settings_in_the_config_map_are_accepted(overlay: str, tmp_path: Path) -> None:
    settings = settings_of(overlay, tmp_path)
    assert (settings.mode, settings.backend) == ("shadow", "qdrant")
    assert settings.grpc.upstream == "http://qdrant:6334"
    ports = {port["name"]: port["containerPort"] for port in ours(overlay)["ports"]}
    assert ports == {
        "vecsieve": int(settings.listen.rpartition(":")[2]),
        "vecsieve-grpc": int(str(settings.grpc.listen).rpartition(":")[2]),
        "vecsieve-admin": int(settings.admin.rpartition(":")[2]),
    }


@overlays
def test_the_settings_are_where_the_environment_says_they_are(overlay: str) -> None:
    (mount,) = [mount for mount in ours(overlay)["volumeMounts"] if mount["name"] == "vecsieve-settings"]
    (volume,) = [volume for volume in pod(overlay)["volumes"] if volume["name"] == "vecsieve-settings"]
    name = only(overlay, "ConfigMap")["metadata"]["name"]
    assert (volume["configMap"], mount["readOnly"]) == ({"name": name}, True)
    assert environment(overlay)["VECSIEVE_CONFIG"] == f"{mount['mountPath']}/settings.yaml"


@overlays
def test_off_in_the_config_map_is_an_emergency_switch_that_no_header_beats(overlay: str, tmp_path: Path) -> None:
    text = only(overlay, "ConfigMap")["data"]["settings.yaml"]
    assert text.count("\nmode: shadow\n") == 1
    settings = settings_of(overlay, tmp_path, instead=text.replace("\nmode: shadow\n", "\nmode: off\n"))
    assert (settings.mode, settings.forbidden_overrides) == ("off", ("mode",))


@overlays
def test_the_pod_is_given_more_time_than_draining_takes(overlay: str, tmp_path: Path) -> None:
    limits = settings_of(overlay, tmp_path).limits
    grace = pod(overlay).get("terminationGracePeriodSeconds", DEFAULT_GRACE_SECONDS)
    assert limits.drain_accept_seconds + limits.drain_seconds + 5 <= grace


def test_a_sidecar_that_stops_last_waits_for_nobody_and_one_that_is_stopped_with_the_application_does(
    tmp_path: Path,
) -> None:
    accept = {overlay: settings_of(overlay, tmp_path).limits.drain_accept_seconds for overlay in OVERLAYS}
    assert accept == {"sidecar": 0, "legacy-sidecar": 20, "service": 10}


@overlays
def test_data_ports_are_open_only_where_others_connect_to_them(overlay: str, tmp_path: Path) -> None:
    settings = settings_of(overlay, tmp_path)
    expected = "0.0.0.0" if overlay == "service" else "127.0.0.1"
    assert {str(address).rpartition(":")[0] for address in (settings.listen, settings.grpc.listen)} == {expected}
    assert settings.admin.startswith("0.0.0.0:"), "the node asks the pod's address"


@overlays
def test_searches_are_kept_only_where_a_network_policy_closes_the_admin_port(overlay: str, tmp_path: Path) -> None:
    assert (settings_of(overlay, tmp_path).explain.keep == 50) == (overlay == "service")


@overlays
def test_our_container_is_restricted(overlay: str) -> None:
    assert ours(overlay)["securityContext"] == {
        "runAsNonRoot": True,
        "runAsUser": 65532,
        "runAsGroup": 65532,
        "readOnlyRootFilesystem": True,
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "seccompProfile": {"type": "RuntimeDefault"},
    }


@overlays
def test_the_whole_pod_passes_the_restricted_pod_security_standard(overlay: str) -> None:
    spec = pod(overlay)
    assert spec["securityContext"] == {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    assert not spec["automountServiceAccountToken"]
    assert not [name for name in spec if name.startswith("host")]
    assert {next(key for key in volume if key != "name") for volume in spec["volumes"]} == {"configMap", "emptyDir"}
    for container in [*spec["containers"], *spec.get("initContainers", [])]:
        context = container["securityContext"]
        assert (context["allowPrivilegeEscalation"], context["capabilities"]) == (False, {"drop": ["ALL"]})
        assert not [port for port in container.get("ports", []) if "hostPort" in port]


@overlays
def test_memory_is_limited_and_the_processor_is_not(overlay: str) -> None:
    resources = ours(overlay)["resources"]
    assert set(resources["requests"]) == {"cpu", "memory"}
    assert set(resources["limits"]) == {"memory"}


def differing(overlay: str) -> set[str]:
    other = ours("service")
    return {key for key in ours(overlay).keys() | other.keys() if ours(overlay).get(key) != other.get(key)}


def test_the_three_containers_are_one_but_for_what_their_places_demand() -> None:
    assert differing("sidecar") == {"env", "resources", "restartPolicy", "readinessProbe"}
    assert differing("legacy-sidecar") == {"env", "resources"}


def test_a_native_sidecar_starts_before_the_application_and_has_no_say_in_its_readiness() -> None:
    (container,) = pod("sidecar")["initContainers"]
    assert (container["name"], container["restartPolicy"]) == ("vecsieve", "Always")
    assert "startupProbe" in container
    assert "readinessProbe" not in container


@overlays
def test_probes_ask_pages_that_exist_on_the_admin_port(overlay: str) -> None:
    from vecsieve.proxy.admin.server import NO_SUCH_PAGE

    pages = NO_SUCH_PAGE.decode().split()
    probes = [probe["httpGet"] for name, probe in ours(overlay).items() if name.endswith("Probe")]
    assert {probe["port"] for probe in probes} == {"vecsieve-admin"}
    assert {probe["path"] for probe in probes} == {"/livez", "/readyz"} <= set(pages)


@overlays
def test_what_the_image_exposes_is_what_the_container_names(overlay: str) -> None:
    exposed = re.search(r"^EXPOSE (.*)$", (ROOT / "deploy/Dockerfile").read_text(), re.MULTILINE)
    assert exposed
    assert exposed[1].split() == [str(port["containerPort"]) for port in ours(overlay)["ports"]]


@overlays
def test_the_image_is_of_this_version(overlay: str) -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    assert ours(overlay)["image"] == f"vecsieve:{version}"


def test_the_pod_monitor_finds_every_pod_and_its_port() -> None:
    (monitor,) = [manifest for manifest in build(KUBERNETES / "monitoring") if manifest["kind"] == "PodMonitor"]
    (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
    labels = monitor["spec"]["selector"]["matchLabels"].items()
    for overlay in OVERLAYS:
        assert labels <= only(overlay, "Deployment")["spec"]["template"]["metadata"]["labels"].items()
        assert endpoint["port"] in {port["name"] for port in ours(overlay)["ports"]}


def test_monitor_and_rules_have_the_label_that_the_operators_prometheus_selects_by() -> None:
    made = [manifest for manifest in build(KUBERNETES / "monitoring") if manifest["kind"] in CUSTOM]
    assert {manifest["kind"] for manifest in made} == CUSTOM
    assert {manifest["metadata"]["labels"]["release"] for manifest in made} == {"kube-prometheus-stack"}


EXAMPLES = sorted((KUBERNETES / "examples").glob("*.yaml"))


@pytest.mark.parametrize("path", EXAMPLES, ids=[path.stem for path in EXAMPLES])
def test_an_example_of_egress_is_valid_and_lets_the_replicas_out_to_one_port(path: Path) -> None:
    example = yaml.safe_load(path.read_text(encoding="utf-8"))
    for version in versions(29):
        assert faults([example], version) == []
    pods = only("service", "Deployment")["spec"]["template"]["metadata"]["labels"]
    assert example["spec"]["podSelector"]["matchLabels"].items() <= pods.items()
    assert example["spec"]["policyTypes"] == ["Egress"]
    (way,) = example["spec"]["egress"]
    assert way["to"], "an empty list is everybody"
    assert [port["port"] for port in way["ports"]] == [443 if path.stem.endswith("pinecone") else 4318]


def test_the_effective_settings_of_the_base_can_be_printed() -> None:
    loaded = load(file=KUBERNETES / "base/settings.yaml", environment={}, flags={})
    assert yaml.safe_load(effective(loaded))["upstream"]["url"] == "http://qdrant:6333"


@pytest.mark.parametrize(
    ("controller", "workload"),
    [
        ("vecsieve-7d9f8c6b5", "vecsieve"),
        ("shop-search-5b8f9d7c64", "shop-search"),
        ("my-database", "my-database"),
        ("redis", "redis"),
    ],
)
def test_the_label_workload_is_one_for_all_replica_sets_of_a_deployment(controller: str, workload: str) -> None:
    monitor = yaml.safe_load((ROOT / "deploy/kubernetes/monitoring/pod-monitor.yaml").read_text(encoding="utf-8"))
    (relabeling,) = monitor["spec"]["podMetricsEndpoints"][0]["relabelings"]
    assert (relabeling["sourceLabels"], relabeling["targetLabel"]) == (
        ["__meta_kubernetes_pod_controller_name"],
        "workload",
    )
    match = re.fullmatch(relabeling["regex"], controller)
    assert match is not None
    assert match[1] == workload
    assert f"regex: {relabeling['regex']}\n" in (ROOT / "deploy/helm/templates/monitoring.yaml").read_text()
