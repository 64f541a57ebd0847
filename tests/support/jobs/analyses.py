"""A planted collection of two sources, read and judged, and a report with something in every part of it."""

from __future__ import annotations

from functools import cache
from typing import Any

from support.jobs.memory_source import families
from support.jobs.searched_source import SearchedSource
from vecsieve.proxy.jobs.analyze.reading import FieldNames
from vecsieve.proxy.jobs.analyze.report import Report
from vecsieve.proxy.jobs.analyze.run import AnalyzeOptions, analyze
from vecsieve.proxy.jobs.source import Point

FAMILIES, COPIES, ALONE = 12, 3, 14
MORE = " The paper adds this one."
FIELDS = FieldNames(text=("text",), source=("source", "metadata.source"))


def planted() -> list[Point]:
    """Twelve families: two of `web` with one text, and one of `pdf` with a sentence more; 14 points of `wiki` alone."""
    copied = [
        Point(
            id=place,
            vector=vector,
            payload={
                "text": f"Subject {place // COPIES} as the page of the day has it." + MORE * (place % COPIES == 1),
                "metadata": {"source": "pdf" if place % COPIES == 1 else "web"},
            },
        )
        for place, vector in enumerate(families(FAMILIES, COPIES))
    ]
    alone = [
        Point(id=100 + place, vector=vector, payload={"text": f"Alone {place}", "source": "wiki"})
        for place, vector in enumerate(families(ALONE, 1, seed=8))
    ]
    return copied + alone


def analyze_options(**chosen: Any) -> AnalyzeOptions:
    """The options of the command."""
    return AnalyzeOptions(url="", collection="planted", **{"text_field": "text", **chosen})


def report(points: list[Point] | None = None, **chosen: object) -> Report:
    """The report of ``points``, the planted ones without, which are analysed once; ``chosen``: of ``asked``."""
    return _of_planted(**chosen) if points is None else _analysed(points, **chosen)


def _analysed(points: list[Point], **chosen: object) -> Report:
    return analyze(SearchedSource(points), analyze_options(**chosen))


@cache
def _of_planted(**chosen: object) -> Report:
    return _analysed(planted(), **chosen)
