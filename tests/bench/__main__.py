"""`python -m tests.bench` from the repository root: sets what must be set before numpy is imported, then runs."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from pathlib import Path

if __name__ == "__main__":
    # One BLAS thread, as in the proxy; and the benchmark's modules under the name its child processes use too.
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
    sys.exit(import_module("bench.run").main())
