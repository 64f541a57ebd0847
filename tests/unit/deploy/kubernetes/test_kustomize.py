"""The small renderer that the manifests' tests use: right about what they use, loud about what it does not know."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from support.deploy.kustomize import Object, build, merged

KUBERNETES = Path(__file__).resolve().parents[4] / "deploy/kubernetes"
FOLDERS = ["overlays/sidecar", "overlays/legacy-sidecar", "overlays/service", "monitoring"]
HEAD = "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\n"
TREES = st.dictionaries(
    st.sampled_from("abc"), st.recursive(st.integers(), lambda inner: st.dictionaries(st.sampled_from("xyz"), inner))
)


def in_any_order(objects: list[Object]) -> list[str]:
    """The order of objects, and of items that Kubernetes merges by name, says nothing."""

    def settled(value: object) -> object:
        if isinstance(value, dict):
            return {key: settled(item) for key, item in value.items()}
        if isinstance(value, list):
            return sorted((settled(item) for item in value), key=lambda item: json.dumps(item, sort_keys=True))
        return value

    return sorted(json.dumps(settled(stored), sort_keys=True) for stored in objects)


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed: nothing to compare with")
@pytest.mark.parametrize("folder", FOLDERS)
def test_kubectl_kustomize_makes_the_same(folder: str) -> None:
    done = subprocess.run(
        ["kubectl", "kustomize", KUBERNETES / folder], capture_output=True, text=True, check=True, timeout=60
    )
    assert in_any_order(list(yaml.safe_load_all(done.stdout))) == in_any_order(build(KUBERNETES / folder))


def folder_with(tmp_path: Path, kustomization: str, **files: str) -> Path:
    (tmp_path / "kustomization.yaml").write_text(HEAD + kustomization)
    for name, text in files.items():
        (tmp_path / f"{name}.yaml").write_text(text)
    return tmp_path


@pytest.mark.parametrize(
    ("kustomization", "named"),
    [
        ("namePrefix: my-\n", "namePrefix"),
        ("images: [{name: a, newTag: b}]\n", "images"),
        ("configMapGenerator: [{name: a, files: [], options: {}}]\n", "disableNameSuffixHash"),
        ("configMapGenerator: [{name: a, files: [], literals: [b=c], options: {}}]\n", "literals"),
        ("resources: [one.yaml]\npatches: [{path: one.yaml, target: {name: a}}]\n", "a kind alone"),
        ("resources: [one.yaml]\npatches: [{path: one.yaml, target: {kind: Pod}}]\n", "nothing of kind Pod"),
        ("resources: [one.yaml]\npatches: [{path: two.yaml, target: {kind: Job}}]\n", "args: a list in both"),
    ],
)
def test_what_it_does_not_know_is_an_error_that_names_it(tmp_path: Path, kustomization: str, named: str) -> None:
    one = "kind: Job\nmetadata: {name: a}\nargs: [b]\n"
    with pytest.raises(ValueError, match=named):
        build(folder_with(tmp_path, kustomization, one=one, two=one))


def test_a_file_that_is_no_kustomization_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "kustomization.yaml").write_text("kind: Component\n")
    with pytest.raises(ValueError, match="Component"):
        build(tmp_path)


def test_named_items_are_merged_and_others_added() -> None:
    old = {"env": [{"name": "a", "value": "1"}, {"name": "b", "value": "2"}]}
    new = {"env": [{"name": "c", "value": "3"}, {"name": "a", "value": "4"}]}
    assert merged(old, new) == {
        "env": [{"name": "a", "value": "4"}, {"name": "b", "value": "2"}, {"name": "c", "value": "3"}]
    }


@given(old=TREES, new=TREES)
def test_a_merge_keeps_all_of_the_patch(old: Object, new: Object) -> None:
    """Laying a patch on its own result changes nothing, an empty patch changes nothing, and every top member stays."""
    once = merged(old, new)
    assert merged(once, new) == once
    assert merged(old, {}) == old
    assert set(once) == set(old) | set(new)
