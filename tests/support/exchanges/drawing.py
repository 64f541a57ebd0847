"""Values of a strategy outside a test: for runs that print figures and are long because they are asked to be."""

from __future__ import annotations

import warnings
from typing import TypeVar

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from hypothesis.errors import HypothesisWarning

Drawn = TypeVar("Drawn")


def drawn(strategy: st.SearchStrategy[Drawn], count: int, *, chance: int = 0) -> list[Drawn]:
    """At most so many values, the same ones for the same ``chance``; fewer where there are no more."""
    values: list[Drawn] = []

    @seed(chance)
    @settings(
        max_examples=count,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def collect(value: Drawn) -> None:
        values.append(value)

    with warnings.catch_warnings():
        # It looks at what it made where it watches itself, and warns of the size: bodies are meant to be large.
        warnings.simplefilter("ignore", HypothesisWarning)
        collect()
    return values
