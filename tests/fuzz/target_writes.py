"""A write is unsupported, or read; without notes it is the same bytes, and the answer to its query is neighbours or malformed.

The first byte of an input names the kind of write, the second whether notes may come; the rest is a write, an answer to the query for
the neighbours, and a description, one after another.
"""

from __future__ import annotations

from contextlib import suppress

import numpy as np

from support.backends.writes import Sample, samples
from vecsieve.adapters.contract import DescribesCollections, MalformedReplyError, RequestHead, UnsupportedError
from vecsieve.adapters.writes import Inquiry, NewPoints, WriteNeeds

WORDS = (
    *(b'"%s":' % name for name in (b"points", b"vectors", b"ids", b"data", b"objects", b"properties", b"_vecsieve")),
    *(b"null", b"[]", b"{}", b'"a"', b"1e3", b"-1", b"\\u0061", b"\xc3\xa9", b"\x0a\x00", b"\x12\x02\x08\x01"),
)
NOTE = b'{"duplicate_of":1,"similarity":0.9931,"tier":"exact"}'
MOST = 64


def seeds() -> list[bytes]:
    """Every sample and its answer, with notes and without."""
    return [
        bytes([number, notes]) + part
        for number, sample in enumerate(samples())
        for notes in (0, 1)
        for part in (sample.body, sample.answer)
    ]


def check(data: bytes) -> NewPoints | None:
    """Read the bytes as each of the three. Returns what they are as a write."""
    if len(data) < 2:
        return None
    sample, notes, rest = samples()[data[0] % len(samples())], bool(data[1] & 1), data[2:]
    sample.adapter.classify(RequestHead(method="POST", path=rest.decode("latin-1"), message=rest))
    points = _read(sample, rest, notes=notes)
    if points is not None:
        _judgeable(sample, points, rest)
    _answered(sample, rest)
    assert sample.adapter.is_cosine(rest, "") in {True, False}
    if isinstance(sample.adapter, DescribesCollections):
        sample.adapter.describe(sample.write, rest)
        with suppress(MalformedReplyError):
            sample.adapter.parse_description(rest)
    with suppress(UnsupportedError):
        sample.adapter.ask_metric(sample.write, rest)
    return points


def _read(sample: Sample, body: bytes, *, notes: bool) -> NewPoints | None:
    needs = WriteNeeds(vector_name=None, keys=("text", "_vecsieve"), most=MOST, known=sample.known, notes=notes)
    try:
        return sample.adapter.parse(sample.write, body, needs)
    except UnsupportedError:
        return None


def _judgeable(sample: Sample, points: NewPoints, body: bytes) -> None:
    count = len(points.ids)
    assert 0 < count <= MOST
    assert len(points.vectors) == len(points.fields) == count, "one of everything for each point"
    assert sample.adapter.annotated(points, {}) == body, "without notes the same bytes"
    usable = np.isfinite(points.vectors).all(axis=1) & (points.vectors != 0.0).any(axis=1)
    which = tuple(np.flatnonzero(usable).tolist())
    with suppress(UnsupportedError):
        assert sample.adapter.annotated(points, dict.fromkeys(range(count), NOTE)) != body
    if which:
        inquiry = Inquiry(which=which, tenants=((),) * len(which), count=2, vectors=True)
        with suppress(UnsupportedError):
            assert sample.adapter.ask(sample.write, points, inquiry)


def _answered(sample: Sample, answer: bytes) -> None:
    points = _read(sample, sample.body, notes=False)
    assert points is not None, sample.name
    inquiry = Inquiry(which=(0,), tenants=((),), count=2, vectors=True)
    try:
        near = sample.adapter.neighbours(points, inquiry, [answer])
    except MalformedReplyError:
        return
    assert len(near.of) == len(near.ids) == len(near.scores) == len(near.vectors) == len(near.fields)
