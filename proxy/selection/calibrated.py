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
        "one": -3.155,
        "short": -2.659,
        "far": -2.075,
        "short_far": -2.977,
        "short_near": -1.125,
        "contained": 5.105,
        "covered": 2.805,
        "figures": -1.791,
        "both_figures": -0.742,
        "names": -1.591,
        "both_names": -2.327,
        "rare_shared": 3.180,
        "rare_contained": 0.926,
        "short_both_figures": 0.000,
        "repetition": 15.279,
        "sentences": -12.093,
        "opening": -1.149,
    }
)

VECTORS: Mapping[str, float] = MappingProxyType(
    {
        "one": -5.118,
        "far": -3.827,
        "near": -1.421,
    }
)
