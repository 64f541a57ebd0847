"""The release workflow: it builds what is here, checks it on every supported Python, and publishes nothing unchecked."""

from __future__ import annotations

import re
import shutil
import subprocess
import tomllib
from typing import Any

import pytest
import yaml

from support.sources import ROOT

PATH = ROOT / ".github/workflows/release.yaml"
WORKFLOW: dict[Any, Any] = yaml.safe_load(PATH.read_text(encoding="utf-8"))
JOBS: dict[str, dict[str, Any]] = WORKFLOW["jobs"]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def steps(job: str) -> list[dict[str, Any]]:
    result: list[dict[str, Any]] = JOBS[job]["steps"]
    return result


def scripts(job: str) -> str:
    return "\n".join(step["run"] for step in steps(job) if "run" in step)


def before(job: str) -> set[str]:
    """Every job that must have passed."""
    needs = JOBS[job].get("needs", [])
    direct = {needs} if isinstance(needs, str) else set(needs)
    return direct | {earlier for name in direct for earlier in before(name)}


@pytest.mark.skipif(
    shutil.which("actionlint") is None, reason="actionlint is not installed: nothing judges the workflow"
)
def test_actionlint_finds_nothing() -> None:
    done = subprocess.run(["actionlint", "-no-color", PATH], capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout) == (0, "")


def test_only_a_tag_starts_it() -> None:
    assert WORKFLOW[True] == {"push": {"tags": ["v*"]}}  # YAML 1.1 reads `on` as true


def test_nothing_is_published_before_the_wheel_ran_on_every_supported_python() -> None:
    supported = [one.rpartition(" ")[2] for one in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", one)]
    assert JOBS["check"]["strategy"]["matrix"]["python"] == supported
    assert {job for job in JOBS if "check" not in before(job)} == {"build", "check"}


def test_what_writes_elsewhere_has_no_more_rights_than_it_needs() -> None:
    assert WORKFLOW["permissions"] == {"contents": "read"}
    rights = {name: job.get("permissions") for name, job in JOBS.items()}
    packages = {"contents": "read", "packages": "write"}
    assert rights == {"build": None, "check": None, "pypi": {"id-token": "write"}, "image": packages, "chart": packages}


def test_files_and_targets_that_it_names_exist() -> None:
    targets = re.findall(r"\bmake ([\w-]+)", "\n".join(map(scripts, JOBS)))
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert targets
    assert [name for name in targets if f"\n{name}:" not in makefile] == []
    (build,) = [step["with"] for step in steps("image") if step.get("uses", "").startswith("docker/build-push-action")]
    assert (ROOT / build["file"]).is_file()


def test_the_version_check_passes_for_this_tree_and_fails_for_another_tag(tmp_path: object) -> None:
    (script,) = re.findall(r"<<'PY'\n(.*?)\nPY", scripts("build"), re.DOTALL)
    for tag, code in ((f"v{PROJECT['version']}", 0), ("v9.9.9", 1)):
        done = subprocess.run(
            ["python", "-c", script], cwd=ROOT, env={"PATH": _path(), "GITHUB_REF_NAME": tag}, check=False, timeout=60
        )
        assert done.returncode == code, tag


def test_the_chart_of_a_release_names_its_image() -> None:
    (expression,) = re.findall(r'sed -i "(.*?)" deploy', scripts("chart").replace('\\"', '"'))
    values = (ROOT / "deploy/helm/values.yaml").read_text(encoding="utf-8")
    for pattern in re.findall(r"s\|(\^.*?)\|", expression):
        assert len(re.findall(pattern, values, re.MULTILINE)) == 1, pattern


def _path() -> str:
    import sys
    from pathlib import Path

    return str(Path(sys.executable).parent)
