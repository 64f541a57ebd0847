"""A profile as `vecsieve calibrate` would write it, with what a test says in place of the rest."""

from __future__ import annotations

from vecsieve.proxy.search.collections.profiles import PoolMedians, Profile

MEMBERS: dict[str, object] = {
    "version": 2,
    "collection": "docs",
    "vector_name": "",
    "dimension": 384,
    "distance": "Cosine",
    "mean_unrelated_similarity": 0.05,
    "pool_median": {"percentile_1": 0.2, "percentile_50": 0.4, "percentile_99": 0.6},
    "pools": 200,
    "sample": 2000,
    "created_by": "vecsieve 0.1.0",
}


def profile(**members: object) -> Profile:
    medians = MEMBERS["pool_median"]
    assert isinstance(medians, dict)
    return Profile.model_validate({**MEMBERS, "pool_median": PoolMedians(**medians), **members})
