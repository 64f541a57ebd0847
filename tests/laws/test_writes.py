"""What every adapter of writes must hold, whatever bytes come."""

from __future__ import annotations

import pytest
from fuzz import target_writes
from hypothesis import given
from hypothesis import strategies as st

from support.written import Sample, samples
from vecsieve.adapters.backends import BACKENDS
from vecsieve.adapters.writes import Inquiry, WriteNeeds

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
