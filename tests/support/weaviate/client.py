"""Weaviate's own client, in an environment of its own: it wants older versions of grpcio and protobuf than the proxy has."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from support.weaviate.front import Place
from support.weaviate.replies import settled_words

VERSION = "4.23.1"
TESTS = Path(__file__).resolve().parents[2]
HOME = TESTS.parent / ".clients" / f"weaviate-{VERSION}"
INTERPRETER = HOME / "bin" / "python"
SCENARIO = Path(__file__).with_name("scenario.py")
SECONDS = 300.0

MISSING = (
    f"no client of Weaviate here: python -m venv .clients/{HOME.name}, and pip install weaviate-client=={VERSION} there"
)
NEEDS_CLIENT = pytest.mark.skipif(not INTERPRETER.exists(), reason=MISSING)


def client_output(place: Place, what: str, program: Path = SCENARIO) -> Any:
    """What the client saw, the words of errors settled. ``what``: the program's part, such as fill or ask."""
    if not INTERPRETER.exists():
        raise SystemExit(MISSING)
    command = [str(INTERPRETER), str(program), str(urlsplit(place.rest).port), place.grpc.rpartition(":")[2], what]
    environment = {**os.environ, "PYTHONPATH": str(TESTS)}
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=SECONDS, check=False, stdin=subprocess.DEVNULL
    )
    assert done.returncode == 0, done.stderr[-2000:]
    seen = json.loads(done.stdout)
    for outcome in seen.values() if isinstance(seen, dict) else ():
        if isinstance(outcome, dict) and "words" in outcome:
            outcome["words"] = settled_words(outcome["words"])
    return seen
