"""The compose file mounts files that exist, publishes on loopback, and starts VecSieve with settings that it accepts."""

from __future__ import annotations

import json
import re
from pathlib import PurePosixPath
from typing import Any

import pytest
import yaml

from support.deploy.prometheus_tools import needs_promtool, promtool
from support.sources import ROOT
from vecsieve.config.addresses import parse_address
from vecsieve.config.load import load

DEPLOY = ROOT / "deploy"
COMPOSE: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]


def substituted(value: str) -> str:
    """With the defaults of compose's variables."""
    return re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", value)


ENVIRONMENT = {name: substituted(value) for name, value in SERVICES["vecsieve"]["environment"].items()}
MOUNTS = [(name, *volume.split(":")) for name, service in SERVICES.items() for volume in service.get("volumes", ())]


def loaded(name: str) -> Any:
    return yaml.safe_load((DEPLOY / "compose" / name).read_text(encoding="utf-8"))


def test_every_mount_is_a_file_that_exists_read_only_or_a_declared_volume() -> None:
    for _service, source, _target, *mode in MOUNTS:
        if source.startswith("./"):
            assert (DEPLOY / source).is_file(), source
            assert mode == ["ro"], source
        else:
            assert source in COMPOSE["volumes"]


def test_every_port_is_published_on_loopback_alone() -> None:
    published = [port for service in SERVICES.values() for port in service.get("ports", ())]
    assert len(published) >= 4
    assert [port for port in published if not port.startswith("127.0.0.1:")] == []


def test_every_image_has_a_version_and_what_is_waited_for_exists() -> None:
    for service in SERVICES.values():
        assert re.fullmatch(r"[\w./-]+:v?\d+\.\d+\.\d+", service["image"])
        assert set(service.get("depends_on", ())) <= SERVICES.keys()
    build = SERVICES["vecsieve"]["build"]
    assert (DEPLOY / build["context"] / build["dockerfile"]).resolve() == DEPLOY / "Dockerfile"


def test_the_settings_are_valid_and_reach_the_other_services() -> None:
    settings = load(file=None, environment=ENVIRONMENT, flags={})
    assert settings.mode == "shadow"
    assert settings.upstream.url == "http://qdrant:6333"
    assert settings.grpc.upstream == "http://qdrant:6334"
    inside = {int(port.rsplit(":", 1)[1]) for port in SERVICES["vecsieve"]["ports"]}
    assert {parse_address(settings.listen).port, parse_address(settings.admin).port} == inside
    assert not parse_address(settings.listen).is_loopback


@pytest.mark.parametrize("mode", ["on", "off"])
def test_another_mode_is_chosen_by_a_variable(mode: str) -> None:
    assert "${MODE:-shadow}" in SERVICES["vecsieve"]["environment"].values()
    assert load(file=None, environment={**ENVIRONMENT, "VECSIEVE_MODE": mode}, flags={}).mode == mode


def test_prometheus_scrapes_the_admin_port_and_reads_both_files_of_rules() -> None:
    config = loaded("prometheus.yaml")
    (job,) = config["scrape_configs"]
    (target,) = job["static_configs"][0]["targets"]
    admin = parse_address(load(file=None, environment=ENVIRONMENT, flags={}).admin)
    assert target == f"vecsieve:{admin.port}"
    folder = PurePosixPath("/etc/prometheus")
    mounted = {PurePosixPath(target) for service, _, target, *_ in MOUNTS if service == "prometheus"}
    assert {folder / name for name in config["rule_files"]} <= mounted
    assert folder / "prometheus.yaml" in mounted
    assert f"--config.file={folder / 'prometheus.yaml'}" in SERVICES["prometheus"]["command"]


@needs_promtool
def test_prometheus_takes_its_configuration() -> None:
    done = promtool("check", "config", "--syntax-only", DEPLOY / "compose" / "prometheus.yaml")
    assert done.returncode == 0, done.stderr


def test_grafana_finds_its_source_and_both_dashboards() -> None:
    (source,) = loaded("grafana-datasource.yaml")["datasources"]
    assert (source["type"], source["isDefault"]) == ("prometheus", True)
    assert source["url"] == "http://prometheus:9090"
    (backend,) = loaded("grafana-dashboards.yaml")["providers"]
    boards = {target: DEPLOY / path for service, path, target, *_ in MOUNTS if target.endswith(".json")}
    assert {path.name for path in DEPLOY.glob("grafana/*.json")} == {path.name for path in boards.values()}
    for target, path in boards.items():
        assert PurePosixPath(target).parent == PurePosixPath(backend["options"]["path"])
        assert json.loads(path.read_text(encoding="utf-8"))["uid"]
    assert SERVICES["grafana"]["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"] in boards
