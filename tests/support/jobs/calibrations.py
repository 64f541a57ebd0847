"""A finished calibration of a made-up collection, without a database."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cache

from support.jobs.memory_source import MemorySource, families, points
from vecsieve.proxy.jobs.calibrate.survey import Findings, borderline, proposed, spread, survey
from vecsieve.proxy.runtime.files import Advance


@contextmanager
def quiet(_title: str, _total: int) -> Iterator[Advance]:
    yield lambda _: None


def calibration(
    *,
    copies: int,
    noise: float = 0.004,
    collection: str = "docs",
    payloads: Sequence[Mapping[str, object]] | None = None,
) -> Findings:
    """Forty families of ``copies`` members; those without payloads are calibrated once."""
    found = _of_vectors(copies, noise) if payloads is None else calibrated(copies, noise, payloads)
    return replace(found, collection=collection)


def calibrated(copies: int, noise: float = 0.004, payloads: Sequence[Mapping[str, object]] | None = None) -> Findings:
    source = MemorySource(points(families(40, copies, noise=noise), payloads))
    seen = survey(source, spread(source, 2000, lambda _: None), fields=("text",), step=quiet)
    proposal = proposed(seen)
    return Findings(collection="docs", survey=seen, proposal=proposal, pairs=borderline(seen.pools, proposal.cut))


_of_vectors = cache(calibrated)
