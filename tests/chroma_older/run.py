"""The run: an older server, its own client directly and through the proxy in modes off and on, and version 1 by hand."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from support.chroma.server import TOP_K, family, near, records
from support.process.stack import exchange, serve

ROOT = Path(__file__).resolve().parents[2]
SCENARIO = Path(__file__).with_name("scenario.py")
VERSION = "0.5.23"  # the last but one minor that served version 1 of the interface
SECONDS = 600.0
VERSION_1 = "/api/v1/collections"
INCLUDES: tuple[list[str], ...] = ([], ["documents"], ["embeddings", "metadatas"], ["distances", "uris"])


def interpreter(folder: Path) -> Path:
    """The environment's, made once and kept."""
    home = folder / f"chroma-{VERSION}"
    if not (home / ".installed").exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(home)], check=True, timeout=SECONDS)
        # Newer ones refuse a body without a content type, and this client sends none.
        packages = (f"chromadb=={VERSION}", "fastapi<0.116")
        pip = [str(home / "bin" / "python"), "-m", "pip", "install", "--quiet", *packages]
        subprocess.run(pip, check=True, timeout=SECONDS)
        (home / ".installed").touch()
    return home / "bin" / "python"


@contextmanager
def server(python: Path, folder: str) -> Iterator[str]:
    """Its URL, once it answers."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [str(python.with_name("chroma")), "run", "--host", "127.0.0.1", "--port", str(port), "--path", folder]
    environment = {**os.environ, "ANONYMIZED_TELEMETRY": "False"}
    # In the folder: it writes a log into wherever it is.
    quiet = subprocess.DEVNULL
    process = subprocess.Popen(command, env=environment, cwd=folder, stdout=quiet, stderr=quiet)
    url = f"http://127.0.0.1:{port}"
    try:
        until = time.monotonic() + 60
        while not _answers(url):
            assert time.monotonic() < until, "the older server did not come up"
            time.sleep(0.1)
        yield url
    finally:
        process.terminate()
        process.wait(timeout=30)


def _answers(url: str) -> bool:
    try:
        return exchange(url, "GET", "/api/v1/heartbeat").status == 200
    except OSError:
        return False


def stocked(url: str) -> dict[str, str]:
    """Name -> id of two collections with as wide a search as newer servers have: this one's own is a tenth."""
    ids = {}
    for name, copies, space in (("clean", 1, "l2"), ("copied", 3, "cosine")):
        made = {"name": name, "metadata": {"hnsw:space": space, "hnsw:search_ef": 100}}
        ids[name] = json.loads(exchange(url, "POST", VERSION_1, json.dumps(made).encode()).body)["id"]
        added = json.dumps(records(copies, space)).encode()
        assert exchange(url, "POST", f"{VERSION_1}/{ids[name]}/add", added).status == 201
    return ids


def query(name: str, include: list[str]) -> dict[str, Any]:
    return {
        "collection": name,
        "query": {"query_embeddings": [near(1), near(2)], "n_results": TOP_K, "include": include},
    }


def faults(direct: dict[str, Any], off: dict[str, Any], on: dict[str, Any]) -> list[str]:
    """What the client saw and must not see."""
    differences = [f"off: {name}" for name in direct if off[name] != direct[name]]
    differences += [f"on: {name}" for name in direct if name.startswith("clean") and on[name] != direct[name]]
    for name in (name for name in direct if name.startswith("copied")):
        distinct = [len({family(one) for one in ids}) for ids in on[name]["ids"]]
        columns = {column for column, value in on[name].items() if value is not None}
        if distinct != [TOP_K, TOP_K] or columns != {c for c, value in direct[name].items() if value is not None}:
            differences.append(f"on: {name} has {distinct} distinct results in {sorted(columns)}")
    return differences


def by_hand(direct: str, on: str, ids: dict[str, str]) -> list[str]:
    """Version 1, whose clients are gone: clean data comes in the server's own bytes."""
    differences = []
    for include in INCLUDES:
        body = json.dumps(query("clean", include)["query"]).encode()
        path = f"{VERSION_1}/{ids['clean']}/query"
        through = exchange(on, "POST", path, body)
        if through.body != exchange(direct, "POST", path, body).body or through.header("x-vecsieve") is None:
            differences.append(f"version 1: {include}")
    return differences


def main() -> int:
    """Run; 1 when anything was seen that must not be."""
    python = interpreter((ROOT / ".clients").resolve())
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder, server(python, folder) as direct:
        ids = stocked(direct)
        queries = {f"{name} {'+'.join(include)}": query(name, include) for name in ids for include in INCLUDES}
        plan = Path(folder) / "plan.json"
        plan.write_text(json.dumps({"queries": queries}), encoding="utf-8")

        def answers(url: str) -> dict[str, Any]:
            command = [str(python), str(SCENARIO), url.rpartition(":")[2], str(plan)]
            done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
            seen: dict[str, Any] = json.loads(done.stdout)
            return seen

        with (
            serve(direct, "--backend", "chroma", "--mode", "off") as (off, _),
            serve(direct, "--backend", "chroma", "--mode", "on") as (on, _),
        ):
            problems = faults(answers(direct), answers(off), answers(on)) + by_hand(direct, on, ids)
    verdict = "as directly; distinct and full" if not problems else "\n".join(problems)
    sys.stdout.write(
        f"Chroma {VERSION}, its client and version 1 by hand, {len(queries) + len(INCLUDES)} queries: {verdict}\n"
    )
    return int(bool(problems))
