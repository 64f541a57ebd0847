"""What a release would publish: wheel and source, each installed where nothing else is, run from an empty folder."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
from io import BytesIO
from pathlib import Path

import pytest

from support.sources import ROOT

# They read the package index: a minute or two each.
pytestmark = pytest.mark.deep


def done(*command: str | Path, where: Path) -> subprocess.CompletedProcess[str]:
    # The tests' own trusts nobody.
    variables = {name: value for name, value in os.environ.items() if name != "SSL_CERT_FILE"}
    return subprocess.run(
        [str(argument) for argument in command],
        cwd=where,
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
        env=variables,
    )


def environment(folder: Path) -> Path:
    """The programs of a new environment."""
    made = done(sys.executable, "-m", "venv", folder, where=folder.parent)
    assert made.returncode == 0, made.stderr
    return folder / "bin"


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from what is committed, in a folder of its own."""
    folder = tmp_path_factory.mktemp("packages")
    archive = subprocess.run(["git", "archive", "HEAD"], cwd=ROOT, capture_output=True, check=True, timeout=60)
    with tarfile.open(fileobj=BytesIO(archive.stdout)) as files:
        files.extractall(folder / "source", filter="data")
    programs = environment(folder / "builder")
    for command in (("-m", "pip", "install", "--quiet", "build"), ("-m", "build", "--outdir", folder, "source")):
        built = done(programs / "python", *command, where=folder)
        assert built.returncode == 0, built.stderr
    return folder


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("ending", [".whl", ".tar.gz"])
def test_what_is_built_runs_where_nothing_else_is_installed(ending: str, packages: Path, tmp_path: Path) -> None:
    (package,) = packages.glob(f"vecsieve-*{ending}")
    programs, empty = environment(tmp_path / "fresh"), tmp_path / "empty"
    empty.mkdir()
    installed = done(programs / "pip", "install", "--quiet", package, where=empty)
    assert installed.returncode == 0, installed.stderr
    valid = done(programs / "vecsieve", "check", where=empty)
    assert valid.stdout.startswith("The settings are valid.")
    demo = done(programs / "vecsieve", "demo", where=empty)
    assert "pip install -e '.[demo]'" in demo.stderr
    assert done(programs / "pip", "install", "--quiet", f"{package}[demo]", where=empty).returncode == 0
    demo = done(programs / "vecsieve", "demo", where=empty)
    assert "Word for word copies: 81 → 0." in demo.stdout, demo.stderr
    assert list(empty.iterdir()) == []
