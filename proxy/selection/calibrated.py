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
        "one": -4.931,
        "short": 0.391,
        "mixed": 2.233,
        "far": -2.199,
        "short_far": -2.995,
        "short_near": -1.163,
        "contained": 5.536,
        "covered": 4.193,
        "figures": -1.448,
        "both_figures": -0.492,
        "names": -1.427,
        "both_names": -2.205,
        "rare_shared": 2.522,
        "rare_contained": 1.884,
        "short_both_figures": -0.280,
    }
)

VECTORS: Mapping[str, float] = MappingProxyType(
    {
        "one": -5.118,
        "far": -3.827,
        "near": -1.421,
    }
)
