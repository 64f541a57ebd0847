"""One large stream of large messages to the sink of the canned gRPC server: the rate is that of whatever lies between."""

from __future__ import annotations

import time

import grpc

from bench.grpc_database import OPTIONS, SINK
from bench.load import MeasurementFailedError

MESSAGE_MEBIBYTES = 8
TIMEOUT_SECONDS = 60.0


def upload(port: int, *, mebibytes: int) -> float:
    """Stream that much; MiB per second from the first message to the answer. Raises MeasurementFailedError."""
    message = b"x" * (MESSAGE_MEBIBYTES << 20)
    with grpc.insecure_channel(f"127.0.0.1:{port}", options=OPTIONS) as channel:
        grpc.channel_ready_future(channel).result(timeout=TIMEOUT_SECONDS)
        sink: grpc.StreamUnaryMultiCallable[bytes, bytes] = channel.stream_unary(SINK)
        start = time.perf_counter()
        try:
            counted = sink(iter([message] * (mebibytes // MESSAGE_MEBIBYTES)), timeout=TIMEOUT_SECONDS)
        except grpc.RpcError as error:
            raise MeasurementFailedError(f"the stream was answered {error}") from error
        seconds = time.perf_counter() - start
    if int(counted) != mebibytes << 20:
        raise MeasurementFailedError(f"{counted!r} bytes of the stream arrived, wanted {mebibytes << 20}")
    return mebibytes / seconds
