"""S7, S10: each port answers for its own pages only; the parser is the tested one, of a release without known holes."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path

from prove.finding import Finding, Scale
from prove.stack import Stack, stack
from support.process.stack import exchange

ADMIN = (
    "/",
    "/api/searches",
    "/livez",
    "/readyz",
    "/metrics",
    "/status",
    "/explain",
    "/egress",
    "/v1",
    "/v1/policies",
    "/metrics?x=1",
    "//metrics",
)
DATA = (
    ("GET", "/collections"),
    ("POST", "/collections/c/points/query"),
    ("PUT", "/collections/c/points"),
    ("DELETE", "/collections/c"),
    ("GET", "/_i/index/query"),
    ("POST", "/query"),
    ("POST", "/vectors/upsert"),
    ("POST", "/v2/vectordb/entities/search"),
    ("POST", "/v1/graphql"),
    ("GET", "/metrics/../collections"),
    ("GET", "/%6civez"),
    ("GET", "//livez"),
    ("GET", "http://127.0.0.1/livez"),
)
PYPROJECT = Path(__file__).resolve().parent.parent.parent / "pyproject.toml"
START_SECONDS = 20.0


async def prove(_scale: Scale) -> list[Finding]:
    """The two ports of a running proxy, then what it is built on."""
    async with stack(workers=1) as running:
        return [*await ports(running), *await asyncio.to_thread(parser)]


async def ports(running: Stack) -> list[Finding]:
    """Admin paths on the data port are the database's to answer; the other way round there is nothing."""
    requests = [("data port", "GET", path) for path in ADMIN]
    direct = [await _answer(f"http://127.0.0.1:{running.database.port}", "GET", path) for path in ADMIN]
    through = [await _answer(f"http://127.0.0.1:{running.port}", "GET", path) for path in ADMIN]
    forwarded = [path for (_, _, path), one, other in zip(requests, direct, through, strict=True) if one == other]
    refused = [
        path
        for method, path in DATA
        if (await _answer(running.admin, method, path))[0] == (400 if path.startswith("http:") else 404)
    ]
    return [
        Finding("S7", "admin paths on the data port", "100 % answered by the database", _share(forwarded, ADMIN), len(forwarded) == len(ADMIN)),
        Finding("S7", "data paths on the admin port", "100 % 404, 400 for a target with a host", _share(refused, DATA), len(refused) == len(DATA)),
    ]  # fmt: skip


async def _answer(url: str, method: str, path: str) -> tuple[int, bytes]:
    answer = await asyncio.to_thread(exchange, url, method, path)
    return answer.status, answer.body


def _share(good: list[str], of: tuple[object, ...]) -> str:
    return f"{len(good)} of {len(of)}"


def parser() -> list[Finding]:
    """The installed aiohttp against the floor in pyproject.toml, and a start on its pure-Python parser."""
    floor, installed = floor_of("aiohttp", PYPROJECT.read_text(encoding="utf-8")), version("aiohttp")
    code, output = started_without_extensions()
    refused = code not in {0, None} and "pure-Python parser" in output
    return [
        Finding("S10", "aiohttp", f"≥ {'.'.join(map(str, floor))}", installed, _numbers(installed) >= floor),
        Finding("S10", "a start on the pure-Python parser", "refused with its reason", f"exit {code}", refused),
    ]


def floor_of(name: str, project: str) -> tuple[int, ...]:
    """The lowest release that a project's dependencies admit."""
    for line in tomllib.loads(project)["project"]["dependencies"]:
        if (match := re.match(rf"{name}>=([\d.]+)", line)) is not None:
            return _numbers(match[1])
    raise ValueError(f"{name} has no floor")


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", text)[:3])


def started_without_extensions() -> tuple[int | None, str]:
    """Exit status of `vecsieve serve` without aiohttp's C parser, and what it said; None when it went on serving."""
    command = [sys.executable, "-m", "vecsieve.proxy", "serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"]
    try:
        ended = subprocess.run(
            command,
            env={**os.environ, "AIOHTTP_NO_EXTENSIONS": "1"},
            capture_output=True,
            text=True,
            timeout=START_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as still:
        return None, str(still.stdout)
    return ended.returncode, ended.stdout + ended.stderr
