"""The command line as where only some extras are installed: packages of this environment that none of them brings cannot be imported."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Sequence
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement

from support.sources import ROOT

# What the process may not import, by its top-level names; then the command line.
PROGRAM = """
import sys
hidden = frozenset(sys.argv.pop(1).split(","))
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in hidden:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Absent())
from vecsieve.proxy.cli import main
main()
"""


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def installed_by(extras: Iterable[str]) -> set[str]:
    """The distributions that `pip install '.[extras]'` brings, as far as they are here."""
    names: set[str] = set()
    todo = [("vecsieve", frozenset(extras))]
    while todo:
        name, chosen_extras = todo.pop()
        try:
            requirements = _of_the_project(chosen_extras) if name == "vecsieve" else metadata.requires(name) or []
        except metadata.PackageNotFoundError:
            continue
        names.add(_plain(name))
        for requirement in map(Requirement, requirements):
            chosen = requirement.marker is None or any(
                requirement.marker.evaluate({"extra": extra}) for extra in (*chosen_extras, "")
            )
            if chosen and (_plain(requirement.name) not in names or requirement.extras):
                todo.append((requirement.name, frozenset(requirement.extras)))
    return names


def _of_the_project(extras: Iterable[str]) -> list[str]:
    """As pyproject.toml has them now: an editable installation may be older."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return [
        *project["dependencies"],
        *(requirement for extra in extras for requirement in project["optional-dependencies"][extra]),
    ]


def program_alone(extras: Iterable[str], arguments: Sequence[str]) -> list[str]:
    """What runs `vecsieve <arguments>`."""
    here = installed_by(extras)
    hidden = [
        name
        for name, by in metadata.packages_distributions().items()
        if not {_plain(distribution) for distribution in by} & here
    ]
    return [sys.executable, "-c", PROGRAM, ",".join(hidden), *arguments]


def with_extras_alone(
    extras: Iterable[str], arguments: Sequence[str], folder: Path
) -> subprocess.CompletedProcess[str]:
    """Run `vecsieve <arguments>` in ``folder`` to its end."""
    environment = {**os.environ, "XDG_CACHE_HOME": str(folder / "cache")}
    return subprocess.run(
        program_alone(extras, arguments),
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        stdin=subprocess.DEVNULL,
    )
