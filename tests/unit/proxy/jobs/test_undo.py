"""Whether a stored vector is still the one that the gate wrote, in every form in which databases show vectors."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import numpy as np
import pytest

from vecsieve.proxy.jobs.undo import _are_near

ONE, UNIT = [3.0, 4.0], [0.6, 0.8]


@pytest.mark.parametrize(
    ("stored", "written", "is_near"),
    [
        (ONE, ONE, True),
        (UNIT, ONE, True),  # normalised by the database
        ([6.0, 8.0], ONE, False),  # as long as it was written, or of length one
        ([0.6, 0.79], ONE, False),
        ([3.0005, 4.0], ONE, True),  # of 16 bits
        ([3.0], ONE, False),
        (None, ONE, False),
        (ONE, None, True),  # none was written
        ({"a": UNIT, "b": [1.0]}, {"a": ONE}, True),
        ({"b": [1.0]}, {"a": ONE}, False),
        ({"a": [0.8, 0.6]}, {"a": ONE}, False),
        ([UNIT, [0.0, 1.0]], [ONE, [0.0, 2.0]], True),
        ([UNIT], [ONE, [0.0, 2.0]], False),
        ({"indices": [1, 2], "values": [3.0, 4.0]}, {"indices": [1, 2], "values": ONE}, True),
        ({"indices": [1, 3], "values": [3.0, 4.0]}, {"indices": [1, 2], "values": ONE}, False),
        ({"indices": [5_000], "values": [3.0]}, {"indices": [5_001], "values": [3.0]}, False),
        (UNIT, b64encode(np.array(ONE, "<f4").tobytes()).decode(), True),
        (UNIT, "no vector", False),
        ([0.0, 0.0], [0.0, 0.0], True),
        (["x"], ["y"], False),
        ([], [], True),
    ],
)
def test_a_vector_is_the_same_but_for_rounding_and_what_the_database_makes_of_its_length(
    stored: Any, written: Any, is_near: bool
) -> None:
    assert _are_near(stored, written) == is_near
