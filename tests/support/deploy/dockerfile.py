"""The steps of our Dockerfile without Docker: its own commands, in folders of a scratch place instead of those of an image.

Exactly the instructions it uses, all in list form, an error for any other. Paths that begin with /opt or /build are moved
under the scratch place, and for the base image's Python stands one of this machine that every user can reach.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

_MOVED = re.compile(r"(?<![\w./-])/(?=(?:opt|build)\b)")
_WORDS = frozenset({"ARG", "LABEL", "EXPOSE", "STOPSIGNAL", "FROM"})  # nothing to do without an image


@dataclass(slots=True)
class Image:
    """What the last stage says about how it is run. ``user``: uid and gid."""

    environment: dict[str, str] = field(default_factory=dict)
    entry_point: list[str] = field(default_factory=list)
    command: list[str] = field(default_factory=list)
    user: tuple[int, int] | None = None


def base_python() -> tuple[str, bool]:
    """A Python to build with, and whether other users can run it: the test's own, else the system's, else the test's own."""
    able = "import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))"
    for program in (sys.executable, "/usr/bin/python3"):
        is_installed = Path(program).exists() and all(
            parent.stat().st_mode & 0o001 for parent in Path(program).resolve().parents
        )
        if is_installed and subprocess.run([program, "-c", able], check=False, capture_output=True).returncode == 0:
            return program, True
    return sys.executable, False


def instructions(text: str) -> list[tuple[str, str]]:
    """(word, rest) of each instruction, comments left out and continued lines joined."""
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    joined = re.sub(r"\s*\\\n\s*", " ", "\n".join(lines))
    return [(word, rest) for word, _, rest in (line.partition(" ") for line in joined.splitlines())]


def moved(text: str, scratch: Path) -> str:
    """The text with the image's own folders under ``scratch``."""
    return _MOVED.sub(lambda _: f"{scratch}/", text)


def perform(file: Path, *, context: Path, scratch: Path, python: str = sys.executable) -> Image:
    """Do every step; ``context`` is what the builder would be sent, ``python`` the base's. Raises CalledProcessError for a step that fails."""
    image, folder = Image(), scratch
    for word, rest in instructions(file.read_text(encoding="utf-8")):
        if word == "FROM":
            image, folder = Image(), scratch
        elif word == "ENV":
            image.environment |= dict(pair.split("=", 1) for pair in rest.split())
        elif word == "WORKDIR":
            folder = Path(moved(rest, scratch))
            folder.mkdir(parents=True, exist_ok=True)
        elif word == "COPY":
            _copy(rest, context, folder)
        elif word == "RUN":
            program, *arguments = json.loads(moved(rest, scratch))
            _run([python if program == "python" else program, *arguments], folder, image.environment)
        elif word == "USER":
            uid, gid = rest.split(":")
            image.user = int(uid), int(gid)
        elif word == "ENTRYPOINT":
            image.entry_point = json.loads(moved(rest, scratch))
        elif word == "CMD":
            image.command = json.loads(rest)
        elif word not in _WORDS:
            raise ValueError(f"{file.name}: not known here: {word} {rest}")
    return image


def _copy(rest: str, context: Path, folder: Path) -> None:
    if rest.startswith("--from="):
        _, source, target = rest.split()
        if source != target:
            raise ValueError(f"COPY {rest}: between stages a path must stay the same, since scripts name it")
        return
    *sources, target = rest.split()
    for source in sources:
        place = folder / target / Path(source).name if target.endswith("/") else folder / target
        place.parent.mkdir(parents=True, exist_ok=True)
        if (context / source).is_dir():
            shutil.copytree(context / source, place, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copyfile(context / source, place)


def _run(command: list[str], folder: Path, environment: dict[str, str]) -> None:
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, **environment, "PYTHONPATH": ""},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    if done.returncode:
        raise subprocess.CalledProcessError(done.returncode, command, done.stdout, done.stderr)
