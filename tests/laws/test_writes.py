"""What every adapter of writes must hold, whatever bytes come."""

from __future__ import annotations

import tracemalloc
from contextlib import suppress

import orjson
import pytest
from fuzz import target_writes
from hypothesis import given
from hypothesis import strategies as st

from support.backends.writes import SCORE, Sample, samples
from vecsieve.adapters.backends import BACKENDS
from vecsieve.adapters.contract import DeclinedError, MalformedReplyError, UnsupportedError
from vecsieve.adapters.wire.protobuf import LENGTH, length_field
from vecsieve.adapters.writes import Inquiry, MergesPoints, NewPoints, Receipt, WriteNeeds
from vecsieve.proxy.jobs.undo import _is_as_made

JUNK = st.one_of(st.binary(max_size=40), st.sampled_from(target_writes.WORDS))
NAMES = [sample.name for sample in samples()]


def test_every_transport_that_reads_writes_has_a_sample() -> None:
    transports = [
        transport
        for backend in BACKENDS.values()
        for transport in (backend.rest, backend.grpc)
        if transport is not None
    ]
    assert len(NAMES) == sum(transport.writes is not None for transport in transports)


@pytest.mark.parametrize("sample", samples(), ids=NAMES)
def test_a_sample_is_read_whole(sample: Sample) -> None:
    needs = WriteNeeds(vector_name=None, keys=("text",), most=9, known=sample.known)
    points = sample.adapter.parse(sample.write, sample.body, needs)
    inquiry = Inquiry(which=(0,), tenants=((),), count=2, vectors=False)
    assert len(sample.adapter.ask(sample.write, points, inquiry)) == 1
    near = sample.adapter.neighbours(points, inquiry, [sample.answer])
    assert (near.of.tolist(), near.scores.tolist()) == ([0], [SCORE])
    assert near.ids != points.ids


@pytest.mark.parametrize("number", range(len(NAMES)), ids=NAMES)
@given(st.data())
def test_arbitrary_bytes_raise_only_the_two_verdicts(number: int, data: st.DataObject) -> None:
    """A write that cannot be read is unsupported, an answer malformed; what is read is the same bytes without notes."""
    sample, notes = samples()[number], data.draw(st.booleans())
    damaged = data.draw(answers(sample.body, samples(2)[number].body, sample.answer))
    points = target_writes.check(bytes([number, notes]) + damaged)
    assert points is None or sample.adapter.annotated(points, {}) == damaged


@pytest.mark.parametrize("sample", samples(), ids=NAMES)
def test_every_transport_can_read_points_whole_and_remove_them(sample: Sample) -> None:
    """The settings take mode merge for each database: one without these verbs would count each write as unsupported."""
    verbs, write = sample.adapter, sample.write
    assert isinstance(verbs, MergesPoints)
    points = verbs.parse(write, sample.body, WriteNeeds(vector_name=None, keys=(), most=9, known=sample.known))
    other = points.ids[0].replace(b"a", b"b").replace(b"1", b"2")
    assert other != points.ids[0]
    bare = other.strip(b'"')
    questions = [
        *verbs.ask_stored(write, points, [other], whole=True),
        *verbs.ask_removed(write, points, {other: b'{"payload":{}}'}),
    ]
    assert len(questions) == 2
    if bare != b"2" or sample.name.endswith("REST"):  # over gRPC a number is no text
        assert all(bare in question.target.encode() + question.body for question in questions)


@pytest.mark.parametrize("number", range(len(NAMES)), ids=NAMES)
@given(text=st.text(max_size=9), is_same=st.booleans())
def test_a_point_is_sent_with_another_payload_or_is_not_held(number: int, text: str, is_same: bool) -> None:
    """The policies `merge` and `custom` are for each database: what is sent is what was made, with the vectors of one."""
    sample, verbs, points = two_points(number)
    form, point = verbs.form_of(points), orjson.loads(verbs.point(points, 0))
    payload = form.payload_of(point)
    key = next(name for name in ("text", "#document") if name in payload)
    expected = payload if is_same else {**payload, key: text}
    made = form.given(point, expected, point)
    assert form.same(made, form.given(point, expected, made))
    assert verbs.holds(points, 0, orjson.dumps(made))
    body = verbs.merged(sample.write, points, {1}, {0: orjson.dumps(made)})
    again = sample.adapter.parse(sample.write, body, WriteNeeds(vector_name=None, keys=(), most=9, known=sample.known))
    assert again.ids == points.ids[:1]
    assert again.vectors.tolist() == points.vectors[:1].tolist()
    assert form.payload_of(orjson.loads(verbs.point(again, 0))) == expected
    assert form.same(orjson.loads(verbs.point(again, 0)), made)


@pytest.mark.parametrize("number", range(len(NAMES)), ids=NAMES)
def test_a_point_with_another_vector_is_not_as_it_was_made(number: int) -> None:
    """`undo` gives a changed point its own content back only if nobody changed its payload or its vector since."""
    _, verbs, points = two_points(number)
    form, made = verbs.form_of(points), orjson.dumps(orjson.loads(verbs.point(points, 0)))
    vector = points.vectors[0].tolist()
    turned = made.replace(orjson.dumps(vector), orjson.dumps(vector[::-1]))
    assert form.same(orjson.loads(made), orjson.loads(turned))
    assert _is_as_made(made, made, form)
    assert not _is_as_made(turned, made, form)


@pytest.mark.parametrize("number", range(len(NAMES)), ids=NAMES)
@given(rows=st.sets(st.integers(0, 3), max_size=3))
def test_what_stays_of_a_write_is_its_other_points_in_their_order(number: int, rows: set[int]) -> None:
    """Points that are left out can be written down whole, and a write of which none is left out changes no byte."""
    sample, verbs, points = several_points(number, 4)
    form, point = verbs.form_of(points), orjson.loads(verbs.point(points, 0))
    payload = form.payload_of(point)
    key = next(name for name in ("text", "#document") if name in payload)
    made = {row: orjson.dumps(form.given(point, {**payload, key: f"text {row}"}, point)) for row in range(4)}
    body = verbs.merged(sample.write, points, set(), made)
    whole = sample.adapter.parse(sample.write, body, needs_of(sample))
    rest = sample.adapter.parse(sample.write, verbs.without(whole, rows), needs_of(sample))
    texts = [
        [form.payload_of(orjson.loads(verbs.point(of, row)))[key] for row in range(len(of.ids))] for of in (whole, rest)
    ]
    assert texts[0] == [f"text {row}" for row in range(4)]
    assert texts[1] == [text for row, text in enumerate(texts[0]) if row not in rows]
    assert verbs.without(whole, ()) == body


@pytest.mark.parametrize("number", range(len(NAMES)), ids=NAMES)
@given(st.data())
def test_arbitrary_bytes_are_stored_points_or_malformed(number: int, data: st.DataObject) -> None:
    """Whatever the database answers raises MalformedReplyError, or is points under canonical ids."""
    sample, verbs, points = two_points(number)
    damaged = data.draw(answers(sample.body, sample.answer, b'{"class":"Docs","id":"a","vector":[1]}', b""))
    try:
        stored = verbs.stored(points, damaged)
    except MalformedReplyError:
        stored = {}
    assert all(orjson.dumps(orjson.loads(key)) == key for key in stored)
    with suppress(MalformedReplyError):
        verbs.removed(damaged)


@pytest.mark.parametrize("number", range(len(NAMES)), ids=NAMES)
@given(st.data())
def test_arbitrary_bytes_tell_of_the_points_of_a_write_or_are_malformed(number: int, data: st.DataObject) -> None:
    """Whatever the database answers to the rest of a write raises MalformedReplyError, or tells of points that were left out or sent."""
    sample, verbs, points = two_points(number)
    damaged = data.draw(answers(verbs.acknowledged(sample.write, points, "").body, *REFUSALS, b""))
    try:
        receipt = verbs.receipt(sample.write, points, {1: 0}, damaged)
    except MalformedReplyError:
        return
    assert receipt.refused <= {1}
    assert receipt.failed <= {0}
    assert verbs.has_receipts or receipt == Receipt(body=damaged)


@pytest.mark.parametrize("number", range(len(NAMES)), ids=NAMES)
def test_each_answer_of_a_refusal_is_read_by_a_transport(number: int) -> None:
    """The answers that the law damages are what it says they are."""
    sample, verbs, points = two_points(number)
    refused = 0
    for answer in REFUSALS:
        try:
            refused += bool(verbs.receipt(sample.write, points, {1: 0}, answer).failed)
        except DeclinedError:
            refused += 1
        except MalformedReplyError:
            continue
    assert (refused > 0) == verbs.has_receipts


# Of one row, by Milvus over REST and gRPC, by Weaviate over REST and gRPC, and by OpenSearch.
REFUSALS = (
    b'{"items":[{"index":{"status":400,"error":{}}}]}',
    b'{"code":1100,"message":"no"}',
    b"\x22\x01\x00",
    b'[{"result":{"errors":{}}}]',
    b"\x12\x00",
)


def two_points(number: int) -> tuple[Sample, MergesPoints, NewPoints]:
    """A write of one point twice, as read."""
    return several_points(number, 2)


def several_points(number: int, count: int) -> tuple[Sample, MergesPoints, NewPoints]:
    """A write of one point several times, as read."""
    sample = samples(count)[number]
    verbs = sample.adapter
    assert isinstance(verbs, MergesPoints)
    return sample, verbs, sample.adapter.parse(sample.write, sample.body, needs_of(sample))


def needs_of(sample: Sample) -> WriteNeeds:
    return WriteNeeds(vector_name=None, keys=(), most=9, known=sample.known)


@st.composite
def answers(draw: st.DrawFn, *wholes: bytes) -> bytes:
    """One of these with some bytes in place of others."""
    whole = draw(st.sampled_from(wholes))
    at, cut = draw(st.integers(0, len(whole))), draw(st.integers(0, 30))
    return whole[:at] + draw(JUNK) + whole[at + cut :]


# To the message itself, its points, their fields, and what these hold, by the numbers of each database.
PATHS = [(1,), (3,), (5,), (1, 1), (1, 3), (3, 3), (5, 3), (1, 2, 1), (3, 3, 1)]


@pytest.mark.parametrize("path", PATHS, ids=str)
@pytest.mark.parametrize(
    "sample", [sample for sample in samples() if sample.name.endswith("gRPC")], ids=lambda sample: sample.name
)
def test_a_message_of_very_many_fields_is_neither_read_nor_held(sample: Sample, path: tuple[int, ...]) -> None:
    """At any depth: a field of two bytes became a hundred, and 4 MB took three seconds."""
    body = bytes((path[-1] << 3 | LENGTH, 0)) * 600_000
    for number in reversed(path[:-1]):
        body = length_field(number, body)
    tracemalloc.start()
    with suppress(UnsupportedError):
        sample.adapter.parse(
            sample.write, body, WriteNeeds(vector_name=None, keys=("text",), most=10**9, known=sample.known)
        )
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 25_000_000
