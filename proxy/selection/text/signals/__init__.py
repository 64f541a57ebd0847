"""Near-text signals: rules that make two texts near copies, each with a threshold in the settings.

comparison  the texts that signals compare, and what a signal is
overlap     containment and Jaccard: the share of common word 3-grams
indel       the share of words in the same order
minhash     banding finds the pairs, Jaccard verifies them
simhash     64 bits a text

A module that defines ``SIGNALS`` registers what `policy.text` may switch on. It needs no line here.
"""

from collections.abc import Mapping
from importlib import import_module
from pkgutil import iter_modules
from types import MappingProxyType

from .comparison import Signal

# For each name of a setting that holds the threshold.
SIGNALS: Mapping[str, Signal] = MappingProxyType(
    {
        name: signal
        for module in iter_modules(__path__)
        for name, signal in getattr(import_module(f"{__name__}.{module.name}"), "SIGNALS", {}).items()
    }
)
