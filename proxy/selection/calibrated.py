"""The constants of the calibrated rules. Fitted to 790,008 pairs of 12 labelled sets (argkp, banking77, clinc150, dirty, docs_versions, hotpot,
numpydoc, perspectrum, xquad_multi, xquad_ov12, xquad_ov25, xquad_ov50) in 3 embeddings, each set with the same weight.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

# By vectors alone (certainty.py): a constant, and the logarithm of the relative distance beyond and below the knee.
VECTORS: Mapping[str, float] = MappingProxyType({"one": -5.118, "far": -3.827, "near": -1.421})

# Of two sentences (judging/rewordings.py): a constant; the logarithm of the distance beyond and below the knee; the weight of rare words that
# both have, as a share of all and of the lighter sentence; how much the pool's sentences repeat one another; and the share of the shorter one
# with which both begin.
SENTENCES: Mapping[str, float] = MappingProxyType(
    {
        "one": -5.814,
        "far": -2.977,
        "near": -1.125,
        "rare_shared": 3.180,
        "rare_contained": 0.926,
        "repetition": 15.279,
        "opening": -1.149,
    }
)
