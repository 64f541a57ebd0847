"""Items as a server writes them: float32 to the last bit, payload as it stands in the file."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import orjson
from hypothesis import given
from hypothesis import strategies as st

from support.labelled_folders import B, labelled_folder
from vecsieve.proxy.jobs.evaluate.reading import read_set
from vecsieve.proxy.jobs.evaluate.searching import Points, json_floats


@given(st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), max_size=20))
def test_floats_read_back_as_the_same_float32(values: list[float]) -> None:
    """Invariant: JSON text, read as doubles and rounded, gives the same 32 bits, sign of zero included."""
    row = np.array(values, np.float32)
    read = np.array(orjson.loads(json_floats(row)), np.float32)
    assert read.tobytes() == row.tobytes()


def test_floats_of_one_float32_have_its_shortest_digits() -> None:
    assert json_floats(np.array([0.1, 0.5], np.float32)) == b"[0.1,0.5]"


def test_a_point_has_the_parts_that_were_asked_for(tmp_path: Path) -> None:
    points = Points(read_set(labelled_folder(tmp_path / "tiny")))
    bare = points.point(B, b"0.8", wanted=None, with_vector=False)
    assert bare == b'{"id":2,"version":0,"score":0.8}'
    whole = json.loads(points.point(B, b"0.8", wanted=lambda key: key != "source", with_vector=True))
    assert whole["payload"] == {"text": "beta", "doc": "one"}
    assert np.array(whole["vector"], np.float32).tolist() == points._labelled.vectors[B].tolist()
    assert json.loads(points.point(B, b"1", wanted=lambda _: False, with_vector=False))["payload"] == {}


def test_labels_are_never_in_a_point(tmp_path: Path) -> None:
    points = Points(read_set(labelled_folder(tmp_path / "tiny")))
    whole = json.loads(points.point(0, b"1", wanted=lambda _: True, with_vector=True))
    assert sorted(whole["payload"]) == ["doc", "source", "text"]


def test_a_vector_is_written_once(tmp_path: Path) -> None:
    points = Points(read_set(labelled_folder(tmp_path / "tiny")))
    first, second = points._vector(0), points._vector(0)
    assert first is second
