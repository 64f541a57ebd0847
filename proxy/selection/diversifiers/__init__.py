"""Which representatives are on the page, for policies that use more than rank.

choice     what a diversifier chooses from
relevance  the backend's scores, comparable and higher-is-better
mmr        maximal marginal relevance; it has a section of the settings to itself
dpp        greedy determinantal point process

A module that defines ``DIVERSIFIERS`` registers what `policy.diversify` may name. It needs no line here.
"""

from collections.abc import Callable, Mapping
from importlib import import_module
from pkgutil import iter_modules
from types import MappingProxyType

from .choice import Diversifier

# For each name, the function that makes a diversifier from `policy.diversity`.
DIVERSIFIERS: Mapping[str, Callable[[float], Diversifier]] = MappingProxyType(
    {
        name: make
        for module in iter_modules(__path__)
        for name, make in getattr(import_module(f"{__name__}.{module.name}"), "DIVERSIFIERS", {}).items()
    }
)
