"""The constants of the calibrated rule. Written by ``vecsieve evaluate --fit``: do not edit.

What each feature says stands in certainty.py.

Fitted to 790,008 pairs of 12 labelled sets (argkp, banking77, clinc150, dirty, docs_versions, hotpot,
numpydoc, perspectrum, xquad_multi, xquad_ov12, xquad_ov25, xquad_ov50) in 3 embeddings (e5, own, wordllama),
each set with the same weight.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

TEXTS: Mapping[str, float] = MappingProxyType(
    {
        "one": -4.610,
        "short": -1.157,
        "mixed": 1.793,
        "far": -2.521,
        "short_far": -2.933,
        "short_near": -1.139,
        "contained": 4.820,
        "covered": 3.949,
        "figures": -1.452,
        "both_figures": -0.564,
        "names": -1.342,
        "both_names": -2.304,
        "rare_shared": 3.026,
        "rare_contained": 0.764,
        "short_both_figures": 0.000,
        "repetition": 16.057,
        "sentences": -8.387,
    }
)

VECTORS: Mapping[str, float] = MappingProxyType(
    {
        "one": -5.118,
        "far": -3.827,
        "near": -1.421,
    }
)
