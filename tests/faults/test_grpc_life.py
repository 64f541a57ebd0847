"""gRPC through the command line's own processes: announced, drained, shared by workers, and silent about secrets."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

import grpc
import pytest

from support.deploy.expositions import counted
from support.grpc.calls import Pairs
from support.process.stack import Command, command, eventually, exchange
from support.qdrant.scripted_grpc import QUERY, UPSERT, honest, ids_in, search

CANARY = "c4nary-s3cret-7f3a"
ALONE = (("grpc.use_local_subchannel_pool", 1),)
SECONDS = 20


class Database(grpc.GenericRpcHandler):
    """Answers searches at once and `/slow/…` when it is told to. ``seen``: the methods that came."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.began, self.may_end = threading.Event(), threading.Event()
        pool = ThreadPoolExecutor(8)
        self._server = grpc.server(pool, handlers=[self], options=(("grpc.so_reuseport", 0),))
        self.address = f"127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"
        self._server.start()

    def stop(self) -> None:
        """End it, and what is under way."""
        self.may_end.set()
        self._server.stop(None).wait()

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler[bytes, bytes]:
        method = handler_call_details.method

        def answer(message: bytes, _: grpc.ServicerContext) -> bytes:
            self.seen.append(method)
            if method.startswith("/slow/"):
                self.began.set()
                self.may_end.wait(SECONDS)
            return honest(message) if method == QUERY else message

        return grpc.unary_unary_rpc_method_handler(answer)


@contextmanager
def running_database() -> Iterator[tuple[Database, str]]:
    database = Database()
    try:
        yield database, database.address
    finally:
        database.stop()


@contextmanager
def serving(upstream: str, *arguments: str) -> Iterator[tuple[Command, dict[str, str]]]:
    """A proxy before it, and where each of its ports is: main, grpc, admin."""
    options = ("serve", "--upstream", "http://127.0.0.1:9", "--grpc-upstream", upstream)
    ports = ("--listen", "127.0.0.1:0", "--grpc-listen", "127.0.0.1:0", "--admin", "127.0.0.1:0")
    with command(*options, *ports, *arguments) as process:
        urls = process.addresses(3)
        named = {"main": urls["serve"], "grpc": urls["gRPC"]}
        yield process, {**{name: url.removeprefix("http://") for name, url in named.items()}, "admin": urls["admin"]}


def call(address: str, method: str, message: bytes, metadata: Pairs = ()) -> bytes:
    with grpc.insecure_channel(address, options=ALONE) as channel:
        send: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(method)
        return send(message, timeout=SECONDS, metadata=metadata)


def refused(address: str, method: str, message: bytes, metadata: Pairs = ()) -> grpc.Call:
    with pytest.raises(grpc.RpcError) as raised:
        call(address, method, message, metadata)
    assert isinstance(raised.value, grpc.Call)
    return raised.value


def test_sigterm_lets_calls_in_flight_finish_and_sends_their_connections_away() -> None:
    with (
        running_database() as (database, address),
        serving(address) as (process, ports),
        ThreadPoolExecutor(2) as pool,
        grpc.insecure_channel(ports["main"], options=ALONE) as main,
        grpc.insecure_channel(ports["grpc"], options=ALONE) as alone,
    ):
        answers, states = [], list[list[grpc.ChannelConnectivity]]()
        for channel in (main, alone):
            states.append([])
            channel.subscribe(states[-1].append)
            rpc: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary("/slow/Write")
            answers.append(pool.submit(rpc, b"in flight", timeout=SECONDS))
        eventually(lambda: len(database.seen) == 2)
        process.process.send_signal(signal.SIGTERM)
        idle = grpc.ChannelConnectivity.IDLE
        eventually(lambda: all(idle in seen for seen in states))  # GOAWAY comes while the calls are under way
        assert not any(answer.done() for answer in answers)
        for at in ("main", "grpc"):
            assert refused(ports[at], UPSERT, b"too late").code() is grpc.StatusCode.UNAVAILABLE
        database.may_end.set()
        assert [answer.result(SECONDS) for answer in answers] == [b"in flight"] * 2
        assert process.process.wait(SECONDS) == 0
        assert database.seen == ["/slow/Write"] * 2


def test_a_call_that_outlives_the_drain_is_cut_and_the_process_ends(tmp_path: Path) -> None:
    file = tmp_path / "settings.yaml"
    file.write_text("limits: {drain_seconds: 0.2}\n")
    with (
        running_database() as (database, address),
        serving(address, "--config", str(file)) as (process, ports),
        ThreadPoolExecutor(1) as pool,
    ):
        cut = pool.submit(refused, ports["grpc"], "/slow/Write", b"too long")
        assert database.began.wait(SECONDS)
        process.process.send_signal(signal.SIGTERM)
        assert cut.result(SECONDS).code() in {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED}
        process.process.wait(SECONDS)
        assert process.process.returncode == 0


def test_two_workers_answer_on_each_port_their_metrics_add_up_and_both_end() -> None:
    with running_database() as (database, address), serving(address, "--workers", "2") as (process, ports):
        eventually(lambda: len(ready(ports["admin"])) == 2)
        for number in range(20):
            assert ids_in(call(ports["main" if number % 2 else "grpc"], QUERY, search())) == [0, 2, 3]
        eventually(lambda: counted(ports["admin"], "requests_total") >= 20)
        assert counted(ports["admin"], "requests_total") == 20
        assert database.seen == [QUERY] * 20
        killed = ready(ports["admin"])[0]
        os.kill(killed, signal.SIGKILL)
        eventually(lambda: len(ready(ports["admin"])) == 2 and killed not in ready(ports["admin"]))
        for _ in range(6):
            assert ids_in(call(ports["grpc"], QUERY, search())) == [0, 2, 3]
        workers = ready(ports["admin"])
        assert process.close() == 0
        assert not [worker for worker in workers if Path(f"/proc/{worker}").exists()]


def test_a_worker_that_is_told_to_end_under_load_loses_no_call() -> None:
    """grpcio's core cancels what reaches it between its own end and its client's hearing of it; nobody tries that again."""
    with (
        running_database() as (_, address),
        serving(address, "--workers", "2") as (_, ports),
        ThreadPoolExecutor(12) as pool,
        ExitStack() as open_,
    ):
        eventually(lambda: len(ready(ports["admin"])) == 2)
        is_over = threading.Event()

        def calls(at: str) -> int:
            channel = open_.enter_context(grpc.insecure_channel(ports[at], options=ALONE))
            searching: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(QUERY)
            count = 0
            while not is_over.is_set():
                # A busy machine may have no time to choose: then the answer is the database's own, and not lost either.
                assert ids_in(searching(search(), timeout=SECONDS)) in ([0, 2, 3], [0, 1, 2])
                count += 1
            return count

        callers = [pool.submit(calls, "main" if number % 2 else "grpc") for number in range(12)]
        try:
            for pid in ready(ports["admin"]):
                time.sleep(0.5)
                os.kill(pid, signal.SIGTERM)
                eventually(lambda pid=pid: len(left := ready(ports["admin"])) == 2 and pid not in left)  # type: ignore[misc]  # - a default that binds
        finally:
            is_over.set()
        assert all(client.result(SECONDS) for client in callers)


def ready(admin: str) -> list[int]:
    workers = json.loads(exchange(admin, "GET", "/status").body)["workers"]
    return [worker["pid"] for worker in workers if worker["state"] == "ready"]


def test_both_ports_improve_and_a_secret_in_a_call_appears_in_no_log_metric_status_page_or_error() -> None:
    canary = search(collection=CANARY)
    metadata = (("api-key", CANARY), ("authorization", f"Bearer {CANARY}"))
    with running_database() as (database, address), serving(address) as (process, ports):
        for at in ("main", "grpc"):
            assert ids_in(call(ports[at], QUERY, canary, metadata)) == [0, 2, 3]
            assert call(ports[at], f"/no.{CANARY}/Method", CANARY.encode(), metadata) == CANARY.encode()
        wrong = [
            refused(ports["main"], QUERY, canary, (("x-vecsieve-mode", CANARY),)),
            refused(ports["grpc"], QUERY, canary, ((f"x-vecsieve-{CANARY}", "1"),)),
        ]
        assert [error.code() for error in wrong] == [grpc.StatusCode.INVALID_ARGUMENT] * 2
        assert database.seen == [QUERY, f"/no.{CANARY}/Method"] * 2
        database.stop()
        gone = refused(ports["main"], QUERY, canary, metadata)
        assert gone.code() is grpc.StatusCode.UNAVAILABLE
        messages = [f"{error.details()} {error.trailing_metadata()}" for error in (*wrong, gone)]
        pages = [exchange(ports["admin"], "GET", page).body.decode() for page in ("/metrics", "/status")]
        assert process.close() == 0
        assert not [text for text in (*messages, *pages, process.output()) if CANARY in text]
        assert '"msg":"access"' in process.output(), "something was logged at all"
