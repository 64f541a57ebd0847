"""What `kustomize build` makes of our folders, without kustomize: exactly the features they use, an error for any other.

Resources (files and folders), ConfigMaps from files under a fixed name, and merge patches aimed at a kind. A test compares
with `kubectl kustomize` where there is one.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

Object = dict[str, Any]

KUSTOMIZATION = ("kustomize.config.k8s.io/v1beta1", "Kustomization")

# Lists that Kubernetes merges by a member instead of replacing them; what is patched here has no others.
KEYS = {
    "containers": "name",
    "initContainers": "name",
    "volumes": "name",
    "env": "name",
    "ports": "containerPort",
    "volumeMounts": "mountPath",
}


def build(folder: Path) -> list[Object]:
    """Every object that the folder's kustomization.yaml makes. Raises ValueError for what this does not know."""
    tree = _read(folder / "kustomization.yaml")[0]
    where = f"{folder.name}/kustomization.yaml"
    if (kind := (tree.pop("apiVersion", None), tree.pop("kind", None))) != KUSTOMIZATION:
        raise ValueError(f"{where}: wanted {KUSTOMIZATION}; saw {kind}")
    resources, generators, patches = (tree.pop(name, []) for name in ("resources", "configMapGenerator", "patches"))
    _nothing_else(tree, where)
    objects = [resource for name in resources for resource in _resource(folder / name)]
    objects += [_config_map(folder, generator) for generator in generators]
    for patch in patches:
        objects = _patched(objects, folder, patch, where)
    return objects


def merged(old: Any, new: Any, *, name: str = "") -> Any:
    """``new`` laid on ``old``, as a strategic merge: mappings member by member, lists of KEYS item by item."""
    if isinstance(old, dict) and isinstance(new, dict):
        return {
            key: merged(old[key], new[key], name=key)
            if key in old and key in new
            else (new if key in new else old)[key]
            for key in [*old, *(key for key in new if key not in old)]
        }
    if isinstance(old, list) and isinstance(new, list):
        if name not in KEYS:
            raise ValueError(f"{name}: a list in both, and Kubernetes' way to merge it is not known here")
        by = KEYS[name]
        items = {item[by]: item for item in old}
        for item in new:
            items[item[by]] = merged(items.get(item[by], {}), item)
        return list(items.values())
    return new


def _resource(path: Path) -> list[Object]:
    return build(path) if path.is_dir() else _read(path)


def _config_map(folder: Path, generator: Object) -> Object:
    given = dict(generator)
    name, files, options = given.pop("name"), given.pop("files"), dict(given.pop("options"))
    _nothing_else(given, f"configMapGenerator {name}")
    if options.pop("disableNameSuffixHash", False) is not True:
        raise ValueError(f"{name}: wanted disableNameSuffixHash: true, names with a hash are not made here")
    metadata = {"name": name} | ({"labels": labels} if (labels := options.pop("labels", None)) else {})
    _nothing_else(options, f"options of {name}")
    data = {file: (folder / file).read_text(encoding="utf-8") for file in files}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def _patched(objects: list[Object], folder: Path, patch: Object, where: str) -> list[Object]:
    given = dict(patch)
    (change,), target = _read(folder / given.pop("path")), given.pop("target")
    _nothing_else(given, where)
    if set(target) != {"kind"}:
        raise ValueError(f"{where}: wanted a target of a kind alone; saw {target}")
    hit = [resource for resource in objects if resource["kind"] == target["kind"]]
    if not hit:
        raise ValueError(f"{where}: nothing of kind {target['kind']} to patch")
    # The target decides what is patched; the name inside the patch is only there because an object must have one.
    change = {**change, "metadata": {key: value for key, value in change["metadata"].items() if key != "name"}}
    return [merged(resource, change) if resource in hit else resource for resource in objects]


def _read(path: Path) -> list[Object]:
    return [document for document in yaml.safe_load_all(path.read_text(encoding="utf-8")) if document is not None]


def _nothing_else(left: Object, where: str) -> None:
    if left:
        raise ValueError(f"{where}: not known here: {', '.join(sorted(left))}")
