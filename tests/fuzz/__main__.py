"""`python -m tests.fuzz [--seconds N] [target…]` from the repository root: makes the test tree importable, then runs."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from pathlib import Path

if __name__ == "__main__":
    os.environ["OPENBLAS_NUM_THREADS"] = "1"  # before numpy is imported, as in the proxy
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
    sys.exit(import_module("fuzz.run").main())
