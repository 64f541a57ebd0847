"""Reading: pages of ids, then of points, each with its nearest others; what is interrupted is as if it had not begun."""

from __future__ import annotations

import numpy as np
import pytest

from support.memory_source import families, points
from support.searched_source import SearchedSource, numbered
from vecsieve.proxy.jobs.analyze.reading import (
    LONGEST_NAME,
    NEIGHBOURS,
    NOWHERE,
    FieldNames,
    Ids,
    Known,
    Reading,
    note,
    nothing_yet,
    read_page,
    spread,
    touched,
)
from vecsieve.proxy.jobs.source import Point, SourceError, id_pages

FIELDS = FieldNames(text=("text",), source=("source", "metadata.source"))


def begun(count: int, limit: int | None = None) -> Reading:
    return Reading(ids=numbered(count), gathered=nothing_yet(count, spread(count, limit)))


def read_all(reading: Reading, source: SearchedSource) -> Reading:
    while read_page(reading, source, FIELDS):
        pass
    return reading


def test_all_pages_of_ids_are_listed() -> None:
    source = SearchedSource(points(families(5, 5)))
    source._limit = 4
    heard: list[int] = []
    assert Ids(id_pages(source, heard.append)).at(range(25)) == list(range(25))
    assert heard == [4, 4, 4, 4, 4, 4, 1]


def test_each_point_gets_its_nearest_others_and_never_itself() -> None:
    vectors = families(40, 4)  # 160 points: two pages
    gathered = read_all(begun(160), SearchedSource(points(vectors))).gathered
    assert gathered.vectors.all()
    assert (gathered.others != np.arange(160)[:, None]).all()
    assert (np.diff(gathered.distances, axis=1) >= 0.0).all()
    for place in range(160):
        own = {4 * (place // 4) + copy for copy in range(4)} - {place}
        assert set(gathered.others[place, :3].tolist()) == own


def test_a_point_that_does_not_find_itself_keeps_as_many_as_any_other() -> None:
    vectors = np.tile(families(1, 1), (60, 1))  # a list of 21 among 60 equal ones holds the first 21
    gathered = read_all(begun(60), SearchedSource(points(vectors))).gathered
    assert gathered.others[0].tolist() == list(range(1, NEIGHBOURS + 1))
    assert gathered.others[50].tolist() == list(range(NEIGHBOURS))


def test_a_small_collection_leaves_the_rest_of_each_list_empty() -> None:
    gathered = read_all(begun(3), SearchedSource(points(families(3, 1)))).gathered
    assert (gathered.others[:, 2:] == NOWHERE).all()
    assert np.isinf(gathered.distances[:, 2:]).all()


def test_points_without_a_vector_are_noted_all_the_same() -> None:
    held = [Point(id=place, vector=None, payload={"text": "same", "source": "a"}) for place in range(3)]
    source = SearchedSource(held)
    gathered = read_all(begun(3), source).gathered
    assert not gathered.vectors.any()
    assert gathered.known.tolist() == [Known.TEXT] * 3
    assert len(set(gathered.keys.tolist())) == 1
    assert "nearest" not in source.calls


def test_a_point_that_is_gone_leaves_its_row_empty() -> None:
    held = points(families(4, 1))
    gathered = read_all(begun(4), SearchedSource([held[0], held[1], held[3]])).gathered
    assert gathered.known.tolist() == [Known.TEXT, Known.TEXT, Known.UNSEEN, Known.TEXT]
    assert gathered.vectors.tolist() == [True, True, False, True]
    assert 2 not in gathered.others


def test_a_point_written_since_is_no_neighbour() -> None:
    gathered = read_all(begun(3), SearchedSource(points(families(5, 1)))).gathered
    assert gathered.others.max() == 2


def test_a_page_that_fails_changes_nothing_of_those_before() -> None:
    source = SearchedSource(points(families(150, 1)), fails_after=1)
    reading = begun(150)
    assert read_page(reading, source, FIELDS) == 100
    before = reading.gathered.others.copy()
    with pytest.raises(SourceError):
        read_page(reading, source, FIELDS)
    assert reading.done == 100
    assert (reading.gathered.others == before).all()


@pytest.mark.parametrize(
    ("payload", "name"),
    [
        ({"source": "web"}, "web"),
        ({"metadata": {"source": " pdf "}}, "pdf"),
        ({"source": "", "metadata": {"source": "pdf"}}, "pdf"),
        ({"source": 7}, "7"),
        ({"source": True}, "true"),
        ({"source": ["web"]}, None),
        ({"source": {"name": "web"}}, None),
        ({}, None),
        ({"source": "x" * 500}, "x" * LONGEST_NAME),
        ({"source": "a\x1b[31m\nb\ud800"}, "a [31m b"),
    ],
)
def test_the_source_is_the_first_field_that_holds_a_name(payload: dict[str, object], name: str | None) -> None:
    reading = begun(1)
    note(reading, [Point(id=0, vector=None, payload=payload)], FIELDS)
    number = int(reading.gathered.sources[0])
    assert (None if number == NOWHERE else reading.gathered.source_names[number]) == name


def test_a_sample_knows_which_of_its_copies_it_has_not_looked_at() -> None:
    reading = read_all(begun(20, limit=10), SearchedSource(points(families(10, 2))))
    assert touched(reading.gathered, 0.05).tolist() == list(range(1, 20, 2))
    assert touched(reading.gathered, 1e-6).tolist() == []
    whole = read_all(begun(20), SearchedSource(points(families(10, 2))))
    assert touched(whole.gathered, 0.05).tolist() == []
