"""Everything a calibration found, for the report, for `--json`, and for the profile file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from typing import Literal, cast

import numpy as np

from vecsieve.proxy.jobs.calibrate.borderline import Pair
from vecsieve.proxy.jobs.calibrate.proposal import Proposal
from vecsieve.proxy.jobs.calibrate.survey import Survey
from vecsieve.proxy.profiles import VERSION, PoolMedians, Profile


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """One finished calibration of ``collection``."""

    collection: str
    survey: Survey
    proposal: Proposal
    pairs: tuple[Pair, ...]


def profile_of(findings: Findings) -> Profile:
    """What the proxy needs of it."""
    survey, shape = findings.survey, findings.survey.shape
    return Profile(
        version=VERSION,
        collection=findings.collection,
        vector_name=shape.vector_name,
        dimension=shape.dimension,
        distance=cast(Literal["Cosine", "Dot", "Euclid", "Manhattan"], shape.distance),  # checked by the model
        cut=round(findings.proposal.cut, 6),
        how=findings.proposal.how,
        mean_unrelated_similarity=round(survey.unrelated, 6),
        pool_median=_quantiles(survey),
        pools=len(survey.pools),
        sample=len(survey.nearest),
        created_by=f"vecsieve {version('vecsieve')}",
    )


def as_json(findings: Findings) -> dict[str, object]:
    """Plain values, for a program to read."""
    survey, proposal = findings.survey, findings.proposal
    return {
        "profile": profile_of(findings).model_dump(),
        "points": survey.sample.listed,
        "without_usable_vector": survey.unusable,
        "nearest_neighbour_distance": _named_quantiles(survey.nearest, (0.01, 0.05, 0.25, 0.5, 0.75)),
        "density": [{"distance": distance, "share": share} for distance, share in proposal.density],
        "effects": {
            "default": asdict(proposal.default_effect),
            "default_at_typical_distance": asdict(proposal.typical_effect),
            "fixed_cut": asdict(proposal.cut_effect),
        },
        "fit": None if proposal.fit is None else asdict(proposal.fit),
        "borderline": [asdict(pair) for pair in findings.pairs],
    }


def _quantiles(survey: Survey) -> PoolMedians:
    medians = survey.medians
    low, middle, high = np.quantile(medians, [0.01, 0.5, 0.99]).tolist() if len(medians) else (0.0, 0.0, 0.0)
    return PoolMedians(percentile_1=round(low, 6), percentile_50=round(middle, 6), percentile_99=round(high, 6))


def _named_quantiles(values: np.ndarray[tuple[int], np.dtype[np.float64]], at: Sequence[float]) -> dict[str, float]:
    """By name; only of points that have a neighbour at all."""
    known = values[np.isfinite(values)]
    return {f"percentile_{share * 100:g}": float(np.quantile(known, share)) for share in at} if len(known) else {}
