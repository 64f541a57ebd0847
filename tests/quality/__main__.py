"""`python -m tests.quality`: what the default and the classical policy score on every labelled set."""

from __future__ import annotations

import sys
from pathlib import Path

# The suite imports its support as `support` (pyproject.toml: pythonpath); outside pytest this line does the same.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from support.labelled_sets import folder, names, score, table
from support.policies import CLASSICAL, DEFAULT


def main() -> int:
    data = folder()
    if data is None:
        sys.stdout.write("no labelled sets here: name their folder in VECSIEVE_EVAL_DATA\n")
        return 0
    policies = {"default": DEFAULT, "classical": CLASSICAL}
    outcomes = [score(data, name, policies) for name in names(data)]
    for label in policies:
        table(label, [one[label] for one in outcomes], lambda line: sys.stdout.write(line + "\n"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
