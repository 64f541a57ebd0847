"""Qdrant's bytes without Qdrant: request and reply bodies in its member order and its number format."""

from __future__ import annotations

import json

import numpy as np
import numpy.typing as npt

from bench.pools import Sample

VOCABULARY = (
    "index vector passage recall embedding collection payload shard replica segment query filter distance score cluster "
    "document chunk paragraph storage snapshot memory latency throughput cache request answer “quoted” naïve path\\to"
)
PAYLOAD_TEXT_BYTES = 480  # with the other members the payload comes to about 600 bytes: a chunk of 80 words


def f32(value: np.float32) -> str:
    """The shortest decimal that reads back as the same float32, as Rust's ryu prints it (1e-7, 0.00001, 1.0)."""
    if value != 0 and abs(value) < 1e-6:
        return np.format_float_scientific(value, unique=True, trim="-", exp_digits=1)
    return np.format_float_positional(value, unique=True, trim="0")


def array(vector: npt.NDArray[np.float32]) -> str:
    """A JSON array of float32 numbers without spaces."""
    return "[" + ",".join(map(f32, vector)) + "]"


def query_request(sample: Sample, *, limit: int) -> bytes:
    """The body that the official Python client sends for query_points."""
    nearest = array(sample.query)
    return f'{{"query":{{"nearest":{nearest}}},"limit":{limit},"with_vector":false,"with_payload":true}}'.encode()


def query_reply(sample: Sample, *, seed: int) -> bytes:
    """A reply with every candidate of the pool: payload and vector."""
    generator = np.random.default_rng(seed)
    points = ",".join(
        f'{{"id":{number},"version":{number // 7},"score":{f32(np.float32(score))},'
        f'"payload":{_payload(generator, number)},"vector":{array(vector)}}}'
        for number, (score, vector) in enumerate(zip(sample.scores, sample.vectors, strict=True), 1)
    )
    return f'{{"result":{{"points":[{points}]}},"status":"ok","time":0.001234567}}'.encode()


def point_reply() -> bytes:
    """The answer to GET /collections/{name}/points/1: about 300 bytes."""
    text = " ".join(VOCABULARY.split()[:20])
    payload = json.dumps({"text": text, "source": "guide/points.md", "chunk": 1}, separators=(",", ":"))
    return f'{{"result":{{"id":1,"payload":{payload}}},"status":"ok","time":0.000212}}'.encode()


def _payload(generator: np.random.Generator, number: int) -> str:
    vocabulary = VOCABULARY.split()
    words: list[str] = []
    while sum(map(len, words)) + len(words) < PAYLOAD_TEXT_BYTES:
        words.append(vocabulary[generator.integers(len(vocabulary))])
    members = {
        "text": " ".join(words),
        "source": f"guide/chapter-{number % 9}/section-{number}.md",
        "title": f"Section {number}",
        "chunk": number,
        "published": "2026-03-01T12:00:00Z",
    }
    return json.dumps(members, ensure_ascii=False, separators=(",", ":"))
