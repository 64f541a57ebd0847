"""What every adapter of writes must hold, whatever bytes come."""

from __future__ import annotations

from contextlib import suppress

import pytest
from fuzz import target_writes
from hypothesis import given
from hypothesis import strategies as st

from support.written import Sample, samples
from vecsieve.adapters.backends import BACKENDS
from vecsieve.adapters.contract import MalformedReplyError
from vecsieve.adapters.writes import Inquiry, MergesPoints, WriteNeeds

NAMES = [sample.name for sample in samples()]


def test_every_transport_that_reads_writes_has_a_sample() -> None:
    transports = [each for backend in BACKENDS.values() for each in (backend.rest, backend.grpc) if each is not None]
    assert len(NAMES) == sum(each.writes is not None for each in transports)


@pytest.mark.parametrize("sample", samples(), ids=NAMES)
def test_a_sample_is_read_whole(sample: Sample) -> None:
    needs = WriteNeeds(vector_name=None, keys=("text",), most=9, known=sample.known)
    points = sample.adapter.parse(sample.write, sample.body, needs)
    inquiry = Inquiry(which=(0,), tenants=((),), count=2, vectors=False)
    assert len(sample.adapter.ask(sample.write, points, inquiry)) == 1
    near = sample.adapter.found(points, inquiry, [sample.answer])
    assert (near.of.tolist(), near.scores.tolist()) == ([0], [0.5])
    assert near.ids != points.ids


@pytest.mark.parametrize("number", range(len(NAMES)), ids=NAMES)
@given(st.data())
def test_arbitrary_bytes_raise_only_the_two_verdicts(number: int, data: st.DataObject) -> None:
    """A write that cannot be read is unsupported, an answer malformed; what is read is the same bytes without notes."""
    sample = samples()[number]
    whole = data.draw(st.sampled_from([sample.body, sample.answer]))
    at, cut = data.draw(st.integers(0, len(whole))), data.draw(st.integers(0, 30))
    junk = data.draw(st.one_of(st.binary(max_size=40), st.sampled_from(target_writes.WORDS)))
    target_writes.check(bytes([number, data.draw(st.integers(0, 1))]) + whole[:at] + junk + whole[at + cut :])


@pytest.mark.parametrize("sample", samples(), ids=NAMES)
def test_every_transport_can_read_points_whole_and_remove_them(sample: Sample) -> None:
    """The settings take mode merge for each database: one without these verbs would count each write as unsupported."""
    verbs, write = sample.adapter, sample.write
    assert isinstance(verbs, MergesPoints)
    points = verbs.parse(write, sample.body, WriteNeeds(vector_name=None, keys=(), most=9, known=sample.known))
    other = points.ids[0].replace(b"a", b"b").replace(b"1", b"2")
    assert other != points.ids[0]
    bare = other.strip(b'"')
    asked = [
        *verbs.ask_stored(write, points, [other], whole=True),
        *verbs.ask_removed(write, points, {other: b'{"payload":{}}'}),
    ]
    assert len(asked) == 2
    if bare != b"2" or sample.name.endswith("REST"):  # over gRPC a number is no text
        assert all(bare in each.target.encode() + each.body for each in asked)


@pytest.mark.parametrize("number", range(len(NAMES)), ids=NAMES)
@given(st.data())
def test_arbitrary_bytes_are_stored_points_or_malformed(number: int, data: st.DataObject) -> None:
    sample = samples()[number]
    verbs = sample.adapter
    assert isinstance(verbs, MergesPoints)
    needs = WriteNeeds(vector_name=None, keys=(), most=9, known=sample.known)
    points = verbs.parse(sample.write, sample.body, needs)
    whole = data.draw(st.sampled_from([sample.body, sample.answer, b'{"class":"Docs","id":"a","vector":[1]}']))
    at, cut = data.draw(st.integers(0, len(whole))), data.draw(st.integers(0, 30))
    junk = data.draw(st.one_of(st.binary(max_size=40), st.sampled_from(target_writes.WORDS)))
    damaged = whole[:at] + junk + whole[at + cut :]
    for read in (lambda: verbs.stored(points, damaged), lambda: verbs.removed(damaged)):
        with suppress(MalformedReplyError):
            read()
