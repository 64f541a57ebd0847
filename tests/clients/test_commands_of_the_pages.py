"""The commands of README and of every page, as they are written there, without an extra that the page does not name; settings in YAML as a file of `--config`.

What is replaced: addresses by free ones, databases by an embedded one, and files outside the folder by those in it.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from unittest import mock

import pytest
from qdrant_client import QdrantClient, models

from support.deploy.alone import program_alone, with_extras_alone
from support.process.commands import command_line
from support.process.stack import exchange, serve
from support.qdrant.embedded import start_embedded_process
from support.sources import ROOT
from vecsieve.config.load import load

PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")])
BLOCK = re.compile(r"^ *```(\w*)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"`(vecsieve|make|python -m|python) ([^`]+)`")
PROGRAMS = (
    *("vecsieve", "pip", "python", "python3", ".venv/bin/pip", ".venv/bin/python", "export", "curl"),
    *("docker", "kubectl", "helm", "make", "git", "uvx", "apt-get", "npm"),
)
# Commands that run elsewhere: by what they begin with, the file that runs them, or does instead what can be done without a registry or a cluster.
ELSEWHERE = {
    "python3 -m venv .venv": "tests/prove/first_look.py",
    ".venv/bin/pip install -q -e '.[dev]'": ".ci/run",
    ".venv/bin/python -m pytest": ".ci/run",
    "pip install -e '.[jobs]'": "tests/clients/test_jobs_as_documented.py",
    "vecsieve analyze": "tests/clients/test_jobs_as_documented.py",
    "vecsieve sweep": "tests/clients/test_jobs_as_documented.py",
    "vecsieve undo --url": "tests/clients/test_jobs_as_documented.py",
    "vecsieve demo --backend chroma": "tests/clients/test_demo_of_others.py",
    "vecsieve measure": "tests/unit/proxy/jobs/measure",
    "export VECSIEVE_POLICY_COLLAPSED": "tests/clients/test_frameworks_page.py",
    "python tests/servers/pinecone": "tests/clients/test_pinecone_by_name.py",
    "curl -N http://127.0.0.1:9466/v1/events": "tests/clients/test_write_events.py",
    "docker build": "tests/unit/deploy/test_dockerfile.py",
    "docker run": "tests/unit/deploy/test_dockerfile.py",
    "kubectl apply": "tests/unit/deploy/kubernetes",
    "helm install": "tests/unit/deploy/test_helm.py",
}
SECONDS = 60.0


def blocks(page: Path, *languages: str) -> list[str]:
    return [body for language, body in BLOCK.findall(page.read_text(encoding="utf-8")) if language in languages]


def commands(page: Path) -> list[str]:
    """A command a line; a line that ends in a backslash goes on."""
    lines = "\n".join(blocks(page, "", "sh", "bash")).replace("\\\n", " ").splitlines()
    return [line for line in map(str.strip, lines) if line.split(" ")[0] in PROGRAMS]


COMMANDS = [(page.name, command) for page in PAGES for command in commands(page)]


def begins(command: str, *names: str) -> bool:
    return any(command.startswith(f"vecsieve {name}") for name in names) and not command.startswith(tuple(ELSEWHERE))


def extras_of(page: str, command: str) -> list[str]:
    """Those that the page names for the command."""
    name = command.split()[1]
    text = (ROOT / "docs" / page if page != "README.md" else ROOT / page).read_text(encoding="utf-8")
    return [name] if f"extra `{name}`" in text else []


def chosen(*names: str) -> list[tuple[str, str]]:
    return [row for row in COMMANDS if begins(row[1], *names)]


def test_every_command_is_run_here_or_elsewhere() -> None:
    assert len(COMMANDS) > 20, "the pages have no commands: this test looks at nothing"
    run = [*chosen("serve", "mcp", "undo"), *(row for row in COMMANDS if row[1].startswith(tuple(ELSEWHERE)))]
    assert [row for row in COMMANDS if row not in run] == []
    assert [start for start in ELSEWHERE if not any(command.startswith(start) for _, command in COMMANDS)] == []
    assert [file for file in ELSEWHERE.values() if not (ROOT / file).exists()] == []


@pytest.mark.parametrize(("page", "command"), chosen("serve", "mcp --listen"))
def test_what_serves_begins_to_listen(page: str, command: str, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("0123456789abcdef")
    written = shlex.split(command.replace("/run/secrets/mcp", str(token)), comments=True)[1:]
    after = {"--listen", "--api"}
    arguments = [
        "127.0.0.1:0" if earlier in after else word for earlier, word in zip(["", *written], written, strict=False)
    ]
    ports = ["VECSIEVE_LISTEN", "VECSIEVE_ADMIN", *(["VECSIEVE_GRPC_LISTEN"] if "--grpc-upstream" in written else [])]
    anywhere = dict.fromkeys(ports, "127.0.0.1:0")
    output = tmp_path / "output"
    with (
        output.open("w") as file,
        subprocess.Popen(
            program_alone(extras_of(page, command), arguments),
            cwd=tmp_path,
            env={**os.environ, **anywhere},
            stdout=file,
            stderr=file,
        ) as running,
    ):
        end = time.monotonic() + SECONDS
        while "listening on http" not in output.read_text():
            assert running.poll() is None, output.read_text()
            assert time.monotonic() < end, output.read_text()
            time.sleep(0.02)
        running.terminate()
        assert running.wait(SECONDS) in {0, -15}
    assert "Traceback" not in output.read_text()


@pytest.mark.parametrize(("page", "command"), chosen("mcp --url"))
def test_tools_on_standard_input_end_with_it(page: str, command: str, tmp_path: Path) -> None:
    done = with_extras_alone(extras_of(page, command), shlex.split(command)[1:], tmp_path)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr


@pytest.fixture
def journalled(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """A database and the journal of a gate with the settings of docs/writes.md, which left a copy out of each of two collections."""
    journal, file = tmp_path / "journal.db", tmp_path / "settings.yaml"
    settings = next(block for block in blocks(ROOT / "docs/writes.md", "yaml") if "journal:" in block)
    file.write_text(settings.replace("/var/lib/vecsieve/journal.db", str(journal)))
    with start_embedded_process() as url, serve(url, "--config", str(file)) as (proxy, _):
        for name in ("scraped", "articles"):
            client = QdrantClient(url=url, timeout=30)
            client.create_collection(name, models.VectorParams(size=2, distance=models.Distance.COSINE))
            client.close()
            for number in (1, 2):
                text = {"text": "Close the valve before you start the pump."}
                body = {"points": [{"id": number, "vector": [1.0, 0.5], "payload": text}]}
                path = f"/collections/{name}/points?wait=true"
                assert exchange(proxy, "PUT", path, json.dumps(body).encode()).status == 200
        yield url, journal


def test_a_journal_of_the_write_gate_is_undone_as_written(journalled: tuple[str, Path], tmp_path: Path) -> None:
    url, journal = journalled
    count = b'{"exact": true}'
    assert b'"count":1' in exchange(url, "POST", "/collections/scraped/points/count", count).body, "one was left out"
    rows = chosen("undo")
    assert [page for page, _ in rows] == ["writes.md", "writes.md"]
    for _, command in rows:
        here = command.replace("/var/lib/vecsieve/journal.db", str(journal)).replace("http://qdrant:6333", url)
        done = with_extras_alone([], shlex.split(here)[1:], tmp_path)
        assert done.returncode == 0, (command, done.stdout, done.stderr)
    assert b'"count":2' in exchange(url, "POST", "/collections/scraped/points/count", count).body


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_settings_in_yaml_are_accepted(page: Path, tmp_path: Path) -> None:
    file = tmp_path / "settings.yaml"
    for block in blocks(page, "yaml"):
        file.write_text(block)
        load(file=file, environment={}, flags={})


@cache
def options(name: str) -> set[str]:
    with mock.patch.dict(os.environ, COLUMNS="300"):
        done = command_line(name, "--help")
    assert done.returncode == 0, f"vecsieve {name}: {done.stderr}"
    return set(re.findall(r"--[a-z][\w-]*", done.stdout))


def test_what_a_sentence_tells_to_type_exists() -> None:
    """Within a sentence: commands with their options, make's targets, modules and files."""
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    wrong: list[tuple[str, str]] = []
    for page in PAGES:
        for program, rest in INLINE.findall(page.read_text(encoding="utf-8")):
            name, *words = rest.split()
            match program:
                case "make":
                    exists = name in targets
                case "python":
                    exists = (ROOT / name).exists()
                case "python -m":
                    path = ROOT / name.replace(".", "/")
                    exists = (path / "__main__.py").is_file() or path.with_suffix(".py").is_file()
                case _:
                    flags = {word for word in words if word.startswith("--")}
                    exists = name.startswith("--") or flags <= options(name)
            if not exists:
                wrong.append((page.name, f"{program} {rest}"))
    assert wrong == []
