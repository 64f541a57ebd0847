"""Where something listens, in the one form that people, scripts and tests read."""

from __future__ import annotations

import sys


def announce(what: str, host: str, port: int) -> None:
    """Print `vecsieve serve listening on http://host:port`, with the port that was really bound."""
    name = f"[{host}]" if ":" in host else host
    sys.stdout.write(f"vecsieve serve {what} on http://{name}:{port}\n")
    sys.stdout.flush()
