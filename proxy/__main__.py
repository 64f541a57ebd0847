"""The entry point of `vecsieve` and of `python -m vecsieve.proxy`. It loads nothing before signals may come."""

from __future__ import annotations

import signal
import sys


def main() -> None:
    """Run the command line."""
    if sys.argv[1:2] == ["serve"]:
        # Until a lifecycle listens to signals, in this process or a fork of it: SIGHUP, which reloads the settings, would end the process.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})
    from .cli import main as command_line

    command_line()


if __name__ == "__main__":
    main()
