"""A 200 MiB upload, counted and chunked: throughput against direct and against the bare relay, and peak memory."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from bench.contenders import Server, bare_relay, vecsieve
from bench.figures import Figure, Sides, figure
from bench.processes import free_port, listening, own_module, peak_rss_bytes
from bench.rounds import Effort, interleave
from bench.upload import Framing, upload

MEBIBYTES = 200
FRAMINGS: tuple[Framing, ...] = ("content-length", "chunked")


def bench_upload(effort: Effort) -> Iterator[Figure]:
    """MiB per second, and the peak resident memory of a fresh proxy before and after all uploads, in MiB."""
    port = free_port()
    with listening(own_module("sink", str(port)), port), vecsieve(port) as proxy, bare_relay(port) as relay:
        before = peak_rss_bytes(proxy.pid)
        for framing in FRAMINGS:
            yield from _throughput(framing, port, proxy, relay, effort=effort)
        after = peak_rss_bytes(proxy.pid)
    grown = (after - before) / (1 << 20)
    yield figure(
        "peak RSS over all uploads",
        Sides([after / (1 << 20)], [before / (1 << 20)]),
        unit="MiB",
        against="before them",
        note=f"grew by {grown:.1f} MiB",
    )


def _throughput(framing: Framing, sink: int, proxy: Server, relay: Server, *, effort: Effort) -> Iterator[Figure]:
    ports = {"proxy": proxy.port, "direct": sink, "relay": relay.port}
    sides = {name: partial(upload, port, mebibytes=MEBIBYTES, framing=framing) for name, port in ports.items()}
    rates = interleave(sides, rounds=effort.upload_rounds)
    for baseline, against in (("direct", "direct"), ("relay", "bare aiohttp relay")):
        yield figure(
            f"upload {MEBIBYTES} MiB, {framing}", Sides(rates["proxy"], rates[baseline]), unit="MiB/s", against=against
        )
