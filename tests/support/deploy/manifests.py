"""The overlays' objects, rendered once, and what is looked up in them again and again."""

from __future__ import annotations

from pathlib import Path

from support.deploy.kustomize import Object, build
from vecsieve.config.load import load
from vecsieve.config.schema import Settings

KUBERNETES = Path(__file__).resolve().parents[3] / "deploy/kubernetes"
OVERLAYS = ("sidecar", "legacy-sidecar", "service")
MADE: dict[str, list[Object]] = {name: build(KUBERNETES / "overlays" / name) for name in OVERLAYS}


def only(overlay: str, kind: str) -> Object:
    (resource,) = [made for made in MADE[overlay] if made["kind"] == kind]
    return resource


def pod(overlay: str) -> Object:
    spec: Object = only(overlay, "Deployment")["spec"]["template"]["spec"]
    return spec


def ours(overlay: str) -> Object:
    (match,) = [
        entry
        for place in ("containers", "initContainers")
        for entry in pod(overlay).get(place, [])
        if entry["name"] == "vecsieve"
    ]
    container: Object = match
    return container


def environment(overlay: str) -> dict[str, str]:
    return {variable["name"]: variable["value"] for variable in ours(overlay)["env"]}


def settings_of(overlay: str, tmp_path: Path, *, instead: str | None = None) -> Settings:
    """What the container's process would make of its ConfigMap and its environment."""
    file = tmp_path / "settings.yaml"
    file.write_text(only(overlay, "ConfigMap")["data"]["settings.yaml"] if instead is None else instead)
    return load(file=None, environment={**environment(overlay), "VECSIEVE_CONFIG": str(file)}, flags={})
