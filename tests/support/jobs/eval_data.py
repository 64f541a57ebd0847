"""Where the labelled sets with real embeddings are on this machine, if they are.

They are not part of the project: their licences differ. VECSIEVE_EVAL_DATA names their folder; without it, the folder
``shared/data`` beside the checkout is tried.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

SHARED_FOLDER = Path(__file__).resolve().parents[4] / "shared" / "data"


def folder() -> Path | None:
    """The folder, or None."""
    data = Path(os.environ.get("VECSIEVE_EVAL_DATA", SHARED_FOLDER))
    return data if any(data.glob("*/queries.jsonl")) else None


def cases() -> Path | None:
    """The file of cases beside the sets, or None."""
    file = Path(os.environ.get("VECSIEVE_EVAL_DATA", SHARED_FOLDER)) / "cases" / "cases.jsonl"
    return file if file.is_file() else None


def public_benchmark() -> Path | None:
    """The folder of chunking_evaluation beside the sets, or None."""
    data = Path(os.environ.get("VECSIEVE_EVAL_DATA", SHARED_FOLDER)) / "chunking_evaluation"
    return data if (data / "questions_df.csv").is_file() else None


# Where the sets are known to be, REQUIRE_EVAL_DATA turns the skip into a failure: a check that silently skips is none.
NEEDS_EVAL_DATA = pytest.mark.skipif(
    folder() is None and "REQUIRE_EVAL_DATA" not in os.environ,
    reason="no labelled sets here: name their folder in VECSIEVE_EVAL_DATA",
)
NEEDS_CASES = pytest.mark.skipif(
    cases() is None and "REQUIRE_EVAL_DATA" not in os.environ,
    reason="no cases here: VECSIEVE_EVAL_DATA names a folder with cases/cases.jsonl",
)
