"""The command line in the process of the test: an interpreter of its own takes 1.6 s to load the official client."""

from __future__ import annotations

import io
import os
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from unittest import mock

from vecsieve.proxy.cli import main


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
