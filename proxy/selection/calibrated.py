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
        "one": -3.157,
        "short": -2.751,
        "far": -2.078,
        "short_far": -2.979,
        "short_near": -1.134,
        "contained": 5.104,
        "covered": 2.804,
        "figures": -1.789,
        "both_figures": -0.742,
        "names": -1.590,
        "both_names": -2.326,
        "rare_shared": 3.172,
        "rare_contained": 0.918,
        "short_both_figures": 0.000,
        "repetition": 15.173,
        "sentences": -12.091,
        "opening": -1.174,
    }
)

VECTORS: Mapping[str, float] = MappingProxyType(
    {
        "one": -5.118,
        "far": -3.827,
        "near": -1.421,
    }
)
