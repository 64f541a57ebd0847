"""Finds the points that share a band. This is the only step of a sweep that processes all points at once. Both engines find the same pairs.

LOCAL: DuckDB, in this process, out of core. RAY: Daft, on the Ray cluster that RAY_ADDRESS names, or on one of its own; the bands go to it
and the pairs come back as Parquet files in the folder of the sweep, which all its machines must see. Both form the same pairs:

- in a group of at most GROUP points each meets each;
- in a larger one each meets the first and the NEAREST before it: all pairs of a thousand equal texts would be half a million, and their
  family needs a thousand. So the work grows with the group and not with the square of it.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from enum import StrEnum
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from daft import DataFrame

GROUP, NEAREST = 32, 8

# The query for the bands from one up to, but without, another. The hashes of different bands differ (sketches.py), and so do those of
# vectors and of texts.
BY_DUCKDB = f"""
WITH grouped AS (
    SELECT place, hash, row_number() OVER (PARTITION BY hash ORDER BY place) AS r, count(*) OVER (PARTITION BY hash) AS n
    FROM bands WHERE band >= ? AND band < ?
), small AS MATERIALIZED (SELECT * FROM grouped WHERE n > 1 AND n <= {GROUP}),
large AS MATERIALIZED (SELECT * FROM grouped WHERE n > {GROUP}),
later AS (SELECT place, hash, r + unnest(range(1, {NEAREST + 1})) AS r FROM large),
met AS (
    SELECT one.place AS a, other.place AS b FROM small AS one JOIN small AS other ON one.hash = other.hash AND one.r < other.r
    UNION ALL SELECT one.place, other.place FROM large AS one JOIN large AS other ON one.hash = other.hash WHERE one.r = 1 AND other.r > 1
    UNION ALL SELECT one.place, other.place FROM later AS one JOIN large AS other ON one.hash = other.hash AND one.r = other.r
)
SELECT DISTINCT a, b FROM met
"""  # noqa: S608 - numbers of our own


class Runner(StrEnum):
    """Where bands are joined."""

    LOCAL = "local"
    RAY = "ray"


Join = Callable[[Path, Path], None]
"""Arguments: the folder of the bands and the folder for the pairs. The first has subfolders with Parquet files (hash, place, of_text);
different subfolders have no hash in common. The pairs are written as Parquet (a, b, of_text).
"""


def by_daft(*, on_ray: bool) -> Join:
    """A join by Daft. The runner is set once per process. Raises ModuleNotFoundError without Daft."""
    import daft

    if on_ray:
        daft.set_runner_ray()
    else:
        daft.set_runner_native()

    def join(bands: Path, pairs: Path) -> None:
        shutil.rmtree(pairs, ignore_errors=True)  # left by a killed run
        for folder in sorted(bands.iterdir()):
            met(daft.read_parquet(f"{folder}/*.parquet")).write_parquet(str(pairs))

    return join


def met(bands: DataFrame) -> DataFrame:
    """The pairs (a, b, of_text) of these (hash, place, of_text).

    Most hashes have one point and are dropped first. The others are grouped into lists. For eight million hashes, Daft needed 16 GB with
    window functions, and 1 GB with lists.
    """
    from daft import col, lit

    group = col("place").count().cast("int64").alias("n"), col("place").list_agg().list_sort().alias("places")
    groups = bands.groupby("hash").agg(*group, col("of_text").any_value()).where(col("n") > 1).collect()
    small, large = groups.where(col("n") <= GROUP), groups.where(col("n") > GROUP)
    combined = small.with_columns({"a": col("places"), "b": col("places")}).explode("a").explode("b")
    first = large.with_columns({"a": col("places").list_min(), "b": col("places")}).explode("b")
    steps = large.with_column("step", lit(list(range(1, NEAREST + 1)))).explode("step")
    nearest = steps.with_columns(
        {"a": col("places").slice(0, col("n") - col("step")), "b": col("places").slice(col("step"), col("n"))}
    ).explode("a", "b")
    pairs_met = (pairs.where(col("a") < col("b")).select("a", "b", "of_text") for pairs in (combined, first, nearest))
    return reduce(lambda one, other: one.concat(other), pairs_met).distinct()
