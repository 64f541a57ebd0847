"""What may become of a widened request: misbehaviours by name, each with the reason that is counted when it is survived."""

from __future__ import annotations

import asyncio
import gzip
import json
from functools import cache

from support.network.faulty_upstream import Received, Talk, reply
from support.qdrant.scripted import COPIES, DIMENSION, JSON, Misbehaviour, answering, honest

STRICT = (
    b'{"status":{"error":"Bad request: Limit exceeded 24 > 10 for \\"limit\\". Help: Reduce the \\"limit\\" parameter to '
    b'or below 10."},"time":0.0}'
)


async def resets(talk: Talk, _: Received) -> bool:
    talk.reset()
    return False


async def hangs_up(talk: Talk, _: Received) -> bool:
    talk.close()
    return False


async def is_cut_mid_body(talk: Talk, received: Received) -> bool:
    answer = honest(received)
    await talk.send(answer[: len(answer) // 2])
    talk.close()
    return False


async def loses_its_last_chunk(talk: Talk, received: Received) -> bool:
    await talk.send(b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{"res\r\n')
    talk.close()
    return False


async def stays_silent(talk: Talk, _: Received) -> bool:
    await asyncio.sleep(30)
    return False


async def trickles(talk: Talk, received: Received) -> bool:
    await talk.send(honest(received), slice_bytes=1, pause_seconds=0.05)
    return True


def ok(body: bytes, **headers: bytes) -> bytes:
    return reply(body, headers=[JSON, *((key.replace("_", "-").encode(), value) for key, value in headers.items())])


def points(vectors: list[object]) -> bytes:
    rows = [{"id": rank, "version": 1, "score": 0.9, "vector": vector} for rank, vector in enumerate(vectors)]
    return ok(json.dumps({"result": {"points": rows}, "status": "ok", "time": 0.1}).encode())


DEEP = b"[" * 100_000
FAULTS: dict[str, tuple[Misbehaviour, str]] = {
    "reset": (resets, "overfetch_reset"),
    "hang-up": (hangs_up, "overfetch_reset"),
    "cut-mid-body": (is_cut_mid_body, "overfetch_reset"),
    "last-chunk-missing": (loses_its_last_chunk, "overfetch_reset"),
    "silence": (stays_silent, "overfetch_timeout"),
    "trickle": (trickles, "overfetch_timeout"),
    "not-http": (answering(b"SSH-2.0-OpenSSH_9.2\r\n\r\n"), "overfetch_reset"),
    "two-lengths": (
        answering(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}"),
        "overfetch_reset",
    ),
    "400": (answering(reply(b'{"status":{"error":"no"},"time":0}', status=b"400 Bad Request")), "overfetch_status"),
    "strict-mode": (answering(reply(STRICT, status=b"400 Bad Request", headers=[JSON])), "overfetch_status"),
    "403": (answering(reply(b"forbidden", status=b"403 Forbidden")), "overfetch_status"),
    "404": (answering(reply(b"{}", status=b"404 Not Found")), "overfetch_status"),
    "500": (answering(reply(b"oops", status=b"500 Internal Server Error")), "overfetch_status"),
    "503": (answering(reply(b"", status=b"503 Service Unavailable")), "overfetch_status"),
    "redirect": (
        answering(reply(b"", status=b"302 Found", headers=[(b"location", b"http://127.0.0.1:1/")])),
        "overfetch_status",
    ),
    "unknown-vector": (
        answering(
            reply(b'{"status":{"error":"Not existing vector name error: x"},"time":0}', status=b"400 Bad Request")
        ),
        "not_found_vector",
    ),
    "empty": (answering(ok(b"")), "malformed"),
    "html": (answering(ok(b"<html>it works</html>")), "malformed"),
    "garbage": (answering(ok(bytes(range(256)))), "malformed"),
    "truncated-json": (answering(ok(b'{"result":{"points":[{"id":1,"vers')), "malformed"),
    "other-shape": (answering(ok(b'{"result":{"hits":[]},"status":"ok","time":0}')), "malformed"),
    "not-a-number": (
        answering(ok(b'{"result":{"points":[{"id":0,"score":NaN}]},"status":"ok","time":0}')),
        "malformed",
    ),
    "too-deep": (answering(ok(b'{"result":{"points":[{"id":0,"score":1,"payload":' + DEEP)), "malformed"),
    "gzip-unasked": (answering(ok(gzip.compress(b"{}"), content_encoding=b"gzip")), "malformed"),
    "too-large": (answering(ok(b" " * 2_000_000)), "too_large"),
}


def limits_of(reason: str) -> dict[str, float]:
    """The limits for a fault that ends in ``reason``: only one that lasts until the timeout needs a short one."""
    timeout = {"attempt_timeout_seconds": 0.4} if reason == "overfetch_timeout" else {}
    return {"reply_body_bytes": 1_000_000, **timeout}


def coded(coding: bytes, body: bytes) -> Misbehaviour:
    """A content coding that was not asked for."""
    return answering(ok(body, content_encoding=coding))


def refused(status: bytes, *headers: tuple[bytes, bytes]) -> Misbehaviour:
    """A refusal that does not say why."""
    return answering(reply(b"no", status=status, headers=headers))


def scored(score: bytes) -> Misbehaviour:
    """One result with such a score."""
    return answering(ok(b'{"result":{"points":[{"id":0,"version":1,"score":' + score + b'}]},"status":"ok","time":0}'))


@cache
def bombed() -> bytes:
    return gzip.compress(b" " * 50_000_000, mtime=0)


async def bomb(talk: Talk, received: Received) -> bool:
    """A thousandth of what it unpacks to."""
    return await coded(b"gzip", bombed())(talk, received)


async def is_endless(talk: Talk, _: Received) -> bool:
    """50 MB, as far as anybody reads them."""
    await talk.send(reply(length=50_000_000, headers=[JSON]))
    for __ in range(50):
        await talk.send(b"[" * 1_000_000)
    return True


GZIPPED = gzip.compress(b'{"result":{"points":[]},"status":"ok","time":0}')
RETRY = (b"Retry-After", b"7")
# More of the same, for runs that have time for them.
MORE_FAULTS: dict[str, tuple[Misbehaviour, str]] = {
    "length-and-chunks": (
        answering(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
        "overfetch_reset",
    ),
    "70-kB-header": (answering(reply(b"{}", headers=[(b"x", b"a" * 70_000)])), "overfetch_reset"),
    "101": (answering(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n"), "overfetch_reset"),
    "500-later": (refused(b"500 Internal Server Error", RETRY), "overfetch_status"),
    "502": (refused(b"502 Bad Gateway"), "overfetch_status"),
    "503-later": (refused(b"503 Service Unavailable", RETRY), "overfetch_status"),
    "504": (refused(b"504 Gateway Timeout", RETRY), "overfetch_status"),
    "307": (refused(b"307 Temporary Redirect", (b"Location", b"http://127.0.0.1:1/")), "overfetch_status"),
    "308": (refused(b"308 Permanent Redirect", (b"Location", b"http://127.0.0.1:1/")), "overfetch_status"),
    "gzip-truncated": (coded(b"gzip", GZIPPED[:-12]), "malformed"),
    "gzip-wrong-crc": (coded(b"gzip", GZIPPED[:-8] + b"\x00" * 8), "malformed"),
    "gzip-bomb": (bomb, "malformed"),
    "zstd": (coded(b"zstd", b"\x28\xb5\x2f\xfd"), "malformed"),
    "brotli": (coded(b"br", b"\x0b\x02\x80"), "malformed"),
    "byte-order-mark": (answering(ok(b"\xef\xbb\xbf" + b'{"result":{"points":[]}}')), "malformed"),
    "infinity": (scored(b"Infinity"), "malformed"),
    "minus-infinity": (scored(b"-Infinity"), "malformed"),
    "score-text": (scored(b'"0.9"'), "malformed"),
    "results-null": (answering(ok(b'{"result":null,"status":"ok","time":0}')), "malformed"),
    "50-MB": (is_endless, "too_large"),
}


def with_vectors(vectors: list[object]) -> Misbehaviour:
    """The honest ranking, each candidate with the vector given here."""

    async def misbehave(talk: Talk, _: Received) -> bool:
        rows = [
            {"id": rank, "version": 1, "score": round(0.9 - rank / 100, 2), "vector": vector}
            for rank, vector in enumerate(vectors)
        ]
        body = {"result": {"points": rows}, "status": "ok", "time": 0.001}
        await talk.send(ok(json.dumps(body, separators=(",", ":")).encode()))
        return True

    return misbehave


EVERY = len(COPIES)
# Vectors that cannot be compared: the answer is the backend's own page, and the reason that is counted, if one is.
VECTORS: dict[str, tuple[Misbehaviour, str | None]] = {
    "vectors zero": (with_vectors([[0.0] * DIMENSION] * EVERY), None),
    "vectors empty": (with_vectors([{}] * EVERY), "no_vectors"),
    "vectors named otherwise": (with_vectors([{"other": [1.0] * DIMENSION}] * EVERY), "no_vectors"),
    "vectors sparse": (with_vectors([{"": {"indices": [1], "values": [1.0]}}] * EVERY), None),
    "vectors of many dimensions": (with_vectors([[1.0] * (1 + rank) for rank in range(EVERY)]), None),
}

# Where an exception of our own may come from, and whether the client's original has to be sent because of it.
STAGES = {
    "vecsieve.adapters.qdrant.rest.QdrantRest.parse_request": True,
    "vecsieve.adapters.qdrant.rest.QdrantRest.widen": True,
    "vecsieve.adapters.qdrant.rest.QdrantRest.parse_reply": True,
    "vecsieve.proxy.search.searcher.selecting": False,
    "vecsieve.adapters.qdrant.rest.QdrantRest.trim": True,
    "vecsieve.proxy.search.report.figures": False,
    "vecsieve.proxy.search.report.header_value": False,
}
ERRORS: tuple[type[Exception], ...] = (ValueError, RecursionError, MemoryError, KeyError)
