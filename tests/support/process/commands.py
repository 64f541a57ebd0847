"""The command line in the process of the test or in a forked one: an interpreter of its own takes a second or two to load its modules."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tempfile
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

from support.process.forked import Start, origin
from vecsieve.proxy.cli import main

END_SECONDS = 120.0


@dataclass(frozen=True, slots=True)
class Done:
    """A command that ended, as `subprocess.CompletedProcess` has it."""

    returncode: int
    stdout: str
    stderr: str


def command_line(*arguments: str) -> Done:
    """Run `vecsieve <arguments>` to its end, and take what it writes."""
    out, err = io.StringIO(), io.StringIO()
    code: object = 0
    with (
        mock.patch.dict(os.environ),
        mock.patch.object(sys, "argv", ["vecsieve", *arguments]),
        redirect_stdout(out),
        redirect_stderr(err),
    ):
        try:
            main()
        except SystemExit as ended:
            code = ended.code
    assert code is None or isinstance(code, int), code
    return Done(code or 0, out.getvalue(), err.getvalue())


def forked_command(*arguments: str, **variables: str) -> Done:
    """Run `vecsieve <arguments>` to its end in a process of its own, and take what it writes. ``variables``: of its environment."""
    environment = {**os.environ, **variables}
    if not origin().forks(environment):
        program = [sys.executable, "-m", "vecsieve.proxy", *arguments]
        ended = subprocess.run(
            program, env=environment, capture_output=True, text=True, check=False, timeout=END_SECONDS
        )
        return Done(ended.returncode, ended.stdout, ended.stderr)
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        start = Start("vecsieve", arguments, environment, str(Path.cwd()))
        code = origin().start(start, out.fileno(), err.fileno()).wait(END_SECONDS)
        for written in (out, err):
            written.seek(0)
        return Done(code, out.read(), err.read())
