"""A finished calibration of a made-up collection, without a database."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache

from support.jobs.memory_source import MemorySource, families, points
from vecsieve.proxy.jobs.calibrate.survey import Findings, Sample, borderline, proposed, survey
from vecsieve.proxy.jobs.pairs.reading import listed_ids


def calibration(
    *,
    copies: int,
    noise: float = 0.004,
    collection: str = "docs",
    payloads: Sequence[Mapping[str, object]] | None = None,
) -> Findings:
    """Forty families of ``copies`` members; those without payloads are calibrated once."""
    made = _of_vectors(copies, noise) if payloads is None else calibrated(copies, noise, payloads)
    return replace(made, collection=collection)


def calibrated(copies: int, noise: float = 0.004, payloads: Sequence[Mapping[str, object]] | None = None) -> Findings:
    source = MemorySource(points(families(40, copies, noise=noise), payloads))
    seen = survey(source, Sample.of(listed_ids(source, "docs"), 2000), fields=("text",))
    proposal = proposed(seen)
    return Findings(collection="docs", survey=seen, proposal=proposal, pairs=borderline(seen.pools, proposal.cut))


_of_vectors = cache(calibrated)
