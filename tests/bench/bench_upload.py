"""A 200 MiB upload, counted, chunked and as a gRPC stream: throughput against direct and against the bare relay, and peak memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial

from bench.contenders import Database, bare_relay, database, grpc_relay, vecsieve
from bench.figures import Aim, Figure, Sides, figure
from bench.grpc_upload import MESSAGE_MEBIBYTES
from bench.grpc_upload import upload as stream
from bench.processes import listening, peak_rss_bytes, project_module
from bench.report import Section, section
from bench.rounds import Effort, interleave
from bench.upload import Framing, upload
from support.network.ports import free_port

MEBIBYTES = 200
FRAMINGS: tuple[Framing, ...] = ("content-length", "chunked")
AGAINST_RELAY = (Aim("ratio", ">=", 0.9),)


def bench_upload(effort: Effort) -> Iterator[Section]:
    """MiB per second, and the peak resident memory of a fresh proxy before and after all uploads, in MiB."""
    port = free_port()
    figures: list[Figure] = []
    with (
        listening(project_module("sink", str(port)), port) as pid,
        vecsieve(Database(port, pid)) as proxy,
        bare_relay(port) as relay,
    ):
        before = peak_rss_bytes(proxy.pid)
        for framing in FRAMINGS:
            ports = {"proxy": proxy.port, "direct": port, "bare aiohttp relay": relay.port}
            sides = {name: partial(upload, port, mebibytes=MEBIBYTES, framing=framing) for name, port in ports.items()}
            figures += _against(f"upload {MEBIBYTES} MiB, {framing}", interleave(sides, rounds=effort.upload_rounds))
        after = peak_rss_bytes(proxy.pid)
    grown = Sides([after / (1 << 20)], [before / (1 << 20)])
    note = f"grew by {(after - before) / (1 << 20):.1f} MiB"
    figures.append(figure("peak RSS over all uploads", grown, unit="MiB", against="before them", note=note))
    yield section("upload", "large uploads", figures)


def bench_grpc_upload(effort: Effort) -> Iterator[Section]:
    """MiB per second of one stream."""
    with (
        database(384, has_grpc=True) as upstream,
        vecsieve(upstream) as proxy,
        grpc_relay(upstream.grpc_port) as relay,
    ):
        ports = {"proxy": proxy.grpc_port, "direct": upstream.grpc_port, "bare grpc.aio relay": relay.port}
        sides = {name: partial(stream, port, mebibytes=MEBIBYTES) for name, port in ports.items()}
        rates = interleave(sides, rounds=effort.upload_rounds)
    name = f"gRPC stream of {MEBIBYTES} MiB in messages of {MESSAGE_MEBIBYTES} MiB"
    yield section("grpc-upload", "a large stream", list(_against(name, rates)))


def _against(name: str, rates: Mapping[str, list[float]]) -> Iterator[Figure]:
    """Against the database itself, and against the relay."""
    for baseline, rounds in rates.items():
        if baseline != "proxy":
            aims = () if baseline == "direct" else AGAINST_RELAY
            yield figure(name, Sides(rates["proxy"], rounds), unit="MiB/s", against=baseline, aims=aims)
