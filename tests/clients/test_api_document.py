"""The API's published document holds, by schemathesis: requests made from it and bent away from it, answers judged by it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from support.network.api import TOKEN, token_file
from support.process.stack import command
from support.qdrant.embedded import start_embedded_process
from support.sources import ROOT

ARGUMENTS = ("serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0")
EXAMPLES = "12"
# Where no token is asked for, only what the document itself leads to: what it is bent to is answered by the same code.
PHASES = {False: "coverage", True: "coverage,fuzzing"}


@pytest.mark.parametrize("has_token", [False, True])
def test_the_document_holds(has_token: bool, tmp_path: Path) -> None:
    environment = {"VECSIEVE_API_TOKEN_FILE": token_file(tmp_path)} if has_token else {}
    head = ("-H", f"Authorization: Bearer {TOKEN}") if has_token else ()
    with (
        start_embedded_process() as engine,
        command(*ARGUMENTS, "--upstream", engine, "--api", "127.0.0.1:0", environment=environment) as running,
    ):
        url = running.addresses(3)["API"]
        done = subprocess.run(
            [
                *(sys.executable, "-m", "schemathesis.cli", "run", f"{url}/openapi.json"),
                *("--checks", "all", "--max-examples", EXAMPLES, "--generation-deterministic", "--no-color", *head),
                *("--phases", PHASES[has_token]),
                *("--exclude-path", "/v1/events"),  # its answer does not end
            ],
            # Tables of all characters, a second's work, are found where these tests keep them.
            env={**os.environ, "HYPOTHESIS_STORAGE_DIRECTORY": str(ROOT / ".hypothesis")},
            capture_output=True,
            text=True,
            check=False,
            cwd=tmp_path,
            timeout=200,
        )
    assert done.returncode == 0, done.stdout
    passed = re.search(r"(\d+) generated, (\d+) passed", done.stdout)
    assert passed is not None, done.stdout
    assert int(passed[1]) == int(passed[2]) >= 100
