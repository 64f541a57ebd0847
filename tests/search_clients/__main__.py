"""`python -m tests.search_clients` from the repository root; the tests' own modules are found from here."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
    sys.exit(import_module("search_clients.run").main())
