"""`python -m tests.calls` from the repository root writes docs/calls.md; the tests' own modules are found from here."""

from __future__ import annotations

import logging
import sys
import warnings
from importlib import import_module
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
    warnings.simplefilter("ignore")
    logging.disable()  # clients log what they do not like about the answers
    pages = import_module("calls.page")
    pages.PAGE.write_text(pages.page(), encoding="utf-8")
