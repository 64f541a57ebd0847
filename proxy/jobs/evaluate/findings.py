"""Everything an evaluation found, as plain values for a program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from vecsieve.proxy.jobs.evaluate.contenders import Contender
from vecsieve.proxy.jobs.evaluate.summary import Summary


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What the figures hold for. ``pool``: the exact number of candidates fetched, None for each policy's own."""

    top_k: int
    every: int
    pool: int | None
    draws: int
    seed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """One geometry. ``geometry``: the name that the command line gave it, None for the sets' own embeddings."""

    geometry: str | None
    summaries: Mapping[str, Summary]


def as_json(found: Sequence[Findings], contenders: Sequence[Contender], terms: Terms) -> dict[str, object]:
    """For orjson, which writes NaN as null."""
    return {
        **asdict(terms),
        "policies": {each.name: each.settings.model_dump(by_alias=True, mode="json") for each in contenders},
        "geometries": [
            {
                "geometry": each.geometry,
                "policies": {name: _summary(summary) for name, summary in each.summaries.items()},
            }
            for each in found
        ],
    }


def _summary(summary: Summary) -> dict[str, object]:
    return {"headline": asdict(summary.headline), "sets": [asdict(each) for each in summary.sets]}
